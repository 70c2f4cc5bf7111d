//! Holds back the beginning of a stream until it shows whether the attempt is good.
//!
//! A provider may answer 200 and then send an error as its first event; as long as nothing was passed on, that can
//! still be answered by another account. So packets are held until the first event that says something: not a ping, not
//! one of the announcements some protocols begin with. Then everything held is passed on unchanged.
//!
//! What never enters: what an event means, and time: the caller's timer says when it has waited enough.

use bytes::Bytes;

use super::coding::{Coding, Decoder};
use super::sse::{Event, Framer, Interest, Sink};

/// The most that is held.
pub const HELD_MAX: usize = 256 * 1024;
/// Names of events that say nothing yet. Anthropic's `message_start` is not among them.
const PREAMBLE: [&str; 4] = ["ping", "response.created", "response.queued", "response.in_progress"];

/// The packets that were held, as they came, and what ended the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// All packets so far.
    pub packets: Vec<Bytes>,
    /// What ended the wait.
    pub first: First,
}

/// What ended the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum First {
    /// The first event that says something.
    Event {
        /// Its name; empty if it has none.
        name: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// As much as may be held came without one.
    Full,
    /// The stream ended without one.
    Ended,
    /// The caller waited long enough.
    TimedOut,
    /// The bytes cannot be read, so there is nothing to wait for.
    Unreadable,
}

/// The gate before a stream.
#[derive(Debug)]
pub struct FirstEvent {
    decoder: Decoder,
    framer: Framer,
    packets: Vec<Bytes>,
    length: usize,
    found: Found,
}

impl FirstEvent {
    /// A gate before a stream that is coded so.
    #[must_use]
    pub fn new(coding: Coding) -> Self {
        let found = Found(None);
        Self { decoder: Decoder::new(coding), framer: Framer::new(), packets: Vec::new(), length: 0, found }
    }

    /// The next packet: held, or with it the wait is over. Not to be called again after that.
    pub fn push(&mut self, packet: Bytes) -> Option<Held> {
        self.decoder.read(&packet, |text| self.framer.push(text, &mut self.found));
        self.length += packet.len();
        self.packets.push(packet);
        let first = match self.found.0.take() {
            Some(event) => event,
            None if !self.decoder.is_readable() => First::Unreadable,
            None if self.length >= HELD_MAX => First::Full,
            None => return None,
        };
        Some(self.open(first))
    }

    /// The stream is over. A last event that lacks only its end counts.
    #[must_use]
    pub fn finish(mut self) -> Held {
        self.decoder.finish(|text| self.framer.push(text, &mut self.found));
        self.framer.finish(&mut self.found);
        let first = self.found.0.take().unwrap_or(First::Ended);
        self.open(first)
    }

    /// The caller waited long enough, or the stream broke: what is held is given back.
    #[must_use]
    pub fn give_up(mut self) -> Held {
        self.open(First::TimedOut)
    }

    fn open(&mut self, first: First) -> Held {
        Held { packets: std::mem::take(&mut self.packets), first }
    }
}

/// Keeps the first event that says something.
#[derive(Debug)]
struct Found(Option<First>);

