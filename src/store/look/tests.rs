use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use duduclaw_actors::clock::{ManualClock, Timestamp};
use duduclaw_actors::ports::{Batch, Store, Table, Write};

use super::*;
use crate::store::StoreFile;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("a ?#% b").tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("state.db")
    }

    /// A store as it is used.
    fn used(&self) -> Box<dyn Store> {
        let clock = Arc::new(ManualClock::at(Timestamp::at_millis(1_796_000_000_000)));
        let mut store = StoreFile::at(self.path(), clock).opener()().unwrap().store;
        remember(&mut *store, "a").unwrap();
        store
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.0.path()).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
    }

    fn keys(&self) -> Vec<String> {
        let records = look(&self.path()).unwrap().load(Table::Facts).unwrap();
        records.into_iter().map(|record| record.key).collect()
    }
}

fn remember(store: &mut dyn Store, key: &str) -> Result<(), duduclaw_actors::ports::StoreError> {
    let write = Write { table: Table::Facts, key: key.to_owned(), value: Some((1, b"{}".to_vec())) };
    store.write(&Batch { records: vec![write], ..Batch::default() })
}

#[test]
fn a_store_that_nobody_uses_is_read_and_not_a_byte_changes() {
    let place = Place::new();
    drop(place.used());
    let before = place.files();
    assert_eq!(place.keys(), ["a"]);
    assert_eq!(place.files(), before);
}

/// A process that was killed left its log beside the file.
#[test]
fn what_only_the_log_has_is_read_and_not_a_byte_changes() {
    let (place, left) = (Place::new(), Place::new());
    let store = place.used();
    for (name, bytes) in place.files() {
        fs::write(left.0.path().join(name), bytes).unwrap();
    }
    drop(store);
    let before = left.files();
    assert!(!before["state.db-wal"].is_empty());
    assert_eq!(left.keys(), ["a"]);
    assert_eq!(left.files(), before);
}

#[test]
fn a_store_in_use_is_read_as_it_was_last_committed() {
    let place = Place::new();
    let mut store = place.used();
    assert_eq!(place.keys(), ["a"]);
    remember(&mut *store, "b").unwrap();
    assert_eq!(place.keys(), ["a", "b"]);
}

#[test]
fn what_would_change_it_fails() {
    let place = Place::new();
    drop(place.used());
    let before = place.files();
    let mut seen = look(&place.path()).unwrap();
    assert!(remember(&mut *seen, "b").is_err());
    drop(seen);
    assert_eq!(place.files(), before);
}

#[test]
fn what_cannot_be_read_is_said_and_stays_as_it_is() {
    let place = Place::new();
    assert!(matches!(look(&place.path()), Err(LookError::Nothing(_))));
    assert_eq!(place.files(), BTreeMap::new(), "who only looks makes nothing");
    fs::write(place.path(), "no database").unwrap();
    assert!(matches!(look(&place.path()), Err(LookError::Damaged { .. })));
    fs::remove_file(place.path()).unwrap();
    drop(place.used());
    let connection = Connection::open(place.path()).unwrap();
    connection.pragma_update(None, "user_version", 7).unwrap();
    drop(connection);
    assert!(matches!(look(&place.path()), Err(LookError::Foreign { version: 7, .. })));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 2, "the file and its lock");
}
