//! Held accounts are used through their probe slots alone.

use std::time::Duration;

use super::world::*;
use crate::clock::Deadline;
use crate::failover::demand::{Demand, Gate, Once, Remedy, Spent};
use crate::id::Window;
use crate::standing::Stated;

#[test]
fn a_held_account_is_not_asked_at_once() {
    let mut desk = Desk::of(1);
    desk.tell(0, t0(), |s| s.holds = vec![erroring(t0(), 30)]);
    desk.refuse(&demand(), at(0.9));
    let (grant, guard) = desk.grant(&demand(), at(1.0));
    assert_eq!(grant.gate, Gate::Probe);
    guard.sent();
    desk.refuse(&demand(), at(1.5));
    drop(guard);
    desk.settle(at(1.5));
    desk.refuse(&demand(), at(3.4));
    assert_eq!(desk.look(&demand(), at(3.5)), 0, "2 s after the refused probe");
}

/// C01: a stated end is a measurement: the account is left alone, but for a probe a minute.
#[test]
fn with_a_stated_end_ahead_a_probe_is_due_once_a_minute() {
    let mut desk = Desk::of(1);
    desk.tell(0, t0(), |s| s.holds = vec![limited(t0(), 7999)]);
    let mut probes = 0;
    for second in 0..600 {
        if let crate::failover::demand::Decision::Granted(grant) = desk.ask(&demand(), at(f64::from(second))) {
            let guard = desk.book.guard(grant.lease);
            guard.sent();
            drop(guard);
            desk.settle(at(f64::from(second)));
            probes += 1;
        }
    }
    assert_eq!(probes, 9);
}

#[test]
fn an_account_in_a_hold_is_used_only_when_all_better_bands_are_empty() {
    let mut desk = Desk::of(3);
    desk.tell(0, t0(), |s| s.holds = vec![erroring(t0(), 300)]);
    desk.tell(1, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.99, 9000)]));
    desk.tell(2, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.95, 9000)]));
    let tried = |tried: &[u32]| Demand { tried: tried.iter().map(|n| id(*n)).collect(), ..demand() };
    assert_eq!(desk.look(&tried(&[]), at(10.0)), 2);
    assert_eq!(desk.look(&tried(&[2]), at(10.0)), 1);
    assert_eq!(desk.look(&tried(&[1, 2]), at(10.0)), 0);
}

#[test]
fn one_request_spends_one_probe() {
    let mut desk = Desk::of(2);
    for n in 0..2 {
        desk.tell(n, t0(), |s| s.holds = vec![erroring(t0(), 300)]);
    }
    let (first, guard) = desk.grant(&demand(), at(10.0));
    guard.sent();
    drop(guard);
    let spent = Spent { probe: Once::Used, ..Spent::default() };
    let second = Demand { spent, ..next(&demand(), &first, 1, fault(), at(10.0)) };
    let exhausted = desk.refuse(&second, at(10.0));
    assert!(matches!(exhausted.remedy, Remedy::BackOff { until } if until == after(300)), "{exhausted:?}");
    assert_ne!(desk.look(&demand(), at(10.0)), first.account.0, "another request has its own");
}

#[test]
fn probes_are_shared_by_all_requests() {
    let mut desk = Desk::of(3);
    for n in 0..3 {
        desk.tell(n, t0(), |s| s.holds = vec![limited(t0(), 9000)]);
    }
    let granted: Vec<_> = (0..3).map(|key| desk.grant(&conversation(key), at(60.0))).collect();
    let mut accounts: Vec<u32> = granted.iter().map(|(grant, _)| grant.account.0).collect();
    accounts.sort_unstable();
    assert_eq!(accounts, [0, 1, 2]);
    let exhausted = desk.refuse(&conversation(9), at(60.0));
    assert!(matches!(exhausted.remedy, Remedy::Wait { stated: Stated::ByProvider, .. }), "{exhausted:?}");
}

#[test]
fn who_must_wait_is_told_when_a_probe_is_due_before_an_end_that_is_a_guess() {
    let mut desk = Desk::of(2);
    desk.tell(0, t0(), |s| s.holds = vec![erroring(t0(), 300)]);
    desk.tell(1, t0(), |s| s.holds = vec![limited(t0(), 300)]);
    assert_eq!(desk.refuse(&demand(), t0()).probe, Some(after(1)));
    let (_, guard) = desk.grant(&demand(), at(1.0));
    guard.sent();
    assert_eq!(desk.refuse(&demand(), at(1.0)).probe, Some(after(2)), "another's is under way");
    drop(guard);
    desk.settle(at(1.2));
    assert_eq!(desk.refuse(&demand(), at(1.2)).probe, Some(Deadline::after(at(1.2), Duration::from_secs(2))));
    desk.tell(0, at(2.0), |s| s.holds = vec![limited(t0(), 300)]);
    assert_eq!(desk.refuse(&demand(), at(2.0)).probe, None, "a stated end is waited for");
}

#[test]
fn an_unsent_probe_leaves_the_slot_as_it_was() {
    let mut desk = Desk::of(1);
    desk.tell(0, t0(), |s| s.holds = vec![erroring(t0(), 300)]);
    assert_eq!((desk.look(&demand(), at(1.0)), desk.look(&demand(), at(1.0))), (0, 0));
}

#[test]
fn when_the_hold_has_ended_the_account_serves_as_before() {
    let mut desk = Desk::of(1);
    desk.tell(0, t0(), |s| s.holds = vec![limited(t0(), 30)]);
    let (grant, _guard) = desk.grant(&demand(), at(30.0));
    assert_eq!(grant.gate, Gate::Open);
}
