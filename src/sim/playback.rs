//! Playing an answer's body on a connection: each step a write of its own, and a note of how it ended.
//!
//! Never here: what the steps are.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::answer::{Break, Step};
use super::log::Ending;
use super::server::Shared;

/// A script ended the connection here.
#[derive(Debug, thiserror::Error)]
#[error("the script ends the connection here")]
pub(super) struct Broken;

/// Whether a connection is to be reset when it ends.
#[derive(Debug, Default)]
pub(super) struct Fuse(AtomicBool);

impl Fuse {
    /// Breaks the connection in this way when it is dropped.
    pub(super) fn set(&self, how: Break) {
        self.0.store(how == Break::Reset, Ordering::SeqCst);
    }

    /// Whether it is to be reset.
    pub(super) fn resets(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Writes down how a request ended, when it is dropped.
pub(super) struct Watch {
    shared: Arc<Shared>,
    id: u64,
    sent: Vec<Bytes>,
    ending: Ending,
}

impl Watch {
    /// Watches this request; unless told otherwise, its client went away.
    pub(super) fn new(shared: Arc<Shared>, id: u64) -> Self {
        Self { shared, id, sent: Vec::new(), ending: Ending::ClientClosed }
    }

    /// It ends like this.
    pub(super) fn ends(&mut self, ending: Ending) {
        self.ending = ending;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.close(self.id, std::mem::take(&mut self.sent), self.ending);
    }
}

/// A body that plays steps.
pub(super) struct Playback {
    steps: VecDeque<Step>,
    length: Option<usize>,
    sleep: Option<Pin<Box<Sleep>>>,
    flushed: bool,
    fuse: Arc<Fuse>,
    watch: Option<Watch>,
}

impl Playback {
    /// Plays these steps.
    pub(super) fn new(steps: Vec<Step>, length: Option<usize>, fuse: Arc<Fuse>, watch: Watch) -> Self {
        let mut playback = Self { steps: steps.into(), length, sleep: None, flushed: true, fuse, watch: Some(watch) };
        playback.settle();
        playback
    }

    /// A body that nobody watches.
    pub(super) fn plain(body: Bytes) -> Self {
        let length = Some(body.len());
        let steps = if body.is_empty() { VecDeque::new() } else { VecDeque::from([Step::Send(body)]) };
        Self { steps, length, sleep: None, flushed: true, fuse: Arc::default(), watch: None }
    }

    fn send(&mut self, bytes: Bytes) -> Frame<Bytes> {
        if let Some(watch) = self.watch.as_mut() {
            watch.sent.push(bytes.clone());
        }
        self.flushed = false;
        self.settle();
        Frame::data(bytes)
    }

    fn settle(&mut self) {
        if let (true, Some(watch)) = (self.steps.is_empty(), self.watch.as_mut()) {
            watch.ends(Ending::Complete);
        }
    }

    fn broken(&mut self, how: Break) -> Broken {
        self.fuse.set(how);
        if let Some(watch) = self.watch.as_mut() {
            watch.ends(Ending::Broken);
        }
        Broken
    }

    /// Lets the connection write what it has before it gets more.
    fn poll_flush(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.flushed {
            return Poll::Ready(());
        }
        self.flushed = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = self.sleep.as_mut() {
            ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
        }
        Poll::Ready(())
    }
}

impl Body for Playback {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = self.get_mut();
        loop {
            ready!(this.poll_flush(cx));
            ready!(this.poll_sleep(cx));
            match this.steps.pop_front() {
                None => return Poll::Ready(None),
                Some(Step::Send(bytes)) => return Poll::Ready(Some(Ok(this.send(bytes)))),
                Some(Step::Wait(wait)) => this.sleep = Some(Box::pin(tokio::time::sleep(wait))),
                Some(Step::Break(how)) => return Poll::Ready(Some(Err(this.broken(how)))),
                Some(Step::Stall) => {
                    this.steps.push_front(Step::Stall);
                    return Poll::Pending;
                }
            }
            this.settle();
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty() && self.flushed
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, |length| SizeHint::with_exact(length as u64))
    }
}
