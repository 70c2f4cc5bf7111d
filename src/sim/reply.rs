//! An answer of the model, and how the Messages API writes it: as a stream of events or as one JSON object.
//!
//! Never here: what the model says, and what goes wrong on the way.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::Step;
use super::cache::InputUsage;
use super::prompt::tokens_of;

const CHARS_PER_DELTA: usize = 24;
const CHARS_PER_TOKEN: u64 = 4;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StopReason {
    #[default]
    EndTurn,
    ToolUse,
    MaxTokens,
    StopSequence,
    PauseTurn,
    Refusal,
}

impl StopReason {
    /// The reason of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        serde_json::from_value(json!(name)).ok()
    }
}

/// A part of an answer, or a moment in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Thinking(String),
    Text(String),
    ToolUse { id: String, name: String, input: Value },
    Pause(Duration),
    Pace(Duration),
}

impl Piece {
    fn tokens(&self) -> u64 {
        match self {
            Self::Thinking(text) | Self::Text(text) => tokens_of(text),
            Self::ToolUse { name, input, .. } => tokens_of(name) + tokens_of(&input.to_string()),
            Self::Pause(_) | Self::Pace(_) => 0,
        }
    }
}

/// What the model answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reply {
    pub(super) pieces: Vec<Piece>,
    pub(super) stop: StopReason,
}

impl Reply {
    /// An answer of one text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Text(text.into())], stop: StopReason::EndTurn }
    }

    /// How many tokens it has.
    pub(super) fn tokens(&self) -> u64 {
        self.pieces.iter().map(Piece::tokens).sum()
    }

    /// The answer as far as a budget of output tokens goes; a tool call that does not fit is not begun.
    pub(super) fn within(mut self, max_tokens: u64) -> Self {
        let mut left = max_tokens;
        for at in 0..self.pieces.len() {
            let tokens = self.pieces[at].tokens();
            if tokens > left {
                let cut = shortened(&self.pieces[at], left);
                self.pieces.truncate(at);
                self.pieces.extend(cut);
                self.stop = StopReason::MaxTokens;
                break;
            }
            left -= tokens;
        }
        self
    }
}

fn shortened(piece: &Piece, tokens: u64) -> Option<Piece> {
    let chars = usize::try_from(tokens * CHARS_PER_TOKEN).unwrap_or(usize::MAX);
    let cut = |text: &str| text.chars().take(chars).collect::<String>();
    match piece {
        Piece::Text(text) if tokens > 0 => Some(Piece::Text(cut(text))),
        Piece::Thinking(text) if tokens > 0 => Some(Piece::Thinking(cut(text))),
        Piece::Text(_) | Piece::Thinking(_) | Piece::ToolUse { .. } | Piece::Pause(_) | Piece::Pace(_) => None,
    }
}

/// What is told around an answer.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) input: InputUsage,
    /// Signs the thinking of this answer.
    pub(super) signature: String,
    /// Whether thinking is sent as a signature alone.
    pub(super) omit_thinking: bool,
}

impl Envelope {
    fn usage(&self, output: u64) -> Value {
        let input = self.input;
        json!({
            "input_tokens": input.input,
            "cache_creation_input_tokens": input.cache_write_5m + input.cache_write_1h,
            "cache_read_input_tokens": input.cache_read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": input.cache_write_5m,
                "ephemeral_1h_input_tokens": input.cache_write_1h,
            },
            "output_tokens": output,
            "service_tier": "standard",
        })
    }

    fn message(&self, content: &[Value], stop: Option<StopReason>, output: u64) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop, "stop_sequence": null, "usage": self.usage(output),
        })
    }

    fn block(&self, piece: &Piece) -> Option<Value> {
        match piece {
            Piece::Thinking(text) => {
                let shown = if self.omit_thinking { "" } else { text };
                Some(json!({"type": "thinking", "thinking": shown, "signature": self.signature}))
            }
            Piece::Text(text) => Some(json!({"type": "text", "text": text})),
            Piece::ToolUse { id, name, input } => {
                Some(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
            }
            Piece::Pause(_) | Piece::Pace(_) => None,
        }
    }
}

