use super::super::*;
use super::world::*;
use crate::id::{CredentialKind, Family};
use crate::roster::Cap;
use crate::rows::SpentRow;

fn nobody() -> Principal {
    Principal::default()
}

fn spent(budget: &str, month: &str, amount: Micros) -> SpentRow {
    SpentRow { budget: budget.into(), month: month.to_owned(), amount, requests: 1 }
}

/// C85: two of four fit, whatever they cost in the end.
#[test]
fn what_is_set_aside_is_not_there_for_others() {
    let mut ledger = keys(money(5.0), Cap::default());
    ledger.load(&[spent("account:inline:anthropic:a0", "2026-11-01", dollars(4.75))]);
    let each = ask(88_400 - 2 * 100, 100);
    let granted = (0..4).filter(|lease| grant(&mut ledger, *lease, &nobody(), &each, NOON)).count();
    assert_eq!(granted, 2, "0.25 bears twice 0.0884");
    settle(&mut ledger, 0, &nobody(), dollars(0.096), NOON);
    ledger.release(LeaseId(1));
    assert_eq!(spend(&mut ledger, NOON), (dollars(4.846), Micros::ZERO), "what came to nothing is given back");
    assert!(grant(&mut ledger, 4, &nobody(), &each, NOON));
    assert!(!grant(&mut ledger, 5, &nobody(), &each, NOON));
}

#[test]
fn an_answer_is_expected_to_be_as_long_as_allowed_up_to_4096_tokens_and_later_half_again_its_mean() {
    let mut ledger = keys(money(1.0), Cap::default());
    let asked = |ledger: &mut Ledger, max| {
        ledger.reserve(
            LeaseId(9),
            Order { account: AccountId(0), principal: &client("c"), ask: &ask(10, max), counted: Counted::NotYet },
            NOON,
        );
        let amount = ledger.set_aside_for(LeaseId(9));
        ledger.release(LeaseId(9));
        amount
    };
    assert_eq!(asked(&mut ledger, 300), Micros(10 + 2 * 300));
    assert_eq!(asked(&mut ledger, 100_000), Micros(10 + 2 * 4096));
    for n in 0..20 {
        assert_eq!(asked(&mut ledger, 100_000), Micros(10 + 2 * 4096), "after {n} answers");
        ledger.note_answer(&client("c"), &"m".into(), 10_000);
    }
    assert_eq!(asked(&mut ledger, 100_000), Micros(10 + 2 * 15_000));
    assert_eq!(asked(&mut ledger, 300), Micros(10 + 2 * 300), "never more than allowed");
    let other =
        Order { account: AccountId(0), principal: &client("d"), ask: &ask(10, 9_999), counted: Counted::NotYet };
    ledger.reserve(LeaseId(9), other, NOON);
    assert_eq!(ledger.set_aside_for(LeaseId(9)), Micros(10 + 2 * 4096), "another asker's answers say nothing");
}

#[test]
fn a_stream_that_passes_what_was_set_aside_adds_to_it_even_over_the_cap() {
    let mut ledger = keys(money(0.001), Cap::default());
    assert!(grant(&mut ledger, 1, &nobody(), &ask(100, 100), NOON));
    assert_eq!(ledger.extend(LeaseId(1), Micros(5_000)), Some(Micros(5_000)));
    assert_eq!(ledger.extend(LeaseId(1), Micros(1)), Some(Micros(5_000)), "it never shrinks");
    assert_eq!(spend(&mut ledger, NOON), (Micros::ZERO, Micros(5_000)));
    assert!(!affords(&mut ledger, &nobody(), &ask(0, 0), NOON), "there is less than nothing left");
    settle(&mut ledger, 1, &nobody(), Micros(7_000), NOON);
    assert_eq!(spend(&mut ledger, NOON), (Micros(7_000), Micros::ZERO));
    assert_eq!(ledger.extend(LeaseId(1), Micros(9_000)), None, "it is over");
}

