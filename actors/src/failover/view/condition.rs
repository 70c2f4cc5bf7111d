//! How an account stands to one kind of request: out, held, in a breather, or open in a band.
//!
//! What is found is kept until the second or a deadline passes, so that a plan over many accounts looks at each of them
//! only briefly.

use std::cell::Ref;
use std::time::Duration;

use super::{Listed, View};
use crate::clock::{Boot, Deadline, Timestamp, Wall};
use crate::event::MoveReason;
use crate::failover::demand::{Via, Why};
use crate::failover::fault::{Rule, broken};
use crate::failover::judgement::{Cap, Judgement, Pressure, judge};
use crate::failover::ledger::OverBudget;
use crate::failover::probe::EndAhead;
use crate::failover::rank::Band;
use crate::id::{CredentialKind, ModelScope};
use crate::outcome::{Cause, HoldScope};
use crate::roster::{PoolSettings, Switch};
use crate::standing::{CredentialState, Hold, HoldKind, Paused, Standing, Stated};

/// A hold longer than this moves a conversation.
const LONG_HOLD: Duration = Duration::from_secs(5 * 60);
/// A digest is made anew at least this often.
const SECOND: Duration = Duration::from_secs(1);

/// What a plan needs to know of an account, for one model scope.
#[derive(Clone, Copy, Debug)]
pub(in crate::failover) struct Digest {
    pub(in crate::failover) judgement: Judgement,
    pub(in crate::failover) condition: Condition,
    /// Whether it goes last in its band.
    pub(in crate::failover) late: bool,
    pub(in crate::failover) on_trial: bool,
    pub(super) validity: Validity,
}

/// How long what was found of an account can be relied upon: within one second, and until a deadline passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validity {
    second: i64,
    from: Boot,
    until: Boot,
}

impl Validity {
    pub(super) fn covers(&self, now: Timestamp) -> bool {
        self.second == now.wall.as_secs() && self.from <= now.boot && now.boot < self.until
    }
}

/// How an account stands to one kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::failover) enum Condition {
    /// Not to be used, whatever else is left.
    Removed(Removal),
    /// It can be granted.
    Open(Band),
    /// It takes a breather until then.
    Breather(Deadline),
    /// It is held: only through its probe slot.
    Held(Hold),
}

/// Why an account is no candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::failover) enum Removal {
    Unlisted,
    Disabled,
    Paused,
    NeedsPerson(Cause),
    NeedsLogin,
    Keychain,
    Capped(Option<Deadline>),
    Budget(Hold),
    OverBudget(OverBudget),
}

impl Removal {
    pub(in crate::failover) fn why(self) -> Why {
        match self {
            Self::Unlisted | Self::Disabled => Why::Disabled,
            Self::Paused => Why::Paused,
            Self::NeedsPerson(cause) => Why::NeedsPerson(cause),
            Self::NeedsLogin => Why::NeedsLogin,
            Self::Keychain => Why::Keychain,
            Self::Capped(until) => Why::Capped(until),
            Self::Budget(hold) => Why::Held { cause: hold.cause, until: hold.until, stated: hold.stated },
            Self::OverBudget(over) => Why::OverBudget(over),
        }
    }

    fn moves(self) -> MoveReason {
        match self {
            Self::Unlisted | Self::Disabled | Self::Paused => MoveReason::Removed,
            Self::NeedsPerson(_) | Self::NeedsLogin | Self::Keychain => MoveReason::Auth,
            Self::Capped(_) | Self::Budget(_) | Self::OverBudget(_) => MoveReason::Limit,
        }
    }
}

impl View {
    /// How it stands to a request of this scope that comes this way.
    pub(in crate::failover) fn digest(
        &self,
        pool: &PoolSettings,
        scope: ModelScope,
        via: Via,
        now: Timestamp,
    ) -> Digest {
        let mut digest = *self.kept_digest(pool, scope, now);
        digest.condition = self.by_way_of(via, digest.condition);
        digest
    }

    /// Only how it stands.
    pub(in crate::failover) fn condition_for(
        &self,
        pool: &PoolSettings,
        scope: ModelScope,
        via: Via,
        now: Timestamp,
    ) -> Condition {
        self.by_way_of(via, self.kept_digest(pool, scope, now).condition)
    }

