//! Reading as much of an answer as it takes to know what it means, before a byte of it goes to the client.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use duduclaw_actors::provider::anthropic::classify::Seen;
use http::response::Parts;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::gateway::relay::BrokenOff;
use crate::upstream::coding::{Coding, Decoder};
use crate::upstream::first_event::{First, FirstEvent};
use crate::upstream::tee::Shape;

/// The most of an error's body that is kept.
const ERROR_MAX: usize = 256 * 1024;
/// The most that is looked at of a good answer: an error in disguise is short.
const GLANCE: usize = 4 * 1024;
/// How long an error's body may take: it is short, and the client waits.
const ERROR_WITHIN: Duration = Duration::from_secs(10);

/// The beginning of an answer.
pub struct Beginning {
    /// Its head.
    pub head: Parts,
    /// What was read of its body, as it came.
    pub packets: Vec<Bytes>,
    /// What is still to come; `None` when the body is over.
    pub rest: Option<reqwest::Body>,
    /// What was seen in it.
    pub shown: Shown,
}

/// What was seen of a body, readable.
#[derive(Debug)]
pub enum Shown {
    /// The first event of a stream.
    Event {
        /// Its name; empty if it has none.
        name: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// The body, or its beginning.
    Body(Vec<u8>),
    /// Nothing was in it.
    Nothing,
    /// The connection broke before anything was seen.
    Broken,
}

impl Shown {
    fn text(text: Vec<u8>) -> Self {
        if text.is_empty() { Self::Nothing } else { Self::Body(text) }
    }

    fn unjudged() -> Self {
        Self::Event { name: "unjudged".to_owned(), data: Vec::new() }
    }

    /// As the provider's rules want it; `None` when the connection broke.
    #[must_use]
    pub fn as_seen(&self) -> Option<Seen<'_>> {
        match self {
            Self::Event { name, data } => {
                Some(Seen::Event { name: Some(name.as_str()).filter(|name| !name.is_empty()), data })
            }
            Self::Body(body) => Some(Seen::Body(body)),
            Self::Nothing => Some(Seen::Empty),
            Self::Broken => None,
        }
    }
}

impl Beginning {
    /// Reads the beginning of an answer: the first event of a stream, the first text of any other good answer, the body
    /// of an error. `patience` bounds the wait for a good answer's beginning.
    pub async fn read(response: http::Response<reqwest::Body>, patience: Instant) -> Self {
        let (head, body) = response.into_parts();
        if head.status.is_client_error() || head.status.is_server_error() {
            return error(head, body).await;
        }
        match Shape::of(&head.headers) {
            Shape::Events if head.status.is_success() => events(head, body, patience).await,
            Shape::Events | Shape::Document | Shape::Other => document(head, body, patience).await,
        }
    }

    /// Reads on to the end of the body, unless it is longer than `most`, pauses for `idle`, or breaks off: then the
    /// rest goes on as it would have.
    #[must_use]
    pub async fn whole(mut self, most: usize, idle: Duration) -> Self {
        let mut length: usize = self.packets.iter().map(Bytes::len).sum();
        while length <= most
            && let Some(rest) = &mut self.rest
        {
            match timeout_at(duduclaw_actors::clock::instant() + idle, next(rest)).await {
                Err(_) => break,
                Ok(None) => self.rest = None,
                Ok(Some(Err(_))) => {
                    self.rest = Some(reqwest::Body::wrap(Broken));
                    break;
                }
                Ok(Some(Ok(packet))) => {
                    length += packet.len();
                    self.packets.push(packet);
                }
            }
        }
        self
    }

    /// Whether the whole body was read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.rest.is_none()
    }
}

/// The rest of a body that broke off.
struct Broken;

impl Body for Broken {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        Poll::Ready(Some(Err(BrokenOff)))
    }
}

async fn next(body: &mut reqwest::Body) -> Option<Result<Bytes, reqwest::Error>> {
    loop {
        match body.frame().await? {
            Err(error) => return Some(Err(error)),
            Ok(frame) => match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Some(Ok(data)),
                Err(_) => {}
            },
        }
    }
}

async fn events(head: Parts, mut body: reqwest::Body, until: Instant) -> Beginning {
    let mut gate = FirstEvent::new(Coding::of(&head.headers));
    loop {
        let held = match timeout_at(until, next(&mut body)).await {
            Err(_) => gate.give_up(),
            Ok(None) => {
                let held = gate.finish();
                let shown = shown(held.first);
                return Beginning { head, packets: held.packets, rest: None, shown };
            }
            Ok(Some(Err(_))) => return Beginning { head, packets: Vec::new(), rest: None, shown: Shown::Broken },
            Ok(Some(Ok(packet))) => match gate.push(packet) {
                None => continue,
                Some(held) => held,
            },
        };
        return Beginning { head, packets: held.packets, rest: Some(body), shown: shown(held.first) };
    }
}

/// What could not be judged in time or size is taken for good: it goes to the client as it is.
fn shown(first: First) -> Shown {
    match first {
        First::Event { name, data } => Shown::Event { name, data },
        First::Ended => Shown::Nothing,
        First::Full | First::TimedOut | First::Unreadable => Shown::unjudged(),
    }
}

/// Reads until some text shows: a packet may hold no more than the head of a compressed body.
async fn document(head: Parts, mut body: reqwest::Body, until: Instant) -> Beginning {
    let mut decoder = Decoder::new(Coding::of(&head.headers));
    let (mut packets, mut text, mut length) = (Vec::new(), Vec::new(), 0);
    loop {
        match timeout_at(until, next(&mut body)).await {
            Err(_) => return Beginning { head, packets, rest: Some(body), shown: Shown::unjudged() },
            Ok(None) => return Beginning { head, packets, rest: None, shown: Shown::text(text) },
            Ok(Some(Err(_))) => return Beginning { head, packets: Vec::new(), rest: None, shown: Shown::Broken },
            Ok(Some(Ok(packet))) => {
                length += packet.len();
                decoder.read(&packet[..packet.len().min(GLANCE)], |piece| text.extend_from_slice(piece));
                packets.push(packet);
            }
        }
        if !text.trim_ascii().is_empty() {
            return Beginning { head, packets, rest: Some(body), shown: Shown::Body(text) };
        }
        if !decoder.is_readable() || length > GLANCE {
            return Beginning { head, packets, rest: Some(body), shown: Shown::unjudged() };
        }
    }
}

async fn error(head: Parts, mut body: reqwest::Body) -> Beginning {
    let until = duduclaw_actors::clock::instant() + ERROR_WITHIN;
    let (mut packets, mut length) = (Vec::new(), 0);
    let rest = loop {
        match timeout_at(until, next(&mut body)).await {
            Ok(None | Some(Err(_))) => break None,
            Err(_) => break Some(body),
            Ok(Some(Ok(packet))) => {
                length += packet.len();
                packets.push(packet);
                if length > ERROR_MAX {
                    break Some(body);
                }
            }
        }
    };
    let shown = Shown::text(readable(&head, &packets));
    Beginning { head, packets, rest, shown }
}

fn readable(head: &Parts, packets: &[Bytes]) -> Vec<u8> {
    let mut decoder = Decoder::new(Coding::of(&head.headers));
    let mut text = Vec::new();
    for packet in packets {
        decoder.read(packet, |piece| {
            let room = ERROR_MAX.saturating_sub(text.len());
            text.extend_from_slice(&piece[..piece.len().min(room)]);
        });
    }
    text
}
