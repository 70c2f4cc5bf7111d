//! `GET /admin/api/events`: everything that happens, as it happens, as a stream of server-sent events.
//!
//! Each event's `id` is its number. Whoever comes back with `Last-Event-ID` (or `since`) gets what was kept since, then
//! what comes. Where something may be missing in between, an event `gap` says so. A reader that is slow falls behind and
//! is given what was kept; it never holds anything up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duduclaw_actors::activity::Entry;
use duduclaw_actors::event::{Event, Severity};
use duduclaw_actors::rows::{EventQuery, EventRow};
use futures_util::stream;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body::Frame;
use http_body_util::StreamBody;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::activity::{EventView, Filter, SeverityWord};
use super::desk::Desk;
use super::fault::Fault;
use super::verb::Call;
use crate::gateway::answer::{Answer, AnswerBody};

/// Where it is.
pub(super) const PATH: &str = "/admin/api/events";
/// How many events are given of what was kept.
const BACKLOG: usize = 10_000;
/// How long a stream may be silent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many may follow at once.
pub const FOLLOWERS: usize = 64;
/// What comes first: when to come back after a break, and that it has begun.
const BEGINNING: &str = "retry: 2000\n: events of duduclaw\n\n";

/// Which events are wanted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// What was kept with a larger number first; `Last-Event-ID` says the same, and counts more.
    #[schemars(range(max = 18_446_744_073_709_551_615_u64))]
    since: Option<u64>,
    /// Only those of this kind.
    kind: Option<String>,
    /// Only those that matter at least so much.
    severity: Option<SeverityWord>,
    /// Only those of this account: `name`, or `provider/name`.
    account: Option<String>,
}

/// Someone who follows.
struct Follower {
    desk: Arc<Desk>,
    wanted: EventQuery,
    live: Receiver<Arc<Event>>,
    ready: VecDeque<String>,
    /// The last number that was given, or left out as not wanted.
    last: u64,
    _place: OwnedSemaphorePermit,
}

/// Begins a stream of the events that are wanted.
pub(super) async fn follow(call: &Call, headers: &HeaderMap, wanted: Wanted) -> Result<Answer, Fault> {
    let desk = Arc::clone(&call.desk);
    let place = Arc::clone(&desk.followers).try_acquire_owned();
    let place = place.map_err(|_| Fault::unavailable(format!("{FOLLOWERS} follow the events already")))?;
    let live = desk.fleet.feed.follow();
    let since = last_event_id(headers)?.or(wanted.since);
    let Wanted { kind, severity, account, .. } = wanted;
    let wanted = Filter { since, kind, severity, account }.query(&call.live.topology, BACKLOG)?;
    let newest = desk.fleet.feed.last();
    let ready = VecDeque::from([BEGINNING.to_owned()]);
    let mut follower = Follower { desk, wanted, live, ready, last: since.unwrap_or(newest), _place: place };
    if let Some(since) = since {
        follower.resume(since, newest).await;
    }
    let frames = stream::unfold(follower, |mut follower| async move {
        let text = follower.next().await?;
        Some((Ok(Frame::data(Bytes::from(text))), follower))
    });
    let mut answer = Answer::new(AnswerBody::new(StreamBody::new(frames)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that gather answers before they pass them on must not.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(answer)
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let number = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    number.map(Some).ok_or_else(|| Fault::invalid("Last-Event-ID must be the number of an event"))
}

impl Follower {
    /// A number that was never given is of a fleet that remembered more: what is known now begins anew.
    async fn resume(&mut self, since: u64, newest: u64) {
        if since > newest {
            self.gap(since, "the number is of an earlier life of the daemon");
            self.last = 0;
        }
        self.catch_up().await;
    }

    /// Gives what was kept since the last number.
    async fn catch_up(&mut self) {
        let ask = EventQuery { after: self.last, ..self.wanted.clone() };
        match self.desk.fleet.journal.events(ask).await {
            Ok(rows) => self.add_kept(&rows),
            Err(error) => self.gap(self.last, &format!("what was kept cannot be read: {error}")),
        }
    }

    fn add_kept(&mut self, rows: &[EventRow]) {
        if rows.len() == BACKLOG {
            self.gap(self.last, &format!("more than the last {BACKLOG} events are not given"));
        }
        for row in rows {
            self.last = self.last.max(row.seq);
            self.ready.extend(EventView::of_row(row).map(|event| frame(&event)));
        }
    }

    fn gap(&mut self, after: u64, why: &str) {
        self.ready.push_back(format!("event: gap\ndata: {}\n\n", json!({"after": after, "why": why})));
    }

    /// What is sent next; none at the end, which comes when the daemon takes no more work.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.ready.pop_front() {
                return Some(text);
            }
            let draining = self.desk.draining.clone();
            let came = tokio::select! {
                () = draining.cancelled() => return None,
                came = tokio::time::timeout(KEEP_ALIVE, self.live.recv()) => came,
            };
            match came {
                Err(_silence) => return Some(": still here\n\n".to_owned()),
                Ok(Err(RecvError::Closed)) => return None,
                Ok(Err(RecvError::Lagged(_))) => self.catch_up().await,
                Ok(Ok(event)) => self.add(&event),
            }
        }
    }

    fn add(&mut self, event: &Event) {
        if event.severity == Severity::Trace || event.seq <= self.last {
            return;
        }
        self.last = event.seq;
        let entry = Entry::of(event);
        if self.wanted.matches(&entry.row(event.ts.wall)) {
            self.ready.push_back(frame(&entry.into()));
        }
    }
}

/// JSON has no line ends of its own, so an event is one line.
fn frame(event: &EventView) -> String {
    format!("id: {}\ndata: {}\n\n", event.seq, serde_json::to_string(event).unwrap_or_default())
}
