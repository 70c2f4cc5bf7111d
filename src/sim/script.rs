//! What the simulated model does: directives in the user's prompt, played turn by turn.
//!
//! A directive stands in double square brackets; text around them is ignored. In order:
//!
//! | directive | what happens |
//! |---|---|
//! | `[[say: TEXT]]` | a text block |
//! | `[[words: N]]` | a text block of N words |
//! | `[[think]]`, `[[think: TEXT]]` | a signed thinking block, if the request wants thinking |
//! | `[[tool:NAME {JSON}]]` | a tool call; the turn ends, the next directives are for after its result |
//! | `[[agent: PROMPT]]` | a call of the tool `Agent` (in older clients `Task`); PROMPT may hold directives of its own |
//! | `[[also:tool:NAME {JSON}]]`, `[[also:agent: PROMPT]]` | one more call in the turn of the call before it |
//! | `[[result]]` | a text block quoting the last tool result |
//! | `[[recall]]` | a text block telling how many earlier thinking blocks the model can see |
//! | `[[pause: MS]]` | nothing for that many milliseconds |
//! | `[[pace: MS]]` | from here on that many milliseconds before each event |
//! | `[[stop: REASON]]` | the turn ends with this `stop_reason` |
//!
//! Which turn it is follows from the tool results after the prompt, so nothing is remembered between requests and a
//! repeated request gets the same answer. Without directives the model tells how many messages it saw. A request for
//! structured output gets JSON that fits its schema.

use serde_json::{Map, Value, json};

use super::reply::{Piece, Reply, StopReason};

mod directive;

use directive::{Directive, directives};

/// What the model knows beside the request itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// How many earlier thinking blocks reached it.
    pub(super) thinking: usize,
    /// Makes tool ids different from answer to answer.
    pub(super) serial: u64,
}

/// The model's answer to this request.
pub(super) fn reply(body: &Value, sight: Sight) -> Reply {
    if let Some(schema) = wanted_schema(body) {
        return Reply::text(fitting(schema).to_string());
    }
    let messages = body.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (directives, results) = script_of(messages);
    if directives.is_empty() {
        return Reply::text(echo(messages));
    }
    match turn(&directives, results) {
        Some(turn) => play(turn, &Stage { body, messages, sight }),
        None => Reply::text("The script is over."),
    }
}

fn wanted_schema(body: &Value) -> Option<&Value> {
    let format = body.pointer("/output_config/format").or_else(|| body.get("output_format"))?;
    format.get("schema")
}

/// The smallest value that fits a schema, with words for strings.
fn fitting(schema: &Value) -> Value {
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        return first.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            Value::Object(properties.map(|(name, inner)| (name.clone(), named(name, inner))).collect::<Map<_, _>>())
        }
        Some("array") => json!([]),
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(0),
        Some("string") => json!("simulated"),
        Some(_) | None => Value::Null,
    }
}

fn named(name: &str, schema: &Value) -> Value {
    match name {
        "title" => json!("Simulated session"),
        _other => fitting(schema),
    }
}

fn echo(messages: &[Value]) -> String {
    let from_user = messages.iter().filter(|message| role(message) == "user").count();
    format!("Simulated answer. I saw {} messages, {from_user} of them from the user.", messages.len())
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

/// The directives of the last real user prompt, and how many tool results came after it.
fn script_of(messages: &[Value]) -> (Vec<Directive>, usize) {
    let spoken =
        |message: &Value| (role(message) == "user").then(|| user_text(message)).filter(|text| !text.is_empty());
    let found = messages.iter().enumerate().rev().find_map(|(at, message)| Some((at, spoken(message)?)));
    let Some((at, text)) = found else {
        return (Vec::new(), 0);
    };
    (directives(&text), messages[at + 1..].iter().map(|message| tool_results(message).count()).sum())
}

/// What the person typed: texts that the client adds for itself, in tags of its own, are left out.
fn user_text(message: &Value) -> String {
    let texts: Vec<&str> = match message.get("content") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(blocks)) => {
            let only_results = tool_results(message).next().is_some();
            let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
            texts.filter(|text| !only_results || text.contains("[[")).collect()
        }
        Some(_) | None => Vec::new(),
    };
    texts.into_iter().filter(|text| !added_by_the_client(text)).collect::<Vec<_>>().join("\n")
}

fn added_by_the_client(text: &str) -> bool {
    const TAGS: [&str; 4] = ["<system-reminder", "<task-notification", "<local-command", "<command-name"];
    let text = text.trim_start();
    text.is_empty() || TAGS.iter().any(|tag| text.starts_with(tag))
}

