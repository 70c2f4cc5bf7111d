//! The book of leases, reloads and restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::world::*;
use crate::failover::book::{Flow, LeaseBook};
use crate::failover::demand::{Decision, Demand};
use crate::failover::{Admission, Tally};
use crate::id::{Family, IdentityKey};

#[test]
fn a_guard_that_is_dropped_anywhere_is_returned() {
    let mut desk = Desk::of(1);
    let (_, unsent) = desk.grant(&demand(), t0());
    let (_, sent) = desk.grant(&demand(), t0());
    let (_, answered) = desk.grant(&demand(), t0());
    sent.sent();
    answered.answered(Flow::Stream);
    let tally = Tally { in_flight: 3, unsent: 1, slots: 2, probes: 0, side: 0 };
    assert_eq!(desk.book.tally(id(0)), tally);
    std::thread::spawn(move || drop((unsent, sent, answered))).join().expect("the thread ends well");
    assert!(desk.book.is_empty() && desk.book.tally(id(0)).is_idle());
}

#[test]
fn a_machine_is_woken_by_an_end_and_by_nothing_that_it_sees_in_time_anyway() {
    let (book, woken) = counted_book();
    let mut machine = Admission::new(&roster(1), Arc::clone(&book), t0());
    let (Decision::Granted(grant), _) = machine.lease(&demand(), t0()) else { panic!("granted") };
    let guard = book.guard(grant.lease);
    guard.sent();
    guard.answered(Flow::Whole);
    assert_eq!(woken.load(Ordering::SeqCst), 0, "the next lease or standing comes with a look");
    drop(guard);
    assert_eq!(woken.load(Ordering::SeqCst), 1);
}

#[test]
fn a_machine_for_whose_places_someone_waits_is_woken_by_each_step_once_until_it_looks() {
    let (book, woken) = counted_book();
    let mut fleet = roster(1);
    fleet.accounts.get_mut(&id(0)).unwrap().max_concurrent = Some(1);
    let mut machine = Admission::new(&fleet, Arc::clone(&book), t0());
    let (Decision::Granted(grant), _) = machine.lease(&demand(), t0()) else { panic!("granted") };
    let guard = book.guard(grant.lease);
    guard.sent();
    let (Decision::Queued(_), _) = machine.lease(&demand(), t0()) else { panic!("the place is taken") };
    guard.answered(Flow::Whole);
    drop(guard);
    assert_eq!(woken.load(Ordering::SeqCst), 1, "it has been called and not looked yet");
    let admitted = machine.settle(t0());
    let [crate::failover::Effect::Admit(_, Decision::Granted(next))] = &admitted[..] else { panic!("{admitted:?}") };
    book.guard(next.lease).sent();
    assert_eq!(woken.load(Ordering::SeqCst), 2, "nobody waits now: the sending waits, the end does not");
}

fn counted_book() -> (Arc<LeaseBook>, Arc<AtomicU32>) {
    let woken = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&woken);
    let book = LeaseBook::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    (book, woken)
}

#[test]
fn a_machine_that_was_started_again_finds_its_leases() {
    let mut fleet = roster(1);
    fleet.accounts.get_mut(&id(0)).unwrap().max_concurrent = Some(1);
    let mut desk = Desk::new(&fleet);
    let (_, guard) = desk.grant(&demand(), t0());
    guard.sent();
    desk.machine = Admission::new(&fleet, Arc::clone(&desk.book), t0());
    let Decision::Queued(ticket) = desk.ask(&demand(), t0()) else { panic!("the place is taken") };
    drop(guard);
    desk.settle(t0());
    let admitted = desk.take_effects();
    assert!(matches!(&admitted[..], [crate::failover::Effect::Admit(t, Decision::Granted(_))] if *t == ticket));
    let epochs: Vec<u64> = desk.book.leases().iter().map(|lease| lease.epoch).collect();
    assert_eq!(epochs, [2]);
}

