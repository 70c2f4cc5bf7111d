//! A few budgets to keep.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::*;
use crate::clock::Wall;
use crate::id::{CredentialKind, EntryId, Family};
use crate::price::{Picos, Price, Priced, Rates};
use crate::roster::{AccountSpec, Cap, Roster, Switch, WindowCaps, WindowLimits};
use crate::rows::PriceBasis;

/// 2026-11-10, noon.
pub(super) const NOON: Wall = Wall(1_794_312_000_000);
pub(super) const HOUR: i64 = 3_600_000;
pub(super) const DAY: i64 = 24 * HOUR;

pub(super) fn dollars(dollars: f64) -> Micros {
    Micros::of_dollars(dollars).expect("an amount")
}

pub(super) fn money(amount: f64) -> Cap {
    Cap { money: Some(dollars(amount)), requests: None }
}

pub(super) fn requests(most: u64) -> Cap {
    Cap { money: None, requests: Some(most) }
}

pub(super) fn account(n: u32, kind: CredentialKind, budget: Cap) -> AccountSpec {
    AccountSpec {
        id: AccountId(n),
        identity: identity(n),
        entry: EntryId { provider: "anthropic".into(), name: format!("a{n}").into() },
        family: Family::Claude,
        kind,
        priority: 100,
        switch: Switch::On,
        thresholds: WindowLimits::all(0.9),
        caps: WindowCaps::default(),
        budget,
        max_concurrent: None,
    }
}

pub(super) fn identity(n: u32) -> IdentityKey {
    IdentityKey::Inline { upstream: "anthropic".to_owned(), name: format!("a{n}") }
}

pub(super) fn roster(accounts: impl IntoIterator<Item = AccountSpec>, clients: &[(&str, Cap)]) -> Roster {
    Roster {
        accounts: accounts.into_iter().map(|spec| (spec.id, spec)).collect(),
        clients: clients.iter().map(|(name, cap)| (Arc::from(*name), *cap)).collect::<BTreeMap<_, _>>(),
        ..Roster::default()
    }
}

/// A key with this budget, and a client with that.
pub(super) fn keys(budget: Cap, client: Cap) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.configure(&roster([account(0, CredentialKind::ApiKey, budget)], &[("c", client)]), NOON);
    ledger
}

/// One dollar a million tokens of input, two of output.
pub(super) fn price() -> Price {
    let rates = Rates { input: Picos(1_000_000), output: Picos(2_000_000), ..Rates::default() };
    Price::new(rates, Vec::new())
}

/// So many tokens of input, and an answer of at most so many.
pub(super) fn ask(input: u64, max_output: u64) -> Ask {
    let priced = Priced { price: Arc::new(price()), basis: PriceBasis::Listed };
    Ask { model: "m".into(), priced, input, max_output: Some(max_output) }
}

pub(super) fn client(name: &str) -> Principal {
    Principal { client: Some(name.into()), ..Principal::default() }
}

/// Whether the budgets bear one more attempt on account 0.
pub(super) fn affords(ledger: &mut Ledger, principal: &Principal, ask: &Ask, now: Wall) -> bool {
    let mut money = Money::default();
    ledger.inform(&mut money, principal, Some(ask), Counted::NotYet, now);
    money.affords(AccountId(0), Metered::Yes)
}

/// Asks for an attempt on account 0; whether it is granted.
pub(super) fn grant(ledger: &mut Ledger, lease: u64, principal: &Principal, ask: &Ask, now: Wall) -> bool {
    let granted = affords(ledger, principal, ask, now);
    if granted {
        let order = Order { account: AccountId(0), principal, ask, counted: Counted::NotYet };
        ledger.reserve(LeaseId(lease), order, now);
    }
    granted
}

pub(super) fn settle(ledger: &mut Ledger, lease: u64, principal: &Principal, value: Micros, now: Wall) -> Settled {
    let (lease, account) = (LeaseId(lease), AccountId(0));
    ledger
        .settle(Bill { lease, account, principal, value, counted: Counted::NotYet, then: Then::Over }, now)
        .expect("it is known")
}

pub(super) fn spend(ledger: &mut Ledger, now: Wall) -> (Micros, Micros) {
    let spend = ledger.account(AccountId(0), now).expect("account 0 has a budget");
    (spend.spent.money, spend.reserved.money)
}
