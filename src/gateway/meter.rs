//! What is learnt from an answer while it passes: its tokens, how much of it there is, and an error event after output.

mod spoken;

use duduclaw_actors::clock::SharedClock;
use duduclaw_actors::outcome::{Outcome, Usage};
use duduclaw_actors::provider::anthropic::classify::{Asked, error_event};
use duduclaw_actors::provider::anthropic::usage::{UsageMeter, usage_update};
use http::HeaderMap;

use self::spoken::Spoken;
use crate::upstream::sse::{Event, Interest, Sink};
use crate::upstream::tee::Observer;

/// Events that say something; all others are passed over unread.
const WANTED: [&str; 4] = ["message_start", "message_delta", "message_stop", "error"];
/// Events of which only the length of their text matters.
const DELTA: &[u8] = b"content_block_delta";

/// Watches one answer of the Messages API.
#[derive(Debug)]
pub struct Meter {
    usage: UsageMeter,
    spoken: Spoken,
    counted: Counted,
    head: HeaderMap,
    asked: Asked,
    clock: SharedClock,
    error: Option<Outcome>,
    failed: bool,
    stopped: bool,
}

/// Whether the provider has told the tokens of the whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It has.
    Yes,
    /// What it told so far is less than there is.
    NotYet,
}

impl Meter {
    /// A meter for an answer with these headers, as far as an error event needs them.
    #[must_use]
    pub fn new(head: HeaderMap, asked: Asked, clock: SharedClock) -> Self {
        Self {
            usage: UsageMeter::default(),
            spoken: Spoken::default(),
            counted: Counted::NotYet,
            head,
            asked,
            clock,
            error: None,
            failed: false,
            stopped: false,
        }
    }

    /// The tokens that the provider told so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage.usage()
    }

    /// The tokens of what was said so far, estimated from its characters.
    #[must_use]
    pub fn spoken(&self) -> u64 {
        self.spoken.tokens()
    }

    /// Whether the provider has told the tokens of the whole answer.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.counted
    }

    /// Whether the message is over, whatever becomes of the connection.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stopped
    }

    /// Whether an error event ended it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// What an error event after output meant, if there was one that means something for the account.
    #[must_use]
    pub fn error(&self) -> Option<&Outcome> {
        self.error.as_ref()
    }
}

impl Meter {
    fn figures(&mut self, json: &[u8], whole: Counted) {
        let Some(update) = usage_update(json) else { return };
        self.usage.apply(update);
        if update.output.is_some() && whole == Counted::Yes {
            self.counted = Counted::Yes;
        }
    }
}

impl Sink for Meter {
    fn wants(&self, name: &[u8]) -> Interest {
        if name == DELTA { Interest::Glance } else { Interest::among(&WANTED, name) }
    }

    fn event(&mut self, event: Event<'_>) {
        match event.name {
            "error" => {
                self.failed = true;
                self.error = error_event(event.data, &self.head, self.asked, self.clock.now());
            }
            "message_stop" => self.stopped = true,
            "message_delta" => self.figures(event.data, Counted::Yes),
            _ => self.figures(event.data, Counted::NotYet),
        }
    }

    fn line(&mut self, data: &[u8]) {
        self.spoken.delta(data);
    }
}

impl Observer for Meter {
    fn document(&mut self, body: &[u8]) {
        self.figures(body, Counted::Yes);
        if self.counted == Counted::NotYet {
            self.spoken.document(body);
        }
    }
}

#[cfg(test)]
mod tests;
