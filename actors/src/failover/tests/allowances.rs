//! Allowances, queues, breathers and the retry budget.

use super::world::*;
use crate::failover::Effect;
use crate::failover::book::{Flow, LeaseGuard};
use crate::failover::demand::{Decision, Demand, Once, Remedy, Spent, Step, Ticket, Why};
use crate::roster::{Roster, Strategy};

fn ramped(count: u32, initial: u32) -> Roster {
    let mut fleet = roster(count);
    fleet.pool.ramp_initial = initial;
    fleet.rotation.max_concurrent = 8;
    fleet
}

fn queued(desk: &mut Desk, wanted: &Demand, now: crate::clock::Timestamp) -> Ticket {
    match desk.ask(wanted, now) {
        Decision::Queued(ticket) => ticket,
        other @ (Decision::Granted(_) | Decision::NotBefore(_) | Decision::Exhausted(_)) => {
            panic!("not queued: {other:?}")
        }
    }
}

fn admitted(desk: &mut Desk) -> Vec<(Ticket, LeaseGuard)> {
    let effects = desk.take_effects();
    let granted = |effect| match effect {
        Effect::Admit(ticket, Decision::Granted(grant)) => Some((ticket, desk.book.guard(grant.lease))),
        Effect::Admit(..)
        | Effect::Emit { .. }
        | Effect::Remember(_)
        | Effect::Forget(_)
        | Effect::Tell(..)
        | Effect::Rename(_) => None,
    };
    effects.into_iter().filter_map(granted).collect()
}

#[test]
fn a_cold_account_admits_a_few_and_the_others_go_on() {
    let mut desk = Desk::new(&ramped(3, 2));
    let guards: Vec<_> = (0..6).map(|_| desk.grant(&demand(), t0()).1).collect();
    for n in 0..3 {
        assert_eq!(desk.book.tally(id(n)).slots, 2);
    }
    queued(&mut desk, &demand(), t0());
    drop(guards);
}

#[test]
fn each_success_doubles_the_allowance_and_frees_its_slot() {
    let mut desk = Desk::new(&ramped(1, 1));
    let (_, first) = desk.grant(&demand(), t0());
    let waits = queued(&mut desk, &demand(), t0());
    first.answered(Flow::Stream);
    desk.settle(t0());
    let mut admitted = admitted(&mut desk);
    assert_eq!(admitted[0].0, waits);
    let (_, second) = admitted.remove(0);
    let (_, third) = desk.grant(&demand(), t0());
    assert_eq!(desk.book.tally(id(0)).in_flight, 3, "one streams, two hold the slots");
    queued(&mut desk, &demand(), t0());
    drop((second, third));
}

#[test]
fn an_answer_that_comes_at_once_holds_its_slot_until_its_body_is_over() {
    let mut desk = Desk::of(1);
    let (_, guard) = desk.grant(&demand(), t0());
    guard.answered(Flow::Whole);
    assert_eq!(desk.book.tally(id(0)).slots, 1);
    guard.ended();
    assert_eq!(desk.book.tally(id(0)).slots, 0);
}

#[test]
fn a_local_server_admits_as_many_as_it_can_run() {
    let mut fleet = roster(1);
    fleet.accounts.get_mut(&id(0)).unwrap().max_concurrent = Some(2);
    let mut desk = Desk::new(&fleet);
    let (_, first) = desk.grant(&demand(), t0());
    first.answered(Flow::Stream);
    let (_, second) = desk.grant(&demand(), t0());
    let third = queued(&mut desk, &demand(), t0());
    drop(second);
    desk.settle(t0());
    let admitted = admitted(&mut desk);
    assert_eq!(admitted.iter().map(|(t, _)| *t).collect::<Vec<_>>(), [third]);
}

#[test]
fn waiters_go_first_in_first_out_and_no_newcomer_overtakes() {
    let mut desk = Desk::new(&ramped(1, 1));
    let (_, first) = desk.grant(&demand(), t0());
    let tickets: Vec<Ticket> = (0..3).map(|_| queued(&mut desk, &demand(), t0())).collect();
    drop(first);
    let newcomer = queued(&mut desk, &demand(), at(0.1));
    let mut served = Vec::new();
    for _ in 0..4 {
        let now = admitted(&mut desk);
        served.extend(now.iter().map(|(ticket, _)| *ticket));
        drop(now);
        desk.settle(at(0.2));
    }
    assert_eq!(served, [&tickets[..], &[newcomer]].concat());
}

