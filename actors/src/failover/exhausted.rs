//! Why nothing can serve, account by account, and what would help.

use super::demand::{CapsOnly, Exhausted, Reason, Remedy, Why};
use super::ledger::{OverBudget, Whose};
use super::plan::{Field, soonest};
use super::view::{Condition, Removal};
use crate::clock::{Deadline, Timestamp};
use crate::id::AccountId;
use crate::outcome::Cause;
use crate::standing::Stated;

/// How long a request is told to stay away when every place is taken, or every probe.
const BUSY: std::time::Duration = std::time::Duration::from_secs(1);

/// What stands in the way of candidates that could serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    RetryBudget,
    HopLimit,
    Busy,
}

/// The verdict over an upstream in which nothing can be granted.
pub(super) fn exhausted(field: &Field<'_>, barrier: Barrier) -> Exhausted {
    let accounts = &field.pool.spec.accounts;
    let mut reasons = Vec::with_capacity(accounts.len());
    let mut probe = None;
    for (account, view, condition) in accounts.iter().filter_map(|id| field.condition(*id).map(|(v, c)| (*id, v, c))) {
        let why = why(condition, field.has_tried(account), barrier);
        reasons.push(Reason { account, entry: view.spec.entry.clone(), why });
        if matches!(condition, Condition::Held(_)) {
            probe = soonest(probe, view.early_probe_due_at(field.demand.scope, field.now), field.now);
        }
    }
    let remedy = remedy(&reasons, field.now);
    Exhausted { reasons, remedy, probe: probe.map(|due| not_before_soon(due, field.now)) }
}

/// When the next probe is due of an account whose return is a guess. One that is due already is another's, or this request
/// has just spent its own.
fn not_before_soon(due: Deadline, now: Timestamp) -> Deadline {
    due.later(Deadline::after(now, BUSY), now)
}

impl Reason {
    /// When this candidate returns by itself, if that is known.
    #[must_use]
    pub fn returns_at(&self) -> Option<Deadline> {
        self.why.returns_at()
    }
}

impl Why {
    /// When a candidate that this keeps out returns by itself, if that is known.
    #[must_use]
    pub fn returns_at(&self) -> Option<Deadline> {
        Return::of(self)?.until
    }
}

impl Exhausted {
    /// The same, with what the asker knows better of accounts that it tried.
    #[must_use]
    pub fn explained(mut self, known: &[(AccountId, Why)], now: Timestamp) -> Self {
        let mut changed = false;
        for reason in self.reasons.iter_mut().filter(|reason| reason.why == Why::Tried) {
            if let Some((_, why)) = known.iter().find(|(account, _)| *account == reason.account) {
                reason.why = why.clone();
                changed = true;
            }
        }
        if changed && matches!(self.remedy, Remedy::Spent { .. }) {
            self.remedy = remedy(&self.reasons, now);
        }
        self
    }
}

fn why(condition: Condition, tried: bool, barrier: Barrier) -> Why {
    match condition {
        Condition::Removed(removal) => Removal::why(removal),
        Condition::Held(hold) => Why::Held { cause: hold.cause, until: hold.until, stated: hold.stated },
        Condition::Breather(at) => Why::Breather(at),
        Condition::Open(_) if tried => Why::Tried,
        Condition::Open(_) => match barrier {
            Barrier::RetryBudget => Why::RetryBudget,
            Barrier::HopLimit => Why::HopLimit,
            Barrier::Busy => Why::Busy,
        },
    }
}

fn remedy(reasons: &[Reason], now: Timestamp) -> Remedy {
    let has = |wanted: fn(&Why) -> bool| reasons.iter().any(|r| wanted(&r.why));
    let busy = has(|why| matches!(why, Why::Busy)).then(|| Deadline::after(now, BUSY));
    if has(|why| matches!(why, Why::Tried | Why::RetryBudget | Why::HopLimit)) {
        let returns = reasons.iter().filter_map(Reason::returns_at);
        return Remedy::Spent { returns: returns.chain(busy).reduce(|one, other| one.sooner(other, now)) };
    }
    busy.map_or_else(|| waiting(reasons, now), |until| Remedy::BackOff { until })
}

