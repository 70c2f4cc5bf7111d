//! How many requests an account may have in flight while it warms up.
//!
//! A cold account starts with a few; each success doubles the number until it exceeds what the gateway admits at all; a
//! refusal starts anew. A failover onto a busy account lets only a few more on. With the ramp off, an account that comes
//! back from a hold while clients are kept waiting is released from one up.

use std::time::Duration;

use super::fault::{Rule, broken};
use crate::clock::Timestamp;
use crate::id::LeaseId;
use crate::roster::{PoolSettings, RotationSettings};

/// After so long without a request an account is cold again.
const IDLE: Duration = Duration::from_secs(60);

/// The settings that govern a ramp.
#[derive(Clone, Copy, Debug)]
pub(super) struct RampRule {
    /// First allowance; 0 = no ramp.
    pub(super) initial: u32,
    /// First allowance after a hold; 0 = none.
    pub(super) after_hold: u32,
    /// What it grows to.
    pub(super) most: u32,
}

impl RampRule {
    pub(super) fn of(pool: &PoolSettings, rotation: &RotationSettings) -> Self {
        let initial = pool.ramp_initial;
        let after_hold = if initial == 0 { u32::from(!pool.hold.is_zero()) } else { initial };
        Self { initial, after_hold, most: rotation.max_concurrent }
    }
}

/// One account's allowance.
#[derive(Clone, Debug, Default)]
pub(super) struct Ramp {
    /// The bound; `None` = warm.
    bound: Option<u32>,
    used_at: Option<Timestamp>,
    /// Failovers that were granted and not yet sent: what each would bound.
    clamps: Vec<(LeaseId, u32)>,
}

impl Ramp {
    /// How many slots may be held at once. `sent` = requests in flight that were sent.
    #[cfg(test)]
    fn limit(&self, rule: RampRule, sent: u32, now: Timestamp) -> u32 {
        self.pace().limit(rule, sent, now)
    }

    /// What decides how many slots may be held.
    pub(super) fn pace(&self) -> Pace {
        let clamp = self.clamps.iter().map(|(_, n)| *n).min();
        Pace { bound: self.bound.unwrap_or(u32::MAX), clamp: clamp.unwrap_or(u32::MAX), used_at: self.used_at }
    }

    /// A failover was granted onto an account with `slots` held.
    pub(super) fn failover(&mut self, lease: LeaseId, rule: RampRule, slots: u32) {
        if rule.initial > 0 && slots > 0 {
            self.clamps.push((lease, slots + rule.initial));
        }
    }

    pub(super) fn sent(&mut self, lease: LeaseId, rule: RampRule, others_sent: u32, now: Timestamp) {
        if self.is_cold(rule, others_sent, now) {
            self.bound = Some(rule.initial);
        }
        if let Some((_, clamp)) = self.clamps.iter().find(|(id, _)| *id == lease) {
            self.bound = Some(self.bound.map_or(*clamp, |bound| bound.min(*clamp)));
        }
        self.unsent(lease);
        self.used_at = Some(now);
    }

    /// A granted lease is no longer waiting to be sent.
    pub(super) fn unsent(&mut self, lease: LeaseId) {
        self.clamps.retain(|(id, _)| *id != lease);
    }

    pub(super) fn served(&mut self, rule: RampRule) {
        self.bound = self.bound.map(|n| n.saturating_mul(2)).filter(|n| *n <= rule.most);
    }

    pub(super) fn ended(&mut self, now: Timestamp) {
        self.used_at = Some(now);
    }

    pub(super) fn refused(&mut self, rule: RampRule) {
        if rule.initial > 0 {
            self.bound = Some(rule.initial);
        }
    }

    /// A hold began or ended.
    pub(super) fn held(&mut self, rule: RampRule) {
        if rule.after_hold > 0 {
            self.bound = Some(rule.after_hold);
        }
    }

    fn is_cold(&self, rule: RampRule, sent: u32, now: Timestamp) -> bool {
        self.pace().is_cold(rule, sent, now)
    }
}

/// An allowance at one moment: all that a plan reads of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    bound: u32,
    clamp: u32,
    used_at: Option<Timestamp>,
}

impl Pace {
    /// How many slots may be held at once. `sent` = requests in flight that were sent.
    pub(super) fn limit(&self, rule: RampRule, sent: u32, now: Timestamp) -> u32 {
        if broken(Rule::RampStartsLow) {
            return u32::MAX;
        }
        let bound = if self.is_cold(rule, sent, now) { rule.initial } else { self.bound };
        bound.min(self.clamp)
    }

    fn is_cold(&self, rule: RampRule, sent: u32, now: Timestamp) -> bool {
        rule.initial > 0 && sent == 0 && self.used_at.is_none_or(|at| now.since(at) >= IDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: RampRule = RampRule { initial: 2, after_hold: 2, most: 8 };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::at_millis(seconds * 1000)
    }

    fn warm() -> Ramp {
        let mut ramp = Ramp::default();
        ramp.sent(LeaseId(1), RULE, 0, at(0));
        ramp.served(RULE);
        ramp.served(RULE);
        ramp.served(RULE);
        ramp
    }

    #[test]
    fn each_success_doubles_the_allowance_until_it_exceeds_the_most() {
        let mut ramp = Ramp::default();
        assert_eq!(ramp.limit(RULE, 0, at(0)), 2);
        ramp.sent(LeaseId(1), RULE, 0, at(0));
        let mut limits = Vec::new();
        for _ in 0..3 {
            ramp.served(RULE);
            limits.push(ramp.limit(RULE, 1, at(0)));
        }
        assert_eq!(limits, [4, 8, u32::MAX]);
    }

    #[test]
    fn a_refusal_a_hold_and_an_idle_minute_start_anew() {
        for cool in [|r: &mut Ramp| r.refused(RULE), |r: &mut Ramp| r.held(RULE)] {
            let mut ramp = warm();
            cool(&mut ramp);
            assert_eq!(ramp.limit(RULE, 0, at(1)), 2);
        }
        assert_eq!(warm().limit(RULE, 0, at(59)), u32::MAX);
        assert_eq!(warm().limit(RULE, 0, at(60)), 2);
        assert_eq!(warm().limit(RULE, 1, at(60)), u32::MAX, "a long stream is not idleness");
    }

    #[test]
    fn a_failover_onto_a_busy_account_lets_a_few_more_on() {
        let mut ramp = warm();
        ramp.failover(LeaseId(5), RULE, 3);
        ramp.failover(LeaseId(6), RULE, 4);
        assert_eq!(ramp.limit(RULE, 3, at(1)), 5);
        ramp.unsent(LeaseId(5));
        ramp.unsent(LeaseId(6));
        assert_eq!(ramp.limit(RULE, 3, at(1)), u32::MAX, "what was not sent leaves no trace");
    }

    #[test]
    fn without_a_ramp_an_account_is_released_from_one_up_after_a_hold_if_clients_are_kept_waiting() {
        let rule = RampRule { initial: 0, after_hold: 1, most: 8 };
        let mut ramp = Ramp::default();
        assert_eq!(ramp.limit(rule, 0, at(0)), u32::MAX);
        ramp.held(rule);
        assert_eq!(ramp.limit(rule, 0, at(0)), 1);
        ramp.served(rule);
        assert_eq!(ramp.limit(rule, 0, at(0)), 2);
    }
}
