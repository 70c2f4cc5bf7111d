//! The body that goes to the client: the provider's packets as they come, watched, never rebuilt.
//!
//! Of an uncompressed stream only whole events are passed on: the beginning of an unfinished one waits for its rest,
//! which costs the client nothing, since it could not use it. So the client always stands between two events, where a
//! ping may be put in, or, if the provider breaks off, a well-formed error event.
//!
//! What never enters: a decision. What was seen is told to the [`Finish`] when the body is over or dropped.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use duduclaw_actors::clock;
use duduclaw_actors::provider::anthropic::body::error_frame;
use duduclaw_actors::provider::anthropic::error::ErrorKind;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::gateway::end::{End, Finish};
use crate::gateway::rename::{Begun, Renaming};
use crate::gateway::watch::Watch;

/// The longest beginning of an event that is kept back.
const FRAGMENT_MAX: usize = 256 * 1024;
/// What keeps a quiet stream's connection alive.
const PING: &[u8] = b"event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// How long a quiet stream is borne.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// After this long without a byte it is ended.
    pub idle: Duration,
    /// After this long without a byte a ping is put in; zero = never.
    pub ping: Duration,
}

/// What a relay is made of.
pub struct Parts {
    /// Packets that were held back while the answer was judged.
    pub held: Vec<Bytes>,
    /// The rest of the provider's body; `None` if the packets are all of it.
    pub rest: Option<reqwest::Body>,
    /// Looks at what passes.
    pub watch: Watch,
    /// The model's name that a stream is to show, if not the provider's.
    pub renaming: Option<Renaming>,
    /// How long quiet is borne.
    pub patience: Patience,
    /// Ends the body when the gateway stops.
    pub stop: WaitForCancellationFutureOwned,
    /// Our request id, for an error event.
    pub request_id: String,
    /// Whom to tell.
    pub finish: Box<dyn Finish>,
}

/// Whether events of ours may be put into a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Openness {
    /// An uncompressed event stream.
    Events,
    /// Anything else.
    Sealed,
}

/// The body.
pub struct Relay {
    ready: VecDeque<Bytes>,
    fragment: Vec<Bytes>,
    fragment_len: usize,
    rest: Option<Pin<Box<reqwest::Body>>>,
    watch: Option<Watch>,
    renaming: Option<Renaming>,
    open: Openness,
    patience: Patience,
    last_byte: Instant,
    last_sent: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    request_id: String,
    finish: Option<Box<dyn Finish>>,
    failed: bool,
}

/// The body broke where the client can only be told by breaking its connection too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off")]
pub struct BrokenOff;