/// What the soonest return calls for; without any, a person.
fn waiting(reasons: &[Reason], now: Timestamp) -> Remedy {
    let returns = || reasons.iter().filter_map(|r| Return::of(&r.why));
    let caps_only = caps_only(reasons);
    let soonest_of = |kind: fn(&Return) -> bool| {
        returns().filter(kind).map(|r| r.until).fold(None, |best, until| soonest(best, until, now))
    };
    let quota = soonest_of(|r| r.kind == ReturnKind::Quota);
    let error = soonest_of(|r| r.kind == ReturnKind::Error);
    if !returns().any(|r| r.kind == ReturnKind::Quota) {
        let nothing = || askers_budget(reasons).map_or(Remedy::Person, Remedy::Budget);
        return error.map_or_else(nothing, |until| Remedy::BackOff { until });
    }
    if let Some(until) = error
        && quota.is_none_or(|at| until.as_wall(now) < at.as_wall(now))
    {
        return Remedy::BackOff { until };
    }
    let stated = returns().any(|r| r.until.is_some() && r.until == quota && r.stated == Stated::ByProvider);
    let stated = if stated { Stated::ByProvider } else { Stated::Guessed };
    Remedy::Wait { until: quota, stated, caps_only }
}

/// The asker's own budget, where it is what stands in the way.
fn askers_budget(reasons: &[Reason]) -> Option<OverBudget> {
    reasons.iter().find_map(|reason| match reason.why {
        Why::OverBudget(over) if over.whose != Whose::Account => Some(over),
        Why::OverBudget(_)
        | Why::Disabled
        | Why::Paused
        | Why::NeedsPerson(_)
        | Why::NeedsLogin
        | Why::Keychain
        | Why::Capped(_)
        | Why::Held { .. }
        | Why::Tried
        | Why::Breather(_)
        | Why::Busy
        | Why::HopLimit
        | Why::RetryBudget => None,
    })
}

/// When an account's own budget begins anew; that of whoever asks is no affair of the account.
fn own_end(over: &OverBudget) -> Option<Deadline> {
    (over.whose == Whose::Account).then_some(Deadline::Wall(over.resets))
}

/// Whether caps alone leave nothing selectable: everything is out for good, and at least one of them by its cap.
fn caps_only(reasons: &[Reason]) -> CapsOnly {
    let selectable = |why: &Why| match why {
        Why::Disabled
        | Why::Paused
        | Why::NeedsPerson(_)
        | Why::NeedsLogin
        | Why::Keychain
        | Why::Capped(_)
        | Why::OverBudget(_) => false,
        Why::Held { cause, .. } => *cause != Cause::Budget,
        Why::Breather(_) | Why::Tried | Why::Busy | Why::HopLimit | Why::RetryBudget => true,
    };
    let capped = reasons.iter().any(|r| matches!(r.why, Why::Capped(_)));
    if capped && !reasons.iter().any(|r| selectable(&r.why)) { CapsOnly::Yes } else { CapsOnly::No }
}

/// When a candidate returns by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Return {
    kind: ReturnKind,
    until: Option<Deadline>,
    stated: Stated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReturnKind {
    /// A quota, throttle, cap or budget ends.
    Quota,
    /// An error back-off ends.
    Error,
}

impl Return {
    fn of(why: &Why) -> Option<Self> {
        let quota = |until, stated| Some(Self { kind: ReturnKind::Quota, until, stated });
        match why {
            Why::Capped(until) => quota(*until, Stated::ByProvider),
            Why::OverBudget(over) => own_end(over).and_then(|until| quota(Some(until), Stated::ByProvider)),
            Why::Breather(until) => quota(Some(*until), Stated::ByProvider),
            Why::Held { cause, until, stated } => {
                return_kind(*cause).map(|kind| Self { kind, until: Some(*until), stated: *stated })
            }
            Why::Disabled
            | Why::Paused
            | Why::NeedsPerson(_)
            | Why::NeedsLogin
            | Why::Keychain
            | Why::Tried
            | Why::Busy
            | Why::HopLimit
            | Why::RetryBudget => None,
        }
    }
}

fn return_kind(cause: Cause) -> Option<ReturnKind> {
    match cause {
        Cause::Quota | Cause::Throttled | Cause::Balance | Cause::Budget => Some(ReturnKind::Quota),
        Cause::Overloaded | Cause::ServerError | Cause::Network | Cause::Timeout | Cause::Blank => {
            Some(ReturnKind::Error)
        }
        Cause::InvalidToken | Cause::OrgDisabled | Cause::Undecryptable | Cause::Unreadable | Cause::Empty => None,
    }
}
