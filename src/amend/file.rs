//! The configuration file, replaced in one step.
//!
//! Writers take turns by a lock on the file itself. A writer that waited finds another file under the name and begins
//! anew with it, so that it never works on what is gone. Editors know nothing of the lock: right before the exchange
//! the file must still be what was read. A symlink stays one; what it leads to is replaced, with its mode and owner.
//!
//! Never here: what stands in it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;

use super::{AmendError, Amended};

/// How long another writer is waited for.
const LOCK_TRIES: u32 = 500;
const LOCK_REST: Duration = Duration::from_millis(20);
/// How often an editor may be quicker.
const TRIES: u32 = 10;

/// Why the file was not replaced; it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is a link that leads nowhere.
    #[error("{} is a link to {}, which is not there; nothing was written", link.display(), target.display())]
    Dangling {
        /// The link.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// It may not be written.
    #[error("{} cannot be written ({why}); nothing was changed", target.display())]
    ReadOnly {
        /// The file.
        target: PathBuf,
        /// Why.
        why: String,
    },
    /// It cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others write it all the time.
    #[error("{} is being changed by another program; try again", .0.display())]
    Busy(PathBuf),
}

/// Replaces the file's text by what `change` makes of it.
pub(super) fn replace(path: &Path, change: impl Fn(&str) -> Result<String, AmendError>) -> Result<Amended, AmendError> {
    let target = followed(path)?;
    for _ in 0..TRIES {
        let locked = lock(&target)?;
        let before = read(&target, &locked)?;
        let after = change(&before)?;
        if after == before {
            return Ok(Amended::AsItWas);
        }
        if exchange(&target, &before, &after)? == Exchanged::Yes {
            return Ok(Amended::Written);
        }
    }
    Err(FileError::Busy(target).into())
}

/// The file that a path leads to.
fn followed(path: &Path) -> Result<PathBuf, FileError> {
    fs::canonicalize(path).map_err(|source| match fs::read_link(path) {
        Ok(target) if source.kind() == io::ErrorKind::NotFound => {
            let target = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
            FileError::Dangling { link: path.to_owned(), target }
        }
        Ok(_) | Err(_) => FileError::Unreadable { path: path.to_owned(), source },
    })
}

/// Takes the lock on the file that has this name now.
fn lock(target: &Path) -> Result<File, FileError> {
    let unreadable = |source| FileError::Unreadable { path: target.to_owned(), source };
    for _ in 0..LOCK_TRIES {
        let file = File::open(target).map_err(unreadable)?;
        match file.try_lock() {
            Ok(()) if is_current(&file, target) => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_REST),
            Err(TryLockError::Error(error)) => return Err(unreadable(error)),
        }
    }
    Err(FileError::Busy(target.to_owned()))
}

/// Whether the name still leads to this file.
fn is_current(file: &File, target: &Path) -> bool {
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    file.metadata().and_then(|ours| fs::metadata(target).map(|there| same(ours, there))).unwrap_or(false)
}

fn read(target: &Path, mut file: &File) -> Result<String, FileError> {
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    read.map_err(|source| FileError::Unreadable { path: target.to_owned(), source })?;
    Ok(text)
}

#[derive(PartialEq, Eq)]
enum Exchanged {
    Yes,
    /// Somebody else was quicker.
    No,
}

fn exchange(target: &Path, before: &str, after: &str) -> Result<Exchanged, FileError> {
    let read_only = |error: &io::Error| FileError::ReadOnly { target: target.to_owned(), why: reason(error) };
    may_write(target)?;
    let draft = draft(target, after).map_err(|error| read_only(&error))?;
    if fs::read(target).ok().as_deref() != Some(before.as_bytes()) {
        return Ok(Exchanged::No);
    }
    draft.persist(target).map_err(|error| read_only(&error.error))?;
    // A file system that cannot sync a folder has nothing more to offer.
    let _ = target.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
    Ok(Exchanged::Yes)
}

/// Whoever took all right to write from the file means it, whatever the folder or root could do.
fn may_write(target: &Path) -> Result<(), FileError> {
    let read_only = |why: &str| FileError::ReadOnly { target: target.to_owned(), why: why.to_owned() };
    let mode = fs::metadata(target).map(|meta| meta.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o222 == 0) {
        return Err(read_only("nobody may write it; chmod u+w it"));
    }
    rustix::fs::access(target, Access::WRITE_OK).map_err(|error| read_only(&reason(&error.into())))
}

fn draft(target: &Path, text: &str) -> io::Result<tempfile::NamedTempFile> {
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(".duduclaw-").suffix(".toml").tempfile_in(folder)?;
    let (old, new) = (fs::metadata(target)?, draft.as_file().metadata()?);
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        std::os::unix::fs::fchown(draft.as_file(), Some(old.uid()), Some(old.gid()))?;
    }
    draft.as_file().set_permissions(old.permissions())?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

fn reason(error: &io::Error) -> String {
    let known = [
        (io::ErrorKind::ReadOnlyFilesystem, "its file system is read-only"),
        (io::ErrorKind::PermissionDenied, "permission denied"),
        (io::ErrorKind::StorageFull, "the disk is full"),
    ];
    let found = known.into_iter().find(|(kind, _)| *kind == error.kind());
    found.map_or_else(|| error.to_string(), |(_, words)| words.to_owned())
}

#[cfg(test)]
mod tests;
