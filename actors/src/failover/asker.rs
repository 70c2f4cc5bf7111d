//! Someone who asks the FailoverManager, and whether the question is what killed it.
//!
//! A question that merely waited in a dead actor's mailbox is asked again, as often as it takes. One that the actor was
//! at work on when it died may be deadly itself, and must not kill every successor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

/// Where an answer is to go.
#[derive(Debug)]
pub struct Asker<T> {
    reply: oneshot::Sender<T>,
    at_work: Arc<AtomicBool>,
}

/// The other end: tells, when no answer came, why.
#[derive(Debug)]
pub(super) struct Fate(Arc<AtomicBool>);

impl Fate {
    /// Whether the actor died at work on this question.
    pub(super) fn was_deadly(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl<T> Asker<T> {
    /// An asker, where its answer will come, and what becomes of it.
    pub(super) fn new() -> (Self, oneshot::Receiver<T>, Fate) {
        let (reply, answer) = oneshot::channel();
        let at_work = Arc::new(AtomicBool::new(false));
        (Self { reply, at_work: Arc::clone(&at_work) }, answer, Fate(at_work))
    }

    /// The question is being worked on until what is returned is let go of in order. If a panic drops it, the mark stays.
    pub(super) fn begin(&self) -> AtWork {
        self.at_work.store(true, Ordering::SeqCst);
        AtWork(Arc::clone(&self.at_work))
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// Answers. What nobody takes is dropped.
    pub(super) fn answer(self, answer: T) {
        let _ = self.reply.send(answer);
    }
}

/// A question that is being worked on.
#[derive(Debug)]
pub(super) struct AtWork(Arc<AtomicBool>);

impl AtWork {
    /// It is settled or waits in a queue: whatever happens now is not its fault.
    pub(super) fn over(self) {
        self.0.store(false, Ordering::SeqCst);
    }
}
