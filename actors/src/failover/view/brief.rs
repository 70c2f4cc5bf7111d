//! The little of an account that every plan reads, in one small value.

use super::condition::{Condition, Validity};
use super::{Removal, View};
use crate::clock::Timestamp;
use crate::failover::allowance::{Pace, RampRule};
use crate::failover::book::Tally;
use crate::failover::demand::Via;
use crate::failover::fault::{Rule, broken};
use crate::failover::judgement::Cap;
use crate::failover::rank::{Band, Merits};
use crate::id::{CredentialKind, ModelScope};
use crate::roster::{Metered, PoolSettings};

/// What every plan reads of an account, for one model scope.
#[derive(Clone, Copy, Debug)]
pub(in crate::failover) struct Brief {
    validity: Validity,
    /// What it brings into the order.
    pub(in crate::failover) merits: Merits,
    /// What its rendezvous weights are seeded with.
    pub(in crate::failover) seed: u64,
    /// When it was last granted, in the count of all grants.
    pub(in crate::failover) granted: u64,
    pace: Pace,
    most: u32,
    stance: Stance,
    keychain: bool,
    pub(in crate::failover) metered: Metered,
    guarded: bool,
    /// Whether nobody waits for it.
    unwaited: bool,
    /// Whether it goes last in its band.
    pub(in crate::failover) late: bool,
    pub(in crate::failover) on_trial: bool,
}

/// How an account stands to one kind of request, without the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::failover) enum Stance {
    /// Not to be used, whatever else is left.
    Removed,
    /// It can be granted.
    Open(Band),
    /// It takes a breather.
    Breather,
    /// Only through its probe slot.
    Held,
}

impl View {
    /// What plans for this scope read of it.
    pub(in crate::failover) fn brief(&self, settings: &PoolSettings, scope: ModelScope, now: Timestamp) -> Brief {
        // By way of a job nothing is left out; the gateway's own exception is looked at when the brief is read.
        let digest = self.digest(settings, scope, Via::Job, now);
        Brief {
            validity: digest.validity,
            merits: Merits::of(&self.spec, &digest.judgement),
            seed: self.seed,
            granted: self.grants.newest(),
            pace: self.ramp.pace(),
            most: self.spec.max_concurrent.unwrap_or(u32::MAX),
            stance: Stance::of(digest.condition),
            metered: self.spec.metered(),
            keychain: self.spec.kind == CredentialKind::Keychain,
            guarded: digest.judgement.cap == Cap::Guarded,
            unwaited: self.queue.is_empty(),
            late: digest.late,
            on_trial: digest.on_trial,
        }
    }
}

impl Brief {
    pub(in crate::failover) fn is_current(&self, now: Timestamp) -> bool {
        self.validity.covers(now)
    }

    /// How it stands to a request that comes this way.
    pub(in crate::failover) fn stance(&self, via: Via) -> Stance {
        if self.keychain && via == Via::Gateway {
            Stance::of(Condition::Removed(Removal::Keychain))
        } else {
            self.stance
        }
    }

    /// Whether nobody waits for it.
    pub(in crate::failover) fn is_unwaited(&self) -> bool {
        self.unwaited
    }

    /// Whether what it has in flight leaves room for one more under every bound.
    pub(in crate::failover) fn has_room(&self, tally: Tally, rule: RampRule, now: Timestamp) -> bool {
        let sent = tally.in_flight - tally.unsent;
        let trial = !self.on_trial || tally.slots == 0 || broken(Rule::OneTrialInFlight);
        let guard = !self.guarded || tally.in_flight == 0 || broken(Rule::CapGuardIsOne);
        let local = tally.in_flight < self.most || broken(Rule::ConcurrencyIsBounded);
        tally.slots < self.pace.limit(rule, sent, now) && trial && guard && local
    }
}

impl Stance {
    fn of(condition: Condition) -> Self {
        match condition {
            Condition::Removed(_) => Self::Removed,
            Condition::Open(band) => Self::Open(band),
            Condition::Breather(_) => Self::Breather,
            Condition::Held(_) => Self::Held,
        }
    }
}
