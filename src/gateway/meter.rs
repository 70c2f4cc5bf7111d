//! What is learnt from an answer while it passes: its tokens, and an error event after output.

use duduclaw_actors::clock::SharedClock;
use duduclaw_actors::outcome::{Outcome, Usage};
use duduclaw_actors::provider::anthropic::classify::{Asked, error_event};
use duduclaw_actors::provider::anthropic::usage::UsageMeter;
use http::HeaderMap;

use crate::upstream::sse::{Event, Interest, Sink};
use crate::upstream::tee::Observer;

/// Events that say something; all others are passed over unread.
const WANTED: [&str; 4] = ["message_start", "message_delta", "message_stop", "error"];

/// Watches one answer of the Messages API.
#[derive(Debug)]
pub struct Meter {
    usage: UsageMeter,
    head: HeaderMap,
    asked: Asked,
    clock: SharedClock,
    error: Option<Outcome>,
    stopped: bool,
}

impl Meter {
    /// A meter for an answer with these headers, as far as an error event needs them.
    #[must_use]
    pub fn new(head: HeaderMap, asked: Asked, clock: SharedClock) -> Self {
        Self { usage: UsageMeter::default(), head, asked, clock, error: None, stopped: false }
    }

    /// The tokens seen so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage.usage()
    }

    /// Whether the message is over, whatever becomes of the connection.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stopped
    }

    /// What an error event after output meant, if there was one that means something for the account.
    #[must_use]
    pub fn error(&self) -> Option<&Outcome> {
        self.error.as_ref()
    }
}

impl Sink for Meter {
    fn wants(&self, name: &[u8]) -> Interest {
        Interest::among(&WANTED, name)
    }

    fn event(&mut self, event: Event<'_>) {
        match event.name {
            "error" => self.error = error_event(event.data, &self.head, self.asked, self.clock.now()),
            "message_stop" => self.stopped = true,
            _ => self.usage.read(event.data),
        }
    }
}

impl Observer for Meter {
    fn document(&mut self, body: &[u8]) {
        self.usage.read(body);
    }
}
