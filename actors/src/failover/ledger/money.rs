//! What a plan knows of money: what the demand would cost, what is left of each account's budget, and whether whoever
//! asks may spend it.

use chrono::NaiveDate;

use super::purse::Purse;
use crate::clock::Wall;
use crate::failover::demand::Counted;
use crate::failover::fault::{Rule, broken};
use crate::id::AccountId;
use crate::money::Micros;
use crate::roster::{AccountSpec, Metered};

/// What is left of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::failover) struct Left {
    /// Less than nothing if a stream passed what was set aside for it.
    pub(in crate::failover) money: Micros,
    pub(in crate::failover) requests: u64,
}

impl Left {
    /// Without a cap.
    pub(in crate::failover) const ENDLESS: Self = Self { money: Micros(i64::MAX), requests: u64::MAX };
}

/// A budget that a request would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// Whose budget.
    pub whose: Whose,
    /// Which of its caps.
    pub limit: Limit,
    /// When its next month begins.
    pub resets: Wall,
}

/// Whose a budget is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The account's.
    Account,
    /// The client's.
    Client,
    /// The agent's.
    Agent,
}

/// A cap, and what stands against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// On money.
    Money {
        /// The cap.
        cap: Micros,
        /// What is left of it: neither spent nor set aside.
        left: Micros,
        /// What the request is expected to cost.
        asked: Micros,
    },
    /// On requests.
    Requests {
        /// The cap.
        cap: u64,
    },
}

/// What a plan knows of money.
#[derive(Debug, Default)]
pub(in crate::failover) struct Money {
    /// What the demand is expected to cost on a metered account.
    pub(super) asked: Micros,
    pub(super) resets: Wall,
    /// By account; empty if none has a cap.
    pub(super) lefts: Vec<Left>,
    /// Whoever asks may not spend so much.
    short: Option<OverBudget>,
    /// Whoever asks may not ask at all.
    out: Option<OverBudget>,
}

impl Money {
    pub(super) fn clear(&mut self) {
        self.lefts.clear();
        (self.asked, self.short, self.out) = (Micros::ZERO, None, None);
    }

    /// Takes in a budget of whoever asks.
    pub(super) fn note(&mut self, purse: &Purse, whose: Whose, counted: Counted, month: NaiveDate) {
        let left = purse.left(month);
        let over = |limit| OverBudget { whose, limit, resets: self.resets };
        let short = purse.cap.money.filter(|_| left.money < self.asked);
        let short = short.map(|cap| over(Limit::Money { cap, left: left.money, asked: self.asked }));
        let out = purse.cap.requests.filter(|_| left.requests == 0 && counted == Counted::NotYet);
        let out = out.map(|cap| over(Limit::Requests { cap }));
        self.short = self.short.or(short);
        self.out = self.out.or(out);
    }

    /// Whether an attempt on this account keeps every budget.
    pub(in crate::failover) fn affords(&self, account: AccountId, metered: Metered) -> bool {
        if broken(Rule::BudgetsAreKept) || (self.lefts.is_empty() && self.short.is_none() && self.out.is_none()) {
            return true;
        }
        let left = self.left(account);
        let pays = metered == Metered::No || (self.short.is_none() && left.money >= self.asked);
        self.out.is_none() && left.requests > 0 && pays
    }

    /// What is left of an account's budget.
    pub(in crate::failover) fn left(&self, account: AccountId) -> Left {
        self.lefts.get(account.0 as usize).copied().unwrap_or(Left::ENDLESS)
    }

    /// The budget that an attempt on this account would exceed: first that of whoever asks.
    pub(in crate::failover) fn exceeded(&self, spec: &AccountSpec) -> Option<OverBudget> {
        if self.affords(spec.id, spec.metered()) {
            return None;
        }
        let asker = self.out.or(self.short.filter(|_| spec.metered() == Metered::Yes));
        asker.or_else(|| self.exceeded_of(spec))
    }

    fn exceeded_of(&self, spec: &AccountSpec) -> Option<OverBudget> {
        let left = self.left(spec.id);
        let requests = spec.budget.requests.filter(|_| left.requests == 0).map(|cap| Limit::Requests { cap });
        let money = spec.budget.money.map(|cap| Limit::Money { cap, left: left.money, asked: self.asked });
        let limit = requests.or(money)?;
        Some(OverBudget { whose: Whose::Account, limit, resets: self.resets })
    }
}
