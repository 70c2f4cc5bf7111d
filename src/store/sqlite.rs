//! The store as an SQLite database.
//!
//! Its statements are such as PostgreSQL takes too, their parameters numbered in the order in which they stand.
//!
//! Never here: where the file lies, and what becomes of one that cannot be used.

mod read;
mod schema;
mod write;

use std::fs::File;

use duduclaw_actors::ports::{Batch, Pruned, Record, Store, StoreError, Table};
use duduclaw_actors::rows::{EventQuery, EventRow, Retention, SpentRow, UsageQuery, UsageSum};
use rusqlite::{Connection, ErrorCode};

pub(super) use schema::{Flaw, is_whole, look_at, open, prepare};

/// The store over an open database.
#[derive(Debug)]
pub(super) struct SqliteStore {
    connection: Connection,
    damage: Damage,
    /// Free again once the database is closed.
    _lock: Option<File>,
}

/// Whom to tell when the file turns out to be damaged while it is used.
pub(super) type Damage = std::sync::Arc<std::sync::Mutex<Option<String>>>;

impl SqliteStore {
    /// The store over this database, whose schema stands.
    pub(super) fn new(connection: Connection, damage: Damage) -> Self {
        connection.set_prepared_statement_cache_capacity(32);
        Self { connection, damage, _lock: None }
    }

    /// The same, with the lock by which it is this process's alone.
    pub(super) fn with_lock(self, lock: File) -> Self {
        Self { _lock: Some(lock), ..self }
    }

    fn told<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| {
            if is_damage(&error) {
                let _ = schema::leave_as_it_is(&self.connection, true);
                let mut damage = self.damage.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *damage = Some(error.to_string());
            }
            StoreError::Unavailable(error.to_string())
        })
    }
}

impl Store for SqliteStore {
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError> {
        let loaded = read::records(&self.connection, table);
        self.told(loaded)
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let written = write::batch(&mut self.connection, batch);
        self.told(written)
    }

    fn spent(&mut self) -> Result<Vec<SpentRow>, StoreError> {
        let spent = read::spent(&self.connection);
        self.told(spent)
    }

    fn usage(&mut self, ask: &UsageQuery) -> Result<Vec<UsageSum>, StoreError> {
        let sums = read::usage(&self.connection, ask);
        self.told(sums)
    }

    fn events(&mut self, ask: &EventQuery) -> Result<Vec<EventRow>, StoreError> {
        let events = read::events(&self.connection, ask);
        self.told(events)
    }

    fn prune(&mut self, keep: &Retention) -> Result<Pruned, StoreError> {
        let pruned = write::prune(&mut self.connection, keep);
        self.told(pruned)
    }
}

/// Whether an error says that the file is not, or no longer, what we wrote. Anything else may pass.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase),
        None => matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::Utf8Error(..)
        ),
    }
}

#[cfg(test)]
mod tests;
