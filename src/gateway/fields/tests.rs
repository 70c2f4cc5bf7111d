use proptest::prelude::*;

use super::*;
use crate::gateway::splice::Body;

fn fields(body: &str) -> Fields<'_> {
    read(body.as_bytes()).unwrap()
}

fn doubled(body: &str) -> String {
    match read(body.as_bytes()) {
        Err(FieldsError::Doubled(key)) => key,
        other => panic!("{other:?}"),
    }
}

/// The shape of what Claude Code sends: a role beyond user and assistant, system blocks, a JSON string as user id.
const GENUINE: &str = r#"{
  "model": "claude-opus-5-5",
  "messages": [{"role":"user","content":[{"type":"text","text":"hi"}]},
    {"role":"system","content":[{"type":"text","text":"note"}],"output_config":{"effort":"medium"}}],
  "system": [{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1;"}],
  "tools": [{"name":"Agent","input_schema":{"properties":{"model":{"type":"string"}}}},
    {"type":"advisor","name":"advisor","model":"claude-fable-5"}, {"type":"web_search"}],
  "metadata": {"user_id": "{\"device_id\":\"00ff\",\"account_uuid\":\"\",\"session_id\":\"5f3b\"}"},
  "max_tokens": 128000, "thinking": {"type":"adaptive","display":"omitted"}, "stream": true}"#;

#[test]
fn everything_routing_needs_is_read_from_a_genuine_request() {
    let fields = fields(GENUINE);
    let model = fields.model.unwrap();
    assert_eq!((&*model.value, &GENUINE[model.span]), ("claude-opus-5-5", "\"claude-opus-5-5\""));
    assert_eq!((fields.streaming, fields.max_tokens, fields.thinking), (Streaming::Yes, Some(128_000), Thinking::On));
    let names: Vec<_> = fields.tools.iter().map(|tool| tool.name.as_deref()).collect();
    assert_eq!(names, [Some("Agent"), Some("advisor"), None]);
    let models: Vec<_> = fields.tools.iter().filter_map(|tool| tool.model.clone()).collect();
    assert_eq!(models.len(), 1);
    assert_eq!((&*models[0].value, &GENUINE[models[0].span.clone()]), ("claude-fable-5", "\"claude-fable-5\""));
    let user_id = fields.user_id.unwrap();
    assert_eq!(user_id.value, r#"{"device_id":"00ff","account_uuid":"","session_id":"5f3b"}"#);
    let uuid = fields.account_uuid.unwrap();
    assert_eq!(uuid.len(), 0);
    assert!(GENUINE[..uuid.start].ends_with(r#"\"account_uuid\":\""#));
}

#[test]
fn what_is_absent_is_absent() {
    assert_eq!(fields("{}"), Fields::default());
    assert_eq!(fields(" \n{ \"x\" : [1, {\"model\":\"inner\"}] } "), Fields::default());
}

#[test]
fn known_fields_of_unexpected_types_count_as_absent() {
    for value in ["null", "5", "-1", "1.5", "true", "[]", "{}", "[[\"x\"]]", "{\"a\":{}}"] {
        let body = format!(
            r#"{{"model":{value},"stream":[{value}],"max_tokens":"{}","metadata":{value},"tools":{value},"thinking":{value}}}"#,
            "1"
        );
        let read = fields(&body);
        assert_eq!((read.model, read.streaming, read.max_tokens, read.user_id), (None, Streaming::No, None, None));
        assert!(read.tools.iter().all(|tool| *tool == Tool::default()), "{value}");
        assert_eq!(read.thinking, Thinking::Off);
    }
    assert_eq!(fields(r#"{"tools":"x","metadata":"y"}"#), Fields::default());
    let tools = fields(r#"{"tools":[null,1,"x",[],{"name":5,"model":null},{"name":"t"}]}"#).tools;
    assert_eq!(tools.len(), 6);
    assert_eq!(tools[5].name.as_deref(), Some("t"));
    assert_eq!(fields(r#"{"metadata":{"user_id":7}}"#).user_id, None);
}

#[test]
fn the_limit_on_output_goes_by_three_names() {
    assert_eq!(fields(r#"{"max_completion_tokens":7}"#).max_tokens, Some(7));
    assert_eq!(fields(r#"{"max_output_tokens":7}"#).max_tokens, Some(7));
    assert_eq!(fields(r#"{"max_completion_tokens":70,"max_tokens":8}"#).max_tokens, Some(70));
    assert_eq!(fields(r#"{"max_tokens":-5}"#).max_tokens, None);
}

#[test]
fn thinking_is_on_unless_it_is_switched_off() {
    let thinking = |value: &str| fields(&format!(r#"{{"thinking":{value}}}"#)).thinking;
    assert_eq!(thinking(r#"{"type":"enabled","budget_tokens":1024}"#), Thinking::On);
    assert_eq!(thinking(r#"{"budget_tokens":1024,"type":"adaptive"}"#), Thinking::On);
    assert_eq!(thinking(r#"{"type":"disabled"}"#), Thinking::Off);
    assert_eq!(thinking("null"), Thinking::Off);
}

#[test]
fn a_key_that_stands_twice_is_an_error_known_or_not_and_however_it_is_written() {
    assert_eq!(doubled(r#"{"model":"a","model":"b"}"#), "model");
    assert_eq!(doubled(r#"{"model":"a","m\u006fdel":"b"}"#), "model");
    assert_eq!(doubled(r#"{"messages":[],"x":1,"messages":[]}"#), "messages");
    assert_eq!(doubled(r#"{"tools":[],"max_tokens":1,"tools":null}"#), "tools");
    assert!(read(br#"{"a":{"model":1},"b":{"model":1},"model":"x"}"#).is_ok());
}

#[test]
fn what_is_no_json_object_is_an_error_that_shows_none_of_it() {
    for body in ["", "  ", "[]", "\"secret\"", "null", "model"] {
        assert!(matches!(read(body.as_bytes()), Err(FieldsError::NotAnObject)), "{body}");
    }
    for body in ["{", "{\"a\"}", "{\"a\":1,}", "{} {}", "{\"a\":secret}", "{\"model\":\"secret", "{a:1}"] {
        let error = read(body.as_bytes()).unwrap_err();
        assert!(matches!(error, FieldsError::Invalid(_)), "{body}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    assert!(read(b"{\"model\":\"\xff\"}").is_err());
}

#[test]
fn nesting_without_end_does_no_harm() {
    let deep = format!("{{\"messages\":{}1{},\"model\":\"m\"}}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(fields(&deep).model.unwrap().value, "m");
    let deep = format!("{{\"tools\":[{}1{}]}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    assert_eq!(fields(&deep).tools.len(), 1);
}

#[test]
fn escapes_are_read_and_spans_still_point_at_the_bytes() {
    let body = r#"{"model":"a\u0062\n\"c","metadata":{"user_id":"plain"}}"#;
    let model = fields(body).model.unwrap();
    assert_eq!((&*model.value, &body[model.span]), ("ab\n\"c", r#""a\u0062\n\"c""#));
    assert_eq!(fields(body).account_uuid, None);
}

/// A body whose user id is this text.
fn with_user_id(user_id: &str) -> String {
    serde_json::json!({"model": "北京😀", "metadata": {"user_id": user_id}, "max_tokens": 1}).to_string()
}

#[test]
fn the_place_of_the_account_uuid_is_found_whatever_stands_around_it() {
    let cases = [
        r#"{"account_uuid":"old"}"#,
        r#"{"device_id":"北京😀\"\\","account_uuid":"old","session_id":"s"}"#,
        "{\n\t\"account_uuid\" : \"old\" }",
        r#"{"a":{"account_uuid":"inner"},"account_uuid":"old"}"#,
        r#"{"account\u005fuuid":"old"}"#,
    ];
    for user_id in cases {
        let body = with_user_id(user_id);
        let span = fields(&body).account_uuid.unwrap();
        assert_eq!(&body[span.clone()], "old", "{user_id}");
        let mut changed = body.clone();
        changed.replace_range(span, "11111111-2222-3333-4444-555555555555");
        let expected = with_user_id(&user_id.replace("\"old\"", "\"11111111-2222-3333-4444-555555555555\""));
        assert_eq!(changed, expected);
    }
}

#[test]
fn the_place_is_found_behind_every_kind_of_escape() {
    let outer = r#"{"metadata":{"user_id":"{\u0022d\u0022:\"\ud83d\ude00\u5317\u00e9\/\\n\",\u0022account_uuid\":\"old\u0022}"}}"#;
    let span = fields(outer).account_uuid.unwrap();
    assert_eq!(&outer[span], "old");
}

#[test]
fn where_anything_is_odd_there_is_no_account_uuid() {
    let odd = [
        "",
        "old",
        "null",
        "[]",
        "{}",
        r#"["account_uuid"]"#,
        r#"{"account_uuid":null}"#,
        r#"{"account_uuid":5}"#,
        r#"{"account_uuid":{"a":"b"}}"#,
        r#"{"account_uuid":"a","account_uuid":"b"}"#,
        r#"{"account_uuid":"a""#,
        r#"{"account_uuid":"a"} x"#,
        r#"{"a":{"account_uuid":"a"}}"#,
        r#""{\"account_uuid\":\"a\"}""#,
    ];
    for user_id in odd {
        assert_eq!(fields(&with_user_id(user_id)).account_uuid, None, "{user_id}");
    }
    let long = format!(r#"{{"account_uuid":"a","x":"{}"}}"#, "x".repeat(20_000));
    assert_eq!(fields(&with_user_id(&long)).account_uuid, None);
    assert_eq!(fields(r#"{"metadata":{"user_id":{"account_uuid":"a"}}}"#).account_uuid, None);
    assert_eq!(fields(r#"{"account_uuid":"a"}"#).account_uuid, None);
}

fn rewritten(body: &str, model: &str, account_uuid: Option<&str>) -> String {
    let rewrites = fields(body).rewrites(model, account_uuid);
    let sent = Body::spliced(&Bytes::copy_from_slice(body.as_bytes()), rewrites).unwrap().into_bytes();
    String::from_utf8(sent.to_vec()).unwrap()
}

#[test]
fn a_rewritten_request_differs_in_the_two_places_only() {
    let expected = GENUINE.replacen("\"claude-opus-5-5\"", "\"mapped \\\"x\\\"\"", 1).replacen(
        r#"\"account_uuid\":\"\""#,
        r#"\"account_uuid\":\"1111-22\""#,
        1,
    );
    assert_ne!(expected, GENUINE);
    assert_eq!(rewritten(GENUINE, "mapped \"x\"", Some("1111-22")), expected);
}

#[test]
fn nothing_is_rewritten_without_need_and_nothing_put_where_nothing_stood() {
    assert_eq!(rewritten(GENUINE, "claude-opus-5-5", None), GENUINE);
    assert_eq!(rewritten(GENUINE, "claude-opus-5-5", Some("a\"b")), GENUINE);
    for body in ["{}", r#"{"model":null,"metadata":{}}"#, r#"{"metadata":{"user_id":"{}"}}"#] {
        assert_eq!(rewritten(body, "m", Some("1111-22")), body);
    }
}

/// C75.
#[test]
fn the_long_context_suffix_is_taken_off_at_the_end_only() {
    assert_eq!(split_long_context("claude-x-4-6[1m]"), ("claude-x-4-6", LongContext::Asked));
    assert_eq!(split_long_context("CLAUDE-X-4-6[1M]"), ("CLAUDE-X-4-6", LongContext::Asked));
    assert_eq!(split_long_context("a[1m][1M]"), ("a", LongContext::Asked));
    for model in ["claude-x-4-6", "claude[1m]-x", "[1m]", "", "x[2m]", "北京😀", "x[1m] "] {
        assert_eq!(split_long_context(model), (model, LongContext::NotAsked));
    }
}

#[test]
fn the_owned_form_says_the_same() {
    let borrowed = fields(GENUINE);
    assert_eq!(borrowed.clone().into_owned(), borrowed);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&body).map(Fields::into_owned);
    }

    #[test]
    fn pieces_of_json_are_read_without_harm(body in "\\{([\"\\\\:{},\\[\\] a1]|\"model\"|\"tools\":\\[|\"metadata\":\\{\"user_id\":\"|\\\\u0022|null){0,20}") {
        if let Ok(fields) = read(body.as_bytes()) {
            let spans = fields.model.into_iter().map(|model| model.span).chain(fields.account_uuid);
            prop_assert!(spans.into_iter().all(|span| body.get(span).is_some()));
        }
    }

    /// Whatever stands around it, exchanging the value changes that and nothing else.
    #[test]
    fn exchanging_the_account_uuid_changes_nothing_else(device in any::<String>(), old in any::<String>(), session in any::<String>()) {
        let user_id = |uuid: &str| serde_json::json!({"device_id": device, "account_uuid": uuid, "session_id": session}).to_string();
        let mut body = with_user_id(&user_id(&old));
        let span = fields(&body).account_uuid.unwrap();
        body.replace_range(span, "new-uuid");
        prop_assert_eq!(body, with_user_id(&user_id("new-uuid")));
    }
}
