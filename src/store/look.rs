//! Looking into a store's file without using it: no lock, no migration, no byte of it changed, nothing made beside it.
//!
//! For commands where no daemon runs. A gateway for one run may be writing meanwhile; what it has committed is seen.

use std::io;
use std::path::{Path, PathBuf};

use duduclaw_actors::ports::Store;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rusqlite::{Connection, OpenFlags};

use super::aside::{exists, with_suffix};
use super::sqlite::{Damage, Flaw, SqliteStore, is_whole, look_at};

/// What has a meaning of its own in a database's address.
const SPECIAL: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#').add(b' ');

/// Why a store cannot be looked into.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is none.
    #[error("nothing is remembered yet: there is no {}; it is made at the first start of `duduclaw serve`", .0.display())]
    Nothing(PathBuf),
    /// It is no store of ours, or damaged.
    #[error("{} cannot be read ({why}); the next start of `duduclaw serve` puts it aside", path.display())]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Another version of the program made it.
    #[error("{} is of version {version}, which this duduclaw cannot read; use the duduclaw that made it", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// It cannot be reached.
    #[error("{} cannot be read: {why}; check its owner and permissions", path.display())]
    Unreachable {
        /// Where.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// Opens the store at this path to be read. What would change it fails.
///
/// # Errors
/// When there is nothing to be read.
pub fn look(path: &Path) -> Result<Box<dyn Store>, LookError> {
    is_there(path)?;
    let opened = open(path).map(|connection| SqliteStore::new(connection, Damage::default()));
    opened.map(|store| Box::new(store) as _).map_err(|flaw| LookError::of(path, flaw))
}

/// Looks whether the store at this path is whole, and says how large it is with its log, in bytes.
///
/// # Errors
/// When it is not, or cannot be looked at.
pub fn examine(path: &Path) -> Result<u64, LookError> {
    let size = is_there(path)?;
    let whole = open(path).and_then(|connection| is_whole(&connection, path));
    whole.map_err(|flaw| LookError::of(path, flaw))?;
    Ok(size + std::fs::metadata(with_suffix(path, "-wal")).map_or(0, |log| log.len()))
}

/// The size of the file.
fn is_there(path: &Path) -> Result<u64, LookError> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(LookError::Nothing(path.to_owned())),
        Err(error) => Err(LookError::Unreachable { path: path.to_owned(), why: error.to_string() }),
        Ok(meta) if meta.is_file() => Ok(meta.len()),
        Ok(_) => Err(LookError::of(path, Flaw::Damaged("it is no file".to_owned()))),
    }
}

/// How a database is opened so that nothing comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// It has no log: the file is all there is.
    FileAlone,
    /// It has a log, whose index is read as it stands, or made anew in memory.
    WithLog,
}

impl Access {
    fn of(path: &Path) -> Self {
        // While somebody has it open its log is there, be it empty.
        if exists(&with_suffix(path, "-wal")) { Self::WithLog } else { Self::FileAlone }
    }

    fn parameter(self) -> &'static str {
        match self {
            Self::FileAlone => "immutable=1",
            Self::WithLog => "readonly_shm=1",
        }
    }
}

fn open(path: &Path) -> Result<Connection, Flaw> {
    let access = Access::of(path);
    let name = path.to_string_lossy();
    let address = format!("file:{}?mode=ro&{}", utf8_percent_encode(&name, SPECIAL), access.parameter());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(address, flags)?;
    look_at(&connection)?;
    Ok(connection)
}

impl LookError {
    fn of(path: &Path, flaw: Flaw) -> Self {
        let path = path.to_owned();
        match flaw {
            Flaw::Damaged(why) => Self::Damaged { path, why },
            Flaw::Newer(version) => Self::Foreign { path, version },
            Flaw::Unreachable(error) => Self::Unreachable { path, why: error.to_string() },
        }
    }
}

#[cfg(test)]
mod tests;
