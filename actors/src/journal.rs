//! What the fleet remembers, and the way there: a map of dirty records that outlives everybody, an actor that says when
//! to write, and a thread of its own for the store, which may be slow.
//!
//! A record is written within a second. The latest value wins; a batch that could not be written goes back into the
//! map, under whatever is newer there.

mod actor;
mod thread;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

pub use actor::{Args, JournalActor, Msg};

use crate::ports::{Record, Store, StoreError, Table, Write};
use crate::slot::{Delivery, Handle, Successor};

/// The longest a record stays only in memory.
const WRITE_WITHIN: Duration = Duration::from_millis(500);

/// How many incarnations of the journal are asked for a table.
const LOAD_TRIES: u32 = 4;
/// How long a successor may take; one whose store fails does not die, and is asked again.
const SUCCESSOR_WITHIN: Duration = Duration::from_secs(1);

/// Opens the store, also anew after the thread that held it died.
pub type OpenStore = Arc<dyn Fn() -> Result<Box<dyn Store>, StoreError> + Send + Sync>;

/// The journal as everybody sees it.
#[derive(Clone, Debug)]
pub struct Journal {
    dirty: Arc<Dirty>,
    actor: Handle<Msg>,
}

/// Records that are not yet in the store.
#[derive(Debug, Default)]
pub struct Dirty {
    records: Mutex<BTreeMap<(Table, String), Option<Versioned>>>,
}

/// A record's shape and content.
type Versioned = (u32, Vec<u8>);

impl Dirty {
    fn records(&self) -> MutexGuard<'_, BTreeMap<(Table, String), Option<Versioned>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Write> {
        let records = std::mem::take(&mut *self.records());
        records.into_iter().map(|((table, key), value)| Write { table, key, value }).collect()
    }

    /// The stored records as they would be if everything were written.
    fn overlay(&self, table: Table, stored: Vec<Record>) -> Vec<Record> {
        let mut by_key: BTreeMap<String, Record> = stored.into_iter().map(|r| (r.key.clone(), r)).collect();
        for ((_, key), value) in self.records().iter().filter(|((t, _), _)| *t == table) {
            match value {
                Some((version, value)) => {
                    by_key.insert(key.clone(), Record { key: key.clone(), version: *version, value: value.clone() });
                }
                None => {
                    by_key.remove(key);
                }
            }
        }
        by_key.into_values().collect()
    }

    fn put_back(&self, batch: Vec<Write>) {
        let mut records = self.records();
        for write in batch {
            records.entry((write.table, write.key)).or_insert(write.value);
        }
    }
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

    /// Forgets a record.
    pub fn forget(&self, table: Table, key: String) {
        self.change(table, key, None);
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

    fn change(&self, table: Table, key: String, value: Option<Versioned>) {
        let was_clean = {
            let mut records = self.dirty.records();
            let was_clean = records.is_empty();
            records.insert((table, key), value);
            was_clean
        };
        if was_clean {
            self.actor.cast(Msg::Dirty);
        }
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