#[test]
fn after_ten_seconds_one_waiter_is_admitted_every_50_ms() {
    let mut desk = Desk::new(&ramped(1, 1));
    let (_, first) = desk.grant(&demand(), t0());
    first.sent();
    let _waiters: Vec<Ticket> = (0..5).map(|_| queued(&mut desk, &demand(), t0())).collect();
    assert_eq!(desk.machine.next_deadline(t0()), Some(after(10)));
    let mut guards = Vec::new();
    let mut counts = Vec::new();
    for step in 0..8 {
        desk.tick(at(9.95 + 0.025 * f64::from(step)));
        guards.extend(admitted(&mut desk));
        counts.push(guards.len());
    }
    assert_eq!(counts, [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(desk.machine.next_deadline(at(10.125)), Some(crate::clock::Deadline::Boot(at(10.15).boot)));
}

#[test]
fn at_most_256_wait_for_an_account() {
    let mut desk = Desk::new(&ramped(1, 1));
    let (_, _guard) = desk.grant(&demand(), t0());
    let _waiters: Vec<Ticket> = (0..256).map(|_| queued(&mut desk, &demand(), t0())).collect();
    let exhausted = desk.refuse(&demand(), t0());
    assert_eq!(exhausted.reasons[0].why, Why::Busy);
    assert!(matches!(exhausted.remedy, Remedy::BackOff { .. }));
}

#[test]
fn an_asker_that_went_away_waits_no_more() {
    let mut desk = Desk::new(&ramped(1, 1));
    let (_, guard) = desk.grant(&demand(), t0());
    let gone = queued(&mut desk, &demand(), t0());
    let stays = queued(&mut desk, &demand(), t0());
    desk.machine.cancel(gone);
    drop(guard);
    desk.settle(t0());
    assert_eq!(admitted(&mut desk).iter().map(|(t, _)| *t).collect::<Vec<_>>(), [stays]);
}

#[test]
fn a_refusal_plans_every_waiter_anew() {
    let mut desk = Desk::new(&ramped(2, 1));
    let (first, one) = desk.grant(&demand(), t0());
    let (_, two) = desk.grant(&demand(), t0());
    let waits: Vec<Ticket> = (0..3).map(|_| queued(&mut desk, &demand(), t0())).collect();
    one.sent();
    for n in 0..2 {
        desk.tell(n, at(1.0), |s| s.holds = vec![limited(at(1.0), 600)]);
    }
    let answers = desk.take_effects();
    assert_eq!(answers.len(), 3);
    for (effect, ticket) in answers.iter().zip(&waits) {
        assert!(matches!(effect, Effect::Admit(t, Decision::Exhausted(_)) if t == ticket), "{effect:?}");
    }
    drop((first, one, two));
}

#[test]
fn the_last_candidate_paces_and_a_place_that_comes_free_elsewhere_is_taken() {
    let mut fleet = ramped(2, 1);
    fleet.upstreams[0].strategy = Strategy::Failover;
    for free in 0..2 {
        let mut desk = Desk::new(&fleet);
        let mut busy = vec![desk.grant(&demand(), t0()).1, desk.grant(&demand(), t0()).1];
        busy.iter().for_each(LeaseGuard::sent);
        let ticket = queued(&mut desk, &demand(), t0());
        assert_eq!(desk.machine.snapshot(t0()).accounts[1].waiting, 1);
        drop(busy.remove(free));
        desk.settle(t0());
        assert_eq!(admitted(&mut desk)[0].0, ticket);
        assert_eq!(desk.book.tally(id(free as u32)).slots, 0, "the admitted one was dropped at once");
    }
}

#[test]
fn a_failover_storm_onto_a_busy_account_is_bounded() {
    let mut desk = Desk::new(&ramped(2, 2));
    for _ in 0..8 {
        desk.serve(&Demand { tried: vec![id(0)], ..demand() }, t0());
    }
    let (_, busy) = desk.grant(&Demand { tried: vec![id(0)], ..demand() }, t0());
    busy.sent();
    let storm = Demand { tried: vec![id(0)], step: Step::Next, ..demand() };
    let mut granted = Vec::new();
    for _ in 0..20 {
        if let Decision::Granted(grant) = desk.ask(&storm, t0()) {
            let guard = desk.book.guard(grant.lease);
            guard.sent();
            granted.push(guard);
        }
    }
    assert_eq!(granted.len(), 2, "in flight + 2");
}

#[test]
fn a_bound_conversation_waits_out_a_breather_and_others_go_elsewhere() {
    let mut desk = Desk::of(2);
    let home = desk.serve(&conversation(1), t0()).account;
    let (grant, guard) = desk.grant(&conversation(1), at(1.0));
    guard.sent();
    drop(guard);
    let again = next(&conversation(1), &grant, 1, throttled(Some(7)), at(1.0));
    let wait = desk.wait(&again, at(1.0));
    assert_eq!((wait.account, wait.at), (home, after(8)));
    for key in 20..30 {
        assert_ne!(desk.look(&conversation(key), at(2.0)), home.0, "unbound");
    }
    let spent = Spent { breather: Once::Used, ..Spent::default() };
    let waited = Demand { step: Step::Again(home), spent, ..again.clone() };
    let (back, guard) = desk.grant(&waited, at(8.0));
    assert_eq!((back.account, &back.moved_from), (home, &None));
    drop(guard);
    let twice = Demand { step: Step::Next, spent, ..next(&conversation(1), &back, 2, throttled(Some(7)), at(8.1)) };
    assert_ne!(desk.look(&twice, at(8.1)), home.0, "it is waited out once");
}

#[test]
fn where_nothing_else_is_usable_a_breather_is_a_stated_wait() {
    let mut desk = Desk::of(2);
    desk.tell(0, t0(), |s| s.breather = Some(after(7)));
    desk.tell(1, t0(), |s| s.holds = vec![limited(t0(), 9000)]);
    let exhausted = desk.refuse(&demand(), at(1.0));
    let Remedy::Wait { until, stated, .. } = exhausted.remedy else { panic!("{exhausted:?}") };
    assert_eq!((until, stated), (Some(after(7)), crate::standing::Stated::ByProvider));
}

#[test]
fn the_same_account_again_only_if_it_is_not_held() {
    let mut desk = Desk::of(2);
    desk.tell(0, t0(), |s| s.holds = vec![erroring(t0(), 60)]);
    let again = Demand { step: Step::Again(id(0)), tried: vec![id(0)], ..demand() };
    assert_eq!(desk.look(&again, at(5.0)), 1);
    desk.tell(0, at(6.0), |_| ());
    assert_eq!(desk.look(&again, at(6.0)), 0);
}

#[test]
fn further_attempts_draw_on_the_retry_budget_and_the_first_move_is_free() {
    let mut desk = Desk::of(3);
    let moved = Demand { tried: vec![id(0)], step: Step::Next, ..demand() };
    for _ in 0..40 {
        desk.serve(&moved, t0());
    }
    let further = Demand { tried: vec![id(0), id(1)], step: Step::Next, ..demand() };
    assert_eq!(desk.look(&further, t0()), 2, "an attempt that is not sent draws nothing");
    for _ in 0..10 {
        desk.serve(&further, t0());
    }
    let exhausted = desk.refuse(&further, t0());
    assert_eq!(exhausted.remedy, Remedy::Spent { returns: None });
    assert_eq!(exhausted.reasons[2].why, Why::RetryBudget);
    let again = Demand { step: Step::Again(id(2)), ..further.clone() };
    assert_eq!(desk.look(&again, t0()), 2, "the same account once more draws on none");
    assert_eq!(desk.look(&further, at(10.0)), 2);
}

#[test]
fn a_request_that_rested_draws_on_the_retry_budget_and_one_that_an_account_returned_to_does_not() {
    let mut desk = Desk::of(3);
    let spent = Spent { free_move: Once::Used, ..Spent::default() };
    let rested = Demand { step: Step::Rested, spent, ..demand() };
    for _ in 0..10 {
        desk.serve(&rested, t0());
    }
    assert_eq!(desk.refuse(&rested, t0()).remedy, Remedy::Spent { returns: None });
    let returned = Demand { step: Step::Returned, spent, ..demand() };
    for _ in 0..100 {
        desk.serve(&returned, t0());
    }
    let moved = Demand { tried: vec![id(0)], step: Step::Next, ..returned };
    assert_eq!(desk.refuse(&moved, t0()).remedy, Remedy::Spent { returns: None }, "its free move is gone");
    assert_eq!(desk.refuse(&rested, t0()).remedy, Remedy::Spent { returns: None }, "none of it counts as a request");
    desk.look(&rested, at(10.0));
}

/// C03: a bare 429 on every account: one hop a request, and a short rest, so that five requests do not make twenty calls.
#[test]
fn a_429_that_states_nothing_allows_one_hop() {
    let mut desk = Desk::of(4);
    let mut calls = 0;
    let mut evidence = 0;
    for request in 0..5 {
        let now = at(f64::from(request) * 0.2);
        let mut wanted = demand();
        while let Decision::Granted(grant) = desk.ask(&wanted, now) {
            let guard = desk.book.guard(grant.lease);
            guard.sent();
            drop(guard);
            calls += 1;
            evidence += 1;
            let mut spent = wanted.spent;
            spent.unstated_hops += u8::from(wanted.step == Step::Next);
            wanted = Demand { spent, ..next(&wanted, &grant, evidence, throttled(None), now) };
        }
    }
    assert_eq!(calls, 4);
}
