//! The ledger: what was spent of every budget in its months, and what is set aside for attempts in flight.
//!
//! Money is set aside when a lease is granted, in one step with the choice of the account, and settled when its attempt
//! is over. A stream that passes what was set aside for it adds to it, even over the cap: it is never cut. What is
//! settled belongs to the month in which it is settled; what is set aside counts against the month that runs.
//!
//! It is kept in the book of leases, so that it outlives the machine that asks it. A subscription costs nothing, and
//! nothing is set aside for it; its requests count.
//!
//! Never here: whether an account is usable otherwise, the store, a clock.

mod book;
mod means;
mod money;
mod purse;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

pub use self::book::Renamed;
use self::means::Means;
pub(super) use self::money::{Left, Money};
pub use self::money::{Limit, OverBudget, Whose};
pub(crate) use self::purse::charges;
use self::purse::{Payers, Place, Purses};
pub use self::purse::{Spend, Sum};
use super::demand::{Ask, Counted};
use super::fault::{Rule, broken};
use crate::billing::{BillingCycle, Day, Month};
use crate::clock::Wall;
use crate::id::{AccountId, IdentityKey, LeaseId, Principal};
use crate::money::Micros;
use crate::outcome::Usage;
use crate::roster::Metered;
use crate::rows::Charge;

/// The ledger.
#[derive(Debug)]
pub struct Ledger {
    cycle: BillingCycle,
    month: Month,
    day: Day,
    purses: Purses,
    open: HashMap<LeaseId, Reserved>,
    means: Means,
    /// What is left of each account's budget, by number; empty where none has a cap.
    lefts: Vec<Left>,
    /// Whether an account may have come to its cap, or away from it, since it was last asked.
    news: bool,
}

/// What is set aside for one lease.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    account: Option<Place>,
    payers: Payers,
    amount: Micros,
    metered: Metered,
    /// Whether its attempt is the one that the request is counted with.
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Yes,
    No,
}

/// What is to be set aside for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order<'a> {
    pub(super) account: AccountId,
    pub(super) principal: &'a Principal,
    pub(super) ask: &'a Ask,
    pub(super) counted: Counted,
}

/// An attempt that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bill<'a> {
    pub(crate) lease: LeaseId,
    pub(crate) account: AccountId,
    pub(crate) principal: &'a Principal,
    /// What it costs on a metered account.
    pub(crate) value: Micros,
    pub(crate) counted: Counted,
    pub(crate) then: Then,
}

/// Whether anything comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The same lease is sent once more: what is set aside stays.
    Again,
    /// The lease is over.
    Over,
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settled {
    pub(crate) cost: Micros,
    pub(crate) identity: IdentityKey,
    pub(crate) charges: Vec<Charge>,
    /// The day, by the zone of the months.
    pub(crate) day: String,
}

impl Default for Ledger {
    fn default() -> Self {
        let cycle = BillingCycle::default();
        Self {
            cycle,
            month: cycle.month(Wall(0)),
            day: cycle.day(Wall(0)),
            purses: Purses::default(),
            open: HashMap::new(),
            means: Means::default(),
            lefts: Vec::new(),
            news: false,
        }
    }
}

impl Ledger {
    /// Sets aside for a lease that is granted now.
    pub(super) fn reserve(&mut self, lease: LeaseId, order: Order<'_>, now: Wall) {
        self.pass_to(now);
        let account = self.purses.of_account(order.account);
        let metered = self.metered(account);
        let amount = match metered {
            Metered::Yes => self.estimate(order.principal, order.ask),
            Metered::No => Micros::ZERO,
        };
        let payers = self.purses.payers(order.principal);
        let counts = if order.counted == Counted::NotYet { Counts::Yes } else { Counts::No };
        self.set_aside(lease, Reserved { account, payers, amount, metered, counts });
    }

    /// A stream passed what was set aside for it. Tells what is set aside now; nothing if the lease is over.
    pub(crate) fn extend(&mut self, lease: LeaseId, to: Micros) -> Option<Micros> {
        let mut reserved = self.take(lease)?;
        if reserved.metered == Metered::Yes && !broken(Rule::StreamsExtend) {
            reserved.amount = reserved.amount.max(to);
        }
        self.set_aside(lease, reserved);
        Some(reserved.amount)
    }

    /// What is set aside for a lease.
    pub(crate) fn set_aside_for(&self, lease: LeaseId) -> Micros {
        self.open.get(&lease).map_or(Micros::ZERO, |reserved| reserved.amount)
    }

    /// A lease came to nothing that costs: what is set aside for it is given back.
    pub(super) fn release(&mut self, lease: LeaseId) {
        if !broken(Rule::ReleaseGivesBack) {
            self.take(lease);
        }
    }