    fn kept_digest(&self, pool: &PoolSettings, scope: ModelScope, now: Timestamp) -> Ref<'_, Digest> {
        let cell = &self.digests[scope as usize];
        if !cell.borrow().as_ref().is_some_and(|digest| digest.validity.covers(now)) {
            cell.replace(Some(self.make_digest(pool, scope, now)));
        }
        Ref::map(cell.borrow(), |kept| kept.as_ref().expect("it was made just now"))
    }

    fn by_way_of(&self, via: Via, condition: Condition) -> Condition {
        let keychain = self.spec.kind == CredentialKind::Keychain && via == Via::Gateway;
        let is_removed = matches!(condition, Condition::Removed(_));
        if keychain && !is_removed { Condition::Removed(Removal::Keychain) } else { condition }
    }

    fn make_digest(&self, pool: &PoolSettings, scope: ModelScope, now: Timestamp) -> Digest {
        let second = now.wall.as_secs();
        // Judged at the second's beginning, so that a plan does not hang on when it was first asked for.
        let begun = Timestamp { wall: Wall::from_secs(second), ..now };
        let quota = self.standing.as_ref().map(|s| judge(&s.quota, &self.spec, pool, scope, begun));
        let judgement = quota.unwrap_or_default();
        let on_trial = self.standing.as_ref().is_some_and(|s| s.is_on_trial(now));
        Digest {
            judgement,
            condition: self.condition(&judgement, scope, now),
            late: on_trial || self.standing.as_ref().is_some_and(|s| s.unverified),
            on_trial,
            validity: Validity { second, from: now.boot, until: now.boot.plus(self.next_change(now)) },
        }
    }

    /// How long until a deadline changes how it stands.
    fn next_change(&self, now: Timestamp) -> Duration {
        let holds = self.holds(ModelScope::Fable).map(|h| h.until);
        let own = self.standing.as_ref();
        let access = own.and_then(|s| match s.credential {
            CredentialState::NeedsLogin { access_until } => Some(access_until),
            CredentialState::Usable | CredentialState::Broken(_) => None,
        });
        let breathers = own.and_then(|s| s.breather).into_iter().chain(self.provisional.breathers());
        let all = holds.chain(breathers).chain(access).filter(|at| !at.is_due(now));
        all.map(|at| at.remaining(now)).min().unwrap_or(SECOND).min(SECOND)
    }

    fn condition(&self, judgement: &Judgement, scope: ModelScope, now: Timestamp) -> Condition {
        if let Some(removal) = self.removal(judgement, now) {
            return Condition::Removed(removal);
        }
        if let Some(hold) = self.hold(scope, now) {
            return Condition::Held(hold);
        }
        if let Some(at) = self.breather(now) {
            return Condition::Breather(at);
        }
        Condition::Open(match judgement.pressure {
            Pressure::Below => Band::Usable,
            Pressure::Near => Band::Near,
            Pressure::Over => Band::Over,
        })
    }

    /// The hold that ends last among those on requests of this scope.
    pub(in crate::failover) fn hold(&self, scope: ModelScope, now: Timestamp) -> Option<Hold> {
        let running = self.holds(scope).filter(|h| !h.until.is_due(now));
        running
            .reduce(|one, other| if other.until.as_wall(now) > one.until.as_wall(now) { other } else { one })
            .copied()
    }

    /// Whether a probe is due.
    pub(in crate::failover) fn probe_is_due(&self, scope: ModelScope, now: Timestamp) -> bool {
        let (end, began) = self.spell(scope, now);
        self.probes.is_due(end, began, now)
    }

    /// When the next probe is due.
    pub(in crate::failover) fn probe_due_at(&self, scope: ModelScope, now: Timestamp) -> Deadline {
        let (end, began) = self.spell(scope, now);
        self.probes.due_at(end, began)
    }

    /// The same, if it is before an end that we only guess: until one that the provider stated, waiting is better.
    pub(in crate::failover) fn early_probe_due_at(&self, scope: ModelScope, now: Timestamp) -> Option<Deadline> {
        let (end, began) = self.spell(scope, now);
        (end == EndAhead::Guessed).then(|| self.probes.due_at(end, began))
    }

    fn removal(&self, judgement: &Judgement, now: Timestamp) -> Option<Removal> {
        if self.listed == Listed::No {
            return Some(Removal::Unlisted);
        }
        if self.spec.switch == Switch::Off && !broken(Rule::DisabledIsRemoved) {
            return Some(Removal::Disabled);
        }
        if let Some(removal) = self.standing.as_ref().and_then(|s| removal_by(s, now)) {
            return Some(removal);
        }
        if let Some(hold) = self.all_holds(HoldScope::Account).find(|h| removes(h) && !h.until.is_due(now)) {
            return Some(by_hold(hold));
        }
        match judgement.cap {
            Cap::Reached(until) if !broken(Rule::CappedIsRemoved) => Some(Removal::Capped(until)),
            Cap::Reached(_) | Cap::Guarded | Cap::Free => None,
        }
    }

    fn spell(&self, scope: ModelScope, now: Timestamp) -> (EndAhead, Timestamp) {
        let running = || self.holds(scope).filter(|h| !h.until.is_due(now));
        let stated = running().any(|h| h.stated == Stated::ByProvider);
        let began = running().map(|h| h.began).max_by_key(|at| at.boot).unwrap_or(now);
        (if stated { EndAhead::Stated } else { EndAhead::Guessed }, began)
    }

    fn holds(&self, scope: ModelScope) -> impl Iterator<Item = &Hold> {
        let fable = (scope == ModelScope::Fable).then(|| self.all_holds(HoldScope::Model(ModelScope::Fable)));
        self.all_holds(HoldScope::Account).chain(fable.into_iter().flatten())
    }

    fn all_holds(&self, scope: HoldScope) -> impl Iterator<Item = &Hold> {
        let own: &[Hold] = match (&self.standing, scope) {
            (None, _) => &[],
            (Some(standing), HoldScope::Model(ModelScope::Fable)) => standing.fable_hold.as_slice(),
            (Some(standing), HoldScope::Account | HoldScope::Model(ModelScope::Base)) => &standing.holds,
        };
        own.iter().chain(self.provisional.holds().filter(move |(s, _)| *s == scope).map(|(_, hold)| hold))
    }

    /// When its breather ends, if it takes one.
    pub(in crate::failover) fn breather(&self, now: Timestamp) -> Option<Deadline> {
        let own = self.standing.as_ref().and_then(|s| s.breather);
        let all = own.into_iter().chain(self.provisional.breathers());
        all.filter(|at| !at.is_due(now)).reduce(|one, other| one.later(other, now))
    }
}

