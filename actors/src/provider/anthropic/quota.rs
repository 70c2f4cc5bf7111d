//! The quota headers `anthropic-ratelimit-unified-*`: read from every answer, and written where we speak for a pool.
//!
//! | header after the prefix | meaning |
//! |---|---|
//! | `<window>-utilization` | share used, a fraction; may exceed 1 |
//! | `<window>-reset` | when the window begins anew, Unix seconds |
//! | `<window>-status` | `allowed`, `allowed_warning`, `rejected` |
//! | `status`, `reset` | the same of all windows together |
//! | `representative-claim` | the window that decides, by its long name (`five_hour`) |
//!
//! Any window is read, known or not. Garbage in one header loses that header only; of a header given twice the graver
//! value counts. One name looks like a window and is none: `overage` is the paid budget beside the windows, and its
//! `rejected` stands on the good answers of every account that has none.
//!
//! Never here: what the figures mean for an account.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::clock::{Timestamp, Wall};
use crate::id::Window;
use crate::outcome::{QuotaReading, QuotaStatus, WindowReading};
use crate::provider::wait;

/// What the name of every quota header begins with.
pub const PREFIX: &str = "anthropic-ratelimit-unified-";

/// Names in the place of a window that are none.
const NO_WINDOWS: [&str; 1] = ["overage"];

/// The long names that `representative-claim` uses for windows.
const CLAIMS: [(&str, Window); 4] = [
    ("five_hour", Window::FiveHour),
    ("seven_day", Window::Weekly),
    ("seven_day_overage_included", Window::WeeklyFable),
    ("seven_day_oi", Window::WeeklyFable),
];

/// All quota headers of an answer. Allocates nothing where there are none.
#[must_use]
pub fn quota_reading(headers: &HeaderMap, now: Timestamp) -> QuotaReading {
    let mut reading = QuotaReading::default();
    let mut aggregate_reset = None;
    for (field, value) in fields(headers) {
        match field {
            "status" => reading.status = graver(reading.status.take(), status(value)),
            "representative-claim" => reading.representative = Some(value.to_owned()).filter(|claim| !claim.is_empty()),
            "reset" => aggregate_reset = Some(value),
            _ => read_window(&mut reading.windows, field, value, now),
        }
    }
    let deciding = reading.representative.as_deref().map_or(Window::Weekly, claimed_window);
    reading.reset = aggregate_reset.and_then(|value| wait::reset(value, &deciding, now));
    reading
}

/// The window that a claim names; one without a short name we know is kept by its raw name.
#[must_use]
pub fn claimed_window(claim: &str) -> Window {
    let known = CLAIMS.iter().find(|(name, _)| *name == claim);
    known.map_or_else(|| Window::from_name(claim), |(_, window)| window.clone())
}

/// The name under which `representative-claim` names a window.
#[must_use]
pub fn claim_of(window: &Window) -> &str {
    let known = CLAIMS.iter().find(|(_, named)| named == window);
    known.map_or_else(|| window.name(), |(name, _)| name)
}

/// The headers that tell a reading: what an answer of our own says of a whole pool. A window whose name cannot stand in
/// a header, and a figure that is no number, are left out.
#[must_use]
pub fn unified_headers(reading: &QuotaReading) -> Vec<(HeaderName, HeaderValue)> {
    let aggregate = [
        ("status", reading.status.as_ref().map(|status| status_name(status).to_owned())),
        ("reset", reading.reset.map(whole_seconds)),
        ("representative-claim", reading.representative.clone()),
    ];
    let aggregate = aggregate.into_iter().filter_map(|(field, text)| header(field, &text?));
    aggregate.chain(reading.windows.iter().flat_map(window_headers)).collect()
}

/// The name of a window's header: its `utilization`, `reset` or `status`.
#[must_use]
pub fn header_name(window: &Window, field: &str) -> String {
    format!("{PREFIX}{}-{field}", window.name())
}

