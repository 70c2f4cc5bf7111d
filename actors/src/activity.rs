//! The activity feed: gives every event its number, has it written down, and hands it on; and sees to outages.
//!
//! Events wait in an inbox of their own, so that none is lost when the feed's actor dies. Observers see every event once,
//! in order; one that panics has seen it. Followers read what was kept and then what comes, and heal a gap by number.
//!
//! Numbers grow across restarts: they are taken in blocks, and a block is written down before its first number is
//! given. A restart begins the next block.

mod actor;
mod entry;
mod outage;
mod watchman;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

pub use actor::{Args, FeedActor, Msg};
pub use entry::Entry;
pub use outage::{Outage, ScopeKey};
pub use watchman::Watchman;

use crate::clock::Timestamp;
use crate::event::{Event, Severity};
use crate::id::EvidenceSeq;
use crate::inbox::{Inbox, Reader};
use crate::journal::Journal;
use crate::ports::{EventSink, Observer, Record, StoreError, Table};
use crate::slot::Handle;

/// How many events are kept in memory.
const KEPT: usize = 10_000;
/// How many numbers are taken at once.
const BLOCK: u64 = 10_000;
/// The record of the last number that may have been given.
const CEILING: &str = "feed_ceiling";
/// Its shape.
const CEILING_VERSION: u32 = 1;
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
    journal: Journal,
    watchman: Watchman,
}

struct Book {
    /// The last number that was given; none before it is known where to begin.
    last: Option<u64>,
    /// The last number that may be given.
    ceiling: u64,
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
    pub fn new(observers: Vec<Box<dyn Observer>>, journal: Journal, watchman: Watchman) -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::default(),
            book: Mutex::new(Book { last: None, ceiling: 0, open: None, kept: VecDeque::new(), observers }),
            followers: broadcast::Sender::new(BACKLOG),
            journal,
            watchman,
        })
    }

    /// Goes on where the last run stopped. Until then events wait.
    ///
    /// Where nothing can be read, numbers begin at the present moment: a store that heals knows none as large.
    pub(crate) fn begin(
        &self,
        facts: Result<Vec<Record>, StoreError>,
        outages: Result<Vec<Record>, StoreError>,
        now: Timestamp,
    ) {
        let ceiling = match &facts {
            Ok(facts) => facts.iter().find(|fact| fact.key == CEILING).map_or(Some(0), read_number),
            Err(_) => None,
        };
        self.watchman.restore(&outages.unwrap_or_default());
        let begins = ceiling.unwrap_or_else(|| u64::try_from(now.wall.0).unwrap_or_default());
        let mut book = self.book();
        if book.last.is_none() {
            (book.last, book.ceiling) = (Some(begins), begins);
        }
    }

    /// Takes in outages that were kept and could not be read at the start.
    pub(crate) fn join(&self, outages: &[Record]) {
        self.watchman.restore(outages);
    }

    fn has_begun(&self) -> bool {
        self.book().last.is_some()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an item of the inbox; goes on where an incarnation that died over it stopped.
    fn publish(&self, item: EvidenceSeq, mut event: Event, now: Timestamp) {
        let mut book = self.book();
        event.seq = book.number(item, &self.journal);
        event.kind = event.kind.with_civil_ends(event.ts);
        book.show(&event);
        let event = Arc::new(event);
        if event.severity > Severity::Trace {
            self.journal.note_event(Entry::of(&event).row(event.ts.wall));
            book.keep(Arc::clone(&event));
        }
        drop(book);
        for follows in self.watchman.heed(&event, now) {
            self.inbox.push(follows);
        }
        let _ = self.followers.send(event);
    }
}

/// The number that a record holds.
fn read_number(record: &Record) -> Option<u64> {
    std::str::from_utf8(&record.value).ok()?.parse().ok()
}

impl Book {
    fn number(&mut self, item: EvidenceSeq, journal: &Journal) -> u64 {
        match self.open {
            Some((open, number, _)) if open == item => number,
            Some(_) | None => {
                let number = self.last.unwrap_or_default() + 1;
                if number > self.ceiling {
                    self.ceiling = number + BLOCK;
                    let value = self.ceiling.to_string().into_bytes();
                    journal.remember(Table::Facts, CEILING.to_owned(), CEILING_VERSION, value);
                }
                self.last = Some(number);
                self.open = Some((item, number, 0));
                number
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

    /// The number that was given last; 0 before any.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.shared.book().last.unwrap_or_default()
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
