//! Budgets in the plan: who is removed, what is said, what accounts hear.

use std::sync::Arc;

use super::world::*;
use crate::clock::{Deadline, Timestamp, Wall};
use crate::failover::admission::BudgetNews;
use crate::failover::demand::{Ask, Counted, Demand, Exhausted, Remedy, Spent, Why};
use crate::failover::explain::Place;
use crate::failover::ledger::{Bill, Limit, OverBudget, Then, Whose};
use crate::failover::{Admission, Effect};
use crate::id::{CredentialKind, LeaseId, Principal};
use crate::money::Micros;
use crate::outcome::{CallKind, Cause};
use crate::price::{Picos, Price, Priced, Rates};
use crate::roster::{Cap, Roster, Strategy};
use crate::rows::PriceBasis;
use crate::standing::{HoldKind, Stated};

fn dollars(dollars: f64) -> Micros {
    Micros::of_dollars(dollars).expect("an amount")
}

fn cap(amount: f64) -> Cap {
    Cap { money: Some(dollars(amount)), requests: None }
}

/// A request that costs so many dollars on a key.
fn asking(amount: f64) -> Demand {
    let rates = Rates { input: Picos(1_000_000), ..Rates::default() };
    let priced = Priced { price: Arc::new(Price::new(rates, Vec::new())), basis: PriceBasis::Listed };
    let input = u64::try_from(dollars(amount).0).expect("no debt");
    let ask = Ask { model: "m".into(), priced, input, max_output: Some(0) };
    let principal = Principal { client: Some("laptop".into()), ..Principal::default() };
    Demand { ask: Some(Arc::new(ask)), principal: Arc::new(principal), ..demand() }
}

/// So many keys, the first of them with a budget of a dollar.
fn keys(count: u32) -> Roster {
    let mut fleet = roster(count);
    fleet.accounts.values_mut().for_each(|spec| spec.kind = CredentialKind::ApiKey);
    fleet.accounts.get_mut(&id(0)).expect("it is there").budget = cap(1.0);
    fleet
}

/// One request on account 0 that costs so much in the end.
fn spend(desk: &mut Desk, amount: f64, now: Timestamp) {
    let principal = Principal::default();
    let bill = Bill {
        lease: LeaseId(u64::MAX),
        account: id(0),
        principal: &principal,
        value: dollars(amount),
        counted: Counted::NotYet,
        then: Then::Over,
    };
    desk.book.ledger().settle(bill, now.wall);
    desk.settle(now);
}

fn told(desk: &mut Desk) -> Vec<(u32, BudgetNews)> {
    let news = |effect| match effect {
        Effect::Tell(account, news) => Some((account.0, news)),
        Effect::Admit(..) | Effect::Emit { .. } | Effect::Remember(_) | Effect::Forget(_) | Effect::Rename(_) => None,
    };
    desk.take_effects().into_iter().filter_map(news).collect()
}

fn month_end() -> Wall {
    // T0 is 2027-01-15, 08:00 UTC.
    Wall(1_801_440_000_000)
}

fn the_why(exhausted: &Exhausted) -> Why {
    let [reason] = &exhausted.reasons[..] else { panic!("one account, one reason: {exhausted:?}") };
    reason.why.clone()
}

#[test]
fn an_account_whose_budget_a_request_would_exceed_is_passed_over_for_it_alone() {
    let mut desk = Desk::new(&keys(2));
    let (first, held) = desk.grant(&asking(0.7), t0());
    assert_eq!(first.account, id(0));
    assert_eq!(desk.look(&asking(0.4), t0()), 1, "0.7 is set aside");
    let side = Demand { call: CallKind::Side, ask: None, ..asking(0.4) };
    let spent = Remedy::Spent { returns: Some(Deadline::Wall(month_end())) };
    assert_eq!(desk.refuse(&Demand { tried: vec![id(1)], ..asking(0.4) }, t0()).remedy, spent);
    assert_eq!(desk.look(&Demand { tried: vec![id(1)], ..asking(0.3) }, t0()), 0, "a smaller one fits");
    assert_eq!(desk.look(&Demand { tried: vec![id(1)], ..side }, t0()), 0, "what is never charged for asks no budget");
    drop(held);
    assert_eq!(desk.look(&Demand { tried: vec![id(1)], ..asking(1.0) }, t0()), 0, "what was not sent is given back");
}

