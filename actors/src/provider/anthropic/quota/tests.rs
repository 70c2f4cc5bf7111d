use proptest::prelude::*;

use super::*;
use crate::clock::Boot;

const NOW: Timestamp = Timestamp { wall: Wall(1_792_567_620_000), boot: Boot(3_600_000) };

fn read(lines: &[(&str, &str)]) -> QuotaReading {
    quota_reading(&headers(lines), NOW)
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (field, value) in lines {
        let name = HeaderName::try_from(format!("{PREFIX}{field}")).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn after(seconds: i64) -> String {
    (NOW.wall.as_secs() + seconds).to_string()
}

fn at(seconds: i64) -> Option<Wall> {
    Some(Wall::from_secs(NOW.wall.as_secs() + seconds))
}

fn window(window: Window) -> WindowReading {
    WindowReading { window, utilization: None, reset: None, status: None }
}

#[test]
fn every_window_is_read_by_its_raw_name() {
    let reading = read(&[
        ("status", "allowed_warning"),
        ("reset", &after(7999)),
        ("representative-claim", "five_hour"),
        ("5h-utilization", "0.91"),
        ("5h-reset", &after(7999)),
        ("5h-status", "allowed_warning"),
        ("7d_oi-utilization", "1.02"),
        ("30d-zz-status", "rejected"),
    ]);
    assert_eq!(reading.status, Some(QuotaStatus::Warning));
    assert_eq!(reading.reset, at(7999));
    assert_eq!(reading.representative.as_deref(), Some("five_hour"));
    let five = WindowReading {
        utilization: Some(0.91),
        reset: at(7999),
        status: Some(QuotaStatus::Warning),
        ..window(Window::FiveHour)
    };
    let fable = WindowReading { utilization: Some(1.02), ..window(Window::WeeklyFable) };
    let unknown = WindowReading { status: Some(QuotaStatus::Rejected), ..window(Window::Other("30d-zz".into())) };
    for expected in [five, fable, unknown] {
        assert!(reading.windows.contains(&expected), "{expected:?} in {reading:?}");
    }
    assert_eq!(reading.windows.len(), 3);
}

#[test]
fn an_answer_without_quota_headers_reads_as_nothing() {
    let mut plain = HeaderMap::new();
    plain.insert("anthropic-ratelimit-requests-reset", HeaderValue::from_static("2026-10-21T07:28:00Z"));
    plain.insert("retry-after", HeaderValue::from_static("7"));
    let reading = quota_reading(&plain, NOW);
    assert!(reading.is_empty());
    assert_eq!(reading.windows.capacity(), 0, "nothing is allocated for it");
}

#[test]
fn garbage_in_one_header_loses_only_that_header() {
    for garbage in ["", "much", "NaN", "inf", "-0.5", "\u{ff15}"] {
        let reading = read(&[
            ("5h-utilization", garbage),
            ("5h-reset", &after(60)),
            ("7d-utilization", "0.5"),
            ("5h-status", "rejected"),
        ]);
        let five = WindowReading { reset: at(60), status: Some(QuotaStatus::Rejected), ..window(Window::FiveHour) };
        assert!(reading.windows.contains(&five), "{garbage:?}: {reading:?}");
        assert!(reading.windows.contains(&WindowReading { utilization: Some(0.5), ..window(Window::Weekly) }));
    }
    let reading = read(&[("5h-utilization", "0.4"), ("5h-reset", "never"), ("5h-status", "")]);
    assert_eq!(reading.windows, [WindowReading { utilization: Some(0.4), ..window(Window::FiveHour) }]);
    assert!(read(&[("5h-utilization", "much"), ("7d-reset", "never")]).windows.is_empty(), "no window of nothing");
}

#[test]
fn a_status_is_read_whatever_its_case_and_an_unknown_word_is_kept() {
    let status = |word| read(&[("7d-status", word)]).windows[0].status.clone();
    assert_eq!(status("Rejected"), Some(QuotaStatus::Rejected));
    assert_eq!(status(" REJECTED "), Some(QuotaStatus::Rejected));
    assert_eq!(status("rejected_soon"), Some(QuotaStatus::Unknown("rejected_soon".into())));
}

#[test]
fn of_a_header_given_twice_the_graver_counts() {
    for order in [["0.4", "0.9"], ["0.9", "0.4"]] {
        let reading = read(&[("5h-utilization", order[0]), ("5h-utilization", order[1])]);
        assert_eq!(reading.windows[0].utilization, Some(0.9));
    }
    for order in [["allowed", "rejected"], ["rejected", "allowed"]] {
        let reading =
            read(&[("status", order[0]), ("status", order[1]), ("5h-status", order[0]), ("5h-status", order[1])]);
        assert_eq!(reading.status, Some(QuotaStatus::Rejected));
        assert_eq!(reading.windows[0].status, Some(QuotaStatus::Rejected));
    }
    let reading = read(&[("5h-reset", &after(90)), ("5h-reset", &after(60))]);
    assert_eq!(reading.windows[0].reset, at(90));
}

/// An organisation that buys no extra usage gets `overage-status: rejected` on every good answer.
#[test]
fn the_paid_budget_beside_the_windows_is_no_window() {
    let reading = read(&[
        ("overage-status", "rejected"),
        ("overage-disabled-reason", "org_level_disabled"),
        ("overage-in-use", "false"),
        ("overage-utilization", "1.0"),
        ("overage-reset", &after(60)),
        ("fallback", "available"),
        ("fallback-percentage", "0.5"),
        ("5h-surpassed-threshold", "0.9"),
        ("-status", "rejected"),
    ]);
    assert!(reading.windows.is_empty(), "{reading:?}");
}

#[test]
fn the_aggregate_reset_is_judged_by_the_window_that_decides() {
    let six_hours = after(6 * 3600);
    assert_eq!(read(&[("reset", &six_hours), ("representative-claim", "five_hour")]).reset, None);
    assert_eq!(read(&[("reset", &six_hours), ("representative-claim", "seven_day")]).reset, at(6 * 3600));
    assert_eq!(read(&[("reset", &six_hours)]).reset, at(6 * 3600));
}

#[test]
fn a_claim_names_its_window_and_an_unknown_one_keeps_its_name() {
    for (claim, window) in [
        ("five_hour", Window::FiveHour),
        ("seven_day", Window::Weekly),
        ("seven_day_overage_included", Window::WeeklyFable),
        ("7d_oi", Window::WeeklyFable),
        ("seven_day_opus", Window::Other("seven_day_opus".into())),
        ("overage", Window::Other("overage".into())),
    ] {
        assert_eq!(claimed_window(claim), window, "{claim}");
    }
    for window in [Window::FiveHour, Window::Weekly, Window::WeeklyFable, Window::Other("zz".into())] {
        assert_eq!(claimed_window(claim_of(&window)), window);
    }
}

#[test]
fn a_window_that_cannot_stand_in_a_header_is_left_out() {
    let windows = vec![
        WindowReading { utilization: Some(0.5), ..window(Window::Other("a b".into())) },
        WindowReading { utilization: Some(f64::NAN), ..window(Window::Weekly) },
        WindowReading { utilization: Some(0.5), ..window(Window::FiveHour) },
    ];
    let written = unified_headers(&QuotaReading { windows, ..QuotaReading::default() });
    let [(name, value)] = written.as_slice() else { panic!("{written:?}") };
    assert_eq!((name.as_str(), value.as_bytes()), ("anthropic-ratelimit-unified-5h-utilization", b"0.5".as_slice()));
}

#[test]
fn a_reset_is_written_rounded_up() {
    let reading = QuotaReading { reset: Some(Wall(1_792_567_680_001)), ..QuotaReading::default() };
    assert_eq!(unified_headers(&reading)[0].1.as_bytes(), b"1792567681");
}

fn a_window() -> impl Strategy<Value = WindowReading> {
    let name = prop_oneof![Just("5h"), Just("7d"), Just("7d_oi"), Just("30d-zz")];
    let status = prop_oneof![Just(QuotaStatus::Allowed), Just(QuotaStatus::Warning), Just(QuotaStatus::Rejected)];
    (name, 0.0..1.5_f64, 1..18_000_i64, status).prop_map(|(name, share, reset, status)| WindowReading {
        window: Window::from_name(name),
        utilization: Some(share),
        reset: at(reset),
        status: Some(status),
    })
}

proptest! {
    #[test]
    fn what_is_written_for_a_pool_is_read_as_it_was(windows in proptest::collection::vec(a_window(), 0..4), reset in 1..18_000_i64) {
        let mut windows = windows;
        windows.sort_by(|one, other| one.window.cmp(&other.window));
        windows.dedup_by(|one, other| one.window == other.window);
        let reading = QuotaReading {
            windows, status: Some(QuotaStatus::Rejected), reset: at(reset), representative: Some("five_hour".into()),
        };
        let headers: HeaderMap = unified_headers(&reading).into_iter().collect();
        let mut read = quota_reading(&headers, NOW);
        read.windows.sort_by(|one, other| one.window.cmp(&other.window));
        prop_assert_eq!(read, reading);
    }
}