impl Digest {
    /// Why a conversation that is bound here must move; `None` = what keeps it away will pass.
    pub(in crate::failover) fn hard_reason(&self, now: Timestamp) -> Option<MoveReason> {
        match self.condition {
            Condition::Removed(removal) => Some(removal.moves()),
            Condition::Open(Band::Near | Band::Over) => Some(MoveReason::Quota),
            Condition::Open(Band::Usable | Band::Holding) | Condition::Breather(_) => None,
            Condition::Held(hold) => hold_moves(&hold, now),
        }
    }
}

fn removal_by(standing: &Standing, now: Timestamp) -> Option<Removal> {
    if standing.paused == Paused::Yes && !broken(Rule::PausedIsRemoved) {
        return Some(Removal::Paused);
    }
    match standing.credential {
        CredentialState::Usable => None,
        CredentialState::Broken(cause) => Some(Removal::NeedsPerson(cause)),
        CredentialState::NeedsLogin { access_until } => access_until.is_due(now).then_some(Removal::NeedsLogin),
    }
}

/// A hold that leaves nothing to probe: a refused credential, and our own cap on spend.
fn removes(hold: &Hold) -> bool {
    match hold.kind {
        HoldKind::AuthDead => !broken(Rule::DeadAuthIsRemoved),
        HoldKind::BudgetExhausted => hold.cause == Cause::Budget,
        HoldKind::Erroring | HoldKind::RateLimited => false,
    }
}

fn by_hold(hold: &Hold) -> Removal {
    match hold.kind {
        HoldKind::AuthDead => Removal::NeedsPerson(hold.cause),
        HoldKind::BudgetExhausted | HoldKind::Erroring | HoldKind::RateLimited => Removal::Budget(*hold),
    }
}

fn hold_moves(hold: &Hold, now: Timestamp) -> Option<MoveReason> {
    match hold.kind {
        HoldKind::AuthDead => return Some(MoveReason::Auth),
        HoldKind::BudgetExhausted => return Some(MoveReason::Limit),
        HoldKind::RateLimited if hold.cause == Cause::Quota => return Some(MoveReason::Quota),
        HoldKind::RateLimited | HoldKind::Erroring => {}
    }
    let length = hold.until.as_wall(now).since(hold.began.wall);
    (length > LONG_HOLD).then_some(MoveReason::LongHold)
}
