use http::HeaderValue;
use http::header::RETRY_AFTER;
use proptest::prelude::*;

use super::*;
use crate::clock::Boot;

/// 2026-10-21T07:27:00Z, on a machine that has been up for an hour.
const NOW: Timestamp = Timestamp { wall: Wall(1_792_567_620_000), boot: Boot(3_600_000) };
const DAY: u64 = 24 * 3600;

fn stated(values: &[&str]) -> Option<Duration> {
    given("retry-after", values)
}

fn given(name: &'static str, values: &[&str]) -> Option<Duration> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    retry_after(&headers, NOW)
}

fn seconds(count: u64) -> Option<Duration> {
    Some(Duration::from_secs(count))
}

/// C01: the provider's own word is a measurement, however long.
#[test]
fn a_stated_wait_is_never_clamped() {
    assert_eq!(stated(&["7999"]), seconds(7999));
    assert_eq!(stated(&["604800"]), seconds(7 * DAY));
    assert_eq!(stated(&["691200"]), seconds(8 * DAY));
    assert_eq!(stated(&["1"]), seconds(1));
}

#[test]
fn fractions_of_a_second_round_up() {
    assert_eq!(stated(&["1.2"]), seconds(2));
    assert_eq!(stated(&["0.001"]), seconds(1));
    assert_eq!(stated(&["5.0"]), seconds(5));
    assert_eq!(given("retry-after-ms", &["1500.2"]), Some(Duration::from_millis(1501)));
}

/// C20.
#[test]
fn an_http_date_is_a_wait_from_now() {
    assert_eq!(stated(&["Wed, 21 Oct 2026 07:28:00 GMT"]), seconds(60));
    assert_eq!(stated(&["Wednesday, 21-Oct-26 07:28:00 GMT"]), seconds(60), "the obsolete form with a long weekday");
    assert_eq!(stated(&["Wed Oct 21 07:28:00 2026"]), seconds(60), "the obsolete form of C programs");
}

/// C20 and C21: what cannot be believed is no statement; a tight loop starts from a zero.
#[test]
fn an_absurd_wait_is_read_as_unstated() {
    for absurd in [
        "0",
        "0.0",
        "-5",
        "+5",
        "",
        " ",
        "soon",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "1e3",
        "0x10",
        "5s",
        "5 s",
        "1.2.3",
        ".",
        "691201",
        "7999000",
        "1792567680",
        "1792567680000",
        "99999999999999999999999999999999",
        "Wed, 99 Foo 2026",
        "Wed, 21 Oct 2026 06:27:00 GMT",
        "Wed, 21 Oct 2026 07:27:00 GMT",
        "Fri, 30 Oct 2026 07:27:00 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Wed, 21 Oct 2026",
        "\u{ff15}",
        ",",
        ",,",
    ] {
        assert_eq!(stated(&[absurd]), None, "{absurd:?}");
    }
    assert_eq!(stated(&[&"9".repeat(400)]), None, "more digits than a number holds");
    assert_eq!(stated(&[]), None);
}

