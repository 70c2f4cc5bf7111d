//! One budget: its cap, what was spent of it month by month, what is set aside. And all of them.

use std::collections::{BTreeMap, HashMap};
use std::ops::{AddAssign, SubAssign};
use std::sync::Arc;

use chrono::NaiveDate;

use super::money::{Left, Whose};
use crate::failover::demand::Counted;
use crate::failover::fault::{Rule, broken};
use crate::id::{AccountId, IdentityKey, Principal};
use crate::money::Micros;
use crate::roster::{AccountSpec, Cap, Metered};
use crate::rows::Charge;

/// More months of one budget are not kept.
const MONTHS: usize = 24;

/// Money and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How much.
    pub money: Micros,
    /// How many.
    pub requests: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.money += other.money;
        self.requests = self.requests.saturating_add(other.requests);
    }
}

impl SubAssign for Sum {
    fn sub_assign(&mut self, other: Self) {
        self.money -= other.money;
        self.requests = self.requests.saturating_sub(other.requests);
    }
}

/// A budget at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// What it may come to in a month.
    pub cap: Cap,
    /// What was spent in the month that runs.
    pub spent: Sum,
    /// What is set aside.
    pub reserved: Sum,
}

/// One budget.
#[derive(Debug)]
pub(super) struct Purse {
    /// What its charges are written under.
    pub(super) key: Arc<str>,
    pub(super) cap: Cap,
    pub(super) reserved: Sum,
    months: BTreeMap<NaiveDate, Sum>,
    owner: Option<Owner>,
}

/// The account that a budget is of.
#[derive(Clone, Debug)]
struct Owner {
    account: AccountId,
    identity: IdentityKey,
    metered: Metered,
}

impl Purse {
    fn new(key: Arc<str>) -> Self {
        Self { key, cap: Cap::default(), reserved: Sum::default(), months: BTreeMap::new(), owner: None }
    }

    pub(super) fn account(&self) -> Option<AccountId> {
        self.owner.as_ref().map(|owner| owner.account)
    }

    pub(super) fn identity(&self) -> Option<&IdentityKey> {
        self.owner.as_ref().map(|owner| &owner.identity)
    }

    pub(super) fn metered(&self) -> Metered {
        self.owner.as_ref().map_or(Metered::No, |owner| owner.metered)
    }

    pub(super) fn add(&mut self, month: NaiveDate, sum: Sum) {
        *self.months.entry(month).or_default() += sum;
        while self.months.len() > MONTHS {
            self.months.pop_first();
        }
    }

    /// At least so much was spent.
    pub(super) fn raise(&mut self, month: NaiveDate, to: Sum) {
        let spent = self.months.get(&month).copied().unwrap_or_default();
        self.months.insert(month, Sum { money: spent.money.max(to.money), requests: spent.requests.max(to.requests) });
    }

    pub(super) fn now(&self, month: NaiveDate) -> Spend {
        let spent = self.months.get(&month).copied().unwrap_or_default();
        Spend { cap: self.cap, spent, reserved: self.reserved }
    }

    pub(super) fn left(&self, month: NaiveDate) -> Left {
        let Spend { cap, spent, mut reserved } = self.now(month);
        if broken(Rule::SetAsideCounts) {
            reserved = Sum::default();
        }
        let requests = |cap: u64| cap.saturating_sub(spent.requests).saturating_sub(reserved.requests);
        Left {
            money: self.money_cap(cap).map_or(Left::ENDLESS.money, |cap| cap - spent.money - reserved.money),
            requests: cap.requests.map_or(Left::ENDLESS.requests, requests),
        }
    }

    pub(super) fn is_reached(&self, month: NaiveDate) -> bool {
        let Spend { cap, spent, .. } = self.now(month);
        self.money_cap(cap).is_some_and(|cap| spent.money >= cap)
            || cap.requests.is_some_and(|cap| spent.requests >= cap)
    }

    /// A cap on money says nothing of an account that costs nothing.
    fn money_cap(&self, cap: Cap) -> Option<Micros> {
        let free = self.owner.as_ref().is_some_and(|owner| owner.metered == Metered::No);
        cap.money.filter(|_| !free)
    }

    fn absorb(&mut self, other: &mut Self) {
        self.reserved += std::mem::take(&mut other.reserved);
        for (month, sum) in std::mem::take(&mut other.months) {
            self.add(month, sum);
        }
        other.owner = None;
        other.cap = Cap::default();
    }
}

/// The place of a budget among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(pub(super) usize);

/// The budgets of whoever asks: the client's and the agent's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Payers([Option<Place>; 2]);

impl Payers {
    pub(super) fn each(self) -> impl Iterator<Item = (Place, Whose)> {
        let [client, agent] = self.0;
        let client = client.map(|place| (place, Whose::Client));
        client.into_iter().chain(agent.map(|place| (place, Whose::Agent)))
    }
}

