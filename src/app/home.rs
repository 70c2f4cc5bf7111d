//! The home directory: who owns it, what stands in it.
//!
//! `daemon.lock` is held by the one daemon, `daemon.json` says where it listens, `admin-token` is the key to its control
//! API, `control.sock` the way to it that asks for no key, `state.db` what the fleet remembers. All of it is the user's
//! alone.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::gateway::listener::Address;

/// How often the lock is tried again before somebody has it for good, and how long after each try.
const LOCK_TRIES: u32 = 5;
const LOCK_REST: Duration = Duration::from_millis(20);

/// The home directory.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

/// The lock of the home's one daemon; free again when dropped or when the process dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    record: PathBuf,
}

/// Where the daemon is to be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    /// Its process.
    pub pid: u32,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// Where it takes commands.
    #[serde(default)]
    pub control: Vec<String>,
}

/// Why the home cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Another daemon has it.
    #[error("another duduclaw runs with the home {}; stop it, or give --home for a second one", .0.display())]
    Locked(PathBuf),
    /// A file or folder in it cannot be read or made.
    #[error("{} cannot be used; check its owner and permissions", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The key to the control API is empty.
    #[error("{} is empty; remove it, and the next start makes a new one", .0.display())]
    EmptyToken(PathBuf),
    /// There is no randomness to make that key of.
    #[error("no key to the control API can be made: this machine gives no random numbers")]
    NoChance(#[source] getrandom::Error),
}

impl Home {
    /// The home at this path; made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(path: &Path) -> Result<Self, HomeError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|source| HomeError::Unusable { path: path.to_owned(), source })?;
        Ok(Self(path.to_owned()))
    }

    /// Takes the home for this process.
    ///
    /// # Errors
    /// When another daemon has it.
    pub fn lock(&self) -> Result<Lock, HomeError> {
        let path = self.lock_path();
        let unusable = |source| HomeError::Unusable { path: path.clone(), source };
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(unusable)?;
        match patiently(|| file.try_lock()) {
            Ok(()) => Ok(Lock { _file: file, record: self.record() }),
            Err(TryLockError::WouldBlock) => Err(HomeError::Locked(self.0.clone())),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// The home at this path, whether or not it is there; for those who only look.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where the home's daemon listens, if one runs. A record that a killed one left behind tells nothing: somebody else
    /// may listen there by now.
    #[must_use]
    pub fn daemon(&self) -> Option<DaemonRecord> {
        let record = serde_json::from_slice(&fs::read(self.record()).ok()?).ok()?;
        self.is_taken().then_some(record)
    }

    /// Whether a daemon has the home, be it one that is only starting.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let lock = File::open(self.lock_path());
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The key to the control API, made at the first start.
    ///
    /// # Errors
    /// When it can be neither read nor made.
    pub fn admin_token(&self) -> Result<SecretString, HomeError> {
        let path = self.token_path();
        let unusable = |source| HomeError::Unusable { path: path.clone(), source };
        let token = new_token().map_err(HomeError::NoChance)?;
        let made = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
        match made {
            Ok(mut file) => {
                file.write_all(token.expose_secret().as_bytes()).map_err(unusable)?;
                file.sync_all().map_err(unusable)?;
                Ok(token)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.read_token(),
            Err(error) => Err(unusable(error)),
        }
    }

    /// The key to the control API, if there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_token(&self) -> Result<SecretString, HomeError> {
        let path = self.token_path();
        let unusable = |source| HomeError::Unusable { path: path.clone(), source };
        let mut text = String::new();
        let mut file = File::open(&path).map_err(unusable)?;
        file.read_to_string(&mut text).map_err(unusable)?;
        if file.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
            tracing::warn!(path = %path.display(), "others may read the key to the control API; chmod 600 it");
        }
        match text.trim() {
            "" => Err(HomeError::EmptyToken(path)),
            token => Ok(SecretString::from(token)),
        }
    }

    /// Where the store's file is.
    #[must_use]
    pub fn store_path(&self) -> PathBuf {
        self.0.join("state.db")
    }

    /// Where the daemon takes commands from this machine without a key.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    fn lock_path(&self) -> PathBuf {
        self.0.join("daemon.lock")
    }

    fn token_path(&self) -> PathBuf {
        self.0.join("admin-token")
    }

    fn record(&self) -> PathBuf {
        self.0.join("daemon.json")
    }
}

/// Who only looks whether a daemon runs holds the lock for an instant, and must not keep one from starting.
fn patiently(take: impl Fn() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    for _ in 0..LOCK_TRIES {
        match take() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_REST),
            other => return other,
        }
    }
    take()
}

impl Lock {
    /// Writes down where the daemon listens. Only a convenience: without it the configuration says where to look.
    pub fn announce(&self, addresses: &[Address], control: &[Address]) {
        let texts = |addresses: &[Address]| addresses.iter().map(ToString::to_string).collect();
        let record = DaemonRecord { pid: std::process::id(), addresses: texts(addresses), control: texts(control) };
        let written =
            serde_json::to_vec(&record).map_err(io::Error::from).and_then(|json| fs::write(&self.record, json));
        if let Err(error) = written {
            tracing::warn!(%error, path = %self.record.display(), "it cannot be written down where the daemon listens");
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.record);
    }
}

/// From the machine's own source of randomness: a key must not be guessable.
fn new_token() -> Result<SecretString, getrandom::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(SecretString::from(format!("dda_{hex}")))
}
