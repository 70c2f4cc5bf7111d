//! What the figures mean for a request: governing windows, near, over, refused, capped, headroom.
//!
//! What never enters: a write. Whatever is over at `now` counts as forgotten.

use super::{KnownWindow, Quota, WindowState};
use crate::clock::{Deadline, Timestamp, Wall};
use crate::id::{ModelScope, Window};
use crate::outcome::QuotaStatus;
use crate::roster::{BurnRate, WindowCaps, WindowLimits};

/// How close to a cap only one request at a time is admitted.
pub const CAP_MARGIN: f64 = 0.02;

/// Sums of decimal fractions miss by less than this.
const ROUNDING: f64 = 1e-9;

/// Why an account counts as near its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearCause {
    /// The provider refuses a window that this request needs.
    Rejected,
    /// A governing window is at its soft threshold.
    Threshold(KnownWindow),
    /// The provider refuses over all windows and said nothing of any single one.
    AggregateRejected,
    /// At the present pace the threshold comes before the reset.
    BurnRate,
}

/// An account is at a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capped {
    /// When it returns by itself, if that is known.
    pub until: Option<Deadline>,
}

impl Quota {
    /// The windows that govern a request: `5h` and a weekly one. In a model scope the weekly one is the scope's own once
    /// its utilization is known.
    #[must_use]
    pub fn governing(&self, scope: ModelScope, now: Timestamp) -> [KnownWindow; 2] {
        [KnownWindow::FiveHour, self.weekly(scope, now.wall)]
    }

    /// Whether, and why, the account is near its quota for a request of this scope.
    #[must_use]
    pub fn near(&self, scope: ModelScope, limits: &WindowLimits, burn: BurnRate, now: Timestamp) -> Option<NearCause> {
        if self.window_rejected(scope, now.wall) {
            return Some(NearCause::Rejected);
        }
        if self.aggregate_rejected(now.wall) {
            return Some(NearCause::AggregateRejected);
        }
        let reached = |window: &KnownWindow| self.share(*window, now.wall).is_some_and(|u| u >= window.limit(limits));
        if let Some(window) = self.governing(scope, now).into_iter().find(reached) {
            return Some(NearCause::Threshold(window));
        }
        let hurries = burn == BurnRate::Avoid && self.headroom(scope, limits, now) < 0.0;
        hurries.then_some(NearCause::BurnRate)
    }

    /// Whether a governing window is at or over the hard threshold.
    #[must_use]
    pub fn over_hard(&self, scope: ModelScope, hard: f64, now: Timestamp) -> bool {
        self.governing(scope, now).into_iter().any(|window| self.share(window, now.wall).is_some_and(|u| u >= hard))
    }

    /// Whether the provider's word is that a request of this scope is refused.
    #[must_use]
    pub fn rejected(&self, scope: ModelScope, now: Timestamp) -> bool {
        self.window_rejected(scope, now.wall) || self.aggregate_rejected(now.wall)
    }

    /// Time to the soft threshold at the mean pace, minus time to the reset, in seconds: the least over the governing
    /// windows. Infinite where nothing is known to be used, negative infinite where nothing is left.
    #[must_use]
    pub fn headroom(&self, scope: ModelScope, limits: &WindowLimits, now: Timestamp) -> f64 {
        let [first, second] = self.governing(scope, now).map(|window| self.window_headroom(window, limits, now.wall));
        first.min(second)
    }

    /// The least fraction left over the governing windows; an unobserved one counts as untouched.
    #[must_use]
    pub fn remaining(&self, scope: ModelScope, now: Timestamp) -> f64 {
        let left = |window| 1.0 - self.share(window, now.wall).unwrap_or(0.0);
        let [first, second] = self.governing(scope, now).map(left);
        first.min(second)
    }

    /// When the governing weekly window begins anew, if that is known.
    #[must_use]
    pub fn weekly_reset(&self, scope: ModelScope, now: Timestamp) -> Option<Wall> {
        self.windows.known(self.weekly(scope, now.wall)).reset_at(now.wall)
    }

    /// Whether a cap binds a request of this scope, and until when: the latest return over the windows at their caps.
    #[must_use]
    pub fn capped(&self, scope: ModelScope, caps: &WindowCaps, now: Timestamp) -> Option<Capped> {
        let at_cap = |window: &KnownWindow| self.reaches_cap(*window, caps, 0.0, now.wall);
        let bound = binding(scope).filter(at_cap);
        let returns = bound.map(|window| self.returns(window, now.wall)).max()?;
        Some(Capped { until: returns.map(Deadline::Wall) })
    }

