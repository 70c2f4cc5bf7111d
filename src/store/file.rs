//! The store's file in the home directory: made at the first start, opened at every other, and put aside when it cannot
//! be used.
//!
//! A new file gets its name when it is whole, so that whatever bears the name and is not whole was damaged. What cannot
//! be reached (permissions, a full or broken disk) is no damage: it is told, and tried again.
//!
//! One process at a time uses it, by a lock beside it. The daemon has the first claim: a gateway for one run uses the
//! store while nobody else does, and hands it over when a daemon comes.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use duduclaw_actors::clock::SharedClock;
use duduclaw_actors::journal::OpenStore;
use duduclaw_actors::ports::{Opened, SetAside, StoreError};
use rusqlite::Connection;

use super::aside::{exists, is_strewn, put_aside, sync_folder, with_suffix};
use super::memory::in_memory;
use super::sqlite::{Damage, Flaw, SqliteStore, open, prepare};

/// For its owner alone: it names accounts and clients.
const MODE: u32 = 0o600;

/// How long the first opening waits for whoever is to hand the store over.
const HANDOVER: Duration = Duration::from_secs(3);
const NAP: Duration = Duration::from_millis(20);

/// The store's file.
#[derive(Clone, Debug)]
pub struct StoreFile {
    path: PathBuf,
    clock: SharedClock,
    /// What was found wrong with the file while it was used.
    damage: Damage,
}

/// Whose the store is.
enum Holder {
    /// Ours, as long as this lock is kept.
    Us(File),
    /// Somebody else's.
    Them,
}

/// The way to hand the store over.
#[derive(Clone, Debug)]
pub struct Handover(Arc<AtomicBool>);

impl StoreFile {
    /// The file at this path.
    #[must_use]
    pub fn at(path: PathBuf, clock: SharedClock) -> Self {
        Self { path, clock, damage: Damage::default() }
    }

    /// How the daemon's journal opens it.
    #[must_use]
    pub fn opener(self) -> OpenStore {
        let waited = AtomicBool::new(false);
        Arc::new(move || {
            let patience = if waited.swap(true, Ordering::SeqCst) { Duration::ZERO } else { HANDOVER };
            match self.hold_within(patience)? {
                Holder::Us(lock) => self.open(lock),
                Holder::Them => Err(self.unreachable("another process has it and does not hand it over")),
            }
        })
    }

    /// How the journal of a gateway for one run opens it: whatever somebody else uses is left to him, and what happens
    /// is remembered for this run alone.
    #[must_use]
    pub fn shared_opener(self) -> (OpenStore, Handover) {
        let over = Arc::new(AtomicBool::new(false));
        let handover = Handover(Arc::clone(&over));
        let of_this_run = in_memory();
        let open = move || {
            if !over.load(Ordering::SeqCst)
                && let Holder::Us(lock) = self.hold()?
            {
                return self.open(lock);
            }
            over.store(true, Ordering::SeqCst);
            of_this_run()
        };
        (Arc::new(open), handover)
    }

    fn hold_within(&self, patience: Duration) -> Result<Holder, StoreError> {
        let mut left = patience;
        loop {
            let holder = self.hold()?;
            if matches!(holder, Holder::Us(_)) || left.is_zero() {
                return Ok(holder);
            }
            std::thread::sleep(NAP);
            left = left.saturating_sub(NAP);
        }
    }

