//! Reading directives out of a prompt.

use std::time::Duration;

use serde_json::Value;

use crate::sim::reply::StopReason;

/// One thing for the model to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Directive {
    Say(String),
    Words(usize),
    Think(String),
    Tool { name: String, input: Value },
    Agent(String),
    Also(Box<Directive>),
    Result,
    Recall,
    Pause(Duration),
    Pace(Duration),
    Stop(StopReason),
    Unknown(String),
}

impl Directive {
    /// Whether it calls a tool.
    pub(super) fn is_call(&self) -> bool {
        match self {
            Self::Tool { .. } | Self::Agent(_) | Self::Also(_) => true,
            Self::Say(_)
            | Self::Words(_)
            | Self::Think(_)
            | Self::Result
            | Self::Recall
            | Self::Pause(_)
            | Self::Pace(_)
            | Self::Stop(_)
            | Self::Unknown(_) => false,
        }
    }
}

/// All directives of a text; brackets may nest.
pub(super) fn directives(text: &str) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("[[") {
        let Some(end) = closing(after) else {
            break;
        };
        found.push(directive(after[..end].trim()));
        rest = &after[end + 2..];
    }
    found
}

/// Where the brackets close that were open before this text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let here = &text.as_bytes()[at..];
        match () {
            () if here.starts_with(b"[[") => (depth, at) = (depth + 1, at + 2),
            () if here.starts_with(b"]]") && depth == 0 => return Some(at),
            () if here.starts_with(b"]]") => (depth, at) = (depth - 1, at + 2),
            () => at += 1,
        }
    }
    None
}

fn directive(text: &str) -> Directive {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    let rest = rest.trim();
    let parsed = match word.trim() {
        "say" => Some(Directive::Say(rest.to_owned())),
        "words" => rest.parse().ok().map(Directive::Words),
        "think" => {
            Some(Directive::Think(if rest.is_empty() { "Thinking it over.".to_owned() } else { rest.to_owned() }))
        }
        "tool" => tool(rest),
        "agent" => Some(Directive::Agent(rest.to_owned())),
        "also" => Some(Directive::Also(Box::new(directive(rest)))),
        "result" => Some(Directive::Result),
        "recall" => Some(Directive::Recall),
        "pause" => rest.parse().ok().map(Duration::from_millis).map(Directive::Pause),
        "pace" => rest.parse().ok().map(Duration::from_millis).map(Directive::Pace),
        "stop" => StopReason::named(rest).map(Directive::Stop),
        _other => None,
    };
    parsed.unwrap_or_else(|| Directive::Unknown(text.to_owned()))
}

fn tool(text: &str) -> Option<Directive> {
    let (name, input) = text.split_once(char::is_whitespace).unwrap_or((text, "{}"));
    let input = serde_json::from_str(input.trim()).ok()?;
    Some(Directive::Tool { name: name.to_owned(), input })
}
