//! Who may renew a credential: one process at a time.
//!
//! **Our own lock** is a file beside the credential, `<file>.duduclaw.lock`, held by the kernel (`flock`) for the
//! process that has it open. A process that dies, however it dies, frees it at once; a process that is stopped keeps it.
//! That is what a refresh needs. A stopped holder may have spent the single-use refresh token already, with the answer
//! waiting in its socket: whoever took the lock from it would send a spent token, which some providers answer by
//! ending the whole login. So nobody takes this lock from a living process, whatever its age. Nobody is stuck behind
//! it either: the lock is polled and never blocked on, a request with another account goes there, one without waits
//! for as long as it likes, and a pair that the holder did write is adopted without the lock. The lock file is never
//! removed, since a lock on a removed file excludes nobody; it holds the holder's process id, for people. Where no file
//! can be made (a read-only folder) the credential file itself carries the lock.
//!
//! **Claude Code's own locks** come after it, for Claude Code's own file: two folders, made to lock and removed to
//! unlock, `<config dir>/.oauth_refresh.lock` and the older `<config dir>.lock`. Its rule is kept: a holder touches its
//! folder every 5 s, and one untouched for 60 s is abandoned and may be taken. Ages are read off the file system's own
//! clock, by touching our lock file, so that no difference between clocks makes a live lock look abandoned. One who
//! finds its folder taken leaves it alone.
//!
//! Locks only keep programs from spending one token twice. That nothing newer is overwritten is seen to at the write,
//! which happens only while the file still holds the token that was spent.
//!
//! Never here: tokens.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::identity::claude_config_dir;

/// A lock folder untouched for longer is abandoned.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// How often the locks are tried for by one who waits, and how long after each try.
const TRIES: u32 = 400;
const REST: Duration = Duration::from_millis(25);

/// What the name of a lock ends with.
const ENDING: &str = ".duduclaw.lock";

/// How often a holder touches its lock folders.
pub(crate) const TOUCH_EVERY: Duration = Duration::from_secs(5);

/// All locks on one credential, held until dropped.
#[derive(Debug)]
pub(crate) struct RefreshLock {
    folders: Vec<FolderLock>,
    // Last, so that they are released last.
    _files: Vec<LockFile>,
}

/// The way to a [`RefreshLock`]: each step takes what is free and says what it still waits for.
#[derive(Debug)]
pub(crate) struct LockAttempt {
    credentials: Vec<PathBuf>,
    files: Vec<LockFile>,
    folders: Vec<FolderLock>,
}

/// What a step came to.
#[derive(Debug)]
pub(crate) enum Step {
    /// All locks are ours.
    Locked(RefreshLock),
    /// Another holds one of them; who, in words.
    Blocked(LockAttempt, String),
}

impl LockAttempt {
    /// Sets out for the locks of a credential file.
    pub(crate) fn on(credential: &Path) -> Self {
        Self::on_all(vec![credential.to_owned()])
    }

    /// Sets out for the locks of several credential files, in this order; at least one.
    pub(crate) fn on_all(credentials: Vec<PathBuf>) -> Self {
        Self { credentials, files: Vec::new(), folders: Vec::new() }
    }

    /// Takes what is free. Never waits.
    pub(crate) fn step(mut self) -> io::Result<Step> {
        self.folders.iter().for_each(FolderLock::touch);
        for credential in &self.credentials[self.files.len()..] {
            match LockFile::take(credential)? {
                Ok(file) => self.files.push(file),
                Err(holder) => return Ok(Step::Blocked(self, holder)),
            }
        }
        let mut wanted = Vec::new();
        for (credential, file) in self.credentials.iter().zip(&self.files) {
            wanted.extend(folders_of(credential)?.into_iter().map(|folder| (folder, file)));
        }
        for (folder, file) in wanted.into_iter().skip(self.folders.len()) {
            match FolderLock::take(&folder, file)? {
                Taking::Taken(lock) => self.folders.push(lock),
                Taking::Impossible => {}
                Taking::Busy => {
                    return Ok(Step::Blocked(self, format!("another program holds {}", folder.display())));
                }
            }
        }
        Ok(Step::Locked(RefreshLock { folders: self.folders, _files: self.files }))
    }
}

/// Who has the locks after they were waited for.
#[derive(Debug)]
pub(crate) enum Held {
    /// We.
    Ours(RefreshLock),
    /// Still another; who, in words.
    By(String),
}

/// Takes the locks of a credential file, waiting for as long as a renewal may take. Blocks the thread.
pub(crate) fn hold(credential: &Path) -> io::Result<Held> {
    let (mut attempt, mut last) = (LockAttempt::on(credential), String::new());
    for _ in 0..TRIES {
        match attempt.step()? {
            Step::Locked(lock) => return Ok(Held::Ours(lock)),
            Step::Blocked(again, holder) => (attempt, last) = (again, holder),
        }
        std::thread::sleep(REST);
    }
    Ok(Held::By(last))
}

