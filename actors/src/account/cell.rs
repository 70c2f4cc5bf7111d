//! What outlives an account's actor: its inbox, and its health as last committed.
//!
//! The actor alone writes it. An event is applied to a copy, which is committed before the event is taken out of the
//! inbox, so that an actor that dies half way leaves either the old health with the event still waiting, or the new
//! health.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::account::fact::Fact;
use crate::account::health::Health;
use crate::clock::{Deadline, Timestamp};
use crate::id::{AccountId, EntryId, EvidenceSeq, IdentityKey};
use crate::inbox::Inbox;
use crate::standing::Standing;

/// One account's lasting part.
#[derive(Debug)]
pub struct AccountCell {
    /// Whose.
    pub account: AccountId,
    /// Who that is.
    pub identity: IdentityKey,
    /// Events to be applied.
    pub inbox: Inbox<Fact>,
    committed: Mutex<Committed>,
}

/// An account's health, and what it has taken in.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The entry that represents it.
    pub entry: EntryId,
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
        let committed = Committed { entry, health, applied: EvidenceSeq(0), published: 0 };
        Arc::new(Self { account, identity, inbox: Inbox::default(), committed: Mutex::new(committed) })
    }

    /// The key of its record in the store: its identity, whatever it is called today.
    #[must_use]
    pub fn key(&self) -> String {
        self.identity.to_string()
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

    /// Names another representing entry, after a reload.
    pub fn rename(&self, entry: EntryId) {
        self.lock().entry = entry;
    }

    /// Commits what an event left behind.
    pub(crate) fn commit(&self, health: Health, applied: EvidenceSeq) {
        let mut committed = self.lock();
        committed.health = health;
        committed.applied = applied;
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
