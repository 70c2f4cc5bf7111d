//! Budgets as accounts hear of them: that a cap is reached, and that it is not any more.
//!
//! An account is told once of each change; and once more when its hold has ended while the cap is reached still.

use super::{Admission, Effect};
use crate::clock::{Deadline, Timestamp};
use crate::id::AccountId;
use crate::outcome::Cause;
use crate::standing::{Hold, HoldKind};

/// What an account is to hear of its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetNews {
    /// Its cap is reached.
    Reached {
        /// When the next month begins.
        cycle_ends: Deadline,
    },
    /// The cap was raised, or a new month began.
    Raised,
}

/// What an account was told of its budget, and whether its hold was seen since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::failover) enum Told {
    /// Nothing that is still true.
    #[default]
    Nothing,
    /// That its cap is reached.
    Reached { seen_held: bool },
    /// That it is not any more.
    Raised,
}

impl Admission {
    /// Looks at every account that has a cap, if anything was settled or a month began.
    pub(super) fn tell_budgets(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.book.ledger().take_news(now.wall) {
            for account in self.budgeted.clone() {
                self.tell_budget(account, now, effects);
            }
        }
    }

    /// Looks at all accounts, whatever they had before.
    pub(super) fn tell_all_budgets(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let all = self.views.each().map(|view| view.spec.id);
        self.budgeted = all.filter(|account| self.is_budgeted(*account, now)).collect();
        for account in self.budgeted.clone() {
            self.tell_budget(account, now, effects);
        }
    }

    /// Looks at one account.
    pub(super) fn tell_budget(&mut self, account: AccountId, now: Timestamp, effects: &mut Vec<Effect>) {
        if !self.is_budgeted(account, now) {
            return;
        }
        self.budgeted.insert(account);
        let (reached, cycle_ends) = {
            let mut ledger = self.book.ledger();
            (ledger.is_reached(account, now.wall), Deadline::Wall(ledger.month(now.wall).ends))
        };
        let Some(view) = self.view_mut(account) else { return };
        let held = view.standing.as_ref().is_some_and(|s| s.holds.iter().any(|hold| is_by_budget(hold, now)));
        let news = if reached { BudgetNews::Reached { cycle_ends } } else { BudgetNews::Raised };
        let tells = match (reached, held, view.told) {
            (true, true, _) => {
                view.told = Told::Reached { seen_held: true };
                false
            }
            (true, false, Told::Reached { seen_held }) => seen_held,
            (true, false, Told::Nothing | Told::Raised) => true,
            (false, true, Told::Raised) | (false, false, Told::Nothing) => false,
            (false, true, Told::Nothing | Told::Reached { .. }) => true,
            (false, false, Told::Reached { .. } | Told::Raised) => {
                view.told = Told::Nothing;
                false
            }
        };
        if tells {
            view.told = if reached { Told::Reached { seen_held: false } } else { Told::Raised };
            effects.push(Effect::Tell(account, news));
        }
    }

    /// Whether an account has a cap, was told of one, or is held by one.
    fn is_budgeted(&self, account: AccountId, now: Timestamp) -> bool {
        self.view(account).is_some_and(|view| {
            let holds = view.standing.iter().flat_map(|standing| &standing.holds);
            view.spec.budget.binds() || view.told != Told::Nothing || holds.into_iter().any(|h| is_by_budget(h, now))
        })
    }
}

fn is_by_budget(hold: &Hold, now: Timestamp) -> bool {
    hold.kind == HoldKind::BudgetExhausted && hold.cause == Cause::Budget && !hold.until.is_due(now)
}
