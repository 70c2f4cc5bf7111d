//! An account's quota windows: they open with the first use, fill by the tokens that were served, and begin anew when
//! their time is over. Also how a provider tells of them in headers.
//!
//! Never here: what a client should make of it.

use std::time::Duration;

use duduclaw_actors::clock::{Timestamp, Wall};
use serde::{Deserialize, Serialize};

const HOUR: u64 = 3600;
const WARNING_SHARE: f64 = 0.9;

/// How many tokens each window of an account holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuotaLimits {
    /// Of the five-hour window, which all models share.
    #[serde(rename = "5h")]
    pub five_hours: u64,
    /// Of the seven-day window, which all models share.
    #[serde(rename = "7d")]
    pub seven_days: u64,
    /// Of the seven-day window that governs models of the Fable family beside the shared ones.
    #[serde(rename = "7d_oi")]
    pub fable: u64,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self { five_hours: 50_000_000, seven_days: 1_000_000_000, fable: 500_000_000 }
    }
}

/// One of the windows that the simulated provider keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SimWindow {
    /// Five hours, all models.
    #[serde(rename = "5h")]
    FiveHours,
    /// Seven days, all models.
    #[serde(rename = "7d")]
    SevenDays,
    /// Seven days, models of the Fable family.
    #[serde(rename = "7d_oi")]
    Fable,
}

impl SimWindow {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 3] = [Self::FiveHours, Self::SevenDays, Self::Fable];

    /// The name in header names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FiveHours => "5h",
            Self::SevenDays => "7d",
            Self::Fable => "7d_oi",
        }
    }

    /// The name in `representative-claim`.
    #[must_use]
    pub fn claim(self) -> &'static str {
        match self {
            Self::FiveHours => "five_hour",
            Self::SevenDays => "seven_day",
            Self::Fable => "seven_day_overage_included",
        }
    }

    /// How long it lasts from its first use.
    #[must_use]
    pub fn length(self) -> Duration {
        match self {
            Self::FiveHours => Duration::from_secs(5 * HOUR),
            Self::SevenDays | Self::Fable => Duration::from_secs(7 * 24 * HOUR),
        }
    }

    /// Whether it governs requests for this model.
    #[must_use]
    pub fn governs(self, model: &str) -> bool {
        match self {
            Self::FiveHours | Self::SevenDays => true,
            Self::Fable => model.to_ascii_lowercase().contains("fable"),
        }
    }
}

/// One window as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WindowState {
    /// Which.
    pub window: SimWindow,
    /// Share used; may exceed 1 by the answer that filled it.
    pub utilization: f64,
    /// When it begins anew, in Unix seconds; nothing before its first use.
    pub reset: Option<i64>,
}

impl WindowState {
    /// Whether it is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.utilization >= 1.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Opened {
    reset: Wall,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Gauge {
    window: SimWindow,
    limit: u64,
    opened: Option<Opened>,
}

impl Gauge {
    fn settle(&mut self, now: Timestamp) {
        self.opened = self.opened.filter(|opened| opened.reset > now.wall);
    }

    fn open(&mut self, now: Timestamp) -> &mut Opened {
        self.settle(now);
        let end = now.wall.plus(self.window.length()).plus(Duration::from_millis(999));
        self.opened.get_or_insert(Opened { reset: Wall::from_secs(end.as_secs()), used: 0 })
    }

    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    fn state(&self) -> WindowState {
        let used = self.opened.map_or(0, |opened| opened.used);
        WindowState {
            window: self.window,
            utilization: used as f64 / self.limit.max(1) as f64,
            reset: self.opened.map(|opened| opened.reset.as_secs()),
        }
    }
}

/// All quota windows of one account.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    gauges: [Gauge; 3],
}

impl Quota {
    pub(super) fn new(limits: QuotaLimits) -> Self {
        let gauge = |window, limit| Gauge { window, limit, opened: None };
        Self {
            gauges: [
                gauge(SimWindow::FiveHours, limits.five_hours),
                gauge(SimWindow::SevenDays, limits.seven_days),
                gauge(SimWindow::Fable, limits.fable),
            ],
        }
    }

    /// Books tokens on every window that governs the model; a window that was closed opens now.
    pub(super) fn charge(&mut self, model: &str, tokens: u64, now: Timestamp) {
        for gauge in self.gauges.iter_mut().filter(|gauge| gauge.window.governs(model)) {
            let opened = gauge.open(now);
            opened.used = opened.used.saturating_add(tokens);
        }
    }

    /// Sets how much of a window is used, as if it had been served.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "token counts stay far below 2^52, and a negative share saturates at none"
    )]
    pub(super) fn set_share(&mut self, window: SimWindow, share: f64, now: Timestamp) {
        for gauge in self.gauges.iter_mut().filter(|gauge| gauge.window == window) {
            gauge.open(now).used = (gauge.limit as f64 * share).round() as u64;
        }
    }

    /// How the windows stand now.
    pub(super) fn states(&mut self, now: Timestamp) -> Vec<WindowState> {
        self.gauges.iter_mut().for_each(|gauge| gauge.settle(now));
        self.gauges.iter().map(Gauge::state).collect()
    }

    /// How the windows that govern this model stand now.
    pub(super) fn governing(&mut self, model: &str, now: Timestamp) -> Vec<WindowState> {
        let mut states = self.states(now);
        states.retain(|state| state.window.governs(model));
        states
    }
}

/// Whether an answer is told as served or as refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A served answer: no window is called refused, even one that this very answer filled.
    Served,
    /// A refusal.
    Refused,
}

/// The unified quota headers over these windows.
pub(super) fn unified_headers(states: &[WindowState], told: Told) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for state in states.iter().filter(|state| state.reset.is_some()) {
        let mut put = |field: &str, value: String| headers.push((unified(state.window.as_str(), field), value));
        put("status", status_word(state.utilization, told).to_owned());
        put("reset", state.reset.unwrap_or_default().to_string());
        put("utilization", format!("{:.4}", state.utilization));
    }
    headers.extend(aggregate_headers(states, told));
    headers
}

fn unified(window: &str, field: &str) -> String {
    format!("anthropic-ratelimit-unified-{window}-{field}")
}

fn aggregate_headers(states: &[WindowState], told: Told) -> Vec<(String, String)> {
    let name = |field: &str| format!("anthropic-ratelimit-unified-{field}");
    let Some(decisive) = decisive(states) else {
        return vec![(name("status"), "allowed".to_owned())];
    };
    let mut headers = vec![
        (name("status"), status_word(decisive.utilization, told).to_owned()),
        (name("representative-claim"), decisive.window.claim().to_owned()),
    ];
    headers.extend(decisive.reset.map(|reset| (name("reset"), reset.to_string())));
    headers
}

/// The window that decides: of several full ones that which returns last, else the fullest.
pub(super) fn decisive(states: &[WindowState]) -> Option<&WindowState> {
    let full = states.iter().filter(|state| state.is_full()).max_by_key(|state| state.reset);
    full.or_else(|| {
        let opened = states.iter().filter(|state| state.reset.is_some());
        opened.reduce(|best, next| if next.utilization > best.utilization { next } else { best })
    })
}

fn status_word(utilization: f64, told: Told) -> &'static str {
    match told {
        Told::Refused if utilization >= 1.0 => "rejected",
        Told::Served | Told::Refused if utilization >= WARNING_SHARE => "allowed_warning",
        Told::Served | Told::Refused => "allowed",
    }
}

#[cfg(test)]
mod tests;
