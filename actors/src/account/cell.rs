//! What outlives an account's actor: its inbox, and its health as last committed.
//!
//! The actor alone writes it. An event is applied to a copy; the new health, what is to be done about it and the event's
//! leaving the inbox are one step, so that an actor that dies half way leaves either the old health with the event still
//! waiting, or the new health with its effects still to be performed. The step is also safe while a dying incarnation
//! and its successor overlap.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::account::fact::Fact;
use crate::account::health::{Effect, Health, HealthEvent};
use crate::clock::{Deadline, Timestamp};
use crate::id::{AccountId, EntryId, EvidenceSeq, IdentityKey};
use crate::inbox::{Front, Inbox, Rest};
use crate::standing::Standing;

/// One account's lasting part.
#[derive(Debug)]
pub struct AccountCell {
    /// Whose.
    pub account: AccountId,
    /// Events to be applied.
    pub inbox: Inbox<Fact>,
    /// Effects of applied events, to be performed.
    pub(crate) effects: Inbox<Effect>,
    committed: Mutex<Committed>,
}

/// What became of the event at the front of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is in the health now.
    In,
    /// It killed whoever applied it, again and again; it is out of the inbox, and not in the health.
    SetAside(EvidenceSeq),
    /// There was none.
    Nothing,
}

/// An account's health, and what it has taken in.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The entry that represents it.
    pub entry: EntryId,
    /// Who it is, as far as known.
    pub identity: IdentityKey,
    /// Its health.
    pub health: Health,
    /// The last event that is in it.
    pub applied: EvidenceSeq,
    /// How often it was published.
    pub published: u64,
}

impl AccountCell {
    /// A cell with this health.
    #[must_use]
    pub fn new(account: AccountId, identity: IdentityKey, entry: EntryId, health: Health) -> Arc<Self> {
        let committed = Committed { entry, identity, health, applied: EvidenceSeq(0), published: 0 };
        let (inbox, effects) = (Inbox::default(), Inbox::default());
        Arc::new(Self { account, inbox, effects, committed: Mutex::new(committed) })
    }

    /// The key of its record in the store: its identity, whatever it is called today.
    #[must_use]
    pub fn key(&self) -> String {
        self.lock().identity.to_string()
    }

    /// The health as last committed.
    #[must_use]
    pub fn committed(&self) -> Committed {
        self.lock().clone()
    }

    /// The entry that represents the account.
    #[must_use]
    pub fn entry(&self) -> EntryId {
        self.lock().entry.clone()
    }

    /// Names another representing entry, and the identity as it is known by now, after a reload. Gives the key under
    /// which the account was kept, if it is another.
    pub fn rename(&self, identity: IdentityKey, entry: EntryId) -> Option<String> {
        let mut committed = self.lock();
        committed.entry = entry;
        let was = std::mem::replace(&mut committed.identity, identity);
        (was != committed.identity).then(|| was.to_string())
    }

    /// Applies the event at the front of the inbox.
    pub(crate) fn take_in(&self, now: Timestamp) -> Taken {
        let mut committed = self.lock();
        match self.inbox.front() {
            Front::Item(seq, fact) => {
                self.apply(&mut committed, fact.as_event(), now);
                committed.applied = seq;
                self.inbox.done(seq);
                Taken::In
            }
            Front::SetAside(seq) => Taken::SetAside(seq),
            Front::Empty if self.inbox.rest() == Rest::Yes => Taken::Nothing,
            Front::Empty => {
                drop(committed);
                self.take_in(now)
            }
        }
    }

    /// Applies what time alone brings about.
    pub(crate) fn tick(&self, now: Timestamp) {
        self.apply(&mut self.lock(), HealthEvent::Ticked, now);
    }

    fn apply(&self, committed: &mut Committed, event: HealthEvent<'_>, now: Timestamp) {
        let mut health = committed.health.clone();
        let effects = health.apply(event, now);
        committed.health = health;
        for effect in effects {
            self.effects.push(effect);
        }
    }

    /// When the health next changes by itself.
    #[must_use]
    pub fn next_deadline(&self, now: Timestamp) -> Option<Deadline> {
        self.lock().health.next_deadline(now)
    }

    /// The health as a fact for admission, numbered.
    #[must_use]
    pub fn publish(&self, now: Timestamp) -> Standing {
        let mut committed = self.lock();
        committed.published += 1;
        committed.health.standing(committed.published, committed.applied, now)
    }

    /// The health as a fact for readers beside admission, without a number of its own.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        let committed = self.lock();
        committed.health.standing(committed.published, committed.applied, now)
    }

    fn lock(&self) -> MutexGuard<'_, Committed> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cells of all accounts that were ever configured in this process.
#[derive(Debug, Default)]
pub struct Cells {
    cells: RwLock<BTreeMap<AccountId, Arc<AccountCell>>>,
}

impl Cells {
    /// One account's.
    #[must_use]
    pub fn get(&self, account: AccountId) -> Option<Arc<AccountCell>> {
        self.cells.read().unwrap_or_else(PoisonError::into_inner).get(&account).cloned()
    }

    /// All, by id.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<AccountCell>> {
        self.cells.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Adds one.
    pub fn insert(&self, cell: Arc<AccountCell>) {
        self.cells.write().unwrap_or_else(PoisonError::into_inner).insert(cell.account, cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::health::Settings;
    use crate::id::Family;

    fn cell() -> Arc<AccountCell> {
        let identity = IdentityKey::Verified { family: Family::Claude, uuid: "u".into(), organization: None };
        let entry = EntryId { provider: "anthropic".into(), name: "a".into() };
        AccountCell::new(AccountId(0), identity, entry, Health::new(AccountId(0), Settings::default()))
    }

    #[test]
    fn an_event_leaves_the_inbox_together_with_its_effects_and_not_before() {
        let cell = cell();
        let seq = cell.inbox.push(Fact::Told(HealthEvent::Paused)).seq;
        assert_eq!(cell.take_in(Timestamp::at_millis(0)), Taken::In);
        assert_eq!(cell.committed().applied, seq);
        assert_eq!(cell.take_in(Timestamp::at_millis(0)), Taken::Nothing);
        // Whoever took it in may die now: what is to be done about it waits for the successor.
        let mut told = 0;
        while let Front::Item(seq, effect) = cell.effects.front() {
            told += u32::from(matches!(effect, Effect::Emit { .. }));
            cell.effects.done(seq);
        }
        assert_eq!(told, 1);
    }

    /// A dying incarnation and its successor may overlap for a moment.
    #[test]
    fn two_who_take_in_at_once_take_in_each_event_once() {
        let cell = cell();
        for _ in 0..500 {
            cell.inbox.push(Fact::Told(HealthEvent::Paused));
            cell.inbox.push(Fact::Told(HealthEvent::Resumed));
        }
        let work = || while cell.take_in(Timestamp::at_millis(0)) != Taken::Nothing {};
        std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
        let mut told = 0;
        while let Front::Item(seq, effect) = cell.effects.front() {
            told += u32::from(matches!(effect, Effect::Emit { .. }));
            cell.effects.done(seq);
        }
        assert_eq!(told, 1000, "each pause and each end of one is told");
    }
}
