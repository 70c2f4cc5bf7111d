//! The usage page of a login (`GET /api/oauth/usage`): how full its quota windows are, read and written.
//!
//! Windows stand there twice, under names of their own and in a list; the list also has the model-scoped one. Shares are
//! percent, ends are RFC 3339. What a page does not name keeps its value.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::id::Window;
use crate::outcome::WindowReading;

/// The name under which the list shows the model scope of `7d_oi`.
const FABLE: &str = "Fable";

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    five_hour: Option<Named>,
    #[serde(default)]
    seven_day: Option<Named>,
    #[serde(default)]
    limits: Option<Vec<serde_json::Value>>,
}

#[derive(Deserialize)]
struct Named {
    utilization: Option<f64>,
    resets_at: Option<String>,
}

#[derive(Deserialize)]
struct Limit {
    kind: String,
    percent: Option<f64>,
    resets_at: Option<String>,
    #[serde(default)]
    scope: Option<LimitScope>,
}

#[derive(Deserialize)]
struct LimitScope {
    model: Option<LimitModel>,
}

#[derive(Deserialize)]
struct LimitModel {
    display_name: Option<String>,
}

/// The windows that a page tells of; `None` if it is no such page.
#[must_use]
pub fn read(body: &[u8]) -> Option<Vec<WindowReading>> {
    let object: serde_json::Map<_, _> = serde_json::from_slice(body).ok()?;
    let page: Page = serde_json::from_value(object.into()).ok()?;
    let mut windows = Vec::new();
    let named = [(Window::FiveHour, page.five_hour), (Window::Weekly, page.seven_day)];
    for (window, told) in named.into_iter().filter_map(|(window, told)| Some((window, told?))) {
        add(&mut windows, window, told.utilization, told.resets_at.as_deref());
    }
    // An entry of another shape is another's affair.
    let limits = page.limits.into_iter().flatten().filter_map(|limit| serde_json::from_value::<Limit>(limit).ok());
    for limit in limits {
        if let Some(window) = window_of(&limit) {
            add(&mut windows, window, limit.percent, limit.resets_at.as_deref());
        }
    }
    Some(windows)
}

fn window_of(limit: &Limit) -> Option<Window> {
    match limit.kind.as_str() {
        "session" => Some(Window::FiveHour),
        "weekly_all" => Some(Window::Weekly),
        "weekly_scoped" => {
            let model = limit.scope.as_ref()?.model.as_ref()?.display_name.as_deref()?;
            (model == FABLE).then_some(Window::WeeklyFable)
        }
        _ => None,
    }
}

/// The first that tells of a window counts.
fn add(windows: &mut Vec<WindowReading>, window: Window, percent: Option<f64>, resets_at: Option<&str>) {
    let known = windows.iter().any(|reading| reading.window == window);
    let utilization = percent.filter(|percent| percent.is_finite()).map(|percent| percent.max(0.0) / 100.0);
    let reset =
        resets_at.and_then(|at| DateTime::parse_from_rfc3339(at).ok()).map(|at| Wall::from_secs(at.timestamp()));
    if !known && (utilization.is_some() || reset.is_some()) {
        windows.push(WindowReading { window, utilization, reset, status: None });
    }
}

/// A page of ours. Windows of which nothing is known are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OwnPage {
    #[serde(skip_serializing_if = "Option::is_none")]
    five_hour: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seven_day: Option<Shown>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<ShownLimit>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Shown {
    utilization: f64,
    resets_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ShownLimit {
    kind: &'static str,
    group: &'static str,
    percent: f64,
    resets_at: Option<String>,
    scope: Option<serde_json::Value>,
}

impl OwnPage {
    /// The page that shows these windows.
    #[must_use]
    pub fn of(windows: &[WindowReading]) -> Self {
        let find = |wanted: &Window| windows.iter().find(|reading| reading.window == *wanted);
        let limit = |(window, kind, group, scope): (Window, _, _, Option<serde_json::Value>)| {
            let shown = shown(find(&window)?)?;
            Some(ShownLimit { kind, group, percent: shown.utilization, resets_at: shown.resets_at, scope })
        };
        let fable = Some(serde_json::json!({"model": {"display_name": FABLE}}));
        let limits = [
            (Window::FiveHour, "session", "session", None),
            (Window::Weekly, "weekly_all", "weekly", None),
            (Window::WeeklyFable, "weekly_scoped", "weekly", fable),
        ];
        Self {
            five_hour: find(&Window::FiveHour).and_then(shown),
            seven_day: find(&Window::Weekly).and_then(shown),
            limits: limits.into_iter().filter_map(limit).collect(),
        }
    }
}

fn shown(reading: &WindowReading) -> Option<Shown> {
    let utilization = (reading.utilization? * 10_000.0).round() / 100.0;
    let at: Option<DateTime<Utc>> = reading.reset.and_then(|at| DateTime::from_timestamp(at.as_secs(), 0));
    Some(Shown { utilization, resets_at: at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(windows: &[WindowReading]) -> Vec<(String, Option<f64>, Option<i64>)> {
        windows.iter().map(|w| (w.window.name().to_owned(), w.utilization, w.reset.map(Wall::as_secs))).collect()
    }

    #[test]
    fn a_page_tells_three_windows_and_an_unknown_one_is_passed_over() {
        let page = br#"{"five_hour": {"utilization": 37.5, "resets_at": "2026-11-29T23:00:00.731+00:00"},
            "seven_day": {"utilization": -1, "resets_at": null}, "seven_day_sonnet": {"utilization": 9},
            "limits": [{"kind": "session", "percent": 99, "resets_at": "2026-11-29T23:00:00Z", "scope": null},
              {"kind": "weekly_scoped", "percent": 120.0, "resets_at": "2026-12-01T00:00:00Z",
               "scope": {"model": {"display_name": "Fable"}}},
              {"kind": "weekly_scoped", "percent": 1, "scope": {"model": {"display_name": "Else"}}},
              {"kind": 7}, "odd"]}"#;
        let expected = [
            ("5h", Some(0.375), Some(1_795_993_200)),
            ("7d", Some(0.0), None),
            ("7d_oi", Some(1.2), Some(1_796_083_200)),
        ];
        let expected = expected.map(|(name, used, at)| (name.to_owned(), used, at));
        assert_eq!(said(&read(page).unwrap()), expected);
    }

    #[test]
    fn the_list_tells_what_no_name_does() {
        let page = br#"{"five_hour": null, "limits": [{"kind": "weekly_all", "percent": 12, "resets_at": "no time"}]}"#;
        assert_eq!(said(&read(page).unwrap()), [("7d".to_owned(), Some(0.12), None)]);
    }

    #[test]
    fn what_is_no_page_is_none_and_an_empty_one_tells_nothing() {
        assert_eq!(read(b"<html>"), None);
        assert_eq!(read(b"[]"), None);
        assert_eq!(read(b"{}"), Some(Vec::new()));
    }

    #[test]
    fn a_page_of_ours_is_read_as_what_it_shows() {
        let reading = |window, used, reset| WindowReading { window, utilization: Some(used), reset, status: None };
        let windows = [
            reading(Window::FiveHour, 0.3333, Some(Wall::from_secs(1_795_993_200))),
            reading(Window::Weekly, 0.5, None),
            reading(Window::WeeklyFable, 0.25, Some(Wall::from_secs(1_796_083_200))),
        ];
        let page = serde_json::to_vec(&OwnPage::of(&windows)).unwrap();
        assert_eq!(read(&page).unwrap(), windows);
        assert_eq!(serde_json::to_string(&OwnPage::of(&[])).unwrap(), "{}");
    }
}