impl RefreshLock {
    /// Tells other programs that the holder lives.
    pub(crate) fn touch(&self) {
        self.folders.iter().for_each(FolderLock::touch);
    }

    /// Whether no program took a folder from us, thinking us dead.
    pub(crate) fn is_whole(&self) -> bool {
        self.folders.iter().all(FolderLock::is_ours)
    }
}

/// The file that a lock of ours is beside, if it is one.
pub(crate) fn locked_by(lock: &Path) -> Option<PathBuf> {
    lock.file_name()?.to_str()?.strip_suffix(ENDING).map(|name| lock.with_file_name(name))
}

/// The lock folders of Claude Code, if the credential is its own.
fn folders_of(credential: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(config_dir) = claude_config_dir(credential) else { return Ok(Vec::new()) };
    let config_dir = fs::canonicalize(config_dir)?;
    let mut legacy = config_dir.clone().into_os_string();
    legacy.push(".lock");
    Ok(vec![config_dir.join(".oauth_refresh.lock"), legacy.into()])
}

/// Our own lock, beside the file that the path leads to, so that all paths to one file meet at one lock.
#[derive(Debug)]
struct LockFile {
    file: File,
    path: PathBuf,
}

impl LockFile {
    /// The lock, or who holds it.
    fn take(credential: &Path) -> io::Result<Result<Self, String>> {
        let target = followed(credential)?;
        let mut path = target.clone().into_os_string();
        path.push(ENDING);
        let path = PathBuf::from(path);
        let mut lock = Self { file: open(&path, &target)?, path };
        match lock.file.try_lock() {
            Ok(()) => {
                lock.sign();
                Ok(Ok(lock))
            }
            Err(TryLockError::WouldBlock) => Ok(Err(lock.holder())),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Writes who holds it, for whoever waits. A file that cannot be written locks all the same.
    fn sign(&mut self) {
        let _ = self.file.set_len(0).and_then(|()| write!(self.file, "{}", std::process::id()));
    }

    fn holder(&mut self) -> String {
        let mut text = String::new();
        let known = (&self.file).take(20).read_to_string(&mut text).is_ok() && text.parse::<u32>().is_ok();
        let who = if known { format!("process {text}") } else { "another process".to_owned() };
        format!("{who} holds {}", self.path.display())
    }

    /// The time by the clock of the file system.
    fn file_system_time(&self) -> Option<SystemTime> {
        touch(&self.file).ok()?;
        self.file.metadata().and_then(|meta| meta.modified()).ok()
    }
}

/// The file that a path leads to, whether or not it is there yet.
fn followed(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(error) };
            Ok(fs::canonicalize(folder)?.join(name))
        }
        other => other,
    }
}

fn open(path: &Path, credential: &Path) -> io::Result<File> {
    let made = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    match made {
        Err(error) if forbidden(&error) => File::open(path).or_else(|_| File::open(credential)),
        other => other,
    }
}

fn forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn touch(file: &File) -> io::Result<()> {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    rustix::fs::futimens(file, &Timestamps { last_access: omit, last_modification: now }).map_err(Into::into)
}

/// A folder that exists while it is locked.
#[derive(Debug)]
struct FolderLock {
    path: PathBuf,
    folder: File,
}

enum Taking {
    Taken(FolderLock),
    Busy,
    /// No folder can be made there, by nobody of this user.
    Impossible,
}