/// All budgets.
#[derive(Debug, Default)]
pub(super) struct Purses {
    all: Vec<Purse>,
    by_key: HashMap<Arc<str>, Place>,
    accounts: Vec<Option<Place>>,
    clients: HashMap<Arc<str>, Place>,
    agents: HashMap<Arc<str>, Place>,
}

impl Purses {
    pub(super) fn at(&self, place: Place) -> &Purse {
        &self.all[place.0]
    }

    pub(super) fn at_mut(&mut self, place: Place) -> &mut Purse {
        &mut self.all[place.0]
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many numbers accounts have.
    pub(super) fn accounts(&self) -> usize {
        self.accounts.len()
    }

    pub(super) fn any_account_cap(&self) -> bool {
        self.accounts.iter().flatten().any(|place| self.at(*place).cap.binds())
    }

    pub(super) fn of_account(&self, account: AccountId) -> Option<Place> {
        self.accounts.get(account.0 as usize).copied().flatten()
    }

    /// The budget whose charges are written under this, made if it is not there.
    pub(super) fn of_key(&mut self, key: &Arc<str>) -> Place {
        if let Some(place) = self.by_key.get(key) {
            return *place;
        }
        let place = Place(self.all.len());
        self.all.push(Purse::new(Arc::clone(key)));
        self.by_key.insert(Arc::clone(key), place);
        place
    }

    pub(super) fn of_client(&mut self, client: &Arc<str>) -> Place {
        self.clients.get(client).copied().unwrap_or_else(|| {
            let place = self.of_key(&client_key(client));
            self.clients.insert(Arc::clone(client), place);
            place
        })
    }

    fn of_agent(&mut self, agent: &Arc<str>) -> Place {
        self.agents.get(agent).copied().unwrap_or_else(|| {
            let place = self.of_key(&agent_key(agent));
            self.agents.insert(Arc::clone(agent), place);
            place
        })
    }

    pub(super) fn payers(&mut self, principal: &Principal) -> Payers {
        let client = principal.client.as_ref().map(|client| self.of_client(client));
        let agent = principal.agent.as_ref().map(|agent| self.of_agent(agent));
        Payers([client, agent])
    }

    pub(super) fn uncap(&mut self) {
        self.all.iter_mut().for_each(|purse| purse.cap = Cap::default());
    }

    /// Gives an account its budget. If it had one under another identity, that one is joined into it; tells which.
    pub(super) fn employ(&mut self, spec: &AccountSpec) -> Option<(Place, Place)> {
        let place = self.of_key(&account_key(&spec.identity));
        let at = spec.id.0 as usize;
        if self.accounts.len() <= at {
            self.accounts.resize(at + 1, None);
        }
        let was = self.accounts[at].replace(place).filter(|was| *was != place);
        if let Some(was) = was {
            self.join(was, place);
        }
        let purse = self.at_mut(place);
        purse.owner = Some(Owner { account: spec.id, identity: spec.identity.clone(), metered: spec.metered() });
        purse.cap = spec.budget;
        was.map(|was| (was, place))
    }

    /// Joins one budget into another.
    pub(super) fn join(&mut self, old: Place, new: Place) {
        let mut gone = Purse::new(Arc::clone(&self.at(old).key));
        std::mem::swap(&mut gone, self.at_mut(old));
        self.at_mut(new).absorb(&mut gone);
    }

    /// From now on an account's budget is that of another.
    pub(super) fn share(&mut self, account: AccountId, place: Place) {
        if let Some(own) = self.accounts.get_mut(account.0 as usize) {
            *own = Some(place);
        }
    }
}

fn account_key(identity: &IdentityKey) -> Arc<str> {
    format!("account:{identity}").into()
}

fn client_key(client: &str) -> Arc<str> {
    format!("client:{client}").into()
}

fn agent_key(agent: &str) -> Arc<str> {
    format!("agent:{agent}").into()
}

/// What an attempt is charged with, by the names alone: for one that no ledger knows.
pub(crate) fn charges(
    identity: &IdentityKey,
    principal: &Principal,
    amount: Micros,
    counted: Counted,
    month: &str,
) -> Vec<Charge> {
    let counts = u32::from(counted == Counted::NotYet);
    let client = principal.client.as_ref().map(|client| (client_key(client), counts));
    let agent = principal.agent.as_ref().map(|agent| (agent_key(agent), counts));
    let all = [(account_key(identity), 1)].into_iter().chain(client).chain(agent);
    let all = all.filter(|(_, requests)| *requests > 0 || amount > Micros::ZERO);
    all.map(|(budget, requests)| Charge { budget, month: month.to_owned(), amount, requests }).collect()
}