#[test]
fn a_lease_that_a_machine_died_before_handing_out_is_returned_by_its_successor() {
    let mut desk = Desk::of(1);
    let (_, held) = desk.grant(&demand(), t0());
    assert!(matches!(desk.machine.lease(&demand(), t0()).0, Decision::Granted(_)), "and nobody gets it");
    assert_eq!(desk.book.tally(id(0)), Tally { in_flight: 2, unsent: 2, slots: 2, probes: 0, side: 0 });
    desk.machine = Admission::new(&roster(1), Arc::clone(&desk.book), t0());
    assert_eq!(desk.book.tally(id(0)), Tally { in_flight: 1, unsent: 1, slots: 1, probes: 0, side: 0 });
    drop(held);
    assert!(desk.book.is_empty() && desk.book.tally(id(0)).is_idle());
}

#[test]
fn a_reload_keeps_leases_standings_and_removes_accounts_from_choice() {
    let mut desk = Desk::of(3);
    let (grant, guard) = desk.grant(&demand(), t0());
    assert_eq!(grant.account, id(0));
    desk.tell(1, t0(), |s| s.holds = vec![limited(t0(), 600)]);
    let mut fleet = roster(3);
    fleet.accounts.remove(&id(0));
    fleet.upstreams[0].accounts = vec![id(1), id(2)];
    desk.machine.reload(&fleet, t0());
    for _ in 0..4 {
        assert_eq!(desk.serve(&demand(), t0()).account, id(2));
    }
    assert_eq!(desk.book.tally(id(0)).in_flight, 1);
    guard.ended();
    assert!(desk.book.is_empty());
}

/// C48: one person, two organisations: two accounts with their own health.
#[test]
fn two_organisations_of_one_person_are_two_accounts() {
    let mut fleet = roster(2);
    for (n, org) in ["o-1", "o-2"].iter().enumerate() {
        let spec = fleet.accounts.get_mut(&id(n as u32)).unwrap();
        let organization = Some((*org).to_owned());
        spec.identity = IdentityKey::Verified { family: Family::Claude, uuid: "same".into(), organization };
    }
    let mut desk = Desk::new(&fleet);
    let homes: Vec<u32> = (0..40).map(|key| desk.serve(&conversation(key), t0()).account.0).collect();
    assert!(homes.contains(&0) && homes.contains(&1));
    desk.tell(0, t0(), |s| s.holds = vec![limited(t0(), 600)]);
    assert_eq!(desk.serve(&demand(), t0()).account, id(1));
}

#[test]
fn an_older_standing_changes_nothing() {
    let mut desk = Desk::of(2);
    let mut newer = standing(0);
    newer.seq = 9;
    newer.holds = vec![limited(t0(), 600)];
    desk.machine.learn(newer, t0());
    desk.machine.learn(crate::standing::Standing { seq: 8, ..standing(0) }, t0());
    assert_eq!(desk.look(&Demand { ..demand() }, t0()), 1);
}

#[test]
fn the_snapshot_tells_what_is_in_flight_bound_and_waiting() {
    let mut fleet = roster(1);
    fleet.accounts.get_mut(&id(0)).unwrap().max_concurrent = Some(1);
    let mut desk = Desk::new(&fleet);
    desk.serve(&conversation(1), t0());
    let (_, guard) = desk.grant(&conversation(1), t0());
    assert!(matches!(desk.ask(&conversation(2), t0()), Decision::Queued(_)));
    let shown = &desk.machine.snapshot(t0()).accounts[0];
    assert_eq!((shown.tally.in_flight, shown.conversations, shown.waiting), (1, 1, 1));
    drop(guard);
}

#[test]
fn conversations_are_listed_from_the_one_used_last_and_by_account() {
    let mut desk = Desk::of(2);
    let homes: Vec<_> = (1..=6).map(|key| desk.serve(&conversation(key), at(key as f64))).collect();
    desk.serve(&conversation(2), at(9.0));
    let keys = |most, of| -> Vec<u128> {
        desk.machine.latest_conversations(most, of).into_iter().map(|one| one.key.0).collect()
    };
    assert_eq!(keys(3, None), [2, 6, 5]);
    for account in [0, 1] {
        let listed = keys(100, Some(id(account)));
        let bound = homes.iter().filter(|grant| grant.account == id(account)).count();
        assert_eq!(listed.len(), bound, "account {account}");
    }
    let latest = &desk.machine.latest_conversations(1, None)[0];
    assert_eq!((latest.used_at, latest.homes.len()), (at(9.0), 1));
}
