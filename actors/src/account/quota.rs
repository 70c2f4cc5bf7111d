//! An account's quota windows: what was observed, when, and how long it stays true.
//!
//! Two files hold the rules. `observe` writes what answers and usage polls showed. `judge` says what that means for a
//! request: near, over, capped, how much room is left. Judgements never need a write first: at any `now` they treat a
//! figure whose time is over as forgotten, and they allocate nothing, since admission asks them of every account for
//! every lease.
//!
//! Never here: holds. A refusal is a hold's affair (see [`super::health`]); this is only about figures.

mod judge;
mod observe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::judge::{CAP_MARGIN, Capped, NearCause};
pub(super) use self::observe::moved;
use crate::clock::Wall;
use crate::id::{ModelScope, Window};
use crate::outcome::QuotaStatus;
use crate::roster::{WindowCaps, WindowLimits};

/// All that is known of an account's quota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// Per window.
    pub windows: Windows,
    /// The aggregate status, which has a life of its own.
    pub aggregate: Option<Aggregate>,
}

/// What is known of each window: a place for each known one, a short list for the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Window, WindowState>", into = "BTreeMap<Window, WindowState>")]
pub struct Windows {
    known: [WindowState; 3],
    others: Vec<(Window, WindowState)>,
}

/// What is known of one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowState {
    /// Share used.
    pub utilization: Option<f64>,
    /// When it begins anew.
    pub reset: Option<Wall>,
    /// When the utilization was seen.
    pub observed_at: Option<Wall>,
    /// What the provider said.
    pub status: Option<QuotaStatus>,
    /// When it said so.
    pub status_observed_at: Option<Wall>,
    /// The reset known when it said so; later updates never move it.
    pub status_boundary: Option<Wall>,
}

/// The status over all windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// What the provider said.
    pub status: QuotaStatus,
    /// When it said so.
    pub observed_at: Wall,
}

/// A window that thresholds, headroom and caps know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KnownWindow {
    /// `5h`.
    FiveHour,
    /// `7d`.
    Weekly,
    /// `7d_oi`.
    WeeklyFable,
}

impl KnownWindow {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::FiveHour, Self::Weekly, Self::WeeklyFable];

    /// The known window that this is, if it is one.
    #[must_use]
    pub fn of(window: &Window) -> Option<Self> {
        match window {
            Window::FiveHour => Some(Self::FiveHour),
            Window::Weekly => Some(Self::Weekly),
            Window::WeeklyFable => Some(Self::WeeklyFable),
            Window::Other(_) => None,
        }
    }

    /// The window.
    #[must_use]
    pub fn window(self) -> Window {
        match self {
            Self::FiveHour => Window::FiveHour,
            Self::Weekly => Window::Weekly,
            Self::WeeklyFable => Window::WeeklyFable,
        }
    }

    /// How long it is.
    #[must_use]
    pub fn length(self) -> Duration {
        match self {
            Self::FiveHour => Window::FiveHour.length(),
            Self::Weekly => Window::Weekly.length(),
            Self::WeeklyFable => Window::WeeklyFable.length(),
        }
    }

    /// Its fraction in a set of thresholds.
    #[must_use]
    pub fn limit(self, limits: &WindowLimits) -> f64 {
        match self {
            Self::FiveHour => limits.five_hour,
            Self::Weekly => limits.weekly,
            Self::WeeklyFable => limits.fable,
        }
    }

    /// Its cap, if it has one.
    #[must_use]
    pub fn cap(self, caps: &WindowCaps) -> Option<f64> {
        match self {
            Self::FiveHour => caps.five_hour,
            Self::Weekly => caps.weekly,
            Self::WeeklyFable => caps.fable,
        }
    }

    /// Whether its status and its cap bind requests of this scope.
    #[must_use]
    pub fn binds(self, scope: ModelScope) -> bool {
        match self {
            Self::FiveHour | Self::Weekly => true,
            Self::WeeklyFable => scope == ModelScope::Fable,
        }
    }
}

impl Windows {
    /// What is known of this window; `None` if it was never named.
    #[must_use]
    pub fn get(&self, window: &Window) -> Option<&WindowState> {
        let state = match KnownWindow::of(window) {
            Some(known) => self.known(known),
            None => self.others.iter().find(|(name, _)| name == window).map(|(_, state)| state)?,
        };
        (!state.is_blank()).then_some(state)
    }

    /// What is known of a known window; blank if it was never named.
    #[must_use]
    pub fn known(&self, window: KnownWindow) -> &WindowState {
        &self.known[window as usize]
    }

    /// The windows of which something is known.
    pub fn iter(&self) -> impl Iterator<Item = (Window, &WindowState)> {
        let known = KnownWindow::ALL.into_iter().map(|known| (known.window(), self.known(known)));
        let others = self.others.iter().map(|(name, state)| (name.clone(), state));
        known.chain(others).filter(|(_, state)| !state.is_blank())
    }

    /// The place of this window, made if need be.
    pub(super) fn place(&mut self, window: &Window) -> &mut WindowState {
        if let Some(known) = KnownWindow::of(window) {
            return &mut self.known[known as usize];
        }
        let at = self.others.iter().position(|(name, _)| name == window).unwrap_or_else(|| {
            self.others.push((window.clone(), WindowState::default()));
            self.others.len() - 1
        });
        &mut self.others[at].1
    }

    /// Every place with its window's length.
    fn places(&mut self) -> impl Iterator<Item = (Duration, &mut WindowState)> {
        let known = KnownWindow::ALL.into_iter().map(KnownWindow::length).zip(self.known.iter_mut());
        known.chain(self.others.iter_mut().map(|(name, state)| (name.length(), state)))
    }

    /// Gives up the places of unknown windows of which nothing is known any more.
    fn tidy(&mut self) {
        self.others.retain(|(_, state)| !state.is_blank());
    }
}

impl From<BTreeMap<Window, WindowState>> for Windows {
    fn from(map: BTreeMap<Window, WindowState>) -> Self {
        let mut windows = Self::default();
        for (window, state) in map {
            *windows.place(&window) = state;
        }
        windows
    }
}

impl From<Windows> for BTreeMap<Window, WindowState> {
    fn from(windows: Windows) -> Self {
        windows.iter().map(|(window, state)| (window, state.clone())).collect()
    }
}

impl WindowState {
    /// The share used, unless its time is over at `now`.
    #[must_use]
    pub fn utilization_at(&self, length: Duration, now: Wall) -> Option<f64> {
        let over = is_over(self.reset, now) && !sabotaged!(OldFigureJudged)
            || self.observed_at.is_none_or(|at| at.plus(length) <= now);
        if over { None } else { self.utilization }
    }

    /// The reset, if it is still ahead.
    #[must_use]
    pub fn reset_at(&self, now: Wall) -> Option<Wall> {
        self.reset.filter(|reset| *reset > now)
    }

    /// The status, unless its time is over at `now`.
    #[must_use]
    pub fn status_at(&self, length: Duration, now: Wall) -> Option<&QuotaStatus> {
        let stale = self.status_observed_at.is_none_or(|at| at.plus(length) <= now);
        if stale || is_over(self.status_boundary, now) && !sabotaged!(OldStatusJudged) {
            None
        } else {
            self.status.as_ref()
        }
    }

    /// Whether the provider's last word on it, at `now`, is a refusal.
    #[must_use]
    pub fn is_rejected(&self, length: Duration, now: Wall) -> bool {
        self.status_at(length, now) == Some(&QuotaStatus::Rejected)
    }

    fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

fn is_over(boundary: Option<Wall>, now: Wall) -> bool {
    boundary.is_some_and(|at| at <= now)
}
