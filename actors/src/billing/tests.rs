use proptest::prelude::*;

use super::*;

fn cycle(zone: &str, day: u32) -> BillingCycle {
    BillingCycle::new(zone, day).expect("a zone and a day")
}

/// A moment, as RFC 3339 has it.
fn at(text: &str) -> Wall {
    Wall(DateTime::parse_from_rfc3339(text).expect("a moment").timestamp_millis())
}

fn date(text: &str) -> NaiveDate {
    text.parse().expect("a date")
}

fn first(cycle: &BillingCycle, text: &str) -> String {
    cycle.month(at(text)).name()
}

/// C87.
#[test]
fn a_month_ends_at_midnight_of_its_own_zone() {
    let shanghai = cycle("Asia/Shanghai", 1);
    let (before, then) =
        (shanghai.month(Wall::from_secs(1_788_191_999)), shanghai.month(Wall::from_secs(1_788_192_000)));
    assert_eq!((before.name(), then.name()), ("2026-08-01".to_owned(), "2026-09-01".to_owned()));
    assert_eq!(before.ends, Wall::from_secs(1_788_192_000));
    assert_eq!(then.begins, before.ends);
    assert_eq!(BillingCycle::default().month(Wall::from_secs(1_788_192_000)).name(), "2026-08-01", "in UTC it goes on");
}

/// C89.
#[test]
fn the_31st_is_the_last_day_of_a_shorter_month_whenever_it_is_asked() {
    let monthly = cycle("UTC", 31);
    let firsts = [
        ("2026-01-30T23:59:59Z", "2025-12-31"),
        ("2026-01-31T00:00:00Z", "2026-01-31"),
        ("2026-02-27T23:59:59Z", "2026-01-31"),
        ("2026-02-28T00:00:00Z", "2026-02-28"),
        ("2026-03-01T00:00:00Z", "2026-02-28"),
        ("2026-03-02T12:00:00Z", "2026-02-28"),
        ("2026-03-30T23:59:59Z", "2026-02-28"),
        ("2026-03-31T00:00:00Z", "2026-03-31"),
        ("2026-04-29T23:59:59Z", "2026-03-31"),
        ("2026-04-30T00:00:00Z", "2026-04-30"),
        ("2028-02-29T00:00:00Z", "2028-02-29"),
    ];
    for (moment, first_day) in firsts {
        assert_eq!(first(&monthly, moment), first_day, "{moment}");
    }
    assert_eq!(monthly.month(at("2026-02-10T00:00:00Z")).ends, at("2026-02-28T00:00:00Z"));
}

#[test]
fn a_day_between_cuts_the_calendar_month_in_two() {
    let monthly = cycle("UTC", 15);
    assert_eq!(first(&monthly, "2026-11-14T23:59:59Z"), "2026-10-15");
    assert_eq!(first(&monthly, "2026-11-15T00:00:00Z"), "2026-11-15");
    assert_eq!(first(&monthly, "2027-01-03T00:00:00Z"), "2026-12-15", "over the year's end");
}

/// Cairo's clocks went from 23:59 to 01:00 in the night to 26 April 2024.
#[test]
fn where_clocks_skip_midnight_the_month_begins_with_the_first_moment_after_it() {
    let cairo = cycle("Africa/Cairo", 26);
    let month = cairo.month(at("2024-04-26T12:00:00+03:00"));
    assert_eq!((month.name().as_str(), month.begins), ("2024-04-26", at("2024-04-26T01:00:00+03:00")));
    assert_eq!(first(&cairo, "2024-04-25T23:59:59+02:00"), "2024-03-26");
    assert_eq!(cairo.day(month.begins).date, date("2024-04-26"));
}

/// Samoa had no 30 December 2011.
#[test]
fn a_day_that_a_zone_left_out_begins_with_the_next() {
    let apia = cycle("Pacific/Apia", 30);
    let month = apia.month(at("2011-12-31T10:00:00+14:00"));
    assert_eq!((month.name().as_str(), month.begins), ("2011-12-30", at("2011-12-31T00:00:00+14:00")));
    assert_eq!(first(&apia, "2011-12-29T23:59:59-10:00"), "2011-11-30");
}

/// Havana's clocks went from 01:00 back to 00:00 on 3 November 2024.
#[test]
fn where_clocks_repeat_midnight_the_month_begins_with_the_first_of_the_two() {
    let havana = cycle("America/Havana", 3);
    let month = havana.month(at("2024-11-03T12:00:00-05:00"));
    assert_eq!(month.begins, at("2024-11-03T00:00:00-04:00"));
    assert_eq!(first(&havana, "2024-11-03T00:30:00-05:00"), "2024-11-03", "the second half past midnight");
}

#[test]
fn a_month_with_a_step_of_the_clocks_is_an_hour_shorter_or_longer() {
    let hours = |moment: &str| {
        let month = cycle("Europe/Berlin", 1).month(at(moment));
        month.ends.since(month.begins).as_secs() / 3600
    };
    assert_eq!(hours("2026-03-15T00:00:00Z"), 31 * 24 - 1);
    assert_eq!(hours("2026-10-15T00:00:00Z"), 31 * 24 + 1);
    assert_eq!(hours("2026-05-15T00:00:00Z"), 31 * 24);
}

#[test]
fn a_day_is_that_of_the_zone() {
    let taipei = cycle("Asia/Taipei", 1);
    let day = taipei.day(at("2026-11-29T20:00:00Z"));
    assert_eq!(day.date, date("2026-11-30"));
    assert!(day.has(at("2026-11-29T16:00:00Z")) && day.has(at("2026-11-30T15:59:59Z")));
    assert!(!day.has(at("2026-11-29T15:59:59Z")) && !day.has(at("2026-11-30T16:00:00Z")));
}

#[test]
fn what_is_no_zone_and_no_day_is_none() {
    for (zone, day) in [("Asia/Taipeh", 1), ("", 1), ("utc+8", 1), ("UTC", 0), ("UTC", 32)] {
        assert_eq!(BillingCycle::new(zone, day), None, "{zone} {day}");
    }
    assert!(BillingCycle::zones().any(|zone| zone == "Asia/Taipei"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// From 1980 to 2060.
    #[test]
    fn months_follow_each_other_without_a_gap(zone in 0..TZ_VARIANTS.len(), day in 1_u32..=31, at in 315_532_800_i64..2_840_140_800) {
        let monthly = BillingCycle { zone: TZ_VARIANTS[zone], day };
        let at = Wall::from_secs(at);
        let month = monthly.month(at);
        prop_assert!(month.has(at), "{monthly:?} {at:?} {month:?}");
        prop_assert_eq!(monthly.month(month.begins), month, "asked at its beginning");
        prop_assert_eq!(monthly.month(Wall(month.ends.0 - 1)), month, "asked at its end");
        prop_assert_eq!(monthly.month(month.ends).begins, month.ends);
        prop_assert_eq!(monthly.month(Wall(month.begins.0 - 1)).ends, month.begins);
        let days = month.ends.since(month.begins).as_secs() / 3600;
        prop_assert!((26 * 24..=33 * 24).contains(&days), "{days} hours");
        prop_assert!(monthly.day(at).has(at));
    }
}
