use super::*;

fn envelope() -> Envelope {
    Envelope {
        id: "msg_1".to_owned(),
        model: "claude-sonnet-5".to_owned(),
        input: InputUsage { input: 5, cache_read: 100, cache_write_5m: 20, cache_write_1h: 3 },
        signature: "sig".to_owned(),
        omit_thinking: false,
    }
}

fn sent(steps: &[Step]) -> Vec<Value> {
    let data = |step: &Step| match step {
        Step::Send(bytes) => {
            let text = std::str::from_utf8(bytes).expect("text");
            let (_, data) = text.split_once("\ndata: ").expect("an event");
            Some(serde_json::from_str(data).expect("JSON"))
        }
        Step::Wait(_) | Step::Stall | Step::Break(_) => None,
    };
    steps.iter().filter_map(data).collect()
}

fn rich() -> Reply {
    let input = json!({"command": "echo a rather long command"});
    let tool = Piece::ToolUse { id: "toolu_1".to_owned(), name: "Bash".to_owned(), input };
    Reply {
        pieces: vec![Piece::Thinking("hm".to_owned()), Piece::Text("北京😀".to_owned()), tool],
        stop: StopReason::ToolUse,
    }
}

#[test]
fn a_stream_has_its_events_in_the_documented_order() {
    let events = sent(&events(&rich(), &envelope(), Duration::ZERO));
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().expect("typed")).collect();
    let expected = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    assert_eq!(events[4]["delta"], json!({"type": "signature_delta", "signature": "sig"}));
    assert_eq!(events[0]["message"]["usage"]["cache_creation_input_tokens"], 23);
    assert_eq!(events[0]["message"]["usage"]["cache_creation"]["ephemeral_1h_input_tokens"], 3);
    assert_eq!(events[13]["delta"]["stop_reason"], "tool_use");
    assert_eq!(events[13]["usage"]["output_tokens"], rich().tokens());
}

#[test]
fn the_pieces_of_a_tool_call_add_up_to_its_input() {
    let events = sent(&events(&rich(), &envelope(), Duration::ZERO));
    let pieces = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str());
    assert_eq!(
        serde_json::from_str::<Value>(&pieces.collect::<String>()).expect("JSON")["command"],
        "echo a rather long command"
    );
}

#[test]
fn the_whole_answer_says_the_same_as_the_stream() {
    let (body, _) = whole(&rich(), &envelope());
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["content"][0], json!({"type": "thinking", "thinking": "hm", "signature": "sig"}));
    assert_eq!(body["content"][1]["text"], "北京😀");
    assert_eq!(body["content"][2]["input"]["command"], "echo a rather long command");
    assert_eq!((&body["stop_reason"], &body["usage"]["input_tokens"]), (&json!("tool_use"), &json!(5)));
}

#[test]
fn omitted_thinking_is_a_signature_alone() {
    let envelope = Envelope { omit_thinking: true, ..envelope() };
    let events = sent(&events(&rich(), &envelope, Duration::ZERO));
    assert!(events.iter().all(|event| event["delta"]["type"] != "thinking_delta"));
    assert!(events.iter().any(|event| event["delta"]["type"] == "signature_delta"));
}

#[test]
fn an_answer_ends_where_max_tokens_says() {
    let long = Reply::text("a".repeat(100)).within(10);
    assert_eq!((long.tokens(), long.stop), (10, StopReason::MaxTokens));
    assert_eq!(Reply::text("a".repeat(40)).within(10).stop, StopReason::EndTurn);
    let tool = rich().within(4);
    assert_eq!((tool.pieces.len(), tool.stop), (2, StopReason::MaxTokens), "a call that does not fit is not begun");
}

#[test]
fn a_pace_waits_before_each_event() {
    let steps = events(&Reply::text("hi"), &envelope(), Duration::from_millis(20));
    assert!(matches!(steps[..2], [Step::Wait(wait), Step::Send(_)] if wait == Duration::from_millis(20)));
}