/// C87, by the ledger.
#[test]
fn a_new_month_begins_with_nothing_spent_and_with_what_is_set_aside() {
    let mut ledger = Ledger::default();
    let mut fleet = roster([account(0, CredentialKind::ApiKey, money(1.0))], &[]);
    fleet.billing = BillingCycle::new("Asia/Shanghai", 1).expect("a zone");
    let (before, then) = (Wall::from_secs(1_788_191_999), Wall::from_secs(1_788_192_000));
    ledger.configure(&fleet, before);
    ledger.load(&[spent("account:inline:anthropic:a0", "2026-08-01", dollars(0.999_990))]);
    assert!(grant(&mut ledger, 1, &nobody(), &ask(10, 0), before));
    assert!(!affords(&mut ledger, &nobody(), &ask(1, 0), before));
    assert!(affords(&mut ledger, &nobody(), &ask(999_990, 0), then));
    assert!(!affords(&mut ledger, &nobody(), &ask(999_991, 0), then), "what is set aside counts in it");
    let settled = settle(&mut ledger, 1, &nobody(), Micros(10), then);
    assert_eq!((settled.charges[0].month.as_str(), settled.day.as_str()), ("2026-09-01", "2026-09-01"));
    assert!(!affords(&mut ledger, &nobody(), &ask(11, 0), before), "a clock set back finds the old month as it was");
}

#[test]
fn a_charge_names_each_budget_and_a_request_is_counted_once_for_who_asks() {
    let mut ledger = keys(Cap::default(), Cap::default());
    let who = Principal { client: Some("c".into()), agent: Some("g".into()), job: None };
    let order = Order { account: AccountId(0), principal: &who, ask: &ask(10, 0), counted: Counted::NotYet };
    ledger.reserve(LeaseId(1), order, NOON);
    let bill = Bill {
        lease: LeaseId(1),
        account: AccountId(0),
        principal: &who,
        value: Micros::ZERO,
        counted: Counted::NotYet,
        then: Then::Again,
    };
    let told = |settled: Settled| -> Vec<_> {
        settled.charges.iter().map(|c| (c.budget.to_string(), c.amount.0, c.requests)).collect()
    };
    let named = |name: &str, amount, requests| (name.to_owned(), amount, requests);
    let first = ledger.settle(bill, NOON).expect("it is known");
    assert_eq!(first.identity, identity(0));
    assert_eq!(
        told(first),
        [named("account:inline:anthropic:a0", 0, 1), named("client:c", 0, 1), named("agent:g", 0, 1)]
    );
    assert_eq!(ledger.set_aside_for(LeaseId(1)), Micros(10), "the lease is sent once more");
    let again = Bill { value: Micros(7), counted: Counted::Already, then: Then::Over, ..bill };
    assert_eq!(
        told(ledger.settle(again, NOON).expect("it is known")),
        [named("account:inline:anthropic:a0", 7, 1), named("client:c", 7, 0), named("agent:g", 7, 0)]
    );
    assert_eq!(ledger.set_aside_for(LeaseId(1)), Micros::ZERO);
}

#[test]
fn a_clients_requests_are_counted_with_those_in_flight() {
    let mut ledger = keys(Cap::default(), requests(3));
    let small = ask(1, 1);
    assert_eq!((0..5).filter(|lease| grant(&mut ledger, *lease, &client("c"), &small, NOON)).count(), 3);
    settle(&mut ledger, 0, &client("c"), Micros(1), NOON);
    assert!(!affords(&mut ledger, &client("c"), &small, NOON));
    ledger.release(LeaseId(1));
    assert!(affords(&mut ledger, &client("c"), &small, NOON), "one that was never sent is not counted");
    assert!(affords(&mut ledger, &client("other"), &small, NOON));
    let mut money = Money::default();
    ledger.settle(
        Bill {
            lease: LeaseId(1),
            account: AccountId(0),
            principal: &client("c"),
            value: Micros(1),
            counted: Counted::NotYet,
            then: Then::Over,
        },
        NOON,
    );
    ledger.inform(&mut money, &client("c"), Some(&small), Counted::Already, NOON);
    assert!(money.affords(AccountId(0), Metered::Yes), "the next attempt of a request that is counted already");
}

