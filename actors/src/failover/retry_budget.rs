//! How many further attempts a provider bears: a share of the requests of the last seconds.
//!
//! A pool that fails as a whole must not be asked many times over by every request.

use super::demand::{Demand, Once, Step};
use super::plan::Pick;
use super::rank::Band;
use crate::clock::Timestamp;
use crate::outcome::CallKind;

/// The share of recent requests that may be further attempts: one in this many.
const ONE_IN: u32 = 5;
/// So many are always allowed.
const FLOOR: u32 = 10;
/// How many seconds count as recent.
const SECONDS: usize = 10;

/// Requests and further attempts of the last ten seconds, second by second.
#[derive(Clone, Debug, Default)]
pub(super) struct RetryBudget {
    cells: [Cell; SECONDS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    second: i64,
    requests: u32,
    drawn: u32,
}

impl RetryBudget {
    pub(super) fn count_request(&mut self, now: Timestamp) {
        self.cell(now).requests += 1;
    }

    pub(super) fn allows(&self, now: Timestamp) -> bool {
        let recent = |of: fn(&Cell) -> u32| -> u32 { self.cells.iter().filter(|c| c.is_recent(now)).map(of).sum() };
        recent(|c| c.drawn) < FLOOR.max(recent(|c| c.requests) / ONE_IN)
    }

    pub(super) fn draw(&mut self, now: Timestamp) {
        self.cell(now).drawn += 1;
    }

    /// Gives back what an attempt that was never sent had drawn.
    pub(super) fn give_back(&mut self, drawn_at: Timestamp) {
        let cell = &mut self.cells[slot_of(drawn_at)];
        if cell.second == second_of(drawn_at) {
            cell.drawn = cell.drawn.saturating_sub(1);
        }
    }

    fn cell(&mut self, now: Timestamp) -> &mut Cell {
        let cell = &mut self.cells[slot_of(now)];
        if cell.second != second_of(now) {
            *cell = Cell { second: second_of(now), ..Cell::default() };
        }
        cell
    }
}

impl Cell {
    fn is_recent(&self, now: Timestamp) -> bool {
        let age = second_of(now) - self.second;
        (0..SECONDS as i64).contains(&age)
    }
}

/// Whether an attempt takes from the retry budget: all but the first, the first move to a usable account, the same
/// account once more, and what an account's return lets in.
pub(super) fn draws(demand: &Demand, pick: Option<Pick>) -> bool {
    let unmoved = demand.tried.len() <= 1 && demand.spent.free_move == Once::Unused;
    let further = match demand.step {
        Step::First | Step::Again(_) | Step::Returned => false,
        Step::Next => !(unmoved && pick.is_none_or(|p| p.band == Band::Usable)),
        Step::Rested => true,
    };
    further && demand.call == CallKind::Inference
}

fn second_of(at: Timestamp) -> i64 {
    at.boot.0.div_euclid(1000)
}

fn slot_of(at: Timestamp) -> usize {
    second_of(at).rem_euclid(SECONDS as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(budget: &mut RetryBudget, now: Timestamp) -> u32 {
        let mut count = 0;
        while budget.allows(now) {
            budget.draw(now);
            count += 1;
        }
        count
    }

    #[test]
    fn ten_further_attempts_are_always_allowed() {
        assert_eq!(drawn(&mut RetryBudget::default(), Timestamp::at_millis(1_000_000)), 10);
    }

    #[test]
    fn a_fifth_of_the_last_ten_seconds_requests_may_be_further_attempts() {
        let mut budget = RetryBudget::default();
        for step in 0..500 {
            budget.count_request(Timestamp::at_millis(1_000_000 + step * 10));
        }
        let now = Timestamp::at_millis(1_005_000);
        assert_eq!(drawn(&mut budget, now), 100);
        assert_eq!(drawn(&mut budget, Timestamp::at_millis(1_016_000)), 10, "what is old counts no more");
    }

    #[test]
    fn an_attempt_that_was_not_sent_is_given_back() {
        let mut budget = RetryBudget::default();
        let now = Timestamp::at_millis(1_000_000);
        drawn(&mut budget, now);
        budget.give_back(now);
        assert_eq!(drawn(&mut budget, now), 1);
    }
}
