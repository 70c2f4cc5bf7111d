//! The simulator's sockets: accepting, reading requests, playing answers.
//!
//! Never here: what an answer is.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::SimClock;
use super::answer::{Answer, Instead};
use super::control;
use super::log::{Arrived, Ending};
use super::playback::{Broken, Fuse, Playback, Watch};
use super::world::{Decided, World, pairs};

const BODY_KEPT: usize = 64 * 1024 * 1024;

/// What all connections share.
pub(super) struct Shared {
    world: Mutex<World>,
    pub(super) clock: SimClock,
    pub(super) changed: watch::Sender<u64>,
    pub(super) refusing: AtomicBool,
    pub(super) connections: AtomicU64,
    pub(super) open_connections: AtomicU64,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Shared {
    pub(super) fn new(world: World, clock: SimClock) -> Self {
        Self {
            world: Mutex::new(world),
            clock,
            changed: watch::Sender::new(0),
            refusing: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            open_connections: AtomicU64::new(0),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// The provider. A panic in another request leaves it usable: each request changes it as a whole.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down how a request ended.
    pub(super) fn close(&self, id: u64, sent: Vec<Bytes>, ending: Ending) {
        self.world().log.close(id, sent, ending, self.clock.now());
        self.changed.send_modify(|version| *version += 1);
    }

    fn decide(&self, arrived: &Arrived) -> Decided {
        let body: Option<Value> = serde_json::from_slice(&arrived.body).ok().or_else(|| form(arrived));
        let decided = self.world().answer(arrived, body.as_ref(), self.clock.now());
        self.changed.send_modify(|version| *version += 1);
        decided
    }
}

/// A web form's fields.
fn form(arrived: &Arrived) -> Option<Value> {
    let kind = arrived.header("content-type")?;
    let text = std::str::from_utf8(&arrived.body).ok().filter(|_| kind.contains("x-www-form-urlencoded"))?;
    Some(
        pairs(text)
            .into_iter()
            .map(|(key, value)| (key, Value::String(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    )
}

/// Accepts connections until stopped.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        if let Ok((stream, _)) = accepted {
            admit(stream, &shared);
        }
    }
}

fn admit(stream: TcpStream, shared: &Arc<Shared>) {
    let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
    if shared.refusing.load(Ordering::SeqCst) || stream.set_nodelay(true).is_err() {
        // Dropped with unread data or reset: either way the client sees a connection that fails.
        drop(stream.set_zero_linger());
        return;
    }
    let task = connection(stream, number, Arc::clone(shared));
    drop(shared.tasks.spawn(task));
}

async fn connection(stream: TcpStream, number: u64, shared: Arc<Shared>) {
    let _open = Open::new(Arc::clone(&shared));
    let fuse = Arc::new(Fuse::default());
    let socket = Socket { stream, fuse: Arc::clone(&fuse) };
    let service = service_fn(|request| serve(request, number, Arc::clone(&fuse), Arc::clone(&shared)));
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        // How it ended is in the log of its requests.
        _ended = connection => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn serve(
    request: Request<Incoming>,
    connection: u64,
    fuse: Arc<Fuse>,
    shared: Arc<Shared>,
) -> Result<Response<Playback>, Broken> {
    let Some(arrived) = read(request, connection).await else {
        return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE));
    };
    if let Some((status, body)) = control::answer(&arrived, &shared) {
        return Ok(plain(status, body));
    }
    let decided = shared.decide(&arrived);
    let watch = Watch::new(Arc::clone(&shared), decided.id);
    play(decided.answer, fuse, watch).await
}

async fn play(answer: Answer, fuse: Arc<Fuse>, mut watch: Watch) -> Result<Response<Playback>, Broken> {
    if !answer.before.delay.is_zero() {
        tokio::time::sleep(answer.before.delay).await;
    }
    match answer.before.instead {
        Some(Instead::Stall) => match std::future::pending::<Infallible>().await {},
        Some(Instead::Break(how)) => {
            fuse.set(how);
            watch.ends(Ending::Broken);
            Err(Broken)
        }
        None => Ok(head(answer, fuse, watch)),
    }
}

fn head(answer: Answer, fuse: Arc<Fuse>, watch: Watch) -> Response<Playback> {
    let mut response = Response::new(Playback::new(answer.steps, answer.length, fuse, watch));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

async fn read(request: Request<Incoming>, connection: u64) -> Option<Arrived> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_KEPT).collect().await.ok()?.to_bytes();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Some(Arrived {
        connection,
        method: parts.method.to_string(),
        path: parts.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body,
    })
}

fn refusal(status: StatusCode) -> Response<Playback> {
    let mut response = Response::new(Playback::plain(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn plain(status: u16, body: Bytes) -> Response<Playback> {
    let mut response = Response::new(Playback::plain(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

struct Open(Arc<Shared>);

impl Open {
    fn new(shared: Arc<Shared>) -> Self {
        shared.open_connections.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open_connections.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.send_modify(|version| *version += 1);
    }
}

/// A connection that is reset, not closed, when its fuse says so.
struct Socket {
    stream: TcpStream,
    fuse: Arc<Fuse>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.fuse.resets() {
            drop(self.stream.set_zero_linger());
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if this.fuse.resets() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }
}
