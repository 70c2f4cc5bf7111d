//! Looking at the store's file without using it: its size, whether it is sound, and what was put aside.
//!
//! Nothing is changed, not even what a killed daemon left to be tidied up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::aside::{exists, with_suffix};
use super::sqlite::{Flaw, Writing, examine};

/// Whether a daemon uses the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// One does.
    Yes,
    /// None does.
    No,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The size of the file and its log, in bytes.
    pub bytes: u64,
    /// What is wrong with it, if anything is.
    pub flaw: Option<String>,
}

/// Looks at the file; `None` if there is none.
///
/// # Errors
/// When it cannot be looked at.
pub fn look(path: &Path, in_use: InUse) -> io::Result<Option<Seen>> {
    let log = with_suffix(path, "-wal");
    let size = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?.len(),
    };
    let left = fs::metadata(&log).map_or(0, |meta| meta.len());
    // A killed daemon leaves changes that are not in the file yet: they are read where they lie.
    let writing = if in_use == InUse::No && left == 0 { Writing::Nobody } else { Writing::Somebody };
    let flaw = match examine(path, writing) {
        Ok(()) => None,
        Err(Flaw::Damaged(why)) => Some(why),
        Err(Flaw::Newer(version)) => Some(format!("a newer duduclaw made it (version {version})")),
        Err(Flaw::Unreachable(error)) => return Err(io::Error::other(error)),
    };
    Ok(Some(Seen { bytes: size + left, flaw }))
}

/// Files that were put aside because they could not be used.
#[must_use]
pub fn put_aside(path: &Path) -> Vec<PathBuf> {
    let Some((folder, name)) = path.parent().zip(path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let is_aside = |file: &str| {
        let rest = file.strip_prefix(name).unwrap_or_default();
        (rest.starts_with(".corrupt-") || rest.starts_with(".newer-"))
            && !file.ends_with("-wal")
            && !file.ends_with("-shm")
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(is_aside))
        .collect();
    found.sort();
    found.retain(|path| exists(path));
    found
}