impl FolderLock {
    fn take(path: &Path, clock: &LockFile) -> io::Result<Taking> {
        match fs::create_dir(path) {
            Ok(()) => File::open(path).map(|folder| Taking::Taken(Self { path: path.to_owned(), folder })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(take_over(path, clock)),
            Err(error) if forbidden(&error) => Ok(Taking::Impossible),
            Err(error) => Err(error),
        }
    }

    /// Touches the folder that we made, wherever it is now: never one that another made in its place.
    fn touch(&self) {
        let _ = touch(&self.folder);
    }

    fn is_ours(&self) -> bool {
        let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        self.folder.metadata().and_then(|ours| fs::metadata(&self.path).map(|there| same(ours, there))).unwrap_or(false)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Clears an abandoned folder away and tries once more. It is moved aside and looked at again before it is removed: if
/// another taker was quicker, what we moved is a live lock, and goes back.
fn take_over(path: &Path, clock: &LockFile) -> Taking {
    if !is_stale(path, clock) {
        return Taking::Busy;
    }
    let mut aside = path.to_owned().into_os_string();
    aside.push(format!(".stale-{}", std::process::id()));
    let aside = PathBuf::from(aside);
    if fs::rename(path, &aside).is_err() {
        return Taking::Busy;
    }
    if !is_stale(&aside, clock) {
        let _ = fs::rename(&aside, path);
        return Taking::Busy;
    }
    let _ = fs::remove_dir_all(&aside);
    let made = fs::create_dir(path).and_then(|()| File::open(path));
    made.map_or(Taking::Busy, |folder| Taking::Taken(FolderLock { path: path.to_owned(), folder }))
}

fn is_stale(path: &Path, clock: &LockFile) -> bool {
    let touched = fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let age = clock.file_system_time().zip(touched).and_then(|(now, touched)| now.duration_since(touched).ok());
    age.is_some_and(|age| age > STALE_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Profile {
        _home: tempfile::TempDir,
        dir: PathBuf,
        credential: PathBuf,
    }

    fn profile() -> Profile {
        let home = tempfile::tempdir().expect("a home");
        let dir = home.path().canonicalize().expect("there").join(".claude");
        fs::create_dir(&dir).expect("made");
        let credential = dir.join(".credentials.json");
        fs::write(&credential, "{}").expect("written");
        Profile { _home: home, dir, credential }
    }

    fn step(credential: &Path) -> Step {
        LockAttempt::on(credential).step().expect("a step")
    }

    fn locked(step: Step) -> RefreshLock {
        match step {
            Step::Locked(lock) => lock,
            Step::Blocked(_, by) => panic!("blocked: {by}"),
        }
    }

    fn age(folder: &Path, age: Duration) {
        let file = File::open(folder).expect("there");
        let now = file.metadata().and_then(|m| m.modified()).expect("a time");
        file.set_modified(now - age).expect("aged");
    }

    #[test]
    fn one_holds_the_lock_and_the_next_is_told_who() {
        let profile = profile();
        let lock = locked(step(&profile.credential));
        match step(&profile.credential) {
            Step::Blocked(_, by) => assert!(by.contains(&format!("process {}", std::process::id())), "{by}"),
            Step::Locked(_) => panic!("two holders"),
        }
        drop(lock);
        locked(step(&profile.credential));
    }

    #[test]
    fn all_paths_to_one_file_meet_at_one_lock() {
        let profile = profile();
        let link = profile.dir.parent().expect("a home").join("linked.json");
        std::os::unix::fs::symlink(&profile.credential, &link).expect("linked");
        let _lock = locked(step(&profile.credential));
        assert!(matches!(step(&link), Step::Blocked(..)));
    }

    #[test]
    fn claude_codes_locks_are_held_with_ours_and_given_back() {
        let profile = profile();
        let folders = [profile.dir.join(".oauth_refresh.lock"), profile.dir.with_file_name(".claude.lock")];
        let lock = locked(step(&profile.credential));
        assert!(folders.iter().all(|f| f.is_dir()) && lock.is_whole());
        drop(lock);
        assert!(!folders.iter().any(|f| f.exists()));
    }

    #[test]
    fn a_live_lock_of_claude_code_is_waited_for() {
        let profile = profile();
        let folder = profile.dir.join(".oauth_refresh.lock");
        fs::create_dir(&folder).expect("made");
        age(&folder, Duration::from_secs(55));
        let Step::Blocked(attempt, _) = step(&profile.credential) else { panic!("taken from a living holder") };
        fs::remove_dir(&folder).expect("released");
        locked(attempt.step().expect("a step"));
    }

    #[test]
    fn an_abandoned_lock_of_claude_code_is_taken_over() {
        let profile = profile();
        let folders = [profile.dir.join(".oauth_refresh.lock"), profile.dir.with_file_name(".claude.lock")];
        for folder in &folders {
            fs::create_dir(folder).expect("made");
            age(folder, Duration::from_secs(61));
        }
        let lock = locked(step(&profile.credential));
        drop(lock);
        assert!(!folders.iter().any(|f| f.exists()));
    }

    #[test]
    fn a_folder_taken_from_us_is_noticed_and_left_alone() {
        let profile = profile();
        let folder = profile.dir.join(".oauth_refresh.lock");
        let lock = locked(step(&profile.credential));
        fs::rename(&folder, profile.dir.join("moved")).expect("taken");
        fs::create_dir(&folder).expect("made by another");
        age(&folder, Duration::from_secs(30));
        let touched = fs::metadata(&folder).and_then(|m| m.modified()).expect("a time");
        lock.touch();
        assert!(!lock.is_whole());
        drop(lock);
        assert_eq!(fs::metadata(&folder).and_then(|m| m.modified()).expect("still there"), touched);
    }

    #[test]
    fn a_holder_that_touches_its_folders_keeps_them_fresh() {
        let profile = profile();
        let folder = profile.dir.join(".oauth_refresh.lock");
        let lock = locked(step(&profile.credential));
        age(&folder, Duration::from_secs(3600));
        lock.touch();
        let clock = LockFile { file: File::open(&profile.credential).expect("there"), path: PathBuf::new() };
        assert!(!is_stale(&folder, &clock));
    }

    #[test]
    fn a_stored_account_needs_no_lock_of_claude_code() {
        let profile = profile();
        let stored = profile.dir.join("work.json");
        fs::write(&stored, "{}").expect("written");
        let _lock = locked(step(&stored));
        assert!(!profile.dir.join(".oauth_refresh.lock").exists());
    }
}
