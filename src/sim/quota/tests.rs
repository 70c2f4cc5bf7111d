use super::*;

const T0: i64 = 1_800_000_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp::at_millis(T0 * 1000).plus(Duration::from_secs(seconds))
}

fn quota() -> Quota {
    Quota::new(QuotaLimits { five_hours: 1000, seven_days: 4000, fable: 2000 })
}

fn value<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(key, _)| key.strip_prefix("anthropic-ratelimit-unified-") == Some(name)).map(|h| h.1.as_str())
}

#[test]
fn a_window_opens_with_its_first_use_and_begins_anew_when_its_time_is_over() {
    let mut quota = quota();
    assert_eq!(quota.states(at(0))[0].reset, None, "nothing was used yet");
    quota.charge("claude-sonnet-5", 1000, at(60));
    let full = quota.states(at(5 * HOUR + 59))[0];
    assert!(full.is_full());
    assert_eq!(full.reset, Some(T0 + 60 + 5 * 3600));
    let fresh = quota.states(at(5 * HOUR + 60))[0];
    assert_eq!((fresh.utilization, fresh.reset), (0.0, None));
    assert_eq!(quota.states(at(5 * HOUR + 60))[1].utilization, 0.25, "the week goes on");
}

#[test]
fn the_fable_window_fills_by_fable_alone_and_fable_fills_all() {
    let mut quota = quota();
    quota.charge("claude-sonnet-5", 500, at(0));
    quota.charge("claude-Fable-5", 100, at(0));
    let shares: Vec<f64> = quota.states(at(1)).iter().map(|state| state.utilization).collect();
    assert_eq!(shares, [0.6, 0.15, 0.05]);
    assert_eq!(quota.governing("claude-sonnet-5", at(1)).len(), 2);
    assert_eq!(quota.governing("claude-fable-5", at(1)).len(), 3);
}

#[test]
fn of_two_full_windows_the_one_that_returns_last_decides() {
    let mut quota = quota();
    quota.set_share(SimWindow::FiveHours, 1.2, at(0));
    quota.set_share(SimWindow::SevenDays, 1.0, at(0));
    let headers = unified_headers(&quota.governing("claude-sonnet-5", at(0)), Told::Refused);
    assert_eq!(value(&headers, "status"), Some("rejected"));
    assert_eq!(value(&headers, "representative-claim"), Some("seven_day"));
    assert_eq!(value(&headers, "reset"), Some((T0 + 7 * 86400).to_string().as_str()));
    assert_eq!(value(&headers, "5h-status"), Some("rejected"));
    assert_eq!(value(&headers, "5h-utilization"), Some("1.2000"));
}

#[test]
fn a_served_answer_never_calls_a_window_refused() {
    let mut quota = quota();
    quota.charge("claude-sonnet-5", 1000, at(0));
    let headers = unified_headers(&quota.governing("claude-sonnet-5", at(0)), Told::Served);
    assert_eq!(value(&headers, "5h-status"), Some("allowed_warning"));
    assert_eq!(value(&headers, "7d-status"), Some("allowed"));
    assert_eq!(value(&headers, "status"), Some("allowed_warning"));
}
