//! When a held account may be asked by one request: its probe slot.
//!
//! Never at once after a refusal: 1, 2, 4 … 60 s later. While an end that the provider stated lies ahead, always 60 s.

use std::time::Duration;

use super::fault::{Rule, broken};
use crate::clock::{Deadline, Timestamp};

const LONGEST: Duration = Duration::from_secs(60);

/// The probes of one account in one spell of holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeSchedule {
    refused_at: Option<Timestamp>,
    refusals: u32,
}

/// Whether the end of a hold was stated and lies ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndAhead {
    Stated,
    Guessed,
}

impl ProbeSchedule {
    /// A hold began, or an attempt that was not a probe was refused: the wait begins anew.
    pub(super) fn refused(&mut self, now: Timestamp) {
        if self.refused_at.is_none_or(|at| at.boot < now.boot) {
            self.refused_at = Some(now);
        }
    }

    /// A probe was sent and not served: the wait grows.
    pub(super) fn probe_refused(&mut self, now: Timestamp) {
        self.refusals = self.refusals.saturating_add(1);
        self.refused_at = Some(now);
    }

    /// Nothing holds the account any more.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(super) fn due_at(&self, end: EndAhead, began: Timestamp) -> Deadline {
        let last = self.refused_at.filter(|at| at.boot > began.boot).unwrap_or(began);
        Deadline::after(last, self.wait(end))
    }

    pub(super) fn is_due(&self, end: EndAhead, began: Timestamp, now: Timestamp) -> bool {
        broken(Rule::ProbeWaitsUntilDue) || self.due_at(end, began).is_due(now)
    }

    fn wait(&self, end: EndAhead) -> Duration {
        match end {
            EndAhead::Stated => LONGEST,
            EndAhead::Guessed => Duration::from_secs(1 << self.refusals.min(6)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_due_1_2_4_up_to_60_seconds_after_the_last_refusal() {
        let mut schedule = ProbeSchedule::default();
        let mut now = Timestamp::at_millis(0);
        schedule.refused(now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = schedule.due_at(EndAhead::Guessed, Timestamp::at_millis(0)).remaining(now);
            waits.push(wait.as_secs());
            now = now.plus(wait);
            schedule.probe_refused(now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn with_a_stated_end_ahead_a_probe_is_due_after_60_seconds() {
        let schedule = ProbeSchedule::default();
        let began = Timestamp::at_millis(5_000);
        assert!(!schedule.is_due(EndAhead::Stated, began, Timestamp::at_millis(64_999)));
        assert!(schedule.is_due(EndAhead::Stated, began, Timestamp::at_millis(65_000)));
    }
}
