use proptest::prelude::*;

use super::*;

fn metered(events: &[&str]) -> Usage {
    let mut meter = UsageMeter::default();
    events.iter().for_each(|event| meter.read(event.as_bytes()));
    meter.usage()
}

fn of(usage: &str) -> Usage {
    metered(&[&format!(r#"{{"type":"message_delta","usage":{usage}}}"#)])
}

/// C81: cumulative figures added up would make 68 of these 47.
#[test]
fn later_figures_replace_and_absent_ones_keep() {
    let usage = metered(&[
        r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":27,"cache_read_input_tokens":100,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","delta":{},"usage":{"input_tokens":27,"cache_read_input_tokens":100,"output_tokens":20}}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":47}}"#,
    ]);
    assert_eq!(usage, Usage { input: 27, output: 47, cache_read: 100, ..Usage::default() });
}

#[test]
fn zeros_never_erase_what_was_counted() {
    let usage = metered(&[
        r#"{"message":{"usage":{"input_tokens":27,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":5}}}}"#,
        r#"{"usage":{"input_tokens":0,"output_tokens":3,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_1h_input_tokens":0}}}"#,
    ]);
    assert_eq!(usage, Usage { input: 27, output: 3, cache_write_1h: 5, ..Usage::default() });
}

/// C60: a delta alone.
#[test]
fn a_delta_is_read_without_a_start() {
    assert_eq!(of(r#"{"output_tokens":15}"#).output, 15);
}

#[test]
fn a_whole_message_is_read_likewise() {
    let body = r#"{"id":"m","type":"message","content":[{"type":"text","text":"{\"usage\":{\"output_tokens\":9}}"}],"usage":{"input_tokens":10,"output_tokens":2}}"#;
    assert_eq!(metered(&[body]), Usage { input: 10, output: 2, ..Usage::default() });
    let mut meter = UsageMeter::default();
    meter.read(b"\xEF\xBB\xBF{\"usage\":{\"output_tokens\":2}}");
    assert_eq!(meter.usage().output, 2, "a byte order mark first");
}

/// C83: the two lifetimes are told apart.
#[test]
fn the_split_tells_the_lifetimes_apart() {
    let usage = of(
        r#"{"cache_creation_input_tokens":1000000,"cache_creation":{"ephemeral_5m_input_tokens":600000,"ephemeral_1h_input_tokens":400000}}"#,
    );
    assert_eq!((usage.cache_write_5m, usage.cache_write_1h), (600_000, 400_000));
}

#[test]
fn an_inconsistent_split_loses_and_invents_nothing() {
    let writes = |usage: &str| {
        let usage = of(usage);
        (usage.cache_write_5m, usage.cache_write_1h)
    };
    assert_eq!(writes(r#"{"cache_creation_input_tokens":100}"#), (100, 0), "no split");
    assert_eq!(writes(r#"{"cache_creation_input_tokens":100,"cache_creation":null}"#), (100, 0));
    assert_eq!(writes(r#"{"cache_creation_input_tokens":100,"cache_creation":"?"}"#), (100, 0));
    let split = |total: u64, five: u64, hour: u64| {
        writes(&format!(
            r#"{{"cache_creation_input_tokens":{total},"cache_creation":{{"ephemeral_5m_input_tokens":{five},"ephemeral_1h_input_tokens":{hour}}}}}"#
        ))
    };
    assert_eq!(split(100, 0, 0), (100, 0));
    assert_eq!(split(100, 10, 40), (60, 40), "less than the total: the rest was for five minutes");
    assert_eq!(split(100, 70, 40), (70, 40), "more than the total: each part was stated");
    assert_eq!(split(0, 70, 40), (70, 40));
}

/// A later total without a split does not make the hour's writes cheap.
#[test]
fn a_later_total_keeps_the_earlier_split() {
    let usage = metered(&[
        r#"{"message":{"usage":{"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_1h_input_tokens":100}}}}"#,
        r#"{"usage":{"cache_creation_input_tokens":120,"output_tokens":1}}"#,
    ]);
    assert_eq!((usage.cache_write_5m, usage.cache_write_1h), (20, 100));
}

#[test]
fn what_is_no_number_counts_as_absent() {
    let usage = of(
        r#"{"input_tokens":"27","output_tokens":5,"cache_read_input_tokens":null,"cache_creation_input_tokens":-1}"#,
    );
    assert_eq!(usage, Usage { output: 5, ..Usage::default() });
    for nothing in ["", "{", "null", "[]", r#"{"usage":null}"#, r#"{"message":null}"#, r#"{"type":"ping"}"#] {
        let mut meter = UsageMeter::default();
        meter.read(nothing.as_bytes());
        assert!(!meter.has_figures(), "{nothing}");
    }
}

proptest! {
    #[test]
    fn no_token_is_lost_and_none_is_added(total in 0..1000_u64, five in 0..1000_u64, hour in 0..1000_u64) {
        let mut meter = UsageMeter::default();
        let split = CacheSplit { five_minutes: Some(five), one_hour: Some(hour) };
        meter.apply(UsageUpdate { cache_write: Some(total), split, ..UsageUpdate::default() });
        let usage = meter.usage();
        prop_assert_eq!(usage.cache_write_1h, hour);
        prop_assert_eq!(usage.cache_write_5m + usage.cache_write_1h, total.max(five + hour));
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        UsageMeter::default().read(&bytes);
    }
}
