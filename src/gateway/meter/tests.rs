use duduclaw_actors::clock::{SharedClock, SystemClock};
use duduclaw_actors::id::ModelScope;
use duduclaw_actors::outcome::CallKind;
use duduclaw_actors::provider::anthropic::classify::CredentialOwner;
use serde_json::{Value, json};

use super::*;
use crate::upstream::sse::Framer;

fn meter() -> Meter {
    let asked = Asked { call: CallKind::Inference, scope: ModelScope::Base, credential: CredentialOwner::Account };
    let clock: SharedClock = std::sync::Arc::new(SystemClock::default());
    Meter::new(HeaderMap::new(), asked, clock)
}

fn after(events: &[Value]) -> Meter {
    let (mut meter, mut framer) = (meter(), Framer::new());
    for event in events {
        let name = event["type"].as_str().unwrap();
        framer.push(format!("event: {name}\ndata: {event}\n\n").as_bytes(), &mut meter);
    }
    meter
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"usage": {"input_tokens": 27, "output_tokens": 1}}})
}

fn text(text: &str) -> Value {
    json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
}

fn delta(usage: &Value) -> Value {
    json!({"type": "message_delta", "delta": {}, "usage": usage})
}

#[test]
fn until_the_answers_count_comes_what_was_said_is_counted_by_characters() {
    let meter = after(&[start(), text("Hello, "), text("world!")]);
    assert_eq!((meter.usage().input, meter.usage().output), (27, 1));
    assert_eq!((meter.counted(), meter.spoken()), (Counted::NotYet, 4));
}

#[test]
fn the_answers_count_is_that_of_a_delta_with_output_or_of_a_whole_message() {
    assert_eq!(after(&[start(), delta(&json!({"output_tokens": 20}))]).counted(), Counted::Yes);
    assert_eq!(after(&[start(), delta(&json!({"input_tokens": 27}))]).counted(), Counted::NotYet);
    let mut whole = meter();
    whole.document(br#"{"usage":{"input_tokens":3,"output_tokens":5}}"#);
    assert_eq!((whole.counted(), whole.usage().output, whole.spoken()), (Counted::Yes, 5, 0));
}

#[test]
fn a_message_without_a_count_is_counted_by_characters() {
    let mut half = meter();
    half.document(format!(r#"{{"content":[{{"type":"text","text":"{}"#, "x".repeat(400)).as_bytes());
    assert_eq!(half.counted(), Counted::NotYet);
    assert!((100..115).contains(&half.spoken()), "{}", half.spoken());
}

#[test]
fn any_error_event_ends_an_answer_also_one_that_means_nothing_for_the_account() {
    let refused = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}});
    let meter = after(&[start(), refused]);
    assert!(meter.has_failed() && meter.error().is_none());
    assert!(!after(&[start()]).has_failed());
}
