//! A store in memory: lost when the program ends, kept when the thread that uses it dies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use duduclaw_actors::journal::OpenStore;
use duduclaw_actors::ports::{Record, Store, StoreError, Table, Write};

type Records = BTreeMap<(Table, String), (u32, Vec<u8>)>;

/// The store.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    records: Arc<Mutex<Records>>,
}

impl MemoryStore {
    /// How the journal opens it; every opening is the same store.
    #[must_use]
    pub fn opener(&self) -> OpenStore {
        let store = self.clone();
        Arc::new(move || Ok(Box::new(store.clone())))
    }
}

impl Store for MemoryStore {
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let of_table = records.iter().filter(|((found, _), _)| *found == table);
        let record = |((_, key), (version, value)): (&(Table, String), &(u32, Vec<u8>))| Record {
            key: key.clone(),
            version: *version,
            value: value.clone(),
        };
        Ok(of_table.map(record).collect())
    }

    fn write(&mut self, batch: &[Write]) -> Result<(), StoreError> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        for write in batch {
            let key = (write.table, write.key.clone());
            match &write.value {
                Some(value) => records.insert(key, value.clone()),
                None => records.remove(&key),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(key: &str, value: Option<&[u8]>) -> Write {
        Write { table: Table::Health, key: key.to_owned(), value: value.map(|value| (1, value.to_vec())) }
    }

    #[test]
    fn what_was_written_is_found_by_whoever_opens_it_next() {
        let open = MemoryStore::default().opener();
        open().unwrap().write(&[write("a", Some(b"1")), write("b", Some(b"2"))]).unwrap();
        open().unwrap().write(&[write("a", None), write("b", Some(b"3"))]).unwrap();
        let kept = open().unwrap().load(Table::Health).unwrap();
        assert_eq!(kept, [Record { key: "b".to_owned(), version: 1, value: b"3".to_vec() }]);
        assert_eq!(open().unwrap().load(Table::Conversations).unwrap(), []);
    }
}