#[test]
fn a_fleet_out_of_its_own_budgets_says_which_and_when_they_begin_anew() {
    let mut desk = Desk::new(&keys(1));
    spend(&mut desk, 0.9, t0());
    let refused = desk.refuse(&asking(0.2), t0());
    let limit = Limit::Money { cap: dollars(1.0), left: dollars(0.1), asked: dollars(0.2) };
    let over = OverBudget { whose: Whose::Account, limit, resets: month_end() };
    assert_eq!(the_why(&refused), Why::OverBudget(over));
    let until = Some(Deadline::Wall(month_end()));
    let Remedy::Wait { until: told, stated: Stated::ByProvider, .. } = refused.remedy else { panic!("{refused:?}") };
    assert_eq!(told, until, "the calendar is as good as a provider's word");
    let explained = desk.machine.explain(&asking(0.2), t0());
    assert_eq!(explained[0].place, Place::Out(Why::OverBudget(over)));
    assert_eq!(desk.look(&asking(0.2), Timestamp { wall: month_end(), ..t0() }), 0);
}

#[test]
fn who_has_spent_a_budget_is_told_so_whatever_account_is_left() {
    let mut fleet = keys(2);
    fleet.clients.insert("laptop".into(), cap(0.5));
    let mut desk = Desk::new(&fleet);
    let (_, held) = desk.grant(&asking(0.3), t0());
    held.sent();
    let refused = desk.refuse(&asking(0.3), t0());
    let limit = Limit::Money { cap: dollars(0.5), left: dollars(0.2), asked: dollars(0.3) };
    let over = OverBudget { whose: Whose::Client, limit, resets: month_end() };
    assert_eq!(refused.remedy, Remedy::Budget(over));
    let other = Demand { principal: Arc::default(), ..asking(0.3) };
    desk.look(&other, t0());
    fleet.accounts.get_mut(&id(1)).expect("it is there").kind = CredentialKind::Oauth;
    let effects = desk.machine.reload(&fleet, t0());
    assert_eq!(effects, []);
    assert_eq!(desk.look(&asking(0.3), t0()), 1, "a subscription costs nothing");
    desk.tell(1, t0(), |s| s.holds = vec![limited(t0(), 600)]);
    let Remedy::Wait { until, .. } = desk.refuse(&asking(0.3), t0()).remedy else { panic!("it waits") };
    assert_eq!(until, Some(after(600)), "the subscription comes back before the month ends");
}

#[test]
fn a_clients_requests_are_limited_on_every_account_and_each_is_counted_once() {
    let mut fleet = roster(2);
    fleet.clients.insert("laptop".into(), Cap { money: None, requests: Some(2) });
    let mut desk = Desk::new(&fleet);
    let (first, guard) = desk.grant(&asking(0.0), t0());
    guard.sent();
    let (_, unsent) = desk.grant(&asking(0.0), t0());
    let over = OverBudget { whose: Whose::Client, limit: Limit::Requests { cap: 2 }, resets: month_end() };
    assert_eq!(desk.refuse(&asking(0.0), t0()).remedy, Remedy::Budget(over));
    let spent = Spent { counted: Counted::Already, ..Spent::default() };
    let failover = Demand { spent, ..next(&asking(0.0), &first, 1, fault(), t0()) };
    assert_eq!(desk.look(&failover, t0()), 1, "the same request goes on");
    drop(unsent);
    desk.look(&asking(0.0), t0());
}

#[test]
fn an_account_hears_once_that_its_cap_is_reached_and_once_that_it_is_not() {
    let mut desk = Desk::new(&keys(2));
    desk.tell(0, t0(), |_| ());
    assert_eq!(told(&mut desk), []);
    spend(&mut desk, 1.0, t0());
    let cycle_ends = Deadline::Wall(month_end());
    assert_eq!(told(&mut desk), [(0, BudgetNews::Reached { cycle_ends })]);
    spend(&mut desk, 0.1, t0());
    desk.tell(0, t0(), |_| ());
    assert_eq!(told(&mut desk), [], "it has not spoken of it yet");
    let held = hold(HoldKind::BudgetExhausted, Cause::Budget, t0(), after(86_400), Stated::Guessed);
    desk.tell(0, t0(), |s| s.holds = vec![held]);
    let a_day_later = at(86_400.0);
    desk.tell(0, a_day_later, |_| ());
    assert_eq!(told(&mut desk), [(0, BudgetNews::Reached { cycle_ends })], "its day is over, the cap is reached still");
    desk.tell(0, a_day_later, |s| s.holds = vec![held_until(a_day_later)]);
    let mut raised = keys(2);
    raised.accounts.get_mut(&id(0)).expect("it is there").budget = cap(5.0);
    let effects = desk.machine.reload(&raised, a_day_later);
    assert_eq!(effects, [Effect::Tell(id(0), BudgetNews::Raised)]);
    desk.tell(0, a_day_later, |_| ());
    assert_eq!(told(&mut desk), []);
}

