//! An HTTP answer as the simulator will play it: status, headers, and the body step by step.
//!
//! Never here: why it is this answer.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

/// One step of playing a body.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Sends this, as a write of its own.
    Send(Bytes),
    /// Does nothing for a while.
    Wait(Duration),
    /// Does nothing for ever.
    Stall,
    /// Ends the connection before the body is over.
    Break(Break),
}

/// How a connection ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// Closed in the usual way.
    Close,
    /// Reset.
    Reset,
}

/// What comes before the head.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Before {
    pub(super) delay: Duration,
    pub(super) instead: Option<Instead>,
}

/// What happens in place of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instead {
    Stall,
    Break(Break),
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) before: Before,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// Stated in `content-length`; without it the body is chunked.
    pub(super) length: Option<usize>,
    pub(super) steps: Vec<Step>,
}

impl Answer {
    /// An answer with this body, its length stated.
    pub(super) fn whole(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self {
            before: Before::default(),
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            length: Some(body.len()),
            steps: if body.is_empty() { Vec::new() } else { vec![Step::Send(body)] },
        }
    }

    /// A JSON answer.
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::whole(status, "application/json", body.to_string())
    }

    /// A stream of events.
    pub(super) fn stream(steps: Vec<Step>) -> Self {
        Self { steps, length: None, ..Self::whole(200, "text/event-stream; charset=utf-8", Bytes::new()) }
            .with("cache-control", "no-cache")
    }

    /// An error as Anthropic words it.
    pub(super) fn error(status: u16, kind: &str, message: &str, request_id: &str) -> Self {
        let error = json!({"type": kind, "message": message});
        Self::json(status, &json!({"type": "error", "error": error, "request_id": request_id}))
    }

    /// The same with one more header.
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The same with these headers, unless it has some of that name.
    pub(super) fn with_default(mut self, headers: impl IntoIterator<Item = (String, String)>) -> Self {
        for (name, value) in headers {
            if !self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                self.headers.push((name, value));
            }
        }
        self
    }

    /// The same, its head later.
    pub(super) fn after(mut self, delay: Duration) -> Self {
        self.before.delay += delay;
        self
    }
}
