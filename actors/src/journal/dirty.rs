//! What is not yet in the store. It outlives the journal's actor and its thread.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::vitals::Vitals;
use crate::ports::{Batch, Record, Table, Write};
use crate::rows::{EventRow, UsageRow};

/// The most that rows may take in memory.
const ROWS_MAX: usize = 64 * 1024 * 1024;

/// A record's shape and content.
type Versioned = (u32, Vec<u8>);

/// What is not yet in the store.
#[derive(Debug, Default)]
pub struct Dirty {
    waiting: Mutex<Waiting>,
    /// One thread works with the store, also while one that died with its actor has not noticed yet.
    desk: Mutex<()>,
    pub(super) vitals: Vitals,
}

#[derive(Debug, Default)]
struct Waiting {
    records: BTreeMap<(Table, String), Option<Versioned>>,
    usage: Vec<UsageRow>,
    events: Vec<EventRow>,
    /// Of the rows, and of those that are being written.
    bytes: usize,
}

/// Whether more rows may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// They may.
    Some,
    /// Too many wait for a store that cannot be written.
    None,
}

/// How it was before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// Nothing waited.
    Clean,
    /// Something did.
    Dirty,
}

impl Dirty {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to work with the store.
    pub(super) fn alone(&self) -> MutexGuard<'_, ()> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, change: impl FnOnce(&mut Waiting)) -> Was {
        let mut waiting = self.waiting();
        let was = if waiting.is_empty() { Was::Clean } else { Was::Dirty };
        change(&mut waiting);
        was
    }

    pub(super) fn change(&self, table: Table, key: String, value: Option<Versioned>) -> Was {
        self.changed(|waiting| {
            waiting.records.insert((table, key), value);
        })
    }

    pub(super) fn change_all(&self, changes: Vec<Write>) -> Was {
        let change = |change: Write| ((change.table, change.key), change.value);
        self.changed(|waiting| waiting.records.extend(changes.into_iter().map(change)))
    }

    pub(super) fn settle(&self, row: UsageRow, settled: (Table, String)) -> Was {
        self.changed(|waiting| {
            waiting.records.insert(settled, None);
            waiting.push_usage(row);
        })
    }

    pub(super) fn note_usage(&self, row: UsageRow) -> Was {
        self.changed(|waiting| waiting.push_usage(row))
    }

    pub(super) fn note_event(&self, row: EventRow) -> Was {
        self.changed(|waiting| waiting.push_event(row))
    }

    pub(super) fn room(&self) -> Room {
        if self.waiting().bytes < ROWS_MAX { Room::Some } else { Room::None }
    }

    /// Takes everything out, to write it. Its rows leave their room when they are kept.
    pub(super) fn take(&self) -> Taken<'_> {
        let mut waiting = self.waiting();
        let write = |((table, key), value)| Write { table, key, value };
        let records = std::mem::take(&mut waiting.records).into_iter().map(write).collect();
        let (usage, events) = (std::mem::take(&mut waiting.usage), std::mem::take(&mut waiting.events));
        Taken { batch: Batch { records, usage, events }, dirty: self }
    }

    /// The stored records as they would be if everything were written.
    pub(super) fn overlay(&self, table: Table, stored: Vec<Record>) -> Vec<Record> {
        let mut by_key: BTreeMap<String, Record> = stored.into_iter().map(|r| (r.key.clone(), r)).collect();
        for ((_, key), value) in self.waiting().records.iter().filter(|((t, _), _)| *t == table) {
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

    /// Drops what waits to be written over these records: it was made without knowing of them.
    pub(super) fn spare(&self, table: Table, stored: &[Record]) {
        let mut waiting = self.waiting();
        for record in stored {
            let place = (table, record.key.clone());
            if waiting.records.get(&place).is_some_and(Option::is_some) {
                waiting.records.remove(&place);
            }
        }
    }

    /// Takes back a batch that was not kept: records under whatever is newer, rows before whatever came since.
    fn put_back(&self, batch: Batch) {
        let mut waiting = self.waiting();
        for write in batch.records {
            waiting.records.entry((write.table, write.key)).or_insert(write.value);
        }
        let (later_usage, later_events) = (std::mem::take(&mut waiting.usage), std::mem::take(&mut waiting.events));
        waiting.usage = batch.usage.into_iter().chain(later_usage).collect();
        waiting.events = batch.events.into_iter().chain(later_events).collect();
    }

    fn let_go(&self, batch: &Batch) {
        let rows = batch.usage.iter().map(usage_bytes).chain(batch.events.iter().map(event_bytes));
        self.waiting().bytes -= rows.sum::<usize>();
    }
}

/// What was taken out to be written. It goes back unless it was kept, also when the store panics.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    pub(super) batch: Batch,
    dirty: &'a Dirty,
}

