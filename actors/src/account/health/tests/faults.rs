//! For each rule a machine that breaks it: some property must notice.

use super::history::Step;
use super::lives::live;
use crate::account::fault::{self, Fault};

/// The same histories for every fault, on every run. Every second one repeats itself, as an account does that fails
/// again and again.
fn history(seed: u64) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (length, times) = if seed.is_multiple_of(2) { (random.usize(4..40), 1) } else { (random.usize(3..6), 8) };
    let steps: Vec<Step> = (0..length).map(|_| (random.u8(..), random.u8(..), random.u16(..))).collect();
    steps.repeat(times)
}

fn counterexample(fault: Fault) -> Option<u64> {
    fault::with(fault, || (0..20_000).find(|seed| live(&history(*seed)).is_err()))
}

#[test]
fn every_broken_rule_is_noticed_by_a_property() {
    let missed: Vec<_> = Fault::ALL.iter().filter(|fault| counterexample(**fault).is_none()).collect();
    assert!(missed.is_empty(), "no property guards {missed:?}");
}

#[test]
fn the_sound_machine_lives_through_the_same_histories() {
    let broken = (0..1_000).find_map(|seed| live(&history(seed)).err());
    assert_eq!(broken, None);
}