    /// Whether a binding window is within `margin` of its cap (or past it): then one request at a time is admitted.
    #[must_use]
    pub fn near_cap(&self, scope: ModelScope, caps: &WindowCaps, margin: f64, now: Timestamp) -> bool {
        binding(scope).any(|window| self.reaches_cap(window, caps, margin + ROUNDING, now.wall))
    }

    /// Whether a figure of this window newer than `refused_at` lies below its soft threshold. A window that no threshold
    /// is set for never does.
    pub(crate) fn recovered(&self, window: &Window, limits: &WindowLimits, refused_at: Wall, now: Timestamp) -> bool {
        let Some(known) = KnownWindow::of(window) else { return false };
        let state = self.windows.known(known);
        let newer = state.observed_at.is_some_and(|at| at > refused_at) && !refused_since(state, refused_at);
        newer && self.share(known, now.wall).is_some_and(|used| used < known.limit(limits))
    }

    fn weekly(&self, scope: ModelScope, now: Wall) -> KnownWindow {
        match scope {
            ModelScope::Fable if self.share(KnownWindow::WeeklyFable, now).is_some() => KnownWindow::WeeklyFable,
            ModelScope::Fable | ModelScope::Base => KnownWindow::Weekly,
        }
    }

    fn share(&self, window: KnownWindow, now: Wall) -> Option<f64> {
        self.windows.known(window).utilization_at(window.length(), now)
    }

    fn refuses(&self, window: KnownWindow, now: Wall) -> bool {
        self.windows.known(window).is_rejected(window.length(), now)
    }

    fn window_rejected(&self, scope: ModelScope, now: Wall) -> bool {
        let known = binding(scope).any(|window| self.refuses(window, now));
        known || self.windows.others.iter().any(|(name, state)| state.is_rejected(name.length(), now))
    }

    /// Counts only while no single window's status is known.
    fn aggregate_rejected(&self, now: Wall) -> bool {
        let Some(aggregate) = &self.aggregate else { return false };
        aggregate.status == QuotaStatus::Rejected && !aggregate.is_over(now) && !self.knows_a_status(now)
    }

    fn knows_a_status(&self, now: Wall) -> bool {
        let known = KnownWindow::ALL.into_iter();
        let mut known = known.filter_map(|window| self.windows.known(window).status_at(window.length(), now));
        let others = self.windows.others.iter();
        known.next().is_some()
            || others.filter_map(|(name, state)| state.status_at(name.length(), now)).next().is_some()
    }

    fn window_headroom(&self, window: KnownWindow, limits: &WindowLimits, now: Wall) -> f64 {
        if self.refuses(window, now) {
            return f64::NEG_INFINITY;
        }
        let Some(used) = self.share(window, now) else { return f64::INFINITY };
        let budget = window.limit(limits) - used;
        if budget <= 0.0 {
            return f64::NEG_INFINITY;
        }
        match self.windows.known(window).reset_at(now) {
            Some(reset) if used > 0.0 => pace(window, used, budget, reset, now),
            Some(_) | None => f64::INFINITY,
        }
    }

    fn reaches_cap(&self, window: KnownWindow, caps: &WindowCaps, margin: f64, now: Wall) -> bool {
        let Some(cap) = window.cap(caps) else { return false };
        self.share(window, now).is_some_and(|used| used >= cap - margin)
    }

    /// When a window's figure is over by itself: at its reset, else when the observation is too old to count.
    fn returns(&self, window: KnownWindow, now: Wall) -> Option<Wall> {
        let state = self.windows.known(window);
        state.reset_at(now).or_else(|| state.observed_at.map(|at| at.plus(window.length())))
    }
}

fn refused_since(state: &WindowState, moment: Wall) -> bool {
    state.status == Some(QuotaStatus::Rejected) && state.status_observed_at.is_some_and(|at| at > moment)
}

/// The windows whose status and cap bind requests of this scope.
fn binding(scope: ModelScope) -> impl Iterator<Item = KnownWindow> {
    KnownWindow::ALL.into_iter().filter(move |window| window.binds(scope))
}

fn pace(window: KnownWindow, used: f64, budget: f64, reset: Wall, now: Wall) -> f64 {
    let length = window.length().as_secs_f64();
    let ahead = reset.since(now).as_secs_f64();
    let elapsed = (length - ahead).clamp(1.0, length);
    budget / (used / elapsed) - ahead
}
