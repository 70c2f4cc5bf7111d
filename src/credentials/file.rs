//! Credential files as bytes: read with a stamp that tells whether they changed, replaced in one step.
//!
//! Never here: what the bytes mean.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::error::SourceError;

/// What tells one state of a file from the next without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// The present stamp of the file a path leads to; `None` if it leads to none that can be looked at.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|meta| Self::of(&meta))
    }
}

/// A file larger than this is no credential file.
const LARGEST: u64 = 1024 * 1024;

/// Opens a file to be read. Anything else that a path may lead to is an error: a pipe would be waited for without end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let at_once = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(at_once).open(path)?;
    let kind = file.metadata()?.file_type();
    // Reading a folder fails by itself, in the system's own words.
    let may_be_read = kind.is_file() || kind.is_dir();
    if may_be_read { Ok(file) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")) }
}

/// Reads a whole file, with the stamp of exactly what was read.
pub(crate) fn read(path: &Path) -> Result<(Zeroizing<Vec<u8>>, FileStamp), SourceError> {
    let failed = |error| SourceError::from_io(path, error);
    let file = open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(meta.len().min(LARGEST)).unwrap_or(0)));
    file.take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
    Ok((bytes, FileStamp::of(&meta)))
}

/// What a file holds, as JSON; `path` is for the error.
pub(crate) fn json(path: &Path, bytes: &[u8]) -> Result<serde_json::Value, SourceError> {
    serde_json::from_slice(bytes).map_err(|error| SourceError::Syntax {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
    })
}

/// Replaces a file's content in one step: a new file beside it, on disk before it takes the name, readable by its
/// owner alone. A symlink stays one; what it leads to is replaced. Nothing is lost when any step fails.
///
/// The new file's name is fixed, so that a crash leaves at most one behind, which the next write clears away.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<FileStamp> {
    let target = fs::canonicalize(path)?;
    let beside = draft_name(&target)?;
    clear(&beside)?;
    let written = write_draft(&beside, &target, bytes).and_then(|()| fs::rename(&beside, &target));
    if let Err(error) = written {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    sync_directory(&target)?;
    fs::metadata(&target).map(|meta| FileStamp::of(&meta))
}

/// Writes a file that may not be there yet: as [`replace`], or the same way anew, readable by its owner alone. A link
/// that leads nowhere stays as it is, and is an error.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> io::Result<FileStamp> {
    match fs::symlink_metadata(path) {
        Ok(_) => return replace(path, bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let beside = draft_name(path)?;
    clear(&beside)?;
    if let Err(error) = draft(&beside, bytes, |_| Ok(())).and_then(|()| fs::rename(&beside, path)) {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    sync_directory(path)?;
    fs::metadata(path).map(|meta| FileStamp::of(&meta))
}

/// Makes a folder that its owner alone may look into, and those above it.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn draft_name(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(target.with_file_name(format!(".{}.duduclaw-new", name.to_string_lossy())))
}

fn clear(draft: &Path) -> io::Result<()> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn write_draft(beside: &Path, target: &Path, bytes: &[u8]) -> io::Result<()> {
    draft(beside, bytes, |file| keep_owner(file, target))
}

fn draft(beside: &Path, bytes: &[u8], prepare: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    prepare(&file)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A daemon that runs as root must not take a user's file away from its owner.
fn keep_owner(file: &File, target: &Path) -> io::Result<()> {
    let (new, old) = (file.metadata()?, fs::metadata(target)?);
    if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))
}

/// Makes the new name last. A file system that cannot sync a directory has nothing more to offer.
pub(crate) fn sync_directory(target: &Path) -> io::Result<()> {
    let Some(directory) = target.parent() else { return Ok(()) };
    match File::open(directory)?.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder for the test")
    }

    /// C112: saving through a symlink keeps the link and replaces what it leads to.
    /// Whoever opened a pipe would wait for somebody to write into it.
    #[test]
    fn what_is_no_file_is_an_error_at_once() {
        let dir = folder();
        let pipe = dir.path().join("pipe.json");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("there is such a program");
        assert!(made.success());
        let (tell, told) = std::sync::mpsc::channel();
        let paths = [pipe, dir.path().to_owned()];
        std::thread::spawn(move || paths.iter().try_for_each(|path| tell.send(read(path).is_err())));
        for _ in 0..2 {
            assert_eq!(told.recv_timeout(std::time::Duration::from_secs(10)), Ok(true), "it is not waited for");
        }
    }

    #[test]
    fn a_symlink_stays_a_symlink() {
        let dir = folder();
        let (real, link) = (dir.path().join("real.json"), dir.path().join("link.json"));
        fs::write(&real, "old").expect("written");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        replace(&link, b"new").expect("replaced");
        assert!(fs::symlink_metadata(&link).expect("still there").is_symlink());
        assert_eq!(fs::read(&real).expect("readable"), b"new");
    }

    /// C112: a link that leads nowhere is an error, and stays as it is.
    #[test]
    fn a_dangling_symlink_is_an_error_and_untouched() {
        let dir = folder();
        let link = dir.path().join("link.json");
        std::os::unix::fs::symlink(dir.path().join("gone.json"), &link).expect("linked");
        assert_eq!(replace(&link, b"new").expect_err("leads nowhere").kind(), io::ErrorKind::NotFound);
        assert!(fs::symlink_metadata(&link).expect("still there").is_symlink());
    }

    #[test]
    fn a_replaced_file_is_its_owners_alone_and_leaves_no_draft() {
        let dir = folder();
        let path = dir.path().join("a.json");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("opened up");
        fs::write(dir.path().join(".a.json.duduclaw-new"), "left by a crash").expect("written");
        let stamp = replace(&path, b"new").expect("replaced");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
        assert_eq!(Some(stamp), FileStamp::at(&path));
    }

    #[test]
    fn a_write_that_fails_loses_nothing() {
        let dir = folder();
        let path = dir.path().join("a.json");
        fs::write(&path, "old").expect("written");
        fs::create_dir(dir.path().join(".a.json.duduclaw-new")).expect("in the way");
        replace(&path, b"new").expect_err("the way is blocked");
        assert_eq!(fs::read(&path).expect("there"), b"old");
    }

    /// C111: a reader never sees half a file, however often it is written.
    #[test]
    fn a_reader_never_sees_a_torn_file() {
        let dir = folder();
        let path = dir.path().join("a.json");
        fs::write(&path, "a".repeat(9000)).expect("written");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for letter in ["b", "c"].iter().cycle().take(200) {
                    replace(&path, letter.repeat(9000).as_bytes()).expect("replaced");
                }
            });
            while !writer.is_finished() {
                let (bytes, _) = read(&path).expect("always there");
                assert!(bytes.len() == 9000 && bytes.iter().all(|b| *b == bytes[0]), "torn");
            }
        });
    }
}
