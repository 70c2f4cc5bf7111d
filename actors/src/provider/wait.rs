//! How long a provider says to wait: `retry-after`, and the resets of quota windows.
//!
//! A stated wait is a measurement: it is never clamped. An absurd one is no statement at all and reads as absent, so
//! that whoever asked falls back to its own guess: a plain wait over 8 days (which is also how milliseconds and dates
//! given for seconds show themselves), a reset farther than its window's length and a tenth, a moment that has passed,
//! zero, a negative number, `NaN`, `inf`, and text that is neither number nor HTTP-date. Fractions round up. Where
//! several values were given, in one line or in several, the largest credible one counts.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};

use crate::clock::{Timestamp, Wall};
use crate::id::Window;

/// The longest plain wait that is believed. No quota window is longer than a week.
pub const LONGEST_WAIT: Duration = Duration::from_secs(8 * 24 * 3600);

/// The headers that state a plain wait: in seconds or as a date; and in milliseconds, which some providers send beside
/// the standard header because it is finer.
pub const HEADERS: [&str; 2] = ["retry-after", "retry-after-ms"];

/// The wait that the headers state: `retry-after` in seconds or as an HTTP-date, or `retry-after-ms`; the longest
/// credible one of them.
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let [plain, fine] = HEADERS;
    let plain = longest(headers, plain, |member| wait(member, now));
    let fine = longest(headers, fine, |member| number(member).and_then(milliseconds));
    plain.max(fine)
}

/// Whether [`retry_after`] reads it.
pub(super) fn is_retry_after(name: &HeaderName) -> bool {
    HEADERS.contains(&name.as_str())
}

/// The moment at which `window` begins anew, from a header value in Unix seconds.
#[must_use]
pub fn reset(value: &str, window: &Window, now: Timestamp) -> Option<Wall> {
    let farthest = now.wall.plus(window.length().mul_f64(1.1));
    let credible = |at: &Wall| *at > now.wall && *at <= farthest;
    members(value).filter_map(|member| number(member).map(unix_seconds)).filter(credible).max()
}

fn longest(headers: &HeaderMap, name: &str, read: impl Fn(&str) -> Option<Duration>) -> Option<Duration> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(members).filter_map(read).max()
}

fn wait(member: &str, now: Timestamp) -> Option<Duration> {
    match number(member) {
        Some(seconds) => whole_seconds(seconds),
        None => until_date(member, now),
    }
}

fn whole_seconds(seconds: f64) -> Option<Duration> {
    credible(Duration::try_from_secs_f64(seconds.ceil()).ok()?)
}

fn milliseconds(millis: f64) -> Option<Duration> {
    credible(Duration::try_from_secs_f64(millis.ceil() / 1000.0).ok()?)
}

fn until_date(text: &str, now: Timestamp) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let at = Wall::from_secs(i64::try_from(date.as_secs()).ok()?);
    credible(at.since(now.wall))
}

fn credible(wait: Duration) -> Option<Duration> {
    (!wait.is_zero() && wait <= LONGEST_WAIT).then_some(wait)
}

/// Saturates for huge numbers, which no window is long enough for.
fn unix_seconds(seconds: f64) -> Wall {
    Wall::from_secs(seconds.ceil() as i64)
}

/// A plain decimal number: no sign, no exponent, no word.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

/// The members of a joined header value. The comma after the weekday of an HTTP-date joins nothing.
fn members(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = member_end(text);
        rest = end.map(|at| &text[at + 1..]);
        Some(text[..end.unwrap_or(text.len())].trim())
    })
}

fn member_end(text: &str) -> Option<usize> {
    let first = text.find(',')?;
    if !is_weekday(text[..first].trim()) {
        return Some(first);
    }
    text[first + 1..].find(',').map(|next| first + 1 + next)
}

fn is_weekday(word: &str) -> bool {
    let begins = |day: &str| word.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case(day));
    ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].into_iter().any(begins)
}

#[cfg(test)]
mod tests;
