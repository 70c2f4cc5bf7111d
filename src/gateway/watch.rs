//! Who looks at the packets that pass: inline where that is cheap, afterwards and elsewhere where it is not.
//!
//! The events of an uncompressed stream cost nanoseconds and are looked at as they pass. A document must be seen whole,
//! and a compressed body decoded: its packets are kept (by reference, bounded) and looked at when it is over, off the
//! async threads if that may take long.

use bytes::Bytes;
use duduclaw_actors::provider::anthropic::classify::{Asked, error_event_headers};
use http::HeaderMap;
use tokio_util::task::TaskTracker;

use crate::gateway::end::{End, Finish};
use crate::gateway::meter::Meter;
use crate::upstream::coding::Coding;
use crate::upstream::tee::{DOCUMENT_MAX, Shape, Tee};

/// The largest body that is looked at in place when it is over.
const INLINE_MAX: usize = 16 * 1024;

/// Looks at one body.
pub struct Watch {
    tee: Tee,
    meter: Meter,
    way: Way,
}

enum Way {
    /// As the packets pass.
    Passing,
    /// When the body is over; the packets are kept until then.
    Afterwards { packets: Vec<Bytes>, length: usize, inline: bool, tasks: TaskTracker },
    /// There is too much of it.
    Not,
}

impl Watch {
    /// The watch for an answer with this head.
    #[must_use]
    pub fn new(head: &HeaderMap, asked: Asked, clock: duduclaw_actors::clock::SharedClock, tasks: TaskTracker) -> Self {
        let plain = Coding::of(head) == Coding::Identity;
        let shape = Shape::of(head);
        let way = match shape {
            Shape::Events if plain => Way::Passing,
            Shape::Events | Shape::Document => Way::Afterwards { packets: Vec::new(), length: 0, inline: plain, tasks },
            Shape::Other => Way::Not,
        };
        // Only a stream can bring an error after output.
        let kept = if shape == Shape::Events { error_event_headers(head) } else { HeaderMap::new() };
        Self { tee: Tee::new(head), meter: Meter::new(kept, asked, clock), way }
    }

    /// Whether events of ours may be put into this body.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.way, Way::Passing)
    }

    /// A packet passes. Tells, for an open stream, where in it the last whole event ends.
    pub fn packet(&mut self, packet: &Bytes) -> Option<usize> {
        match &mut self.way {
            Way::Passing => {
                self.tee.push(packet, &mut self.meter);
                self.tee.boundary()
            }
            Way::Afterwards { packets, length, .. } => {
                *length += packet.len();
                packets.push(packet.clone());
                if *length > DOCUMENT_MAX {
                    self.way = Way::Not;
                }
                None
            }
            Way::Not => None,
        }
    }

    /// What was seen so far, of a body that is looked at as it passes.
    #[must_use]
    pub fn meter(&self) -> Option<&Meter> {
        match self.way {
            Way::Passing => Some(&self.meter),
            Way::Afterwards { .. } | Way::Not => None,
        }
    }

    /// The body is over.
    pub fn over(self, end: End, finish: Box<dyn Finish>) {
        let Self { mut tee, mut meter, way } = self;
        match way {
            Way::Passing => tee.finish(&mut meter),
            Way::Not => {}
            Way::Afterwards { packets, length, inline, tasks } => {
                if !inline || length > INLINE_MAX {
                    tasks.spawn_blocking(move || look(tee, meter, &packets, end, finish));
                    return;
                }
                return look(tee, meter, &packets, end, finish);
            }
        }
        told(end, &meter, finish);
    }
}

/// A client that leaves once the message is over has had it all.
fn told(end: End, meter: &Meter, finish: Box<dyn Finish>) {
    let end = if end == End::ClientGone && meter.is_over() { End::Complete } else { end };
    finish.over(end, meter);
}

fn look(mut tee: Tee, mut meter: Meter, packets: &[Bytes], end: End, finish: Box<dyn Finish>) {
    for packet in packets {
        tee.push(packet, &mut meter);
    }
    tee.finish(&mut meter);
    told(end, &meter, finish);
}