fn tool_results(message: &Value) -> impl Iterator<Item = &Value> {
    let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
    blocks.filter(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"))
}

/// The directives of the turn that comes after so many tool results; nothing when the script is over.
fn turn(directives: &[Directive], mut results: usize) -> Option<&[Directive]> {
    let mut rest = directives;
    loop {
        let calls = rest.iter().position(Directive::is_call);
        let end = calls.map_or(rest.len(), |first| {
            let more = rest[first + 1..].iter().take_while(|directive| matches!(directive, Directive::Also(_)));
            first + 1 + more.count()
        });
        let (now, later) = rest.split_at(end);
        let called = now.iter().filter(|directive| directive.is_call()).count();
        if now.is_empty() || results < called.max(1) {
            return (!now.is_empty()).then_some(now);
        }
        results -= called.max(1);
        rest = later;
    }
}

struct Stage<'r> {
    body: &'r Value,
    messages: &'r [Value],
    sight: Sight,
}

fn play(turn: &[Directive], stage: &Stage<'_>) -> Reply {
    let mut reply = Reply::default();
    for (at, directive) in turn.iter().enumerate() {
        perform(directive, at, stage, &mut reply);
    }
    reply
}

fn perform(directive: &Directive, at: usize, stage: &Stage<'_>, reply: &mut Reply) {
    match directive {
        Directive::Say(text) => reply.pieces.push(Piece::Text(text.clone())),
        Directive::Words(count) => reply.pieces.push(Piece::Text(words(*count))),
        Directive::Think(text) => reply.pieces.extend(stage.wants_thinking().then(|| Piece::Thinking(text.clone()))),
        Directive::Tool { name, input } => stage.call(name, input.clone(), at, reply),
        Directive::Agent(prompt) => stage.delegate(prompt, at, reply),
        Directive::Also(inner) => perform(inner, at, stage, reply),
        Directive::Result => reply.pieces.push(Piece::Text(last_result(stage.messages))),
        Directive::Recall => reply.pieces.push(Piece::Text(stage.recollection())),
        Directive::Pause(wait) => reply.pieces.push(Piece::Pause(*wait)),
        Directive::Pace(wait) => reply.pieces.push(Piece::Pace(*wait)),
        Directive::Stop(reason) => reply.stop = *reason,
        Directive::Unknown(text) => {
            reply.pieces.push(Piece::Text(format!("I do not know the directive \"{text}\".")));
        }
    }
}

impl Stage<'_> {
    fn wants_thinking(&self) -> bool {
        let kind = self.body.pointer("/thinking/type").and_then(Value::as_str);
        matches!(kind, Some("enabled" | "adaptive"))
    }

    fn offered(&self, name: &str) -> Option<&Value> {
        let mut tools = self.body.get("tools").and_then(Value::as_array).into_iter().flatten();
        tools.find(|tool| tool.get("name").and_then(Value::as_str) == Some(name))
    }

    fn call(&self, name: &str, input: Value, at: usize, reply: &mut Reply) {
        if self.offered(name).is_none() {
            reply.pieces.push(Piece::Text(format!("The tool {name} was not offered to me.")));
            return;
        }
        let id = format!("toolu_sim{:08x}{at:02x}", self.sight.serial);
        reply.pieces.push(Piece::ToolUse { id, name: name.to_owned(), input });
        reply.stop = StopReason::ToolUse;
    }

    fn delegate(&self, prompt: &str, at: usize, reply: &mut Reply) {
        let name = ["Agent", "Task"].into_iter().find(|name| self.offered(name).is_some());
        let mut input =
            json!({"description": "Simulated errand", "prompt": prompt, "subagent_type": "general-purpose"});
        let backgrounds = name.and_then(|name| self.offered(name)).map(|tool| tool.to_string());
        if backgrounds.is_some_and(|tool| tool.contains("\"run_in_background\"")) {
            input["run_in_background"] = json!(false);
        }
        self.call(name.unwrap_or("Agent"), input, at, reply);
    }

    fn recollection(&self) -> String {
        format!("I can see {} earlier thinking blocks.", self.sight.thinking)
    }
}

fn words(count: usize) -> String {
    const WORDS: [&str; 8] = ["every", "account", "waits", "its", "turn", "while", "work", "goes"];
    WORDS.iter().copied().cycle().take(count).collect::<Vec<_>>().join(" ")
}

fn last_result(messages: &[Value]) -> String {
    let last = messages.iter().rev().find_map(|message| tool_results(message).last());
    let text = match last.and_then(|result| result.get("content")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect::<Vec<_>>().join("\n")
        }
        Some(_) | None => "(nothing)".to_owned(),
    };
    format!("The tool said: {}", text.trim())
}

#[cfg(test)]
mod tests;
