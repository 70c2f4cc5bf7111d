//! What reached the simulator and what it did: the judge of tests. Credentials are kept as fingerprints.
//!
//! Never here: anything that decides an answer.

use std::collections::VecDeque;

use bytes::Bytes;
use duduclaw_actors::clock::Timestamp;
use serde::Serialize;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::account::fingerprint;
use super::cache::InputUsage;
use super::fault::Endpoint;

const RECORDS_KEPT: usize = 200_000;

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It has not.
    #[default]
    Open,
    /// The whole answer was handed to the connection.
    Complete,
    /// The client went away before that.
    ClientClosed,
    /// A script broke the connection.
    Broken,
}

/// One request and its answer.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Its number, from 1.
    pub id: u64,
    /// The `request-id` of the answer.
    pub request_id: String,
    /// When it had arrived, in Unix milliseconds of the simulator's clock.
    pub at: i64,
    /// The number of its connection, from 1.
    pub connection: u64,
    /// Whose credential it bore, if it was anybody's.
    pub account: Option<String>,
    /// The fingerprint of the credential.
    pub credential: Option<String>,
    /// What was called.
    pub endpoint: Endpoint,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// All headers in order, credentials as fingerprints.
    pub headers: Vec<(String, String)>,
    /// How long the body is.
    pub body_bytes: usize,
    /// What [`digest`] says of the body.
    pub body_digest: String,
    /// The model it named.
    pub model: Option<String>,
    /// Whether it asked for a stream.
    pub stream: bool,
    /// `x-claude-code-session-id`.
    pub session: Option<String>,
    /// `x-claude-code-agent-id`.
    pub agent: Option<String>,
    /// The status; nothing if none was sent.
    pub status: Option<u16>,
    /// The faults that happened to it.
    pub faults: Vec<String>,
    /// How many thinking blocks of other accounts were dropped.
    pub dropped_thinking: usize,
    /// How many thinking blocks the model saw.
    pub seen_thinking: usize,
    /// What its input cost, if the model was asked.
    pub usage: Option<InputUsage>,
    /// How many tokens the answer has.
    pub output_tokens: u64,
    /// How it ended.
    pub ending: Ending,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// Bytes of the answer's body that were sent.
    pub sent_bytes: usize,
    /// What [`digest`] says of them.
    pub sent_digest: Option<String>,
    #[serde(skip)]
    request_body: Option<Bytes>,
    #[serde(skip)]
    response_body: Vec<Bytes>,
}

impl Record {
    /// A header's first value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as it arrived; nothing once it was dropped to save memory, or if it holds a refresh token.
    #[must_use]
    pub fn request_body(&self) -> Option<Bytes> {
        self.request_body.clone()
    }

    /// The answer's body as far as it was sent; nothing if it holds tokens.
    #[must_use]
    pub fn response_body(&self) -> Bytes {
        Bytes::from(self.response_body.concat())
    }
}

/// Stands for a body in the log: XXH3, 128 bits, hexadecimal.
#[must_use]
pub fn digest(body: &[u8]) -> String {
    format!("{:032x}", xxh3_128(body))
}

fn digest_of(pieces: &[Bytes]) -> String {
    let mut hash = Xxh3::new();
    pieces.iter().for_each(|piece| hash.update(piece));
    format!("{:032x}", hash.digest128())
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) connection: u64,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Arrived {
    /// A header's first value.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The path without its query.
    pub(super) fn route(&self) -> &str {
        self.path.split_once('?').map_or(self.path.as_str(), |(route, _)| route)
    }
}

/// All requests, oldest first.
#[derive(Debug)]
pub(super) struct Log {
    records: VecDeque<Record>,
    next: u64,
    kept: usize,
    keep: usize,
    thinned: u64,
}

impl Log {
    /// A log that keeps at most so many bytes of bodies; the oldest go first.
    pub(super) fn new(keep: usize) -> Self {
        Self { records: VecDeque::new(), next: 1, kept: 0, keep, thinned: 0 }
    }

    /// The number that the next request will have.
    pub(super) fn next_id(&self) -> u64 {
        self.next
    }

    /// Writes a request down.
    pub(super) fn open(&mut self, arrived: &Arrived, endpoint: Endpoint, request_id: &str, now: Timestamp) -> u64 {
        let id = self.next;
        self.next += 1;
        self.records.push_back(record(id, arrived, endpoint, request_id, now));
        self.kept += arrived.body.len();
        self.make_room();
        id
    }

    /// A record to complete.
    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Record> {
        let first = self.records.front()?.id;
        self.records.get_mut(usize::try_from(id.checked_sub(first)?).ok()?)
    }

    /// Writes down how an answer ended.
    pub(super) fn close(&mut self, id: u64, sent: Vec<Bytes>, ending: Ending, now: Timestamp) {
        let bytes = sent.iter().map(Bytes::len).sum();
        if let Some(record) = self.get_mut(id) {
            record.sent_bytes = bytes;
            record.sent_digest = Some(digest_of(&sent));
            record.response_body = if record.endpoint == Endpoint::Token { Vec::new() } else { sent };
            record.ending = ending;
            record.ended_at = Some(now.wall.0);
            self.kept += bytes;
            self.make_room();
        }
    }