#[test]
fn a_new_month_is_heard_of_when_it_begins() {
    let mut desk = Desk::new(&keys(1));
    spend(&mut desk, 1.0, t0());
    desk.tell(0, t0(), |s| s.holds = vec![held_until(t0())]);
    told(&mut desk);
    assert_eq!(desk.machine.next_deadline(t0()), Some(Deadline::Wall(month_end())));
    desk.tick(Timestamp { wall: month_end(), boot: t0().boot });
    assert_eq!(told(&mut desk), [(0, BudgetNews::Raised)]);
}

#[test]
fn a_machine_that_comes_after_finds_what_was_set_aside_and_spent() {
    let fleet = keys(1);
    let mut desk = Desk::new(&fleet);
    spend(&mut desk, 0.4, t0());
    let (_, held) = desk.grant(&asking(0.4), t0());
    held.sent();
    desk.machine = Admission::new(&fleet, Arc::clone(&desk.book), t0());
    assert!(matches!(the_why(&desk.refuse(&asking(0.3), t0())), Why::OverBudget(_)));
    drop(held);
    desk.look(&asking(0.6), t0());
    let (granted, _) = desk.machine.lease(&asking(0.6), t0());
    desk.machine = Admission::new(&fleet, Arc::clone(&desk.book), t0());
    desk.look(&asking(0.6), t0());
    drop(granted);
}

#[test]
fn least_cost_takes_the_key_of_whose_budget_most_is_left() {
    let mut fleet = keys(4);
    fleet.upstreams[0].strategy = Strategy::LeastCost;
    for (n, amount) in [(0, 1.0), (1, 3.0), (2, 2.0)] {
        fleet.accounts.get_mut(&id(n)).expect("it is there").budget = cap(amount);
    }
    let order = |desk: &mut Desk| -> Vec<u32> {
        desk.machine.explain(&asking(0.1), t0()).into_iter().map(|ranked| ranked.account.0).collect()
    };
    let mut desk = Desk::new(&fleet);
    assert_eq!(order(&mut desk), [3, 1, 2, 0], "without a budget there is no end of it");
    fleet.accounts.get_mut(&id(0)).expect("it is there").kind = CredentialKind::SetupToken;
    let mut desk = Desk::new(&fleet);
    assert_eq!(order(&mut desk), [0, 3, 1, 2], "a subscription before all keys");
}

#[test]
fn who_waits_in_a_queue_is_planned_anew_when_the_budget_is_gone() {
    let mut fleet = keys(1);
    fleet.accounts.get_mut(&id(0)).expect("it is there").max_concurrent = Some(1);
    let mut desk = Desk::new(&fleet);
    let (_, held) = desk.grant(&asking(0.5), t0());
    held.sent();
    let crate::failover::demand::Decision::Queued(ticket) = desk.ask(&asking(0.5), t0()) else { panic!("it waits") };
    let bill = Bill {
        lease: held.lease(),
        account: id(0),
        principal: &Principal::default(),
        value: dollars(0.8),
        counted: Counted::NotYet,
        then: Then::Over,
    };
    desk.book.ledger().settle(bill, t0().wall);
    drop(held);
    desk.settle(t0());
    let effects = desk.take_effects();
    let [Effect::Admit(admitted, crate::failover::demand::Decision::Exhausted(_))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(*admitted, ticket);
}

fn held_until(began: Timestamp) -> crate::standing::Hold {
    let until = Deadline::after(began, std::time::Duration::from_secs(86_400));
    hold(HoldKind::BudgetExhausted, Cause::Budget, began, until, Stated::Guessed)
}
