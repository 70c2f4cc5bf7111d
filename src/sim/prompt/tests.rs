use serde_json::json;

use super::*;

fn read(body: &Value) -> Prompt {
    Prompt::read(body).expect("a valid request")
}

fn request(system: Value, content: Value) -> Value {
    json!({"model": "claude-sonnet-5", "max_tokens": 10, "tools": [{"name": "Bash"}], "system": system,
           "messages": [{"role": "user", "content": content}]})
}

#[test]
fn blocks_come_in_the_order_tools_system_messages_whatever_the_body_says() {
    let shuffled = json!({"messages": [{"role": "user", "content": "hi"}], "system": "be terse",
                          "tools": [{"name": "Bash"}], "model": "claude-sonnet-5"});
    let usual = request(json!("be terse"), json!("hi"));
    assert_eq!(read(&shuffled).prefixes(), read(&usual).prefixes());
    let parts: Vec<Part> = read(&shuffled).blocks.iter().map(|block| block.part).collect();
    assert_eq!(parts, [Part::Tools, Part::System, Part::Message { message: 0, content: 0 }]);
}

#[test]
fn a_mark_that_moves_does_not_change_the_prompt() {
    let mark = json!({"type": "ephemeral"});
    let first =
        request(json!([{"type": "text", "text": "a", "cache_control": mark}]), json!([{"type": "text", "text": "b"}]));
    let second =
        request(json!([{"type": "text", "text": "a"}]), json!([{"type": "text", "text": "b", "cache_control": mark}]));
    let hashes = |body: &Value| read(body).prefixes().iter().map(|prefix| prefix.hash).collect::<Vec<_>>();
    assert_eq!(hashes(&first), hashes(&second));
    assert_eq!(read(&first).prefixes()[1].mark, Some(Lifetime::FiveMinutes));
    assert_eq!(read(&second).prefixes()[2].mark, Some(Lifetime::FiveMinutes));
}

#[test]
fn a_string_means_the_same_as_one_text_block() {
    let string = read(&request(json!("s"), json!("hi")));
    let block = read(&request(json!([{"type": "text", "text": "s"}]), json!([{"type": "text", "text": "hi"}])));
    assert_eq!(string.prefixes(), block.prefixes());
}

#[test]
fn other_thinking_settings_lose_the_messages_and_keep_tools_and_system() {
    let mut with = request(json!("s"), json!("hi"));
    with["thinking"] = json!({"type": "enabled", "budget_tokens": 2000});
    let (with, without) = (read(&with).prefixes(), read(&request(json!("s"), json!("hi"))).prefixes());
    assert_eq!(with[..2], without[..2]);
    assert_ne!(with[2], without[2]);
}

#[test]
fn a_fifth_mark_and_an_hour_after_minutes_are_refused() {
    let marked = |ttl: &str| json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ttl}});
    let five: Vec<Value> = (0..5).map(|_| marked("5m")).collect();
    let text = Prompt::read(&request(json!("s"), json!(five))).expect_err("too many").0;
    assert_eq!(text, "A maximum of 4 blocks with cache_control may be provided. Found 5.");
    assert!(Prompt::read(&request(json!([marked("5m")]), json!([marked("1h")]))).is_err());
    assert!(Prompt::read(&request(json!([marked("1h")]), json!([marked("5m")]))).is_ok());
}

#[test]
fn the_whole_request_can_be_marked_at_once() {
    let mut body = request(json!("s"), json!("hi"));
    body["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(read(&body).prefixes()[2].mark, Some(Lifetime::OneHour));
}

#[test]
fn thinking_is_found_with_its_place_and_can_be_left_out() {
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "sig"}, {"type": "text", "text": "a"}]},
    ]});
    let mut prompt = read(&body);
    let found: Vec<_> = prompt.thinking().map(|(at, sig, path)| (at, sig.to_owned(), path)).collect();
    assert_eq!(found, [(1, "sig".to_owned(), "messages.1.content.0".to_owned())]);
    let before = prompt.tokens();
    prompt.leave_out(&[1]);
    assert!(prompt.tokens() < before);
    assert_eq!(prompt.thinking().count(), 0);
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(Prompt::read(&json!({"messages": []})).expect_err("no model").0, "model: Field required");
    assert_eq!(Prompt::read(&json!({"model": "m"})).expect_err("no messages").0, "messages: Field required");
    assert!(Prompt::read(&json!([1])).is_err());
}

#[test]
fn an_image_costs_the_same_whatever_its_bytes() {
    let image = json!([{"type": "image", "source": {"type": "base64", "data": "A".repeat(100_000)}}]);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": image}]});
    assert_eq!(read(&body).tokens(), IMAGE_TOKENS);
}
