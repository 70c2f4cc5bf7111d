//! What holds after any sequence of events, and that breaking any rule of the machine is noticed.

mod model;
mod sequence;

use proptest::prelude::*;

use self::sequence::{Step3, run};
use super::world::*;
use crate::failover::demand::{Decision, Demand, Once, Remedy, Spent, Step};
use crate::failover::fault::{Rule, with_broken};

const RULES: [Rule; 24] = [
    Rule::PausedIsRemoved,
    Rule::DisabledIsRemoved,
    Rule::CappedIsRemoved,
    Rule::DeadAuthIsRemoved,
    Rule::TriedIsExcluded,
    Rule::BandsAreOrdered,
    Rule::BoundComesFirst,
    Rule::RendezvousPlaces,
    Rule::PlansAreEqual,
    Rule::OneProbeInFlight,
    Rule::ProbeWaitsUntilDue,
    Rule::OneProbePerRequest,
    Rule::NearServes,
    Rule::OneTrialInFlight,
    Rule::CapGuardIsOne,
    Rule::ConcurrencyIsBounded,
    Rule::RampStartsLow,
    Rule::RetryBudgetBounds,
    Rule::EndedIsReturned,
    Rule::UnsentLeavesNoTrace,
    Rule::BreatherSendsOthersAway,
    Rule::LastAnswerCountsAtOnce,
    Rule::OneHopUnstated,
    Rule::DetoursMove,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_holds_after_any_sequence_of_events(steps in prop::collection::vec(any::<Step3>(), 4..26)) {
        prop_assert_eq!(run(&steps), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn further_attempts_stay_within_the_retry_budget(requests in 0_u32..120) {
        prop_assert_eq!(storm(requests), Ok(()));
    }

    #[test]
    fn an_added_account_moves_few_new_placements(count in 3_u32..9, salt in any::<u64>()) {
        prop_assert_eq!(growth(count, salt), Ok(()));
    }

    #[test]
    fn a_request_spends_one_probe(count in 1_u32..6, seconds in 1_u32..900) {
        prop_assert_eq!(probing(count, seconds), Ok(()));
    }

    #[test]
    fn a_third_detour_in_ten_minutes_moves_a_conversation(key in any::<u64>(), gap in 40_u32..280) {
        prop_assert_eq!(detours(u128::from(key), gap), Ok(()));
    }
}

/// Every rule that can be broken is watched by a property.
#[test]
fn every_broken_machine_is_caught() {
    let mut random = fastrand::Rng::with_seed(7);
    for rule in RULES {
        assert!(with_broken(rule, || is_caught(&mut random)), "nobody notices that {rule:?} is broken");
    }
}

fn is_caught(random: &mut fastrand::Rng) -> bool {
    if storm(40).is_err() || growth(7, 3).is_err() || detours(5, 100).is_err() || probing(3, 9).is_err() {
        return true;
    }
    (0..20_000).any(|_| {
        let length = random.usize(4..40);
        let steps: Vec<Step3> = (0..length).map(|_| (random.u8(..), random.u8(..), random.u8(..))).collect();
        run(&steps).is_err()
    })
}

/// In one instant so many requests, each of which tries all it gets, rests and tries once more: the further attempts are
/// bounded.
fn storm(requests: u32) -> Result<(), String> {
    let mut desk = Desk::of(6);
    let mut further = 0;
    let spent = Spent { free_move: Once::Used, ..Spent::default() };
    let rested = Demand { step: Step::Rested, spent, ..demand() };
    for first in (0..requests).flat_map(|_| [demand(), rested.clone()]) {
        let mut wanted = first;
        while let Decision::Granted(grant) = desk.ask(&wanted, t0()) {
            further += u32::from(wanted.tried.len() > 1 || wanted.spent.free_move == Once::Used);
            let guard = desk.book.guard(grant.lease);
            guard.sent();
            drop(guard);
            let mut tried = wanted.tried.clone();
            tried.push(grant.account);
            wanted = Demand { tried, step: Step::Next, ..wanted };
        }
        if !matches!(desk.refuse(&wanted, t0()).remedy, Remedy::Spent { .. }) {
            return Err("what was tried and left no hold is spent".to_owned());
        }
    }
    let most = 10.max(requests / 5);
    if further > most { Err(format!("{further} further attempts, {most} allowed")) } else { Ok(()) }
}

fn growth(count: u32, salt: u64) -> Result<(), String> {
    let (mut small, mut large) = (Desk::of(count), Desk::of(count + 1));
    let keys = (0..400_u128).map(|key| key << 64 | u128::from(salt));
    let moved = keys.filter(|key| {
        let wanted = conversation(*key);
        small.look(&wanted, t0()) != large.look(&wanted, t0())
    });
    let share = moved.count() as f64 / 400.0;
    // 2/N of 400 and four standard deviations.
    let most = 2.0 / f64::from(count) + 0.1;
    if share > most { Err(format!("{share} moved, {most} allowed")) } else { Ok(()) }
}

/// Where all are held, a request asks one of them and no more.
fn probing(count: u32, seconds: u32) -> Result<(), String> {
    let mut desk = Desk::of(count);
    (0..count).for_each(|n| desk.tell(n, t0(), |s| s.holds = vec![erroring(t0(), 3600)]));
    let now = at(f64::from(seconds));
    let (probe, guard) = desk.grant(&demand(), now);
    guard.sent();
    drop(guard);
    let spent = Spent { probe: Once::Used, ..Spent::default() };
    let second = Demand { spent, ..next(&demand(), &probe, 1, fault(), now) };
    match desk.ask(&second, now) {
        Decision::Exhausted(_) => Ok(()),
        other @ (Decision::Granted(_) | Decision::NotBefore(_) | Decision::Queued(_)) => {
            Err(format!("a second probe: {other:?}"))
        }
    }
}

fn detours(key: u128, gap: u32) -> Result<(), String> {
    let mut desk = Desk::of(3);
    let home = desk.serve(&conversation(key), t0()).account;
    for episode in 1..=3 {
        let now = at(f64::from(gap * episode));
        desk.tell(home.0, now, |s| s.holds = vec![erroring(now, 30)]);
        desk.serve(&conversation(key), now);
        let later = at(f64::from(gap * episode + 31));
        desk.tell(home.0, later, |_| ());
        let stays = desk.look(&conversation(key), later) == home.0;
        if stays != (episode < 3) {
            return Err(format!("after {episode} detours: stays = {stays}"));
        }
    }
    Ok(())
}