/// The answer as one JSON object, and how long the model takes for it.
pub(super) fn whole(reply: &Reply, envelope: &Envelope) -> (Bytes, Duration) {
    let content: Vec<Value> = reply.pieces.iter().filter_map(|piece| envelope.block(piece)).collect();
    let pauses =
        reply.pieces.iter().filter_map(|piece| if let Piece::Pause(wait) = piece { Some(*wait) } else { None });
    (Bytes::from(envelope.message(&content, Some(reply.stop), reply.tokens()).to_string()), pauses.sum())
}

/// The answer as a stream of events, one write each, `pace` before each.
pub(super) fn events(reply: &Reply, envelope: &Envelope, pace: Duration) -> Vec<Step> {
    let mut stream = Stream { steps: Vec::new(), pace, index: 0 };
    stream.event("message_start", &json!({"type": "message_start", "message": envelope.message(&[], None, 1)}));
    for piece in &reply.pieces {
        stream.piece(piece, envelope);
    }
    stream.event(
        "message_delta",
        &json!({"type": "message_delta", "delta": {"stop_reason": reply.stop, "stop_sequence": null},
                "usage": envelope.usage(reply.tokens())}),
    );
    stream.event("message_stop", &json!({"type": "message_stop"}));
    stream.steps
}

/// A ping.
pub(super) fn ping() -> Bytes {
    frame("ping", &json!({"type": "ping"}))
}

/// An error in the stream.
pub(super) fn error_event(kind: &str, message: &str) -> Bytes {
    frame("error", &json!({"type": "error", "error": {"type": kind, "message": message}}))
}

fn frame(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

struct Stream {
    steps: Vec<Step>,
    pace: Duration,
    index: usize,
}

impl Stream {
    fn event(&mut self, name: &str, data: &Value) {
        if !self.pace.is_zero() {
            self.steps.push(Step::Wait(self.pace));
        }
        self.steps.push(Step::Send(frame(name, data)));
    }

    fn piece(&mut self, piece: &Piece, envelope: &Envelope) {
        match piece {
            Piece::Pause(wait) => self.steps.push(Step::Wait(*wait)),
            Piece::Pace(wait) => self.pace = *wait,
            Piece::Thinking(text) => self.thinking(text, envelope),
            Piece::Text(text) => self.block(&json!({"type": "text", "text": ""}), "text_delta", "text", text),
            Piece::ToolUse { id, name, input } => {
                let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.block(&start, "input_json_delta", "partial_json", &input.to_string());
            }
        }
    }

    fn thinking(&mut self, text: &str, envelope: &Envelope) {
        self.start(&json!({"type": "thinking", "thinking": "", "signature": ""}));
        if !envelope.omit_thinking {
            self.deltas("thinking_delta", "thinking", text);
        }
        self.delta(&json!({"type": "signature_delta", "signature": envelope.signature}));
        self.end();
    }

    fn block(&mut self, start: &Value, kind: &str, field: &str, text: &str) {
        self.start(start);
        self.deltas(kind, field, text);
        self.end();
    }

    fn start(&mut self, block: &Value) {
        self.event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": self.index, "content_block": block}),
        );
        if self.index == 0 {
            self.steps.push(Step::Send(ping()));
        }
    }

    fn deltas(&mut self, kind: &str, field: &str, text: &str) {
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(CHARS_PER_DELTA) {
            self.delta(&json!({"type": kind, field: piece.iter().collect::<String>()}));
        }
    }

    fn delta(&mut self, delta: &Value) {
        self.event("content_block_delta", &json!({"type": "content_block_delta", "index": self.index, "delta": delta}));
    }

    fn end(&mut self) {
        self.event("content_block_stop", &json!({"type": "content_block_stop", "index": self.index}));
        self.index += 1;
    }
}

#[cfg(test)]
mod tests;
