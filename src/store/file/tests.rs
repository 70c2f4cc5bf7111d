use std::collections::BTreeMap;

use duduclaw_actors::clock::{ManualClock, Timestamp};
use duduclaw_actors::ports::{Batch, Record, Table, Write};

use super::*;

/// 2026-11-30T00:53:20Z.
const NOW: i64 = 1_796_000_000_000;

struct Place {
    home: tempfile::TempDir,
    open: OpenStore,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::at_millis(NOW)));
        let open = StoreFile::at(home.path().join("state.db"), clock).opener();
        Self { home, open }
    }

    /// One in which a store was used and closed.
    fn used() -> Self {
        let place = Self::new();
        place.opened().remember("a");
        place
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("state.db")
    }

    fn opened(&self) -> Opened {
        (self.open)().unwrap()
    }

    /// What lies there, by name, with its bytes.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.home.path()).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
    }

    /// Breaks the file, opens it, and checks that it was put aside as it was and an empty store begun.
    fn breaks(&self, what: &str, break_it: impl FnOnce(&Path)) -> String {
        break_it(&self.path());
        let before = self.files();
        let mut opened = self.opened();
        let aside = opened.set_aside.take().expect("it is put aside");
        assert_eq!(aside.kept_at, self.home.path().join(what).display().to_string());
        let after = self.files();
        for (name, bytes) in &before {
            let stays = name.contains(".corrupt-") || name.ends_with(".lock");
            let kept = if stays { name.clone() } else { name.replace("state.db", what) };
            assert_eq!(after.get(&kept), Some(bytes), "{name} is {kept} now, byte for byte");
        }
        assert_eq!(opened.keys(), [""; 0]);
        opened.remember("new");
        drop(opened);
        assert_eq!(self.opened().keys(), ["new"], "the new one is good");
        aside.why
    }
}

trait Handy {
    fn remember(&mut self, key: &str);
    fn keys(&mut self) -> Vec<String>;
}

impl Handy for Opened {
    fn remember(&mut self, key: &str) {
        let write = Write { table: Table::Health, key: key.to_owned(), value: Some((1, b"{}".to_vec())) };
        self.store.write(&Batch { records: vec![write], ..Batch::default() }).unwrap();
    }

    fn keys(&mut self) -> Vec<String> {
        self.store.load(Table::Health).unwrap().into_iter().map(|record: Record| record.key).collect()
    }
}

const CORRUPT: &str = "state.db.corrupt-20261130T005320Z";

#[test]
fn what_was_written_is_found_by_whoever_opens_it_next() {
    let place = Place::new();
    place.opened().remember("a");
    let mut again = place.opened();
    assert!(again.set_aside.is_none());
    assert_eq!(again.keys(), ["a"]);
}

/// A power cut keeps the bytes that were on the disk: those of the file and of its log.
#[test]
fn what_was_written_is_in_the_files_before_the_store_is_closed() {
    let (place, other) = (Place::new(), Place::new());
    let mut store = place.opened();
    for n in 0..50 {
        store.remember(&format!("{n:02}"));
        for part in ["state.db", "state.db-wal"] {
            fs::copy(place.home.path().join(part), other.home.path().join(part)).unwrap();
        }
        let mut found = other.opened();
        assert!(found.set_aside.is_none());
        assert_eq!(found.keys().len(), n + 1);
        drop(found);
        fs::remove_file(other.path()).unwrap();
    }
}

