//! What goes over the wire: requests, answers and event streams, known to both ends so that each byte can be checked.
//!
//! A request names its stream's script in `metadata.user_id`. Every piece of a stream has a known length; a delta
//! carries the moment it was written and a checksum over stream, number and moment.

use std::time::Duration;

use bytes::Bytes;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MARK: &str = "bench-script-";

/// An event stream that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Script {
    /// Which stream; part of every checksum.
    pub(crate) seed: u64,
    /// How many deltas.
    pub(crate) frames: u64,
    /// The time between two beats; zero = none, deltas as fast as they are taken, each written on its own.
    pub(crate) interval: Duration,
    /// How many deltas a beat has, written one right after another.
    pub(crate) per_beat: u64,
}

impl Script {
    /// The request that asks for it.
    pub(crate) fn request(self) -> Bytes {
        let Self { seed, frames, interval, per_beat } = self;
        let name = format!("{MARK}{seed}-{frames}-{}-{per_beat}", interval.as_micros());
        request(600, &name, true)
    }

    /// The script that a request asks for.
    pub(crate) fn find(request: &[u8]) -> Option<Self> {
        let rest = &request[memmem::find(request, MARK.as_bytes())? + MARK.len()..];
        let name = std::str::from_utf8(&rest[..memchr::memchr(b'"', rest)?]).ok()?;
        let mut numbers = name.split('-').map_while(|number| number.parse().ok());
        let (seed, frames) = (numbers.next()?, numbers.next()?);
        let (interval, per_beat) = (Duration::from_micros(numbers.next()?), numbers.next()?);
        Some(Self { seed, frames, interval, per_beat })
    }

    /// What stands before the first delta.
    pub(crate) fn opening(request: u64) -> Bytes {
        let start = format!(
            r#"{{"type":"message_start","message":{{"id":"msg_{request:016x}","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":2095,"cache_creation_input_tokens":0,"cache_read_input_tokens":1024,"output_tokens":1}}}}}}"#
        );
        let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        let ping = r#"{"type": "ping"}"#;
        [event("message_start", &start), event("content_block_start", block), event("ping", ping)].concat().into()
    }

    /// One delta: 120 bytes of JSON.
    pub(crate) fn delta(self, number: u64, at: u64) -> Bytes {
        let check = xxh3_64_with_seed(&[number.to_le_bytes(), at.to_le_bytes()].concat(), self.seed);
        let json = format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{number:06x} {at:016x} {check:016x}"}}}}"#
        );
        event("content_block_delta", &json).into()
    }

    /// The moment in a delta of a known length, if its checksum holds.
    pub(crate) fn moment(self, number: u64, frame: &[u8]) -> Option<u64> {
        let from = memmem::find(frame, br#""text":""#)? + 8 + 7;
        let at = u64::from_str_radix(std::str::from_utf8(frame.get(from..from + 16)?).ok()?, 16).ok()?;
        (self.delta(number, at) == frame).then_some(at)
    }

    /// What stands after the last delta.
    pub(crate) fn closing(self) -> Bytes {
        let stop = r#"{"type":"content_block_stop","index":0}"#;
        let delta = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{{"output_tokens":{}}}}}"#,
            self.frames
        );
        let end = r#"{"type":"message_stop"}"#;
        [event("content_block_stop", stop), event("message_delta", &delta), event("message_stop", end)].concat().into()
    }
}

/// A request without a stream, about `size` bytes long.
pub(crate) fn call(size: usize) -> Bytes {
    request(size, "bench-call", false)
}

/// The answer to a request without a stream: 600 bytes that name what arrived.
pub(crate) fn answer(request: u64) -> Bytes {
    let frame = |text: &str| {
        format!(
            r#"{{"id":"msg_{request:016x}","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":2095,"cache_creation_input_tokens":0,"cache_read_input_tokens":1024,"output_tokens":57}}}}"#
        )
    };
    let room = 600 - frame("").len();
    frame(&prose(room)).into()
}

/// How a request is named in its answer.
pub(crate) fn fingerprint(request: &[u8]) -> u64 {
    xxh3_64(request)
}

fn event(name: &str, data: &str) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

/// A conversation of turns of some KB each, as a coding client sends it.
fn request(size: usize, user: &str, stream: bool) -> Bytes {
    let head = format!(
        r#"{{"model":"claude-sonnet-5-5","max_tokens":32000,"stream":{stream},"metadata":{{"user_id":"{user}"}},"system":[{{"type":"text","text":"You are a careful engineer.","cache_control":{{"type":"ephemeral"}}}}],"messages":["#
    );
    let tail = "]}";
    let mut turns = Vec::new();
    let mut room = size.saturating_sub(head.len() + tail.len());
    while room > 0 {
        let role = if turns.len() % 2 == 0 { "user" } else { "assistant" };
        let turn = turn(role, room.min(4096));
        room = room.saturating_sub(turn.len() + 1);
        turns.push(turn);
        if room < 80 {
            break;
        }
    }
    [head.as_str(), &turns.join(","), tail].concat().into()
}

fn turn(role: &str, size: usize) -> String {
    let frame = |text: &str| format!(r#"{{"role":"{role}","content":[{{"type":"text","text":"{text}"}}]}}"#);
    let room = size.saturating_sub(frame("").len()).max(1);
    frame(&prose(room))
}

/// Text with line breaks and quotes, which stand escaped in JSON as in real prompts.
fn prose(size: usize) -> String {
    const LINE: &str = r#"fn main() {\n    println!(\"the quick brown fox\");\n}\nlet there = 'light'; // and so on "#;
    let whole = LINE.repeat(size / LINE.len());
    let rest = size - whole.len();
    whole + &".".repeat(rest)
}
