//! Which event of a stream is which, as far as anyone but the client cares.
//!
//! An event is told by its `event` field, else by the `type` in its data; with neither, an `error` member in the data
//! makes it one.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::error::LONGEST_ERROR;

/// The kinds of event that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Keeps the stream alive. It is no first event: what the answer comes to is still open.
    Ping,
    /// `message_start`, which has the first usage figures. It is a good first event.
    MessageStart,
    /// `message_delta`, which has later ones.
    MessageDelta,
    /// An error.
    Error,
    /// Anything else, known or not: good as a first event, and relayed.
    Other,
}

impl EventKind {
    /// Tells an event from its `event` field and its data. A whole body is told by its data alone.
    #[must_use]
    pub fn of(name: Option<&str>, data: &[u8]) -> Self {
        match name.map_or(Self::Other, Self::named) {
            Self::Other => Self::in_data(data),
            told @ (Self::Ping | Self::MessageStart | Self::MessageDelta | Self::Error) => told,
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "ping" => Self::Ping,
            "message_start" => Self::MessageStart,
            "message_delta" => Self::MessageDelta,
            "error" => Self::Error,
            _ => Self::Other,
        }
    }

    fn in_data(data: &[u8]) -> Self {
        match top_of(data) {
            Some(Top { kind: Some(kind), .. }) => Self::named(&kind),
            Some(Top { kind: None, error: Some(_) }) => Self::Error,
            Some(Top { kind: None, error: None }) | None => Self::Other,
        }
    }
}

/// The members at the top that tell an error from anything else.
#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    error: Option<Value>,
}

fn top_of(data: &[u8]) -> Option<Top<'_>> {
    let data = data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(data);
    (data.len() <= LONGEST_ERROR).then(|| serde_json::from_slice(data).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_by_its_name() {
        for (name, kind) in [
            ("ping", EventKind::Ping),
            ("message_start", EventKind::MessageStart),
            ("message_delta", EventKind::MessageDelta),
            ("error", EventKind::Error),
            ("content_block_delta", EventKind::Other),
            ("an_event_of_tomorrow", EventKind::Other),
        ] {
            assert_eq!(EventKind::of(Some(name), b""), kind, "{name}");
            assert_eq!(
                EventKind::of(None, format!(r#"{{"x":1,"type":"{name}"}}"#).as_bytes()),
                kind,
                "{name} in the data"
            );
        }
    }

    /// A proxy between may drop the name, or put the default one there.
    #[test]
    fn an_error_is_told_whatever_the_name_hides() {
        let error = br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        assert_eq!(EventKind::of(None, error), EventKind::Error);
        assert_eq!(EventKind::of(Some("message"), error), EventKind::Error);
        assert_eq!(EventKind::of(None, br#"{"error":"no"}"#), EventKind::Error);
        assert_eq!(EventKind::of(None, br#"{"type":"message","error":"a member of tomorrow"}"#), EventKind::Other);
        assert_eq!(EventKind::of(None, br#"{"error":null}"#), EventKind::Other);
    }

    /// A client may ask the model to speak of errors.
    #[test]
    fn a_text_that_speaks_of_errors_is_none() {
        let delta = br#"{"type":"content_block_delta","delta":{"text":"{\"type\":\"error\",\"error\":{}}"}}"#;
        assert_eq!(EventKind::of(None, delta), EventKind::Other);
    }
}
