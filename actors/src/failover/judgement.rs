//! What an account's quota figures mean for its place among the others: the one door to the quota rules.

use crate::account::quota::{CAP_MARGIN, Quota};
use crate::clock::{Deadline, Timestamp, Wall};
use crate::id::ModelScope;
use crate::roster::{AccountSpec, PoolSettings, TieOrder};

/// An account's quota at one moment, for one model scope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judgement {
    pub(super) pressure: Pressure,
    pub(super) cap: Cap,
    pub(super) headroom: f64,
    pub(super) weekly_reset: Option<Wall>,
    /// The least remaining share over the governing windows.
    pub(super) remaining: f64,
    /// What breaks ties, smaller first; 48 bits.
    pub(super) tie: u64,
}

/// How far the quota is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    Below,
    Near,
    /// At or over the hard threshold, or a window refuses.
    Over,
}

/// Where the quota stands against the hard caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cap {
    Free,
    /// So close that one request at a time is admitted.
    Guarded,
    /// At a cap until then, if known.
    Reached(Option<Deadline>),
}

impl Default for Judgement {
    fn default() -> Self {
        Self {
            pressure: Pressure::Below,
            cap: Cap::Free,
            headroom: f64::INFINITY,
            weekly_reset: None,
            remaining: 1.0,
            tie: 0,
        }
    }
}

/// Judges an account's quota.
pub(super) fn judge(
    quota: &Quota,
    spec: &AccountSpec,
    pool: &PoolSettings,
    scope: ModelScope,
    now: Timestamp,
) -> Judgement {
    let headroom = quota.headroom(scope, &spec.thresholds, now);
    let weekly_reset = quota.weekly_reset(scope, now);
    let tie = match pool.order {
        TieOrder::Headroom => descending(headroom),
        TieOrder::WeeklyReset => weekly_reset.map_or(0, |at| u64::try_from(at.0).unwrap_or(0).max(1)),
    };
    let pressure = pressure(quota, spec, pool, scope, now);
    let remaining = quota.remaining(scope, now);
    Judgement { pressure, cap: cap(quota, spec, scope, now), headroom, weekly_reset, remaining, tie }
}

/// Maps a number to 48 bits in which a larger one comes first.
pub(super) fn descending(value: f64) -> u64 {
    let bits = value.to_bits();
    let ascending = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    !ascending >> 16
}

fn pressure(quota: &Quota, spec: &AccountSpec, pool: &PoolSettings, scope: ModelScope, now: Timestamp) -> Pressure {
    if quota.rejected(scope, now) || quota.over_hard(scope, pool.hard_threshold, now) {
        Pressure::Over
    } else if quota.near(scope, &spec.thresholds, pool.burn_rate, now).is_some() {
        Pressure::Near
    } else {
        Pressure::Below
    }
}

fn cap(quota: &Quota, spec: &AccountSpec, scope: ModelScope, now: Timestamp) -> Cap {
    match quota.capped(scope, &spec.caps, now) {
        Some(capped) => Cap::Reached(capped.until),
        None if quota.near_cap(scope, &spec.caps, CAP_MARGIN, now) => Cap::Guarded,
        None => Cap::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_number_sorts_first_in_48_bits() {
        let falling = [f64::INFINITY, 1e9, 2.5, 0.0, -2.5, -1e9, f64::NEG_INFINITY];
        let keys = falling.map(descending);
        assert!(keys.is_sorted(), "{keys:?}");
        assert!(keys.iter().all(|k| *k < 1 << 48));
    }
}