#[test]
fn the_store_is_its_owners_alone() {
    let place = Place::used();
    fs::set_permissions(place.path(), Permissions::from_mode(0o644)).unwrap();
    let mut open = place.opened();
    open.remember("b");
    make(&with_suffix(&place.path(), ".new")).unwrap();
    for (name, _) in place.files() {
        let mode = fs::metadata(place.home.path().join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn an_empty_file_is_put_aside() {
    let why = Place::used().breaks(CORRUPT, |path| fs::write(path, "").unwrap());
    assert_eq!(why, "it is empty, or another program's");
}

#[test]
fn half_a_file_is_put_aside() {
    Place::used().breaks(CORRUPT, |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    });
}

#[test]
fn something_else_is_put_aside() {
    let why = Place::used().breaks(CORRUPT, |path| fs::write(path, "{\"accounts\": [").unwrap());
    assert_eq!(why, "file is not a database");
}

#[test]
fn a_damaged_page_is_found_and_the_file_put_aside() {
    Place::used().breaks(CORRUPT, |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[4096..8192].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(path, bytes).unwrap();
    });
}

#[test]
fn another_programs_database_is_put_aside() {
    let why = Place::used().breaks(CORRUPT, |path| {
        fs::remove_file(path).unwrap();
        let other = Connection::open(path).unwrap();
        other.execute_batch("PRAGMA application_id = 7; CREATE TABLE songs (name TEXT)").unwrap();
    });
    assert_eq!(why, "it is another program's database");
}

#[test]
fn a_newer_programs_store_is_kept_for_it() {
    let why = Place::used().breaks("state.db.newer-99-20261130T005320Z", |path| {
        Connection::open(path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    });
    assert_eq!(why, "a newer duduclaw made it (version 99); this one cannot read it");
}

/// To a new database they would be its own.
#[test]
fn a_log_goes_with_its_database_and_alone_is_put_aside() {
    let place = Place::new();
    let mut store = place.opened();
    store.remember("a");
    let log = fs::read(place.home.path().join("state.db-wal")).unwrap();
    drop(store);
    place.breaks(CORRUPT, |path| {
        fs::write(path, "no database").unwrap();
        fs::write(with_suffix(path, "-wal"), &log).unwrap();
    });
    place.breaks(&format!("{CORRUPT}-2"), |path| {
        fs::remove_file(path).unwrap();
        fs::write(with_suffix(path, "-wal"), &log).unwrap();
    });
}

#[test]
fn two_that_break_in_one_second_are_both_kept() {
    let place = Place::used();
    place.breaks(CORRUPT, |path| fs::write(path, "one").unwrap());
    place.breaks(&format!("{CORRUPT}-2"), |path| fs::write(path, "two").unwrap());
    place.breaks(&format!("{CORRUPT}-3"), |path| fs::write(path, "three").unwrap());
}

#[test]
fn a_folder_in_its_place_is_put_aside() {
    let place = Place::used();
    fs::remove_file(place.path()).unwrap();
    fs::create_dir(place.path()).unwrap();
    let aside = place.opened().set_aside.expect("it is put aside");
    assert!(fs::metadata(aside.kept_at).unwrap().is_dir());
}

/// A kill in the middle of the first start.
#[test]
fn a_making_that_was_interrupted_is_in_nobodys_way() {
    let place = Place::new();
    for left in [&b""[..], b"half a data"] {
        fs::write(with_suffix(&place.path(), ".new"), left).unwrap();
        let mut opened = place.opened();
        assert!(opened.set_aside.is_none());
        opened.remember("a");
        drop(opened);
        assert!(!exists(&with_suffix(&place.path(), ".new")));
        fs::remove_file(place.path()).unwrap();
    }
}

/// No permission, a disk that is not there: whatever the reason, nothing is moved, and it is opened when it can be.
#[test]
fn what_cannot_be_reached_is_not_put_aside_and_opened_when_it_can_be() {
    let place = Place::used();
    let kept = place.files();
    let away = place.home.path().with_extension("away");
    fs::rename(place.home.path(), &away).unwrap();
    fs::write(place.home.path(), "in the way").unwrap();
    let error = (place.open)().err().expect("it cannot be reached").to_string();
    assert!(error.starts_with("the store cannot be reached: ") && error.contains("state.db"), "{error}");
    fs::remove_file(place.home.path()).unwrap();
    fs::rename(&away, place.home.path()).unwrap();
    assert_eq!(place.files(), kept);
    assert_eq!(place.opened().keys(), ["a"]);
}

/// A file that is damaged while it is used is known by the first statement that meets the damage.
#[test]
fn damage_that_is_met_later_puts_the_file_aside_at_the_next_opening() {
    let place = Place::used();
    let mut store = place.opened();
    let large = |n: u32| Write { table: Table::Facts, key: n.to_string(), value: Some((1, vec![0; 100_000])) };
    store.store.write(&Batch { records: (0..60).map(large).collect(), ..Batch::default() }).unwrap();
    for part in ["", "-wal"] {
        let path = with_suffix(&place.path(), part);
        let mut bytes = fs::read(&path).unwrap();
        bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0x5a);
        fs::write(&path, bytes).unwrap();
    }
    let damaged = place.files();
    assert!(store.store.load(Table::Facts).is_err());
    drop(store);
    let aside = place.opened().set_aside.expect("it is put aside");
    assert_eq!(aside.why, "database disk image is malformed");
    assert_eq!(place.files().get(CORRUPT), damaged.get("state.db"));
}

fn owner(place: &Place) -> StoreFile {
    StoreFile::at(place.path(), Arc::new(ManualClock::at(Timestamp::at_millis(NOW))))
}

#[test]
fn a_second_daemon_waits_for_the_store_a_moment_and_then_says_who_has_it() {
    let place = Place::used();
    let second = owner(&place).opener();
    let held = place.opened();
    let began = std::thread::scope(|scope| {
        let waits = scope.spawn(|| second().map(|mut opened| opened.keys()));
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
        waits.join().unwrap()
    });
    assert_eq!(began.unwrap(), ["a"], "it was handed over in time");
    let held = place.opened();
    let why = second().err().expect("it waits once only").to_string();
    assert!(why.ends_with("another process has it and does not hand it over"), "{why}");
    drop(held);
    assert_eq!(second().unwrap().keys(), ["a"]);
}

#[test]
fn whoever_shares_the_store_leaves_it_to_others_and_remembers_for_this_run() {
    let place = Place::used();
    let daemon = place.opened();
    let (shared, handover) = owner(&place).shared_opener();
    let mut of_this_run = shared().unwrap();
    assert!(!handover.is_ahead());
    assert_eq!(of_this_run.keys(), [""; 0]);
    of_this_run.remember("b");
    drop(daemon);
    assert_eq!(shared().unwrap().keys(), ["b"], "not one after the other");
    assert_eq!(place.opened().keys(), ["a"]);
}

#[test]
fn whoever_shares_the_store_has_it_until_it_is_handed_over() {
    let place = Place::used();
    let (shared, handover) = owner(&place).shared_opener();
    let mut store = shared().unwrap();
    assert_eq!(store.keys(), ["a"]);
    store.remember("b");
    handover.begin();
    drop(store);
    assert_eq!(place.opened().keys(), ["a", "b"]);
    assert_eq!(shared().unwrap().keys(), [""; 0]);
}
