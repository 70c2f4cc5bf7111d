//! What the ledger takes in beside attempts: caps and names, what was spent before, accounts that turn out to be one.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::NaiveDate;

use super::purse::Place;
use super::{Ledger, Sum};
use crate::clock::Wall;
use crate::failover::fault::{Rule, broken};
use crate::id::AccountId;
use crate::roster::Roster;
use crate::rows::{Charge, SpentRow};

/// A budget whose charges are written under another name from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The name before.
    pub was: Arc<str>,
    /// The name now.
    pub is: Arc<str>,
}

impl Ledger {
    /// Takes in the months, the caps and the names of a roster. What was spent stays.
    pub(crate) fn configure(&mut self, roster: &Roster, now: Wall) -> Vec<Renamed> {
        self.cycle = roster.billing;
        (self.month, self.day) = (self.cycle.month(now), self.cycle.day(now));
        self.purses.uncap();
        for (client, cap) in &roster.clients {
            let place = self.purses.of_client(client);
            self.purses.at_mut(place).cap = *cap;
        }
        let joined: Vec<_> = roster.accounts.values().filter_map(|spec| self.purses.employ(spec)).collect();
        let renamed = joined.into_iter().map(|(was, is)| self.renamed(was, is)).collect();
        self.refresh_all();
        renamed
    }

    /// Two accounts turned out to be one: the budget of `before` is joined into that of `now`.
    pub(crate) fn join(&mut self, before: AccountId, now: AccountId) -> Option<Renamed> {
        let (old, new) = (self.purses.of_account(before)?, self.purses.of_account(now)?);
        if old == new {
            return None;
        }
        self.purses.join(old, new);
        self.purses.share(before, new);
        let renamed = self.renamed(old, new);
        self.refresh(new);
        Some(renamed)
    }

    /// Takes in what the store says was spent. It knows of everything before this process began, and of most since.
    pub(crate) fn load(&mut self, rows: &[SpentRow]) {
        let mut sums: BTreeMap<(&Arc<str>, &str), Sum> = BTreeMap::new();
        for row in rows {
            *sums.entry((&row.budget, &row.month)).or_default() += Sum { money: row.amount, requests: row.requests };
        }
        for ((budget, month), sum) in sums {
            let Ok(month) = month.parse::<NaiveDate>() else { continue };
            let place = self.purses.of_key(budget);
            self.purses.at_mut(place).raise(month, sum);
        }
        self.refresh_all();
    }

    /// Takes in what an attempt is charged with.
    pub(crate) fn charge(&mut self, charges: &[Charge]) {
        for charge in charges {
            let sum = Sum { money: charge.amount, requests: charge.requests.into() };
            if let Some(place) = self.take_in(&charge.budget, &charge.month, sum) {
                self.refresh(place);
            }
        }
    }

    fn take_in(&mut self, budget: &Arc<str>, month: &str, sum: Sum) -> Option<Place> {
        // Nobody writes anything but a date.
        let month = month.parse::<NaiveDate>().ok()?;
        let place = self.purses.of_key(budget);
        if !broken(Rule::SettledIsSpent) {
            self.purses.at_mut(place).add(month, sum);
        }
        Some(place)
    }

    fn renamed(&mut self, was: Place, is: Place) -> Renamed {
        for reserved in self.open.values_mut().filter(|reserved| reserved.account == Some(was)) {
            reserved.account = Some(is);
        }
        Renamed { was: Arc::clone(&self.purses.at(was).key), is: Arc::clone(&self.purses.at(is).key) }
    }
}
