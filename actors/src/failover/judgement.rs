//! What an account's quota figures mean for its place among the others: the one door to the quota rules.

use crate::account::quota::{Quota, WindowState};
use crate::clock::{Timestamp, Wall};
use crate::id::{ModelScope, Window};
use crate::outcome::QuotaStatus;
use crate::roster::{AccountSpec, BurnRate, PoolSettings, TieOrder};

/// How close to a cap the guard begins.
const CAP_GUARD: f64 = 0.02;

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
    Over,
}

/// Where the quota stands against the hard caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cap {
    Free,
    /// So close that one request at a time is admitted.
    Guarded,
    /// At a cap until then, if known.
    Reached(Option<Wall>),
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
    let figures = Figures { quota, spec, pool, scope, now: now.wall };
    let headroom = figures.headroom();
    let weekly_reset = figures.live(&figures.weekly()).and_then(|w| w.reset);
    let tie = match pool.order {
        TieOrder::Headroom => descending(headroom),
        TieOrder::WeeklyReset => weekly_reset.map_or(0, |at| u64::try_from(at.0.max(1)).unwrap_or(1)),
    };
    let pressure = figures.pressure(headroom);
    Judgement { pressure, cap: figures.cap(), headroom, weekly_reset, remaining: figures.remaining(), tie }
}

/// Maps a number to 48 bits in which a larger one comes first.
pub(super) fn descending(value: f64) -> u64 {
    let bits = value.to_bits();
    let ascending = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    !ascending >> 16
}

struct Figures<'a> {
    quota: &'a Quota,
    spec: &'a AccountSpec,
    pool: &'a PoolSettings,
    scope: ModelScope,
    now: Wall,
}

/// What is still true of a window.
#[derive(Clone, Copy)]
struct Live {
    utilization: Option<f64>,
    reset: Option<Wall>,
    observed_at: Option<Wall>,
    rejected: bool,
}

impl Figures<'_> {
    fn live(&self, window: &Window) -> Option<Live> {
        self.quota.windows.get(window).map(|state| live(window, state, self.now))
    }

    fn utilization(&self, window: &Window) -> Option<f64> {
        self.live(window).and_then(|w| w.utilization)
    }

    fn weekly(&self) -> Window {
        match self.scope {
            ModelScope::Fable if self.utilization(&Window::WeeklyFable).is_some() => Window::WeeklyFable,
            ModelScope::Fable | ModelScope::Base => Window::Weekly,
        }
    }

    fn governing(&self) -> [Window; 2] {
        [Window::FiveHour, self.weekly()]
    }

    fn threshold(&self, window: &Window) -> f64 {
        match window {
            Window::FiveHour => self.spec.thresholds.five_hour,
            Window::WeeklyFable => self.spec.thresholds.fable,
            Window::Weekly | Window::Other(_) => self.spec.thresholds.weekly,
        }
    }

    fn pressure(&self, headroom: f64) -> Pressure {
        let over = |limit: &dyn Fn(&Window) -> f64| {
            self.governing().iter().any(|w| self.utilization(w).is_some_and(|u| u >= limit(w)))
        };
        if self.rejected() || over(&|_| self.pool.hard_threshold) {
            Pressure::Over
        } else if over(&|w| self.threshold(w)) || (self.pool.burn_rate == BurnRate::Avoid && headroom < 0.0) {
            Pressure::Near
        } else {
            Pressure::Below
        }
    }

    fn rejected(&self) -> bool {
        let counts = |window: &Window| *window != Window::WeeklyFable || self.scope == ModelScope::Fable;
        let windows = || self.quota.windows.iter().map(|(w, state)| (w, live(w, state, self.now)));
        if windows().any(|(w, l)| counts(w) && l.rejected) {
            return true;
        }
        let known = self.quota.windows.iter().any(|(w, s)| s.status.is_some() && status_lives(w, s, self.now));
        !known && self.aggregate_rejected()
    }

    fn aggregate_rejected(&self) -> bool {
        let week = Window::Weekly.length();
        let lives = |observed: Wall| observed.plus(week) > self.now;
        self.quota.aggregate.as_ref().is_some_and(|a| a.status == QuotaStatus::Rejected && lives(a.observed_at))
    }

    fn headroom(&self) -> f64 {
        self.governing().iter().map(|w| self.headroom_of(w)).fold(f64::INFINITY, f64::min)
    }

    fn headroom_of(&self, window: &Window) -> f64 {
        let Some(state) = self.live(window) else { return f64::INFINITY };
        if state.rejected {
            return f64::NEG_INFINITY;
        }
        let (Some(used), Some(reset)) = (state.utilization, state.reset) else { return f64::INFINITY };
        let budget = self.threshold(window) - used;
        if budget <= 0.0 {
            return f64::NEG_INFINITY;
        }
        if used <= 0.0 {
            return f64::INFINITY;
        }
        let left = reset.since(self.now).as_secs_f64();
        let length = window.length().as_secs_f64();
        let elapsed = (length - left).clamp(1.0, length);
        budget / (used / elapsed) - left
    }

    fn remaining(&self) -> f64 {
        self.governing().iter().filter_map(|w| self.utilization(w)).fold(1.0, |least, used| (1.0 - used).min(least))
    }

    fn cap(&self) -> Cap {
        let caps = [
            (Window::FiveHour, self.spec.caps.five_hour),
            (Window::Weekly, self.spec.caps.weekly),
            (Window::WeeklyFable, self.spec.caps.fable.filter(|_| self.scope == ModelScope::Fable)),
        ];
        let mut verdict = Cap::Free;
        for (window, cap) in caps {
            let (Some(cap), Some(state)) = (cap, self.live(&window)) else { continue };
            let Some(used) = state.utilization else { continue };
            verdict = join(verdict, one_cap(&window, cap, used, state));
        }
        verdict
    }
}

fn one_cap(window: &Window, cap: f64, used: f64, state: Live) -> Cap {
    if used >= cap {
        Cap::Reached(state.reset.or(state.observed_at.map(|at| at.plus(window.length()))))
    } else if used >= cap - CAP_GUARD {
        Cap::Guarded
    } else {
        Cap::Free
    }
}

fn join(one: Cap, other: Cap) -> Cap {
    match (one, other) {
        (Cap::Reached(a), Cap::Reached(b)) => Cap::Reached(a.zip(b).map(|(a, b)| a.max(b))),
        (reached @ Cap::Reached(_), Cap::Free | Cap::Guarded)
        | (Cap::Free | Cap::Guarded, reached @ Cap::Reached(_)) => reached,
        (Cap::Guarded, Cap::Free | Cap::Guarded) | (Cap::Free, Cap::Guarded) => Cap::Guarded,
        (Cap::Free, Cap::Free) => Cap::Free,
    }
}

fn live(window: &Window, state: &WindowState, now: Wall) -> Live {
    let rejected = state.status == Some(QuotaStatus::Rejected) && status_lives(window, state, now);
    if state.reset.is_some_and(|at| at <= now) {
        return Live { utilization: None, reset: None, observed_at: None, rejected };
    }
    let stale = state.observed_at.is_some_and(|at| at.plus(window.length()) <= now);
    let utilization = state.utilization.filter(|_| !stale);
    Live { utilization, reset: state.reset, observed_at: state.observed_at, rejected }
}

fn status_lives(window: &Window, state: &WindowState, now: Wall) -> bool {
    let over = state.status_boundary.is_some_and(|at| at <= now);
    let stale = state.status_observed_at.is_some_and(|at| at.plus(window.length()) <= now);
    !over && !stale
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