impl Sink for Found {
    fn wants(&self, name: &[u8]) -> Interest {
        match Interest::among(&PREAMBLE, name) {
            Interest::Skip if self.0.is_none() => Interest::Take,
            Interest::Skip | Interest::Glance | Interest::Take => Interest::Skip,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        if self.0.is_none() {
            self.0 = Some(First::Event { name: event.name.to_owned(), data: event.data.to_vec() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gate(packets: impl IntoIterator<Item = Bytes>) -> Result<Held, Box<FirstEvent>> {
        let mut gate = FirstEvent::new(Coding::Identity);
        let opened = packets.into_iter().find_map(|packet| gate.push(packet));
        opened.ok_or(Box::new(gate))
    }

    fn event(name: &str, data: &str) -> First {
        First::Event { name: name.to_owned(), data: data.as_bytes().to_vec() }
    }

    const OVERLOADED: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;

    /// C56: an error that comes first under 200 is seen before anything is passed on, wherever the stream is cut.
    #[test]
    fn an_error_that_comes_first_is_found_wherever_the_packets_are_cut() {
        let stream =
            format!(": hi\n\nevent: ping\ndata: {{\"type\":\"ping\"}}\n\nevent: error\ndata: {OVERLOADED}\n\n");
        for cut in 0..stream.len() {
            let packets = [&stream[..cut], &stream[cut..]].map(|packet| Bytes::copy_from_slice(packet.as_bytes()));
            let held = gate(packets.clone()).unwrap();
            assert_eq!(held.first, event("error", OVERLOADED));
            assert_eq!(held.packets, packets);
        }
    }

    #[test]
    fn announcements_are_waited_out_and_a_message_start_is_none() {
        let wait = "event: response.created\ndata: {}\n\ndata: {\"type\":\"response.queued\"}\n\n\
                    event: response.in_progress\ndata: {}\n\n";
        let mut waiting = gate([Bytes::from_static(wait.as_bytes())]).unwrap_err();
        let held = waiting.push(Bytes::from_static(b"data: {\"type\":\"response.failed\"}\n\n")).unwrap();
        assert_eq!(held.first, event("response.failed", "{\"type\":\"response.failed\"}"));
        assert_eq!(held.packets.concat().len(), wait.len() + 34);

        let held = gate([Bytes::from_static(b"event: message_start\ndata: {}\n\n")]).unwrap();
        assert_eq!(held.first, event("message_start", "{}"));
    }

    #[test]
    fn the_first_of_several_events_in_a_packet_is_told() {
        let held = gate([Bytes::from_static(b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\nevent: a\ndata: 3\n\n")]);
        assert_eq!(held.unwrap().first, event("a", "1"));
    }

    #[test]
    fn an_event_without_a_name_counts() {
        assert_eq!(gate([Bytes::from_static(b"data: [DONE]\n\n")]).unwrap().first, event("", "[DONE]"));
    }

    #[test]
    fn a_stream_that_only_pings_is_held_to_its_end_or_the_callers_patience() {
        let pings = || gate([Bytes::from_static(b"event: ping\ndata: {}\n\n")]).unwrap_err();
        assert_eq!(pings().finish().first, First::Ended);
        assert_eq!(pings().give_up().first, First::TimedOut);
        assert_eq!(pings().give_up().packets, [Bytes::from_static(b"event: ping\ndata: {}\n\n")]);
    }

    #[test]
    fn an_error_without_a_blank_line_behind_it_counts_at_the_end() {
        let held = gate([Bytes::from(format!("event: error\ndata: {OVERLOADED}"))]).unwrap_err().finish();
        assert_eq!(held.first, event("error", OVERLOADED));
    }

    #[test]
    fn no_more_is_held_than_the_bound() {
        let packets = std::iter::repeat_n(Bytes::from(vec![b'x'; 64 * 1024]), 5);
        let held = gate(packets).unwrap();
        assert_eq!(held.first, First::Full);
        assert_eq!(held.packets.len(), 4);
    }

    #[test]
    fn a_compressed_stream_is_read_and_passed_on_as_it_came() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        write!(encoder, "event: error\ndata: {OVERLOADED}\n\n").unwrap();
        let packed = Bytes::from(encoder.finish().unwrap());
        let held = FirstEvent::new(Coding::Gzip).push(packed.clone()).unwrap();
        assert_eq!(held, Held { packets: vec![packed], first: event("error", OVERLOADED) });
    }

    #[test]
    fn what_cannot_be_read_is_not_waited_for() {
        let held = FirstEvent::new(Coding::Unknown).push(Bytes::from_static(b"\x28\xb5\x2f\xfd")).unwrap();
        assert_eq!(held.first, First::Unreadable);
    }
}