    /// Takes the lock.
    fn hold(&self) -> Result<Holder, StoreError> {
        let path = with_suffix(&self.path, ".lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(MODE).open(path);
        let file = file.map_err(|error| self.unreachable(error))?;
        match file.try_lock() {
            Ok(()) => Ok(Holder::Us(file)),
            Err(TryLockError::WouldBlock) => Ok(Holder::Them),
            Err(TryLockError::Error(error)) => Err(self.unreachable(error)),
        }
    }

    fn open(&self, lock: File) -> Result<Opened, StoreError> {
        let (store, set_aside) = self.open_or_begin()?;
        let opened = Opened::from(store.with_lock(lock));
        Ok(Opened { set_aside, ..opened })
    }

    fn open_or_begin(&self) -> Result<(SqliteStore, Option<SetAside>), StoreError> {
        let damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(why) = damage {
            return self.begin_anew("corrupt", why);
        }
        if is_strewn(&self.path) {
            return self.begin_anew("corrupt", "the database is gone, and only its log is there".to_owned());
        }
        if !exists(&self.path) {
            return self.begin().map(|store| (store, None));
        }
        match self.open_present() {
            Ok(store) => Ok((store, None)),
            Err(Flaw::Damaged(why)) => self.begin_anew("corrupt", why),
            Err(Flaw::Newer(version)) => {
                let why = format!("a newer duduclaw made it (version {version}); this one cannot read it");
                self.begin_anew(&format!("newer-{version}"), why)
            }
            Err(Flaw::Unreachable(error)) => Err(self.unreachable(error)),
        }
    }

    fn open_present(&self) -> Result<SqliteStore, Flaw> {
        let meta = fs::metadata(&self.path).ok();
        if meta.as_ref().is_some_and(|meta| !meta.is_file()) {
            return Err(Flaw::Damaged("it is no file".to_owned()));
        }
        if meta.is_some_and(|meta| meta.permissions().mode() & 0o077 != 0) {
            // Others may have read it; from now on they do not. On a file system without owners nothing can be done.
            let _ = fs::set_permissions(&self.path, Permissions::from_mode(MODE));
        }
        open(&self.path).map(|connection| SqliteStore::new(connection, Damage::clone(&self.damage)))
    }

    /// Puts aside what is there, and begins an empty store in its place.
    fn begin_anew(&self, what: &str, why: String) -> Result<(SqliteStore, Option<SetAside>), StoreError> {
        let kept_at = put_aside(&self.path, what, self.clock.now().wall).map_err(|error| self.unreachable(error))?;
        *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let kept_at = kept_at.display().to_string();
        tracing::error!(
            kept_at,
            why,
            "the store {} cannot be used and was put aside, unchanged; holds, pauses, usage, spent budgets and events \
             of before are not known any more",
            self.path.display()
        );
        Ok((self.begin()?, Some(SetAside { kept_at, why })))
    }

    /// Makes the file under another name, and names it when it is whole and on the disk.
    fn begin(&self) -> Result<SqliteStore, StoreError> {
        let unborn = with_suffix(&self.path, ".new");
        make(&unborn).map_err(|flaw| self.flawed(flaw))?;
        let named = fs::rename(&unborn, &self.path).and_then(|()| sync_folder(&self.path));
        named.map_err(|error| self.unreachable(error))?;
        self.open_present().map_err(|flaw| self.flawed(flaw))
    }

    fn flawed(&self, flaw: Flaw) -> StoreError {
        match flaw {
            Flaw::Unreachable(error) => self.unreachable(error),
            Flaw::Damaged(why) => self.unreachable(why),
            Flaw::Newer(version) => self.unreachable(format!("version {version}")),
        }
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> StoreError {
        StoreError::Unavailable(format!("{}: {why}", self.path.display()))
    }
}

impl Handover {
    /// Whether this process uses the store, or would.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        !self.0.load(Ordering::SeqCst)
    }

    /// From now on what is opened is for this run alone. The store is free for others when it is closed.
    pub fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Makes a whole, empty store here. What a making that was interrupted left is of no use to anybody.
fn make(path: &Path) -> Result<(), Flaw> {
    let failed = |error: io::Error| Flaw::Unreachable(rusqlite::Error::ToSqlConversionFailure(Box::new(error)));
    for part in ["", "-journal"] {
        match fs::remove_file(with_suffix(path, part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
    }
    OpenOptions::new().create_new(true).write(true).mode(MODE).open(path).map_err(failed)?;
    let mut connection = Connection::open(path)?;
    prepare(&mut connection)?;
    connection.close().map_err(|(_, error)| Flaw::from(error))
}

#[cfg(test)]
mod tests;
