//! `budget_exhausted`: our own cap is reached, or the provider says that the balance is empty.
//!
//! The two end by different facts, so each keeps its own place; shown is whichever lasts longer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::report::Report;
use super::slot::{self, Term};
use crate::clock::{Deadline, Timestamp};
use crate::event::EndedBy;
use crate::outcome::{Cause, HoldScope};
use crate::standing::{Hold, HoldKind, Stated};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Holds that are about money.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Spend {
    pub(super) budget: Option<Hold>,
    pub(super) balance: Option<Hold>,
}

impl Spend {
    /// The provider says that the balance is empty.
    pub(super) fn balance_empty(&mut self, sent_at: Timestamp, report: &mut Report<'_>) {
        if slot::relation(self.balance.as_ref(), sent_at) == slot::Laid::Joined {
            return;
        }
        let until = Deadline::after(report.now, DAY);
        slot::lay(&mut self.balance, term(Cause::Balance, until), sent_at, report);
    }

    /// Our own cap is reached; the next billing cycle begins at `cycle_ends`. Told again during the hold, it changes
    /// nothing; still over after it, the hold begins again.
    pub(super) fn budget_reached(&mut self, cycle_ends: Deadline, report: &mut Report<'_>) {
        if self.budget.is_some() {
            return;
        }
        let day = Deadline::after(report.now, DAY);
        let until = if sabotaged!(BudgetOutlastsCycle) { day } else { day.sooner(cycle_ends, report.now) };
        if !until.is_due(report.now) {
            let now = report.now;
            slot::lay(&mut self.budget, term(Cause::Budget, until), now, report);
        }
    }

    /// The cap was raised, or a new cycle began.
    pub(super) fn budget_raised(&mut self, report: &mut Report<'_>) {
        slot::end(&mut self.budget, HoldScope::Account, EndedBy::Budget, report);
        if sabotaged!(RaiseEndsBalance) {
            slot::end(&mut self.balance, HoldScope::Account, EndedBy::Budget, report);
        }
    }

    /// The operator cleared the account.
    pub(super) fn clear(&mut self, report: &mut Report<'_>) {
        slot::end(&mut self.budget, HoldScope::Account, EndedBy::Clear, report);
        slot::end(&mut self.balance, HoldScope::Account, EndedBy::Clear, report);
    }

    pub(super) fn served(&mut self, sent_at: Timestamp, report: &mut Report<'_>) {
        if sabotaged!(ServedEndsBalance) {
            slot::end_if_older(&mut self.balance, HoldScope::Account, sent_at, report);
        }
    }

    pub(super) fn lapse(&mut self, report: &mut Report<'_>) {
        slot::lapse(&mut self.budget, HoldScope::Account, report);
        slot::lapse(&mut self.balance, HoldScope::Account, report);
    }

    /// The hold that is shown.
    pub(super) fn longest(&self, now: Timestamp) -> Option<Hold> {
        match (self.budget, self.balance) {
            (Some(budget), Some(balance)) if budget.until.later(balance.until, now) == budget.until => Some(budget),
            (_, Some(balance)) => Some(balance),
            (budget, None) => budget,
        }
    }
}

fn term(cause: Cause, until: Deadline) -> Term {
    Term { kind: HoldKind::BudgetExhausted, scope: HoldScope::Account, cause, until, stated: Stated::Guessed }
}
