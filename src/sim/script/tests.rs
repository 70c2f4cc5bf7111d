use super::*;

const BASH: &str = r#"{"name":"Bash"}"#;

fn sight() -> Sight {
    Sight { thinking: 3, serial: 1 }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": "<system-reminder>[[say: no]]</system-reminder>"},
                                       {"type": "text", "text": text}]})
}

fn result(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]})
}

fn called() -> Value {
    json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]})
}

fn answer(messages: &[Value], tools: &str) -> Reply {
    let tools: Value = serde_json::from_str(&format!("[{tools}]")).expect("valid tools");
    reply(&json!({"messages": messages, "tools": tools, "thinking": {"type": "adaptive"}}), sight())
}

fn texts(reply: &Reply) -> Vec<&str> {
    let text = |piece: &'_ Piece| matches!(piece, Piece::Text(_));
    let pieces = reply.pieces.iter().filter(|piece| text(piece));
    pieces.map(|piece| if let Piece::Text(text) = piece { text.as_str() } else { "" }).collect()
}

#[test]
fn a_script_goes_on_where_the_tool_results_say_it_is() {
    let prompt = user(
        r#"[[think]] [[tool:Bash {"command":"echo a"}]] then [[tool:Bash {"command":"echo [[b]]"}]][[result]][[say: done]]"#,
    );
    let first = answer(std::slice::from_ref(&prompt), BASH);
    assert_eq!(first.stop, StopReason::ToolUse);
    assert!(matches!(&first.pieces[0], Piece::Thinking(_)));
    assert!(matches!(&first.pieces[1], Piece::ToolUse { input, .. } if input["command"] == "echo a"));
    let second = answer(&[prompt.clone(), called(), result("a")], BASH);
    assert!(matches!(&second.pieces[0], Piece::ToolUse { input, .. } if input["command"] == "echo [[b]]"));
    let third = answer(&[prompt.clone(), called(), result("a"), called(), result("b\n")], BASH);
    assert_eq!((third.stop, texts(&third)), (StopReason::EndTurn, vec!["The tool said: b", "done"]));
}

#[test]
fn parallel_calls_wait_for_all_their_results() {
    let prompt = user("[[tool:Bash {}]][[also:tool:Bash {}]][[say: both]]");
    let first = answer(std::slice::from_ref(&prompt), BASH);
    assert_eq!(first.pieces.len(), 2);
    let both = json!({"role": "user", "content": [{"type": "tool_result", "content": "1"}, {"type": "tool_result", "content": "2"}]});
    assert_eq!(texts(&answer(&[prompt, called(), both], BASH)), ["both"]);
}

#[test]
fn a_new_prompt_begins_a_new_script() {
    let messages = [user("[[tool:Bash {}]][[say: one]]"), called(), result("x"), user("[[say: two]]")];
    assert_eq!(texts(&answer(&messages, BASH)), ["two"]);
}

#[test]
fn an_over_long_conversation_ends_the_script() {
    let notification = json!({"role": "user", "content": "<task-notification>the errand is done</task-notification>"});
    let messages = [user("[[tool:Bash {}]]"), called(), result("x"), notification];
    assert_eq!(texts(&answer(&messages, BASH)), ["The script is over."]);
}

#[test]
fn the_subagent_tool_is_called_by_the_name_it_has() {
    let prompt = [user("[[agent: [[tool:Bash {}]] and [[say: sub]]]]")];
    for (tools, name) in [
        (r#"{"name":"Agent","input_schema":{"properties":{"run_in_background":{}}}}"#, "Agent"),
        (r#"{"name":"Task"}"#, "Task"),
    ] {
        let reply = answer(&prompt, tools);
        let Piece::ToolUse { name: called, input, .. } = &reply.pieces[0] else { panic!("a call") };
        assert_eq!((called.as_str(), &input["prompt"]), (name, &json!("[[tool:Bash {}]] and [[say: sub]]")));
        assert_eq!(input.get("run_in_background").is_some(), name == "Agent");
    }
}

#[test]
fn a_tool_that_is_not_offered_is_named_in_text() {
    let reply = answer(&[user("[[tool:Fly {}]]")], BASH);
    assert_eq!((reply.stop, texts(&reply)), (StopReason::EndTurn, vec!["The tool Fly was not offered to me."]));
}

#[test]
fn a_title_request_gets_json_that_fits_its_schema() {
    let body = json!({"messages": [user("[[tool:Bash {}]]")], "output_config": {"format": {"type": "json_schema",
        "schema": {"type": "object", "properties": {"title": {"type": "string"}, "n": {"type": "integer"}}}}}});
    assert_eq!(texts(&reply(&body, sight())), [r#"{"title":"Simulated session","n":0}"#]);
}

#[test]
fn without_directives_the_model_tells_what_it_saw() {
    let messages = [user("hi"), json!({"role": "assistant", "content": "yes"}), user("and?")];
    assert_eq!(texts(&answer(&messages, BASH)), ["Simulated answer. I saw 3 messages, 2 of them from the user."]);
}

#[test]
fn thinking_comes_only_when_the_request_wants_it() {
    let body = json!({"messages": [user("[[think]][[recall]]")], "thinking": {"type": "disabled"}});
    assert_eq!(texts(&reply(&body, sight())), ["I can see 3 earlier thinking blocks."]);
    assert_eq!(reply(&body, sight()).pieces.len(), 1);
}

#[test]
fn what_cannot_be_read_is_said_so() {
    for text in ["dance", "tool:Bash {not json}", "words: many", "stop: never"] {
        let reply = answer(&[user(&format!("[[{text}]]"))], BASH);
        assert_eq!(texts(&reply), [format!("I do not know the directive \"{text}\".")]);
    }
}
