//! What admission believes of an account between an attempt's answer and the account's own word.
//!
//! The answer travels with the next demand and counts at once; it is forgotten when the account publishes a standing that
//! has that piece of evidence in it.

use std::time::Duration;

use crate::clock::{Deadline, Timestamp};
use crate::id::EvidenceSeq;
use crate::outcome::{Answered, CallKind, Cause, HoldScope, Outcome};
use crate::standing::{Hold, HoldKind, Stated};

/// A stated wait up to this long is a breather, not a hold.
const BREATHER: Duration = Duration::from_secs(10);
const UNSTATED_THROTTLE: Duration = Duration::from_secs(5);
const AUTH: Duration = Duration::from_secs(15 * 60);
const BALANCE: Duration = Duration::from_secs(24 * 3600);
/// More open answers than this on one account are not kept; the oldest go.
const MOST: usize = 32;

/// The answers of one account that it has not confirmed yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Provisional {
    entries: Vec<(EvidenceSeq, Belief)>,
}

/// What one answer means for the next choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Belief {
    Held(HoldScope, Hold),
    Breather(Deadline),
}

impl Provisional {
    pub(super) fn add(&mut self, evidence: EvidenceSeq, belief: Belief) {
        if self.entries.iter().any(|(seq, _)| *seq == evidence) {
            return;
        }
        if self.entries.len() == MOST {
            self.entries.remove(0);
        }
        self.entries.push((evidence, belief));
    }

    /// The account has said what it makes of everything up to `applied`.
    pub(super) fn confirm(&mut self, applied: EvidenceSeq) {
        self.entries.retain(|(seq, _)| *seq > applied);
    }

    pub(super) fn holds(&self) -> impl Iterator<Item = (HoldScope, &Hold)> {
        self.entries.iter().filter_map(|(_, belief)| match belief {
            Belief::Held(scope, hold) => Some((*scope, hold)),
            Belief::Breather(_) => None,
        })
    }

    pub(super) fn breathers(&self) -> impl Iterator<Item = Deadline> {
        self.entries.iter().filter_map(|(_, belief)| match belief {
            Belief::Held(..) => None,
            Belief::Breather(at) => Some(*at),
        })
    }
}

/// What an answer means until the account has spoken. `cooldown` is how long a quota refusal without a stated end holds.
pub(super) fn belief(answered: &Answered, cooldown: Duration, now: Timestamp) -> Option<Belief> {
    let at = answered.answered_at;
    let guess = |kind, cause, wait| Some(held(kind, cause, at, Deadline::after(at, wait), Stated::Guessed));
    let stated = |kind, cause, wait| Some(held(kind, cause, at, Deadline::after(at, wait), Stated::ByProvider));
    if answered.call == CallKind::Side && !matches!(answered.outcome, Outcome::Unauthorized | Outcome::OrgRefused) {
        return None;
    }
    match &answered.outcome {
        Outcome::Quota(refusal) => {
            let (until, word) = match refusal.until.filter(|until| !until.is_due(now)) {
                Some(until) => (until, Stated::ByProvider),
                None => (Deadline::after(at, cooldown), Stated::Guessed),
            };
            Some(Belief::Held(refusal.scope, hold(HoldKind::RateLimited, Cause::Quota, at, until, word)))
        }
        Outcome::Throttled { wait: Some(wait) } if *wait <= BREATHER => {
            Some(Belief::Breather(Deadline::after(at, *wait)))
        }
        Outcome::Throttled { wait: Some(wait) } => stated(HoldKind::RateLimited, Cause::Throttled, *wait),
        Outcome::Throttled { wait: None } => guess(HoldKind::RateLimited, Cause::Throttled, UNSTATED_THROTTLE),
        Outcome::Unauthorized => guess(HoldKind::AuthDead, Cause::InvalidToken, AUTH),
        Outcome::OrgRefused => guess(HoldKind::AuthDead, Cause::OrgDisabled, AUTH),
        Outcome::BalanceEmpty => guess(HoldKind::BudgetExhausted, Cause::Balance, BALANCE),
        Outcome::ServerFault { cause, wait: Some(wait) } => stated(HoldKind::Erroring, *cause, *wait),
        Outcome::ServerFault { wait: None, .. }
        | Outcome::Served
        | Outcome::Unreachable { .. }
        | Outcome::HeadTimeout { .. }
        | Outcome::Blank
        | Outcome::Relayed
        | Outcome::Abandoned => None,
    }
}

/// Whether an outcome says that the account did not serve.
pub(super) fn is_refusal(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Quota(_)
        | Outcome::Throttled { .. }
        | Outcome::Unauthorized
        | Outcome::OrgRefused
        | Outcome::BalanceEmpty
        | Outcome::ServerFault { .. }
        | Outcome::Unreachable { .. }
        | Outcome::HeadTimeout { streaming: true }
        | Outcome::Blank => true,
        Outcome::Served | Outcome::HeadTimeout { streaming: false } | Outcome::Relayed | Outcome::Abandoned => false,
    }
}

fn held(kind: HoldKind, cause: Cause, began: Timestamp, until: Deadline, stated: Stated) -> Belief {
    Belief::Held(HoldScope::Account, hold(kind, cause, began, until, stated))
}

fn hold(kind: HoldKind, cause: Cause, began: Timestamp, until: Deadline, stated: Stated) -> Hold {
    Hold { kind, cause, began, until, stated, episode: 0 }
}
