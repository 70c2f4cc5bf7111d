//! Strategies and placement.

use std::collections::HashMap;

use super::world::*;
use crate::failover::demand::Demand;
use crate::failover::fault::{Rule, with_broken};
use crate::id::{CredentialKind, Window};
use crate::roster::{Affinity, Roster, Strategy};

/// C14: a cold start with many new sessions in one tick does not put them all on one account.
#[test]
fn newcomers_of_one_instant_spread() {
    for sessions in [true, false] {
        let mut desk = Desk::of(4);
        let mut counts: HashMap<u32, u32> = HashMap::new();
        let mut guards = Vec::new();
        for key in 0..12 {
            let wanted = if sessions { conversation(key) } else { demand() };
            let (grant, guard) = desk.grant(&wanted, t0());
            *counts.entry(grant.account.0).or_default() += 1;
            guards.push(guard);
        }
        assert!(counts.values().all(|n| *n <= 6) && counts.len() >= 3, "{counts:?}");
    }
}

#[test]
fn without_a_session_the_account_whose_grant_is_oldest_comes_next() {
    let mut desk = Desk::of(3);
    let order: Vec<u32> = (0..6).map(|_| desk.serve(&demand(), t0()).account.0).collect();
    assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    assert_eq!((desk.look(&demand(), t0()), desk.look(&demand(), t0())), (0, 0), "an unsent grant leaves no trace");
}

#[test]
fn with_affinity_off_every_request_is_placed_anew() {
    let mut fleet = roster(3);
    fleet.rotation.affinity = Affinity::Free;
    let mut desk = Desk::new(&fleet);
    let order: Vec<u32> = (0..3).map(|_| desk.serve(&conversation(7), t0()).account.0).collect();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn priority_takes_the_lowest_number_that_is_usable() {
    let mut fleet = roster(4);
    fleet.upstreams[0].strategy = Strategy::Priority;
    fleet.accounts.get_mut(&id(2)).unwrap().priority = 10;
    fleet.accounts.get_mut(&id(3)).unwrap().priority = 10;
    let mut desk = Desk::new(&fleet);
    let seen: Vec<u32> = (0..16).map(|key| desk.serve(&conversation(key), t0()).account.0).collect();
    assert!(seen.iter().all(|n| *n >= 2) && seen.contains(&2) && seen.contains(&3), "{seen:?}");
    desk.tell(2, t0(), |s| s.holds = vec![limited(t0(), 600)]);
    desk.tell(3, t0(), |s| s.holds = vec![limited(t0(), 600)]);
    assert!(desk.look(&conversation(99), t0()) < 2);
}

#[test]
fn least_cost_takes_subscriptions_before_keys_and_the_most_remaining_first() {
    let mut fleet = roster(3);
    fleet.upstreams[0].strategy = Strategy::LeastCost;
    fleet.accounts.get_mut(&id(0)).unwrap().kind = CredentialKind::ApiKey;
    let mut desk = Desk::new(&fleet);
    desk.tell(1, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.2, 9000), (Window::Weekly, 0.6, 90_000)]));
    desk.tell(2, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.5, 9000)]));
    let order: Vec<u32> = desk.machine.explain(&demand(), t0()).iter().map(|r| r.account.0).collect();
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn failover_gives_everything_to_the_first_and_goes_back_at_once() {
    let mut fleet = roster(3);
    fleet.upstreams[0].strategy = Strategy::Failover;
    let mut desk = Desk::new(&fleet);
    for key in 0..5 {
        assert_eq!(desk.serve(&conversation(key), t0()).account, id(0));
    }
    desk.tell(0, t0(), |s| s.holds = vec![limited(t0(), 600)]);
    assert_eq!(desk.serve(&conversation(1), t0()).account, id(1));
    desk.tell(0, t0(), |_| ());
    assert_eq!(desk.serve(&conversation(1), t0()).account, id(0));
}

#[test]
fn a_subagent_goes_to_its_parents_account_unless_that_is_much_busier() {
    let mut desk = Desk::of(3);
    let home = desk.serve(&conversation(1), t0()).account;
    let child = |key| Demand { parent: conversation(1).conversation, ..conversation(key) };
    let mut guards = Vec::new();
    let mut on_home = 0;
    for key in 100..140 {
        let (grant, guard) = desk.grant(&child(key), t0());
        guards.push(guard);
        on_home += u32::from(grant.account == home);
        if grant.account != home {
            break;
        }
    }
    assert_eq!(on_home, 7, "in flight n against 2 · n/3 + 2: the first beyond is 7");
}

fn placed(desk: &mut Desk, keys: std::ops::Range<u128>) -> Vec<u32> {
    keys.map(|key| desk.look(&conversation(key), t0())).collect()
}

/// How many of the placements of many conversations change when one account of this many is added.
fn moved_share(count: u32) -> f64 {
    let keys = 0..4000;
    let before = placed(&mut Desk::of(count), keys.clone());
    let after = placed(&mut Desk::of(count + 1), keys.clone());
    let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    moved as f64 / before.len() as f64
}

#[test]
fn an_added_account_moves_at_most_two_nths_of_new_placements() {
    for count in [3, 7, 12] {
        let share = moved_share(count);
        assert!(share <= 2.0 / f64::from(count), "{count}: {share}");
    }
    assert!(with_broken(Rule::RendezvousPlaces, || moved_share(7)) > 2.0 / 7.0);
}

#[test]
fn a_change_of_membership_moves_no_known_conversation() {
    let mut desk = Desk::of(5);
    let before: Vec<u32> = (0..200).map(|key| desk.serve(&conversation(key), t0()).account.0).collect();
    let grown: Roster = roster(6);
    desk.machine.reload(&grown, t0());
    let after: Vec<u32> = (0..200).map(|key| desk.serve(&conversation(key), t0()).account.0).collect();
    assert_eq!(before, after);
    desk.machine.reload(&roster(4), t0());
    for (key, home) in before.iter().enumerate() {
        let now = desk.serve(&conversation(key as u128), t0()).account.0;
        assert!(now < 4 && (*home == 4 || now == *home), "only those of the account that went move");
    }
}
