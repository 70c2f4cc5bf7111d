//! The activity feed: gives every event its number, keeps the last ones, and hands them on.
//!
//! Events wait in an inbox of their own, so that none is lost when the feed's actor dies. Observers see every event once,
//! in order; one that panics has seen it. Followers read what was kept and then what comes, and heal a gap by number.

mod actor;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

pub use actor::{Args, FeedActor, Msg};

use crate::event::{Event, Severity};
use crate::id::EvidenceSeq;
use crate::inbox::{Inbox, Reader};
use crate::ports::{EventSink, Observer};
use crate::slot::Handle;

/// How many events are kept in memory.
const KEPT: usize = 10_000;
/// How far a follower may fall behind before it must read what was kept.
const BACKLOG: usize = 4_096;

/// The feed as everybody sees it.
#[derive(Clone)]
pub struct Feed {
    shared: Arc<Shared>,
    actor: Handle<Msg>,
}

/// What outlives the feed's actor.
pub struct Shared {
    inbox: Inbox<Event>,
    book: Mutex<Book>,
    followers: broadcast::Sender<Arc<Event>>,
}

struct Book {
    last: u64,
    /// The item of the inbox that is being published, its number, and how many observers were shown it.
    open: Option<(EvidenceSeq, u64, usize)>,
    kept: VecDeque<Arc<Event>>,
    observers: Vec<Box<dyn Observer>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

impl Shared {
    /// An empty feed with these observers.
    #[must_use]
    pub fn new(observers: Vec<Box<dyn Observer>>) -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::default(),
            book: Mutex::new(Book { last: 0, open: None, kept: VecDeque::new(), observers }),
            followers: broadcast::Sender::new(BACKLOG),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an item of the inbox; goes on where an incarnation that died over it stopped.
    fn publish(&self, item: EvidenceSeq, mut event: Event) {
        let mut book = self.book();
        event.seq = book.number(item);
        event.kind = event.kind.with_civil_ends(event.ts);
        book.show(&event);
        let event = Arc::new(event);
        if event.severity > Severity::Trace {
            book.keep(Arc::clone(&event));
        }
        let _ = self.followers.send(event);
    }
}

impl Book {
    fn number(&mut self, item: EvidenceSeq) -> u64 {
        match self.open {
            Some((open, number, _)) if open == item => number,
            Some(_) | None => {
                self.last += 1;
                self.open = Some((item, self.last, 0));
                self.last
            }
        }
    }

    fn show(&mut self, event: &Event) {
        let Some((_, _, shown)) = &mut self.open else { return };
        while let Some(observer) = self.observers.get_mut(*shown) {
            *shown += 1;
            observer.observe(event);
        }
    }

    fn keep(&mut self, event: Arc<Event>) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
    }
}

impl Feed {
    /// The feed over this shared part and whichever actor works on it.
    #[must_use]
    pub fn new(shared: Arc<Shared>, actor: Handle<Msg>) -> Self {
        Self { shared, actor }
    }

    /// The kept events with a number above `seq`.
    #[must_use]
    pub fn since(&self, seq: u64) -> Vec<Arc<Event>> {
        self.shared.book().kept.iter().filter(|event| event.seq > seq).cloned().collect()
    }

    /// All events from now on, trace included.
    #[must_use]
    pub fn follow(&self) -> broadcast::Receiver<Arc<Event>> {
        self.shared.followers.subscribe()
    }
}

impl EventSink for Feed {
    fn emit(&self, event: Event) {
        if self.shared.inbox.push(event).reader == Reader::Call {
            self.actor.cast(Msg::Look);
        }
    }
}
