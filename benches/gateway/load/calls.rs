//! Requests without a stream, in a closed loop: latency and CPU per request. Every answer is compared byte for byte.

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use serde::{Deserialize, Serialize};

use super::{Plan, request};
use crate::{clock, net, script, usage};

/// What to ask.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Calls {
    /// The size of a request's body.
    pub(crate) bytes: usize,
    /// How many connections, each with one request at a time.
    pub(crate) connections: u64,
    /// How long, after a tenth of it for warming up.
    pub(crate) lasting: Duration,
}

/// What was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Called {
    /// Requests that were answered as they should be.
    pub(crate) requests: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us_per_request: f64,
    pub(crate) requests_per_second: f64,
    /// Answers lost or changed; the first one in words.
    pub(crate) wrong: u64,
    pub(crate) first_wrong: Option<String>,
}

impl Calls {
    pub(crate) async fn run(&self, plan: &Plan) -> Result<Called> {
        let mut connections = Vec::new();
        for number in 0..self.connections {
            connections.push(Connection::open(plan, number, self.bytes).await?);
        }
        self.together(&mut connections, self.lasting / 10).await;
        let (before, began) = (usage::cpu(plan.pid)?, clock::now());
        let seen = self.together(&mut connections, self.lasting).await;
        let (after, elapsed) = (usage::cpu(plan.pid)?, clock::now() - began);
        Ok(seen.called(after.since(&before), elapsed))
    }

    async fn together(&self, connections: &mut [Connection], lasting: Duration) -> Seen {
        let until = clock::now() + u64::try_from(lasting.as_nanos()).unwrap_or(u64::MAX);
        let loops = connections.iter_mut().map(|connection| connection.ask_until(until));
        let mut all = Seen::new();
        for seen in futures_util::future::join_all(loops).await {
            all.add(seen);
        }
        all
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    conversation: u64,
    body: Bytes,
    expected: Bytes,
}

impl Connection {
    async fn open(plan: &Plan, conversation: u64, bytes: usize) -> Result<Self> {
        let body = script::call(bytes);
        let expected = script::answer(script::fingerprint(&body));
        let sender = net::connect(plan.target).await?;
        Ok(Self { sender, host: plan.target.to_string(), conversation, body, expected })
    }

    async fn ask_until(&mut self, until: u64) -> Seen {
        let mut seen = Seen::new();
        while clock::now() < until {
            let began = clock::now();
            match self.ask().await {
                Ok(()) => seen.took(clock::now() - began),
                Err(error) => seen.went_wrong(format!("{error:#}")),
            }
            if self.sender.is_closed() {
                seen.went_wrong("the connection was closed".into());
                break;
            }
        }
        seen
    }

    async fn ask(&mut self) -> Result<()> {
        self.sender.ready().await?;
        let request = request::post(&self.host, self.conversation, self.body.clone())?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status == 200, "status {status}: {}", String::from_utf8_lossy(&body));
        ensure!(body == self.expected, "the answer was changed on its way: {}", String::from_utf8_lossy(&body));
        Ok(())
    }
}

/// What the loops saw.
struct Seen {
    nanos: Histogram<u64>,
    wrong: u64,
    first_wrong: Option<String>,
}

impl Seen {
    fn new() -> Self {
        Self { nanos: histogram(), wrong: 0, first_wrong: None }
    }

    fn took(&mut self, nanos: u64) {
        self.nanos.saturating_record(nanos);
    }

    fn went_wrong(&mut self, how: String) {
        self.wrong += 1;
        self.first_wrong.get_or_insert(how);
    }

    fn add(&mut self, other: Self) {
        self.nanos.add(&other.nanos).expect("both histograms have the same bounds");
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
    }

    fn called(self, cpu_nanos: u64, elapsed: u64) -> Called {
        let requests = self.nanos.len();
        Called {
            requests,
            p50_us: micros(&self.nanos, 0.5),
            p99_us: micros(&self.nanos, 0.99),
            cpu_us_per_request: cpu_nanos as f64 / 1e3 / requests.max(1) as f64,
            requests_per_second: requests as f64 / (elapsed as f64 / 1e9),
            wrong: self.wrong,
            first_wrong: self.first_wrong,
        }
    }
}

/// Nanoseconds up to a minute, to three figures.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are constant and sound")
}

/// A quantile in microseconds.
pub(crate) fn micros(nanos: &Histogram<u64>, quantile: f64) -> f64 {
    nanos.value_at_quantile(quantile) as f64 / 1e3
}
