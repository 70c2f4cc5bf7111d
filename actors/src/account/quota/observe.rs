//! Writing quota figures: headers of an answer, a usage poll, time, a new credential, a stepped clock.
//!
//! What never enters: what a figure means for a request.

use std::time::Duration;

use super::{Aggregate, Quota, WindowState, is_over};
use crate::clock::{Deadline, Timestamp, Wall};
use crate::outcome::{QuotaReading, QuotaStatus, WindowReading};

/// How long the aggregate status stays true.
const AGGREGATE_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

impl Quota {
    /// Takes the quota headers of one answer. What has expired goes first; figures older than the stored ones change
    /// nothing.
    pub fn apply(&mut self, reading: &QuotaReading, answered_at: Timestamp, now: Timestamp) {
        self.expire(now);
        let seen = civil(answered_at, now);
        for window in &reading.windows {
            let state = self.windows.place(&window.window);
            let reset = credible(window, seen);
            state.see_status(window.status.as_ref(), reset, seen);
            state.see_figures(window.utilization, reset, seen);
        }
        self.see_aggregate(reading.status.as_ref(), seen);
        self.expire(now);
    }

    /// Takes a usage poll: utilization, reset and when they were seen; never a status. Windows that it does not name
    /// keep their values.
    pub fn apply_usage(&mut self, windows: &[WindowReading], answered_at: Timestamp, now: Timestamp) {
        self.expire(now);
        let seen = civil(answered_at, now);
        for window in windows {
            let reset = credible(window, seen);
            self.windows.place(&window.window).see_figures(window.utilization, reset, seen);
        }
        self.expire(now);
    }

    /// Forgets what is over, and clamps stamps that lie in the future to now.
    pub fn expire(&mut self, now: Timestamp) {
        for (length, state) in self.windows.places() {
            state.clamp(now.wall);
            state.expire(length, now.wall);
        }
        if let Some(aggregate) = &mut self.aggregate {
            aggregate.observed_at = aggregate.observed_at.min(now.wall);
        }
        self.aggregate.take_if(|aggregate| aggregate.is_over(now.wall));
        self.windows.tidy();
    }

    /// Forgets utilization and status, as a new credential may stand for another plan. Resets stay as bare metadata.
    pub fn forget(&mut self) {
        for (_, state) in self.windows.places() {
            state.forget_utilization();
            state.forget_status();
        }
        self.aggregate = None;
        self.windows.tidy();
    }

    /// The civil clock was stepped: stamps, whose age counts, move with it; resets, which are civil moments, do not.
    pub fn step(&mut self, by_ms: i64) {
        for (_, state) in self.windows.places() {
            state.observed_at = state.observed_at.map(|at| moved(at, by_ms));
            state.status_observed_at = state.status_observed_at.map(|at| moved(at, by_ms));
        }
        if let Some(aggregate) = &mut self.aggregate {
            aggregate.observed_at = moved(aggregate.observed_at, by_ms);
        }
    }

    fn see_aggregate(&mut self, status: Option<&QuotaStatus>, seen: Wall) {
        let newer = self.aggregate.as_ref().is_none_or(|known| seen >= known.observed_at);
        if let Some(status) = status.filter(|_| newer) {
            self.aggregate = Some(Aggregate { status: status.clone(), observed_at: seen });
        }
    }
}

impl Aggregate {
    pub(super) fn is_over(&self, now: Wall) -> bool {
        self.observed_at.plus(AGGREGATE_LIFE) <= now
    }
}

impl WindowState {
    /// A status write keeps the reset that is known at this moment as its boundary. Whatever is stored was expired
    /// before, so a stored reset is one that is still ahead.
    fn see_status(&mut self, status: Option<&QuotaStatus>, reset: Option<Wall>, seen: Wall) {
        let newer = self.status_observed_at.is_none_or(|known| seen >= known);
        if let Some(status) = status.filter(|_| newer) {
            self.status = Some(status.clone());
            self.status_observed_at = Some(seen);
            self.status_boundary = reset.or(self.reset);
        }
    }

    fn see_figures(&mut self, utilization: Option<f64>, reset: Option<Wall>, seen: Wall) {
        let older = self.observed_at.is_some_and(|known| seen < known);
        if older && !sabotaged!(StaleFiguresApply) {
            return;
        }
        if let Some(share) = utilization.filter(|share| share.is_finite() && *share >= 0.0) {
            self.utilization = Some(share);
            self.observed_at = Some(seen);
        }
        self.reset = reset.or(self.reset);
        if sabotaged!(BoundaryMoves) && self.status.is_some() {
            self.status_boundary = self.reset;
        }
    }

    fn expire(&mut self, length: Duration, now: Wall) {
        if is_over(self.reset, now) {
            self.forget_utilization();
            self.reset = None;
        } else if self.observed_at.is_some_and(|at| at.plus(length) <= now) {
            self.forget_utilization();
        }
        let stale = self.status_observed_at.is_some_and(|at| at.plus(length) <= now);
        if stale || is_over(self.status_boundary, now) {
            self.forget_status();
        }
    }

    fn clamp(&mut self, now: Wall) {
        self.observed_at = self.observed_at.map(|at| at.min(now));
        self.status_observed_at = self.status_observed_at.map(|at| at.min(now));
    }

    fn forget_utilization(&mut self) {
        self.utilization = None;
        self.observed_at = None;
    }

    fn forget_status(&mut self) {
        self.status = None;
        self.status_observed_at = None;
        self.status_boundary = None;
    }
}

/// The civil moment of `at` by the present civil clock, whatever that clock showed then; never after `now`.
fn civil(at: Timestamp, now: Timestamp) -> Wall {
    Deadline::Boot(at.boot).as_wall(now).min(now.wall)
}

/// A civil stamp moved by a step of the clock.
pub(in crate::account) fn moved(at: Wall, by_ms: i64) -> Wall {
    Wall(at.0.saturating_add(by_ms))
}

/// The stated reset, unless it was over when it was stated or lies farther ahead than its window is long (and a tenth):
/// such a one counts as not stated.
fn credible(reading: &WindowReading, seen: Wall) -> Option<Wall> {
    let length = reading.window.length();
    reading.reset.filter(|reset| *reset > seen && *reset <= seen.plus(length + length / 10))
}
