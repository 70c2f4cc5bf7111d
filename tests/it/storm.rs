//! Many clients at once, and what each of them saw.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use duduclaw::sim::Record;
use duduclaw_actors::clock::instant;
use reqwest::RequestBuilder;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::{World, eventually};

/// Carries the number of a request to the provider.
pub const MARK: &str = "x-storm-mark";

/// What a client saw of one request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number.
    pub mark: usize,
    /// The status; none if no answer came.
    pub status: Option<u16>,
    /// The account that served.
    pub account: Option<String>,
    /// The body, as far as it came.
    pub body: String,
    /// When it was sent.
    pub began: Instant,
    /// When it was over.
    pub ended: Instant,
}

impl Seen {
    /// Whether a whole good answer came.
    pub fn is_whole(&self) -> bool {
        let is_whole = match self.body.starts_with('{') {
            true => serde_json::from_str::<serde_json::Value>(&self.body).is_ok_and(|body| body["type"] == "message"),
            false => self.body.contains("event: message_stop"),
        };
        self.status == Some(200) && is_whole
    }
}

impl Seen {
    /// Whether what came began with what the provider sent in this answer.
    pub fn body_began_with(&self, record: &Record) -> bool {
        let sent = record.response_body();
        let sent = String::from_utf8_lossy(&sent);
        let id = sent.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        !id.is_empty() && self.body.contains(id)
    }
}

/// The requests of a storm: every third without a stream, a session for every four, the rest without.
pub fn requests(world: &World, count: usize) -> Vec<RequestBuilder> {
    let ask = |mark: usize| {
        let session = if mark % 5 == 0 { String::new() } else { format!("session-{}", mark / 4) };
        world.ask(&session, &format!("[[words: {}]]", 3 + mark % 17), mark % 3 != 0).header(MARK, mark)
    };
    (0..count).map(ask).collect()
}

/// Lets this many clients send these requests, each its next one when it has its answer. `done` is told how many are.
pub async fn storm(
    clients: usize,
    requests: Vec<RequestBuilder>,
    done: impl Fn(usize) + Send + Sync + 'static,
) -> Vec<Seen> {
    let queue = Arc::new(Mutex::new(requests.into_iter().enumerate().collect::<VecDeque<_>>()));
    let (count, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(done));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (queue, count, done) = (Arc::clone(&queue), Arc::clone(&count), Arc::clone(&done));
        tasks.spawn(async move {
            let mut seen = Vec::new();
            loop {
                let next = queue.lock().unwrap().pop_front();
                let Some((mark, request)) = next else { return seen };
                seen.push(send(mark, request).await);
                done(count.fetch_add(1, Ordering::SeqCst) + 1);
            }
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Sends one request and reads what comes.
pub async fn send(mark: usize, request: RequestBuilder) -> Seen {
    let began = instant();
    let seen = receive(mark, request, began).await;
    Seen { ended: instant(), ..seen }
}

async fn receive(mark: usize, request: RequestBuilder, began: Instant) -> Seen {
    let mut seen = Seen { mark, status: None, account: None, body: String::new(), began, ended: began };
    let Ok(mut answer) = request.send().await else { return seen };
    seen.status = Some(answer.status().as_u16());
    seen.account = answer.headers().get("x-duduclaw-account").map(|value| value.to_str().unwrap().to_owned());
    while let Ok(Some(chunk)) = answer.chunk().await {
        seen.body.push_str(&String::from_utf8_lossy(&chunk));
    }
    seen
}

/// The number of the request that a record is about.
pub fn mark_of(record: &Record) -> Option<usize> {
    record.header(MARK)?.parse().ok()
}

/// Fails unless every client got a whole good answer.
pub fn all_served(seen: &[Seen]) {
    let lost: Vec<&Seen> = seen.iter().filter(|seen| !seen.is_whole()).collect();
    assert!(lost.is_empty(), "{} of {} were lost, the first: {:?}", lost.len(), seen.len(), lost[0]);
}

/// Waits until nothing is in flight any more, and fails if anything is still counted then.
pub async fn calm(world: &World) {
    let gateway = &world.running.as_ref().unwrap().gateway;
    let book = gateway.fleet.book();
    eventually(|| book.is_empty().then_some(())).await;
    for account in gateway.fleet.roster().accounts.keys() {
        assert!(book.tally(*account).is_idle(), "{account:?}: {:?}", book.tally(*account));
    }
    let snapshot = gateway.fleet.failover.snapshot().await.unwrap();
    assert!(snapshot.accounts.iter().all(|account| account.waiting == 0 && account.tally.is_idle()));
    let shown = world.pool().await.providers.into_iter().flat_map(|provider| provider.accounts);
    assert_eq!(shown.map(|account| account.in_flight).sum::<u32>(), 0);
}
