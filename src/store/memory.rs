//! A store in memory: lost when the program ends, kept when the thread that uses it dies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duduclaw_actors::journal::OpenStore;
use duduclaw_actors::ports::{Batch, Opened, Pruned, Record, Store, StoreError, Table};
use duduclaw_actors::rows::{EventQuery, EventRow, Retention, SpentRow, UsageQuery, UsageSum};
use rusqlite::Connection;

use super::sqlite::{Damage, Flaw, SqliteStore, prepare};

/// One database for everybody who opens it.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<SqliteStore>>);

/// A store that every opening finds as the last one left it.
#[must_use]
pub fn in_memory() -> OpenStore {
    let made: Mutex<Option<Shared>> = Mutex::default();
    Arc::new(move || {
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match &*made {
            Some(shared) => shared.clone(),
            None => made.insert(Shared::new()?).clone(),
        };
        Ok(Opened::from(shared))
    })
}

impl Shared {
    fn new() -> Result<Self, StoreError> {
        let made = Connection::open_in_memory().map_err(Flaw::from).and_then(|mut connection| {
            prepare(&mut connection)?;
            Ok(connection)
        });
        let connection = made.map_err(|flaw| StoreError::Unavailable(format!("no memory for it: {flaw:?}")))?;
        Ok(Self(Arc::new(Mutex::new(SqliteStore::new(connection, Damage::default())))))
    }

    fn store(&self) -> MutexGuard<'_, SqliteStore> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Shared {
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError> {
        self.store().load(table)
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.store().write(batch)
    }

    fn spent(&mut self) -> Result<Vec<SpentRow>, StoreError> {
        self.store().spent()
    }

    fn usage(&mut self, ask: &UsageQuery) -> Result<Vec<UsageSum>, StoreError> {
        self.store().usage(ask)
    }

    fn events(&mut self, ask: &EventQuery) -> Result<Vec<EventRow>, StoreError> {
        self.store().events(ask)
    }

    fn prune(&mut self, keep: &Retention) -> Result<Pruned, StoreError> {
        self.store().prune(keep)
    }
}