    /// An attempt is over: what it cost is spent. Nothing is if nobody knows the account.
    pub(crate) fn settle(&mut self, bill: Bill<'_>, now: Wall) -> Option<Settled> {
        self.pass_to(now);
        let reserved = self.take(bill.lease);
        let account = reserved.map_or_else(|| self.purses.of_account(bill.account), |reserved| reserved.account)?;
        let metered = reserved.map_or_else(|| self.metered(Some(account)), |reserved| reserved.metered);
        let cost = if metered == Metered::Yes { bill.value } else { Micros::ZERO };
        let identity = self.purses.at(account).identity()?.clone();
        let charges = charges(&identity, bill.principal, cost, bill.counted, &self.month.name());
        self.charge(&charges);
        if let (Some(reserved), Then::Again) = (reserved, bill.then) {
            self.set_aside(bill.lease, Reserved { counts: Counts::No, ..reserved });
        }
        self.news = true;
        Some(Settled { cost, identity, charges, day: self.day.date.to_string() })
    }

    /// How many tokens an answer had: what the next is expected to have.
    pub(crate) fn note_answer(&mut self, principal: &Principal, model: &Arc<str>, output: u64) {
        self.means.note(principal, model, output);
    }

    /// An account's budget now.
    pub(crate) fn account(&mut self, account: AccountId, now: Wall) -> Option<Spend> {
        self.pass_to(now);
        self.purses.of_account(account).map(|place| self.purses.at(place).now(self.month.first))
    }

    /// The month that runs.
    pub(crate) fn month(&mut self, now: Wall) -> Month {
        self.pass_to(now);
        self.month
    }

    /// Whether the cap of an account is reached.
    pub(super) fn is_reached(&mut self, account: AccountId, now: Wall) -> bool {
        self.pass_to(now);
        let reached = |place| self.purses.at(place).is_reached(self.month.first);
        self.purses.of_account(account).is_some_and(reached)
    }

    /// Whether an account may have come to its cap, or away from it, since this was last asked.
    pub(super) fn take_news(&mut self, now: Wall) -> bool {
        self.pass_to(now);
        std::mem::take(&mut self.news)
    }

    /// Tells a plan what it must know of money.
    pub(super) fn inform(
        &mut self,
        money: &mut Money,
        order: &Principal,
        ask: Option<&Ask>,
        counted: Counted,
        now: Wall,
    ) {
        self.pass_to(now);
        money.clear();
        let Some(ask) = ask else { return };
        let payers = self.purses.payers(order);
        let bound = payers.each().any(|(place, _)| self.purses.at(place).cap.binds());
        if self.lefts.is_empty() && !bound {
            return;
        }
        money.asked = self.estimate(order, ask);
        money.resets = self.month.ends;
        money.lefts.extend_from_slice(&self.lefts);
        for (place, whose) in payers.each() {
            money.note(self.purses.at(place), whose, counted, self.month.first);
        }
    }

    /// The tokens that an attempt is expected to take.
    pub(crate) fn expected(&self, principal: &Principal, ask: &Ask) -> Usage {
        ask.expected(self.means.of(principal, &ask.model))
    }

    /// Who an account is.
    pub(crate) fn identity(&self, account: AccountId) -> Option<&IdentityKey> {
        self.purses.of_account(account).and_then(|place| self.purses.at(place).identity())
    }

    /// What an attempt is expected to cost on a metered account.
    fn estimate(&self, principal: &Principal, ask: &Ask) -> Micros {
        ask.priced.price.cost(&self.expected(principal, ask))
    }

    fn metered(&self, account: Option<Place>) -> Metered {
        account.map_or(Metered::No, |place| self.purses.at(place).metered())
    }

    fn set_aside(&mut self, lease: LeaseId, reserved: Reserved) {
        self.open.insert(lease, reserved);
        for (place, sum) in reserved.shares() {
            self.purses.at_mut(place).reserved += sum;
            self.refresh(place);
        }
    }

    fn take(&mut self, lease: LeaseId) -> Option<Reserved> {
        let reserved = self.open.remove(&lease)?;
        for (place, sum) in reserved.shares().filter(|_| !broken(Rule::SettledIsGivenBack)) {
            self.purses.at_mut(place).reserved -= sum;
            self.refresh(place);
        }
        Some(reserved)
    }

    fn pass_to(&mut self, now: Wall) {
        if !self.day.has(now) {
            self.day = self.cycle.day(now);
        }
        if !self.month.has(now) && !broken(Rule::MonthsAreApart) {
            self.month = self.cycle.month(now);
            self.refresh_all();
        }
    }

    fn refresh_all(&mut self) {
        let lefts = if self.purses.any_account_cap() { self.purses.accounts() } else { 0 };
        self.lefts.clear();
        self.lefts.resize(lefts, Left::ENDLESS);
        (0..self.purses.len()).for_each(|place| self.refresh(Place(place)));
        self.news = true;
    }

    fn refresh(&mut self, place: Place) {
        let purse = self.purses.at(place);
        let Some(account) = purse.account() else { return };
        if let Some(left) = self.lefts.get_mut(account.0 as usize) {
            *left = purse.left(self.month.first);
        }
    }
}

impl Reserved {
    /// What of it lies in each budget.
    fn shares(self) -> impl Iterator<Item = (Place, Sum)> {
        let of = move |requests| Sum { money: self.amount, requests };
        let counts = u64::from(self.counts == Counts::Yes);
        let account = self.account.map(|place| (place, of(1)));
        account.into_iter().chain(self.payers.each().map(move |(place, _)| (place, of(counts))))
    }
}