impl Taken<'_> {
    /// It is in the store.
    pub(super) fn kept(mut self) {
        self.dirty.let_go(&std::mem::take(&mut self.batch));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            self.dirty.put_back(batch);
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.usage.is_empty() && self.events.is_empty()
    }

    fn push_usage(&mut self, row: UsageRow) {
        self.bytes += usage_bytes(&row);
        self.usage.push(row);
    }

    fn push_event(&mut self, row: EventRow) {
        self.bytes += event_bytes(&row);
        self.events.push(row);
    }
}

fn usage_bytes(row: &UsageRow) -> usize {
    size_of::<UsageRow>() + row.request_id.len() + row.model.len() + row.charges.len() * 128
}

fn event_bytes(row: &EventRow) -> usize {
    size_of::<EventRow>() + row.json.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Wall;
    use crate::event::Severity;

    fn event(seq: u64, bytes: usize) -> EventRow {
        EventRow {
            seq,
            at: Wall(0),
            severity: Severity::Info,
            kind: "started".to_owned(),
            account: None,
            agent: None,
            request_id: None,
            json: "x".repeat(bytes),
        }
    }

    #[test]
    fn rows_that_could_not_be_written_come_back_before_those_that_came_since() {
        let dirty = Dirty::default();
        assert_eq!(dirty.note_event(event(1, 1)), Was::Clean);
        assert_eq!(dirty.note_event(event(2, 1)), Was::Dirty);
        let taken = dirty.take();
        assert_eq!(dirty.note_event(event(3, 1)), Was::Clean);
        drop(taken);
        let order: Vec<u64> = dirty.take().batch.events.iter().map(|row| row.seq).collect();
        assert_eq!(order, [1, 2, 3]);
    }

    #[test]
    fn rows_fill_the_room_until_they_are_kept() {
        let dirty = Dirty::default();
        assert_eq!(dirty.room(), Room::Some);
        dirty.note_event(event(1, ROWS_MAX));
        assert_eq!(dirty.room(), Room::None);
        let taken = dirty.take();
        assert_eq!(dirty.room(), Room::None, "they are being written, and in memory until that is over");
        drop(taken);
        assert_eq!(dirty.room(), Room::None);
        dirty.take().kept();
        assert_eq!(dirty.room(), Room::Some);
    }

    #[test]
    fn a_record_found_in_the_store_is_not_overwritten_by_one_that_was_made_without_it() {
        let dirty = Dirty::default();
        for key in ["found", "new"] {
            dirty.change(Table::Health, key.to_owned(), Some((1, b"cold".to_vec())));
        }
        dirty.change(Table::Health, "gone".to_owned(), None);
        let stored = ["found", "gone"].map(|key| Record { key: key.to_owned(), version: 1, value: b"old".to_vec() });
        dirty.spare(Table::Health, &stored);
        let left: Vec<_> = dirty.take().batch.records.iter().map(|write| write.key.clone()).collect();
        assert_eq!(left, ["gone", "new"], "what was forgotten stays forgotten");
    }
}
