//! The provider at the far end: answers at once, or paces an event stream, with the quota headers of real answers.
//! It judges nothing: no token is checked, no limit ever reached.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use tokio::time::{Interval, interval};

use crate::net::{self, Never};
use crate::script::{self, Script};
use crate::{clock, spread};

/// Answers until the process is stopped.
pub(crate) fn serve(listen: SocketAddr) -> Result<()> {
    let quota = quota_headers();
    let service = service_fn(move |request| answer(quota.clone(), request));
    net::two_workers()?.block_on(net::serve(listen, service))
}

async fn answer(quota: HeaderMap, request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Never>>, hyper::Error> {
    let request = request.into_body().collect().await?.to_bytes();
    let name = script::fingerprint(&request);
    let (kind, body) = match Script::find(&request) {
        Some(script) => ("text/event-stream; charset=utf-8", paced(script, name)),
        None => ("application/json", Full::new(script::answer(name)).boxed()),
    };
    let mut response = Response::new(body);
    *response.headers_mut() = quota;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// A window a third full and another half full: nothing near, nothing refused.
fn quota_headers() -> HeaderMap {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let stated = [
        ("status", "allowed".to_owned()),
        ("reset", (now + 9_000).to_string()),
        ("representative-claim", "five_hour".to_owned()),
        ("5h-status", "allowed".to_owned()),
        ("5h-utilization", "0.33".to_owned()),
        ("5h-reset", (now + 9_000).to_string()),
        ("7d-status", "allowed".to_owned()),
        ("7d-utilization", "0.5".to_owned()),
        ("7d-reset", (now + 300_000).to_string()),
    ];
    let header = |(name, value): (&str, String)| {
        let name = HeaderName::try_from(format!("anthropic-ratelimit-unified-{name}")).ok()?;
        Some((name, HeaderValue::try_from(value).ok()?))
    };
    let mut headers: HeaderMap = stated.into_iter().filter_map(header).collect();
    headers.insert("request-id", HeaderValue::from_static("req_011CSHoEeqs5C35K2UUqR7Fy"));
    headers
}

/// A stream on its way: what was written, and the beat of the rest.
struct Pace {
    script: Script,
    written: u64,
    beat: Option<Interval>,
}

fn paced(script: Script, request: u64) -> BoxBody<Bytes, Never> {
    let opening = Script::opening(request);
    let pace = Pace { script, written: 0, beat: None };
    let opening = stream::once(async move { Ok(Frame::data(opening)) });
    let deltas = stream::unfold(pace, |mut pace| async move {
        let frame = pace.next().await?;
        Some((Ok(Frame::data(frame)), pace))
    });
    BodyExt::boxed(StreamBody::new(Box::pin(futures_util::StreamExt::chain(opening, deltas)) as Frames))
}

type Frames = std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<Frame<Bytes>, Never>> + Send + Sync>>;

impl Pace {
    async fn next(&mut self) -> Option<Bytes> {
        let number = self.written;
        if number > self.script.frames {
            return None;
        }
        self.wait().await;
        self.written += 1;
        if number == self.script.frames {
            Some(self.script.closing())
        } else {
            Some(self.script.delta(number, clock::now()))
        }
    }

    async fn wait(&mut self) {
        let script = self.script;
        if script.interval.is_zero() || !self.written.is_multiple_of(script.per_beat) {
            return tokio::task::yield_now().await;
        }
        if self.beat.is_none() {
            tokio::time::sleep(phase(script)).await;
        }
        self.beat.get_or_insert_with(|| interval(script.interval)).tick().await;
    }
}

/// Streams do not beat together: each begins at a point of its own within the interval.
fn phase(script: Script) -> Duration {
    script.interval.mul_f64(spread::fraction(script.seed))
}