#[test]
fn a_subscription_costs_nothing_whatever_its_budget_says() {
    let mut ledger = Ledger::default();
    ledger.configure(&roster([account(0, CredentialKind::Oauth, money(0.0))], &[("c", money(0.0))]), NOON);
    let mut money = Money::default();
    ledger.inform(&mut money, &client("c"), Some(&ask(1_000, 1_000)), Counted::NotYet, NOON);
    assert!(money.affords(AccountId(0), Metered::No));
    assert!(!money.affords(AccountId(0), Metered::Yes), "on a key it would");
    assert!(!ledger.is_reached(AccountId(0), NOON));
    let settled = settle(&mut ledger, 1, &client("c"), dollars(3.0), NOON);
    assert_eq!(settled.cost, Micros::ZERO);
    assert_eq!(spend(&mut ledger, NOON).0, Micros::ZERO);
}

#[test]
fn a_cap_is_reached_when_it_is_spent_and_not_before() {
    let mut ledger = keys(money(1.0), Cap::default());
    assert!(grant(&mut ledger, 1, &nobody(), &ask(999_999, 0), NOON));
    assert!(!ledger.is_reached(AccountId(0), NOON), "set aside is not spent");
    settle(&mut ledger, 1, &nobody(), dollars(1.0), NOON);
    assert!(ledger.is_reached(AccountId(0), NOON) && ledger.take_news(NOON));
    ledger.configure(&roster([account(0, CredentialKind::ApiKey, money(2.0))], &[]), NOON);
    assert!(!ledger.is_reached(AccountId(0), NOON) && ledger.take_news(NOON), "raised");
    ledger.configure(&roster([account(0, CredentialKind::ApiKey, money(1.0))], &[]), NOON);
    assert!(ledger.is_reached(AccountId(0), NOON), "what was spent survives a reload");
    let december = Wall(NOON.0 + 21 * DAY);
    assert!(!ledger.is_reached(AccountId(0), december) && ledger.take_news(december));
}

#[test]
fn what_is_known_of_an_account_goes_with_it_to_its_better_name() {
    let mut ledger = keys(money(1.0), Cap::default());
    assert!(grant(&mut ledger, 1, &nobody(), &ask(100, 0), NOON));
    settle(&mut ledger, 9, &nobody(), Micros(50), NOON);
    let mut known = account(0, CredentialKind::ApiKey, money(1.0));
    known.identity = IdentityKey::Verified { family: Family::Claude, uuid: "u".to_owned(), organization: None };
    let renamed = ledger.configure(&roster([known], &[]), NOON);
    let expected = Renamed { was: "account:inline:anthropic:a0".into(), is: "account:verified:claude:u".into() };
    assert_eq!(renamed, [expected]);
    assert_eq!(spend(&mut ledger, NOON), (Micros(50), Micros(100)));
    let settled = settle(&mut ledger, 1, &nobody(), Micros(70), NOON);
    assert_eq!(&*settled.charges[0].budget, "account:verified:claude:u");
    assert_eq!(spend(&mut ledger, NOON), (Micros(120), Micros::ZERO));
}

#[test]
fn two_accounts_that_are_one_have_one_budget() {
    let mut ledger = Ledger::default();
    let both = [account(0, CredentialKind::ApiKey, money(1.0)), account(1, CredentialKind::ApiKey, money(1.0))];
    ledger.configure(&roster(both, &[]), NOON);
    assert!(grant(&mut ledger, 1, &nobody(), &ask(100, 0), NOON));
    let renamed = ledger.join(AccountId(0), AccountId(1)).expect("they were two");
    assert_eq!(&*renamed.is, "account:inline:anthropic:a1");
    settle(&mut ledger, 1, &nobody(), Micros(70), NOON);
    assert_eq!(ledger.account(AccountId(1), NOON).expect("it is there").spent.money, Micros(70));
    assert_eq!(ledger.join(AccountId(0), AccountId(1)), None, "they are one");
}
