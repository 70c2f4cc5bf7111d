//! A store in memory: lost when the program ends, kept when the thread that uses it dies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duduclaw_actors::journal::OpenStore;
use duduclaw_actors::ports::{Batch, Record, Store, StoreError, Table};
use duduclaw_actors::rows::{EventQuery, EventRow, Retention, SpentRow, UsageBy, UsageQuery, UsageRow, UsageSum};

/// The store.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    records: BTreeMap<(Table, String), (u32, Vec<u8>)>,
    usage: BTreeMap<(Arc<str>, u32), UsageRow>,
    spent: BTreeMap<(Arc<str>, String), SpentRow>,
    events: BTreeMap<u64, EventRow>,
}

impl MemoryStore {
    /// How the journal opens it; every opening is the same store.
    #[must_use]
    pub fn opener(&self) -> OpenStore {
        let store = self.clone();
        Arc::new(move || Ok(Box::new(store.clone())))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError> {
        let kept = self.kept();
        let of_table = kept.records.iter().filter(|((found, _), _)| *found == table);
        let record = |((_, key), (version, value)): (&(Table, String), &(u32, Vec<u8>))| Record {
            key: key.clone(),
            version: *version,
            value: value.clone(),
        };
        Ok(of_table.map(record).collect())
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut kept = self.kept();
        for write in &batch.records {
            let key = (write.table, write.key.clone());
            match &write.value {
                Some(value) => kept.records.insert(key, value.clone()),
                None => kept.records.remove(&key),
            };
        }
        batch.usage.iter().for_each(|row| kept.settle(row));
        kept.events.extend(batch.events.iter().map(|row| (row.seq, row.clone())));
        Ok(())
    }

    fn spent(&mut self) -> Result<Vec<SpentRow>, StoreError> {
        Ok(self.kept().spent.values().cloned().collect())
    }

    fn usage(&mut self, ask: &UsageQuery) -> Result<Vec<UsageSum>, StoreError> {
        let kept = self.kept();
        let mut sums: BTreeMap<String, UsageSum> = BTreeMap::new();
        let mut counted = BTreeSet::new();
        for row in kept.usage.values().filter(|row| ask.from <= row.at && row.at < ask.until) {
            let key = key_of(row, ask.by);
            let sum = sums.entry(key.clone()).or_insert_with(|| UsageSum { key, ..UsageSum::default() });
            sum.requests += u64::from(counted.insert((key_of(row, ask.by), Arc::clone(&row.request_id))));
            sum.add(row);
        }
        Ok(sums.into_values().collect())
    }

    fn events(&mut self, ask: &EventQuery) -> Result<Vec<EventRow>, StoreError> {
        let kept = self.kept();
        let matching = kept.events.range(ask.after.saturating_add(1)..).rev().map(|(_, row)| row);
        let mut newest: Vec<EventRow> = matching.filter(|row| ask.matches(row)).take(ask.limit).cloned().collect();
        newest.reverse();
        Ok(newest)
    }

    fn prune(&mut self, keep: Retention) -> Result<(), StoreError> {
        let mut kept = self.kept();
        kept.usage.retain(|_, row| row.at >= keep.before);
        kept.events.retain(|_, row| row.at >= keep.before);
        while kept.events.len() > keep.events {
            kept.events.pop_first();
        }
        Ok(())
    }
}

impl Kept {
    fn settle(&mut self, row: &UsageRow) {
        let key = (Arc::clone(&row.request_id), row.attempt);
        if self.usage.contains_key(&key) {
            return;
        }
        for charge in &row.charges {
            let new = || SpentRow {
                budget: Arc::clone(&charge.budget),
                month: charge.month.clone(),
                amount: duduclaw_actors::money::Micros::ZERO,
                requests: 0,
            };
            let spent = self.spent.entry((Arc::clone(&charge.budget), charge.month.clone())).or_insert_with(new);
            spent.amount += charge.amount;
            spent.requests += u64::from(charge.requests);
        }
        self.usage.insert(key, row.clone());
    }
}

fn key_of(row: &UsageRow, by: UsageBy) -> String {
    let named = |name: &Option<Arc<str>>| name.as_deref().unwrap_or_default().to_owned();
    match by {
        UsageBy::Account => row.entry.to_string(),
        UsageBy::Provider => row.entry.provider.to_string(),
        UsageBy::Agent => named(&row.principal.agent),
        UsageBy::Client => named(&row.principal.client),
        UsageBy::Model => row.model.clone(),
        UsageBy::Day => row.day.clone(),
        UsageBy::Total => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use duduclaw_actors::ports::Write;

    use super::*;

    fn write(key: &str, value: Option<&[u8]>) -> Write {
        Write { table: Table::Health, key: key.to_owned(), value: value.map(|value| (1, value.to_vec())) }
    }

    fn batch<const N: usize>(records: [Write; N]) -> Batch {
        Batch { records: records.to_vec(), ..Batch::default() }
    }

    #[test]
    fn what_was_written_is_found_by_whoever_opens_it_next() {
        let open = MemoryStore::default().opener();
        open().unwrap().write(&batch([write("a", Some(b"1")), write("b", Some(b"2"))])).unwrap();
        open().unwrap().write(&batch([write("a", None), write("b", Some(b"3"))])).unwrap();
        let kept = open().unwrap().load(Table::Health).unwrap();
        assert_eq!(kept, [Record { key: "b".to_owned(), version: 1, value: b"3".to_vec() }]);
        assert_eq!(open().unwrap().load(Table::Conversations).unwrap(), []);
    }
}