    /// All records after this number.
    pub(super) fn since(&self, id: u64) -> Vec<Record> {
        self.records.iter().filter(|record| record.id > id).cloned().collect()
    }

    /// One record, by its number or its `request-id`.
    pub(super) fn find(&self, id: &str) -> Option<&Record> {
        let number = id.parse().ok();
        self.records.iter().find(|record| Some(record.id) == number || record.request_id == id)
    }

    /// All records, to look at in place.
    pub(super) fn all(&mut self) -> &[Record] {
        self.records.make_contiguous()
    }

    /// Forgets all records; numbers go on.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.kept = 0;
    }

    fn make_room(&mut self) {
        if self.records.len() > RECORDS_KEPT {
            self.records.pop_front();
        }
        self.thinned = self.thinned.max(self.records.front().map_or(0, |record| record.id));
        while self.kept > self.keep && self.thinned < self.next {
            let freed = self.get_mut(self.thinned).map_or(0, thin);
            self.kept = self.kept.saturating_sub(freed);
            self.thinned += 1;
        }
    }
}

fn thin(record: &mut Record) -> usize {
    let request = record.request_body.take().map_or(0, |body| body.len());
    request + std::mem::take(&mut record.response_body).iter().map(Bytes::len).sum::<usize>()
}

fn record(id: u64, arrived: &Arrived, endpoint: Endpoint, request_id: &str, now: Timestamp) -> Record {
    let owned = |name: &str| arrived.header(name).map(str::to_owned);
    Record {
        id,
        request_id: request_id.to_owned(),
        at: now.wall.0,
        connection: arrived.connection,
        account: None,
        credential: None,
        endpoint,
        method: arrived.method.clone(),
        path: arrived.path.clone(),
        headers: arrived.headers.iter().map(masked).collect(),
        body_bytes: arrived.body.len(),
        body_digest: digest(&arrived.body),
        model: None,
        stream: false,
        session: owned("x-claude-code-session-id"),
        agent: owned("x-claude-code-agent-id"),
        status: None,
        faults: Vec::new(),
        dropped_thinking: 0,
        seen_thinking: 0,
        usage: None,
        output_tokens: 0,
        ending: Ending::Open,
        ended_at: None,
        sent_bytes: 0,
        sent_digest: None,
        request_body: (endpoint != Endpoint::Token).then(|| arrived.body.clone()),
        response_body: Vec::new(),
    }
}

fn masked((name, value): &(String, String)) -> (String, String) {
    const SECRET: [&str; 5] = ["authorization", "x-api-key", "proxy-authorization", "cookie", "x-goog-api-key"];
    if !SECRET.contains(&name.to_ascii_lowercase().as_str()) {
        return (name.clone(), value.clone());
    }
    let shown = match value.split_once(' ') {
        Some((scheme, secret)) => format!("{scheme} {}", fingerprint(secret)),
        None => fingerprint(value),
    };
    (name.clone(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(body: &'static [u8]) -> Arrived {
        let headers = [("authorization", "Bearer sk-ant-oat01-secret"), ("x-api-key", "sk-secret"), ("x-app", "cli")];
        Arrived {
            connection: 1,
            method: "POST".to_owned(),
            path: "/v1/messages?beta=true".to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: Bytes::from_static(body),
        }
    }

    fn opened(log: &mut Log, body: &'static [u8]) -> u64 {
        log.open(&arrived(body), Endpoint::Messages, "req_1", Timestamp::at_millis(5))
    }

    #[test]
    fn credentials_are_kept_as_fingerprints() {
        let mut log = Log::new(1000);
        let id = opened(&mut log, b"{}");
        let record = log.find(&id.to_string()).expect("just written");
        assert_eq!(
            record.header("Authorization"),
            Some(format!("Bearer {}", fingerprint("sk-ant-oat01-secret")).as_str())
        );
        assert_eq!(record.header("x-app"), Some("cli"));
        assert!(!format!("{record:?}").contains("secret"));
    }

    #[test]
    fn the_oldest_bodies_make_room_and_their_digests_stay() {
        let mut log = Log::new(10);
        let first = opened(&mut log, b"12345678");
        log.close(
            first,
            vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")],
            Ending::Complete,
            Timestamp::at_millis(9),
        );
        assert_eq!(log.find(&first.to_string()).expect("kept").request_body(), None, "11 bytes are too many");
        let second = opened(&mut log, b"1234");
        assert_eq!(log.find(&first.to_string()).expect("kept").body_digest, digest(b"12345678"));
        assert_eq!(log.find(&second.to_string()).expect("kept").request_body(), Some(Bytes::from_static(b"1234")));
        let sent = log.find("req_1").map(|record| (record.sent_bytes, record.sent_digest.clone()));
        assert_eq!(sent, Some((3, Some(digest(b"abc")))));
    }
}