/// Whether it is one of the quota headers.
pub(super) fn is_quota_header(name: &HeaderName) -> bool {
    name.as_str().starts_with(PREFIX)
}

fn fields(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers.iter().filter_map(|(name, value)| {
        let field = name.as_str().strip_prefix(PREFIX)?;
        Some((field, value.to_str().ok()?.trim()))
    })
}

fn read_window(windows: &mut Vec<WindowReading>, field: &str, value: &str, now: Timestamp) {
    let Some((name, what)) = field.rsplit_once('-').filter(|(name, _)| is_window(name)) else { return };
    match what {
        "utilization" => {
            if let Some(share) = utilization(value) {
                let window = entry(windows, name);
                window.utilization = Some(window.utilization.map_or(share, |earlier| earlier.max(share)));
            }
        }
        "reset" => {
            if let Some(at) = wait::reset(value, &Window::from_name(name), now) {
                let window = entry(windows, name);
                window.reset = window.reset.max(Some(at));
            }
        }
        "status" => {
            if let Some(status) = status(value) {
                let window = entry(windows, name);
                window.status = graver(window.status.take(), Some(status));
            }
        }
        _ => {}
    }
}

fn is_window(name: &str) -> bool {
    !name.is_empty() && !NO_WINDOWS.contains(&name)
}

fn entry<'a>(windows: &'a mut Vec<WindowReading>, name: &str) -> &'a mut WindowReading {
    let at = windows.iter().position(|known| known.window.name() == name).unwrap_or(windows.len());
    if at == windows.len() {
        windows.push(WindowReading { window: Window::from_name(name), utilization: None, reset: None, status: None });
    }
    &mut windows[at]
}

fn utilization(value: &str) -> Option<f64> {
    let share: f64 = value.parse().ok()?;
    (share.is_finite() && share >= 0.0).then_some(share.abs())
}

fn status(value: &str) -> Option<QuotaStatus> {
    let is = |word: &str| value.eq_ignore_ascii_case(word);
    match value {
        "" => None,
        _ if is("allowed") => Some(QuotaStatus::Allowed),
        _ if is("allowed_warning") => Some(QuotaStatus::Warning),
        _ if is("rejected") => Some(QuotaStatus::Rejected),
        other => Some(QuotaStatus::Unknown(other.to_owned())),
    }
}

fn status_name(status: &QuotaStatus) -> &str {
    match status {
        QuotaStatus::Allowed => "allowed",
        QuotaStatus::Warning => "allowed_warning",
        QuotaStatus::Rejected => "rejected",
        QuotaStatus::Unknown(word) => word,
    }
}

fn graver(one: Option<QuotaStatus>, other: Option<QuotaStatus>) -> Option<QuotaStatus> {
    let gravity = |status: &Option<QuotaStatus>| match status {
        None => 0,
        Some(QuotaStatus::Unknown(_)) => 1,
        Some(QuotaStatus::Allowed) => 2,
        Some(QuotaStatus::Warning) => 3,
        Some(QuotaStatus::Rejected) => 4,
    };
    if gravity(&other) > gravity(&one) { other } else { one }
}

fn window_headers(reading: &WindowReading) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let share = reading.utilization.filter(|share| share.is_finite());
    let fields = [
        ("utilization", share.map(|share| share.to_string())),
        ("reset", reading.reset.map(whole_seconds)),
        ("status", reading.status.as_ref().map(|status| status_name(status).to_owned())),
    ];
    fields.into_iter().filter_map(|(field, text)| header(&format!("{}-{field}", reading.window.name()), &text?))
}

fn header(field: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::try_from(format!("{PREFIX}{field}")).ok()?;
    Some((name, HeaderValue::from_str(value).ok()?))
}

/// Rounded up: nobody comes back too early.
fn whole_seconds(at: Wall) -> String {
    Wall(at.0.saturating_add(999)).as_secs().to_string()
}

#[cfg(test)]
mod tests;