#[test]
fn a_value_that_is_no_text_is_read_as_unstated() {
    let mut headers = HeaderMap::new();
    headers.append(RETRY_AFTER, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert_eq!(retry_after(&headers, NOW), None);
    headers.append(RETRY_AFTER, HeaderValue::from_static("9"));
    assert_eq!(retry_after(&headers, NOW), seconds(9));
}

#[test]
fn of_joined_duplicates_the_larger_counts() {
    assert_eq!(stated(&["5, 7"]), seconds(7));
    assert_eq!(stated(&["7,5"]), seconds(7));
    assert_eq!(stated(&["5", "7"]), seconds(7));
    assert_eq!(stated(&["soon, 5"]), seconds(5));
    assert_eq!(stated(&["5, 7999000"]), seconds(5), "an absurd one does not count");
    assert_eq!(stated(&["5, Wed, 21 Oct 2026 07:28:00 GMT"]), seconds(60));
    assert_eq!(stated(&["Wed, 21 Oct 2026 07:28:00 GMT, Wed, 21 Oct 2026 07:29:00 GMT"]), seconds(120));
    assert_eq!(stated(&["Wed, 21 Oct 2026 07:28:00 GMT, 300"]), seconds(300));
}

#[test]
fn milliseconds_beside_the_seconds_never_shorten_them() {
    let mut headers = HeaderMap::new();
    headers.append("retry-after-ms", HeaderValue::from_static("1500"));
    assert_eq!(retry_after(&headers, NOW), Some(Duration::from_millis(1500)));
    headers.append(RETRY_AFTER, HeaderValue::from_static("2"));
    assert_eq!(retry_after(&headers, NOW), seconds(2));
    assert_eq!(given("retry-after-ms", &["691200001"]), None);
}

fn reset_in(window: &Window, value: &str) -> Option<i64> {
    reset(value, window, NOW).map(|at| at.0 - NOW.wall.0)
}

#[test]
fn a_reset_is_unix_seconds_rounded_up() {
    assert_eq!(reset_in(&Window::FiveHour, "1792575619"), Some(7_999_000));
    assert_eq!(reset_in(&Window::FiveHour, "1792575618.1"), Some(7_999_000));
    assert_eq!(reset_in(&Window::FiveHour, "1792567621"), Some(1000));
    assert_eq!(reset_in(&Window::FiveHour, "1792567630, 1792567640"), Some(20_000));
}

#[test]
fn a_reset_may_lie_a_tenth_beyond_its_window_and_no_farther() {
    let last = NOW.wall.as_secs() + 5 * 3600 + 1800;
    assert_eq!(reset_in(&Window::FiveHour, &last.to_string()), Some(19_800_000));
    assert_eq!(reset_in(&Window::FiveHour, &(last + 1).to_string()), None);
    assert_eq!(reset_in(&Window::Weekly, &(last + 1).to_string()), Some(19_801_000));
    let week = NOW.wall.as_secs() + 665_280;
    for window in [Window::Weekly, Window::WeeklyFable, Window::Other("30d_zz".into())] {
        assert_eq!(reset_in(&window, &week.to_string()), Some(665_280_000), "{window:?}");
        assert_eq!(reset_in(&window, &(week + 1).to_string()), None, "{window:?}");
    }
}

#[test]
fn an_absurd_reset_is_read_as_unstated() {
    for absurd in [
        "0",
        "-1",
        "",
        "soon",
        "NaN",
        "inf",
        "1792567620",
        "1792567619",
        "1792575619000",
        "1.792575619e9",
        "7999",
        "Wed, 21 Oct 2026 07:28:00 GMT",
        "2026-10-21T07:28:00Z",
    ] {
        assert_eq!(reset_in(&Window::Weekly, absurd), None, "{absurd:?}");
    }
}

proptest! {
    #[test]
    fn whatever_is_stated_the_wait_is_credible(value in "\\PC{0,40}|[0-9., -]{0,40}|(Wed|Thu), [0-9]{2} Oct 20[0-9]{2} 0[0-9]:[0-9]{2}:00 GMT") {
        let Ok(header) = HeaderValue::from_str(&value) else { return Ok(()) };
        for name in ["retry-after", "retry-after-ms"] {
            let headers = HeaderMap::from_iter([(http::HeaderName::from_static(name), header.clone())]);
            if let Some(wait) = retry_after(&headers, NOW) {
                prop_assert!(wait > Duration::ZERO && wait <= LONGEST_WAIT, "{wait:?}");
            }
        }
        for window in [Window::FiveHour, Window::Weekly] {
            if let Some(at) = reset(&value, &window, NOW) {
                prop_assert!(at > NOW.wall && at.since(NOW.wall) <= window.length().mul_f64(1.1), "{at:?}");
            }
        }
    }

    #[test]
    fn every_credible_number_of_seconds_is_taken_as_it_is(count in 1..=8 * DAY, other in 1..=8 * DAY) {
        prop_assert_eq!(stated(&[&count.to_string()]), seconds(count));
        prop_assert_eq!(stated(&[&format!("{count}, {other}")]), seconds(count.max(other)));
        prop_assert_eq!(stated(&[&other.to_string(), &count.to_string()]), seconds(count.max(other)));
    }
}
