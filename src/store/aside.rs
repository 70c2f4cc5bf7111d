//! Putting aside a database that cannot be used: renamed as it is, with the files that belong to it, under a name that
//! nothing has. Nothing is ever deleted or written over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::DateTime;
use duduclaw_actors::clock::Wall;

/// What SQLite keeps beside a database: changes that are not in the file yet.
const PARTS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// The same path with more at its end.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether parts of a database lie there without it: to a new one they would be its own.
pub(super) fn is_strewn(path: &Path) -> bool {
    !exists(path) && PARTS.iter().any(|part| exists(&with_suffix(path, part)))
}

/// Puts the database at `path` aside, and says where it lies. `what` is wrong with it: `corrupt`, `newer-7`.
pub(super) fn put_aside(path: &Path, what: &str, now: Wall) -> io::Result<PathBuf> {
    let time = DateTime::from_timestamp_millis(now.0).unwrap_or_default().format("%Y%m%dT%H%M%SZ");
    let aside = free_name(path, &format!(".{what}-{time}"));
    for part in PARTS {
        match fs::rename(with_suffix(path, part), with_suffix(&aside, part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    sync_folder(path)?;
    Ok(aside)
}

/// Files that were put aside because they could not be used.
#[must_use]
pub fn aside(path: &Path) -> Vec<PathBuf> {
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

fn free_name(path: &Path, suffix: &str) -> PathBuf {
    let taken = |name: &Path| PARTS.iter().any(|part| exists(&with_suffix(name, part)));
    let names = (1_u32..).map(|nth| match nth {
        1 => with_suffix(path, suffix),
        more => with_suffix(path, &format!("{suffix}-{more}")),
    });
    names.into_iter().find(|name| !taken(name)).unwrap_or_else(|| with_suffix(path, suffix))
}

/// Whether anything is there, be it a link that leads nowhere.
pub(super) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// A new name is on the disk.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
}
