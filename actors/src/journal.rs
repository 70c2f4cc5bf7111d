//! What the fleet remembers, and the way there: a map of dirty records that outlives everybody, an actor that says when
//! to write, and a thread of its own for the store, which may be slow.
//!
//! A record is written within a second. The latest value wins; a batch that could not be written goes back into the
//! map, under whatever is newer there. Rows wait in order and are bounded: who makes them asks first whether there is
//! room.

mod actor;
mod dirty;
mod retention;
mod thread;
mod vitals;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

pub use actor::{Args, JournalActor, Msg};
pub use dirty::{Dirty, Room};
pub use retention::Keep;
pub use vitals::{Comeback, StoreState};

use crate::clock::Timestamp;
use crate::ports::{Opened, Record, Store, StoreError, Table, Write};
use crate::rows::{EventQuery, EventRow, SpentRow, UsageQuery, UsageReport, UsageRow};
use crate::slot::{Delivery, Handle, Successor};

/// The longest a record stays only in memory.
const WRITE_WITHIN: Duration = Duration::from_millis(500);

/// How many incarnations of the journal are asked for a table.
const LOAD_TRIES: u32 = 4;
/// How long a successor may take; one whose store fails does not die, and is asked again.
const SUCCESSOR_WITHIN: Duration = Duration::from_secs(1);

/// A question to the store, or why there is none to ask.
pub type Ask = Box<dyn FnOnce(Result<&mut dyn Store, StoreError>) -> Fared + Send>;

/// How the store fared with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fared {
    /// It answered.
    Well,
    /// It failed, and is to be opened anew.
    Ill,
}

/// Opens the store, also anew after it failed or the thread that held it died.
pub type OpenStore = Arc<dyn Fn() -> Result<Opened, StoreError> + Send + Sync>;

/// The journal as everybody sees it.
#[derive(Clone, Debug)]
pub struct Journal {
    dirty: Arc<Dirty>,
    actor: Handle<Msg>,
}

impl Journal {
    /// The journal over this map and whichever actor works on it.
    #[must_use]
    pub fn new(dirty: Arc<Dirty>, actor: Handle<Msg>) -> Self {
        Self { dirty, actor }
    }

    /// Remembers a record; it is written within a second.
    pub fn remember(&self, table: Table, key: String, version: u32, value: Vec<u8>) {
        self.change(table, key, Some((version, value)));
    }

    /// Remembers and forgets several records in one piece.
    pub fn change_all(&self, changes: Vec<Write>) {
        self.mark(|dirty| dirty.change_all(changes));
    }

    /// Forgets a record.
    pub fn forget(&self, table: Table, key: String) {
        self.change(table, key, None);
    }

    /// Keeps a row of usage and forgets the reservation that it settles, in one piece.
    pub fn settle(&self, row: UsageRow, reservation: String) {
        self.mark(|dirty| dirty.settle(row, (Table::Reservations, reservation)));
    }

    /// Keeps a row of usage.
    pub fn note_usage(&self, row: UsageRow) {
        self.mark(|dirty| dirty.note_usage(row));
    }

    /// Keeps an event.
    pub fn note_event(&self, row: EventRow) {
        self.mark(|dirty| dirty.note_event(row));
    }

    /// Whether there is room for more rows: none is left only while the store cannot be written for long.
    #[must_use]
    pub fn room(&self) -> Room {
        self.dirty.room()
    }

    /// What was spent of every budget.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn spent(&self) -> Result<Vec<SpentRow>, StoreError> {
        self.query(|store| store.spent()).await
    }

    /// Sums of the usage rows, those included that were not written before.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn usage(&self, ask: UsageQuery) -> Result<UsageReport, StoreError> {
        self.query(move |store| store.report(&ask)).await
    }

    /// Events that were kept, those included that were not written before.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn events(&self, ask: EventQuery) -> Result<Vec<EventRow>, StoreError> {
        self.query(move |store| store.events(&ask)).await
    }

    /// How the store fares.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> StoreState {
        self.dirty.vitals.at(now)
    }

    /// Changes when a store that could not be used can be used again, with what is to be known of it.
    #[must_use]
    pub fn comeback(&self) -> watch::Receiver<Comeback> {
        self.dirty.vitals.comeback()
    }

    /// An account begins although its record cannot be read: whatever is found of it later comes by
    /// [`Journal::comeback`], and is not written over before.
    pub fn begins_without(&self, key: String) {
        self.dirty.vitals.missed(key);
    }

    /// All records of a table, those included that are not yet written.
    ///
    /// # Errors
    /// When the store cannot be read, or the journal dies over it.
    pub async fn load(&self, table: Table) -> Result<Vec<Record>, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Msg::Load(table, reply))?;
        answer.await.map_err(|_| gone())?
    }

    /// The same, asking the journal's successors as well. Not for its supervisor, who would wait for itself.
    ///
    /// # Errors
    /// When the store cannot be read, by several incarnations.
    pub async fn load_patiently(&self, table: Table) -> Result<Vec<Record>, StoreError> {
        for _ in 1..LOAD_TRIES {
            let seen = self.actor.incarnation();
            if let Ok(records) = self.load(table).await {
                return Ok(records);
            }
            let next = self.actor.next_incarnation(seen);
            if tokio::time::timeout(SUCCESSOR_WITHIN, next).await == Ok(Successor::Never) {
                return Err(gone());
            }
        }
        self.load(table).await
    }

    /// Writes what is dirty now.
    ///
    /// # Errors
    /// When it could not be written; it stays dirty.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Msg::Flush(Some(reply)))?;
        answer.await.map_err(|_| gone())?
    }

    /// Writes what is dirty, then closes the store; it is opened anew when it is next needed.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn close_store(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Msg::Ask(Box::new(move |store| {
            let _ = reply.send(store.map(|_| ()));
            Fared::Ill
        })))?;
        answer.await.map_err(|_| gone())?
    }

    fn change(&self, table: Table, key: String, value: Option<(u32, Vec<u8>)>) {
        self.mark(|dirty| dirty.change(table, key, value));
    }

    fn mark(&self, change: impl FnOnce(&Dirty) -> dirty::Was) {
        if change(&self.dirty) == dirty::Was::Clean {
            self.actor.cast(Msg::Dirty);
        }
    }

    /// Asks the store after what is dirty was written, so that the answer knows of it.
    async fn query<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Msg::Ask(Box::new(move |store| {
            let answer = store.and_then(ask);
            let fared = if answer.is_ok() { Fared::Well } else { Fared::Ill };
            let _ = reply.send(answer);
            fared
        })))?;
        answer.await.map_err(|_| gone())?
    }

    fn ask(&self, message: Msg) -> Result<(), StoreError> {
        match self.actor.cast(message) {
            Delivery::Taken => Ok(()),
            Delivery::NobodyThere => Err(gone()),
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the journal is being started again".to_owned())
}

#[cfg(test)]
mod tests;