impl Relay {
    /// A relay of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let now = clock::instant();
        let mut relay = Self {
            ready: VecDeque::with_capacity(parts.held.len()),
            fragment: Vec::new(),
            fragment_len: 0,
            rest: parts.rest.map(Box::pin),
            open: if parts.watch.is_open() { Openness::Events } else { Openness::Sealed },
            watch: Some(parts.watch),
            renaming: parts.renaming,
            patience: parts.patience,
            last_byte: now,
            last_sent: now,
            alarm: None,
            stop: Box::pin(parts.stop),
            request_id: parts.request_id,
            finish: Some(parts.finish),
            failed: false,
        };
        for packet in parts.held {
            relay.take_in(packet);
        }
        if relay.is_whole() {
            relay.complete();
        }
        relay
    }

    fn take_in(&mut self, packet: Bytes) {
        self.last_byte = clock::instant();
        let boundary = self.watch.as_mut().and_then(|watch| watch.packet(&packet));
        self.tell_passed();
        match (self.open, boundary) {
            (Openness::Sealed, _) => self.ready.push_back(packet),
            (Openness::Events, Some(at)) => {
                self.pass_on(packet.slice(..at));
                if at < packet.len() {
                    self.keep_back(packet.slice(at..));
                }
            }
            (Openness::Events, None) => self.keep_back(packet),
        }
    }

    fn tell_passed(&mut self) {
        if let (Some(finish), Some(meter)) = (&mut self.finish, self.watch.as_ref().and_then(Watch::meter)) {
            finish.passed(meter);
        }
    }

    /// Whole events go out. Until the stream has begun they are looked at for the model's name.
    fn pass_on(&mut self, end: Bytes) {
        let Some(renaming) = self.renaming.take() else {
            self.release_fragment();
            return self.ready.push_back(end);
        };
        self.fragment.push(end);
        self.fragment_len = 0;
        let events = Bytes::from(std::mem::take(&mut self.fragment).concat());
        self.ready.push_back(match renaming.events(events) {
            Begun::Yes(events) => events,
            Begun::NotYet(events) => {
                self.renaming = Some(renaming);
                events
            }
        });
    }

    fn keep_back(&mut self, packet: Bytes) {
        self.fragment_len += packet.len();
        self.fragment.push(packet);
        if self.fragment_len > FRAGMENT_MAX {
            self.open = Openness::Sealed;
            self.release_fragment();
        }
    }

    fn release_fragment(&mut self) {
        self.fragment_len = 0;
        self.ready.extend(self.fragment.drain(..));
    }

    fn over(&mut self, end: End) {
        self.rest = None;
        if let (Some(watch), Some(finish)) = (self.watch.take(), self.finish.take()) {
            watch.over(end, finish);
        }
    }

    /// Whether nothing more comes. Looked at after each packet: whoever sends a body of known length does not ask again
    /// after its last byte.
    fn is_whole(&self) -> bool {
        self.rest.as_ref().is_none_or(|rest| rest.is_end_stream() || rest.size_hint().exact() == Some(0))
    }

    fn complete(&mut self) {
        self.release_fragment();
        self.over(End::Complete);
    }

    /// Ends a body that will not be whole: with an error event where one can stand, else by breaking off.
    fn break_off(&mut self, end: End) {
        self.fragment.clear();
        match self.open {
            Openness::Events => {
                let (kind, text) = ending(end);
                self.ready.push_back(Bytes::from(error_frame(kind, text, &self.request_id)));
            }
            Openness::Sealed => self.failed = true,
        }
        self.over(end);
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(rest) = self.rest.as_mut() else { return Poll::Ready(()) };
            match ready!(rest.as_mut().poll_frame(cx)) {
                None => self.complete(),
                Some(Err(_)) => self.break_off(End::Broken),
                Some(Ok(frame)) => {
                    let Ok(packet) = frame.into_data() else { continue };
                    self.take_in(packet);
                    if self.is_whole() {
                        self.complete();
                    } else if self.ready.is_empty() {
                        continue;
                    }
                }
            }
            return Poll::Ready(());
        }
    }

    /// One timer a stream, set anew only when it rings.
    fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let next = self.next_look();
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
            ready!(alarm.as_mut().poll(cx));
            self.alarm = None;
            let now = clock::instant();
            if now.duration_since(self.last_byte) >= self.patience.idle {
                self.break_off(End::Stalled);
                return Poll::Ready(());
            }
            if self.pings() && now.duration_since(self.last_sent) >= self.patience.ping {
                self.ready.push_back(Bytes::from_static(PING));
                return Poll::Ready(());
            }
        }
    }

    fn next_look(&self) -> Instant {
        let idle = self.last_byte + self.patience.idle;
        if self.pings() { idle.min(self.last_sent + self.patience.ping) } else { idle }
    }

    fn pings(&self) -> bool {
        self.open == Openness::Events && !self.patience.ping.is_zero()
    }

    fn next_ready(&mut self) -> Option<Bytes> {
        let packet = self.ready.pop_front()?;
        self.last_sent = clock::instant();
        Some(packet)
    }
}

fn ending(end: End) -> (ErrorKind, &'static str) {
    match end {
        End::Stalled => (ErrorKind::Timeout, "the provider sent nothing for too long; the answer is incomplete"),
        End::Stopped => (ErrorKind::Overloaded, "the gateway is stopping; the answer is incomplete"),
        End::Broken | End::Complete | End::ClientGone => {
            (ErrorKind::Api, "the provider's connection broke; the answer is incomplete")
        }
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = &mut *self;
        loop {
            if let Some(packet) = this.next_ready() {
                return Poll::Ready(Some(Ok(Frame::data(packet))));
            }
            if this.failed {
                this.failed = false;
                return Poll::Ready(Some(Err(BrokenOff)));
            }
            if this.rest.is_none() {
                return Poll::Ready(None);
            }
            if this.poll_rest(cx).is_ready() {
                continue;
            }
            if this.stop.as_mut().poll(cx).is_ready() {
                this.break_off(End::Stopped);
                continue;
            }
            ready!(this.poll_quiet(cx));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.ready.is_empty() && !self.failed
    }

    fn size_hint(&self) -> SizeHint {
        let ready: u64 = self.ready.iter().chain(&self.fragment).map(|packet| packet.len() as u64).sum();
        match (&self.rest, self.open) {
            (Some(rest), Openness::Sealed) => match rest.size_hint().exact() {
                Some(exact) => SizeHint::with_exact(exact + ready),
                None => SizeHint::default(),
            },
            (Some(_), Openness::Events) => SizeHint::default(),
            (None, _) => SizeHint::with_exact(ready),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over(End::ClientGone);
    }
}
