//! When a child that died is started again.
//!
//! At once the first time, then after growing waits; a quiet minute forgives everything. A child that dies faster than
//! that is broken beyond what starting it again can mend, and the parent says so by dying itself.

use std::time::Duration;

use crate::clock::Timestamp;

/// The wait after the second death; doubled by each further one.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How long a child must live for its earlier deaths to be forgotten.
const QUIET: Duration = Duration::from_secs(60);
/// Deaths without a quiet minute between them that are too many.
const TOO_MANY: u32 = 30;

/// What one child's deaths have cost so far.
#[derive(Clone, Debug, Default)]
pub struct RestartBudget {
    deaths: u32,
    last: Option<Timestamp>,
}

/// What to do about a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Start it again after this wait.
    After(Duration),
    /// Give up: the parent must fail too.
    Escalate,
}

impl RestartBudget {
    /// The child died at `now`.
    pub fn died(&mut self, now: Timestamp) -> Restart {
        if self.last.is_some_and(|last| now.since(last) >= QUIET) {
            self.deaths = 0;
        }
        self.last = Some(now);
        self.deaths += 1;
        match self.deaths {
            1 => Restart::After(Duration::ZERO),
            n if n > TOO_MANY => Restart::Escalate,
            n => Restart::After(LONGEST_WAIT.min(FIRST_WAIT * 2_u32.saturating_pow(n - 2))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_death_is_mended_at_once_and_later_ones_after_growing_waits() {
        let mut budget = RestartBudget::default();
        let now = Timestamp::at_millis(0);
        let waits: Vec<Restart> = (0..9).map(|_| budget.died(now)).collect();
        assert_eq!(waits[0], Restart::After(Duration::ZERO));
        assert_eq!(waits[1], Restart::After(Duration::from_millis(20)));
        assert_eq!(waits[2], Restart::After(Duration::from_millis(40)));
        assert_eq!(waits[8], Restart::After(LONGEST_WAIT));
    }

    #[test]
    fn a_quiet_minute_forgives() {
        let mut budget = RestartBudget::default();
        budget.died(Timestamp::at_millis(0));
        budget.died(Timestamp::at_millis(1));
        assert_eq!(budget.died(Timestamp::at_millis(60_001)), Restart::After(Duration::ZERO));
    }

    #[test]
    fn too_many_deaths_are_the_parents_affair() {
        let mut budget = RestartBudget::default();
        let last = (0..=TOO_MANY).map(|_| budget.died(Timestamp::at_millis(0))).last();
        assert_eq!(last, Some(Restart::Escalate));
    }
}
