//! macOS' keychain, asked through the system's own program for it.
//!
//! `security` is also what Claude Code asks with, so that the items of both open without a question to the user. What is
//! kept goes in by standard input and comes out by standard output; it is never an argument, which every process of the
//! machine could read. An item that does not fit into that program's longest line is therefore not written.
//!
//! Never here: what items mean.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use duduclaw_actors::clock::{Clock, Deadline, SystemClock, Timestamp};
use rustix::process::{Pid, Signal, kill_process_group};
use zeroize::Zeroizing;

use super::file::FileStamp;

/// The system's program.
const PROGRAM: &str = "/usr/bin/security";
/// The variable that names another one, or, empty, none.
const VARIABLE: &str = "DUDUCLAW_KEYCHAIN";
/// Where the user's keychain lies, from the home directory.
const DATABASE: &str = "Library/Keychains/login.keychain-db";
/// How long it may take: it may be asking the user.
const WITHIN: Duration = Duration::from_secs(10);
/// How long one that gave no answer is not asked for anything again: each question would be another such wait.
const LEFT_ALONE: Duration = Duration::from_secs(10);
/// How often it is looked whether it has ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// What says more holds no item of ours or of Claude Code's.
const LONGEST_ANSWER: usize = 1024 * 1024;
/// The longest line that it reads whole.
const LONGEST_LINE: usize = 4032;
/// What it ends with where there is no such item.
const NOT_FOUND: i32 = 44;
/// What it ends with where the keychain is locked and nobody can be asked.
const LOCKED: i32 = 36;
/// The variables that it sees of ours.
const PASSED: [&str; 3] = ["HOME", "USER", "LOGNAME"];

/// The name of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    service: String,
    account: String,
}

/// A keychain. Clones are one.
#[derive(Clone)]
pub struct Keychain(Arc<Inner>);

struct Inner {
    program: PathBuf,
    /// The file that changes whenever an item does, if it is known.
    database: Option<PathBuf>,
    known: Mutex<HashMap<Item, Known>>,
    within: Duration,
    /// When it last gave no answer, unless it has given one since.
    late: Mutex<Option<Timestamp>>,
}

/// What an item held while the database was so.
struct Known {
    database: FileStamp,
    value: Option<Zeroizing<Vec<u8>>>,
}

/// Why the keychain does not do what it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum KeychainError {
    /// Its program does not run.
    #[error("{} cannot be run: {source}", .program.display())]
    NoProgram {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is locked.
    #[error("the keychain is locked: log in at this Mac's screen, or run `security unlock-keychain`")]
    Locked,
    /// It says nothing.
    #[error("the keychain gave no answer within {} s: it may be asking at this Mac's screen", WITHIN.as_secs())]
    Late,
    /// It refuses.
    #[error("the keychain refused ({status}): `security` says why when it is asked by hand")]
    Refused {
        /// How its program ended.
        status: String,
    },
    /// It says more than an item can be.
    #[error("the keychain's program says more than any item holds")]
    TooMuch,
    /// The item is too long for the only way in that shows it to nobody.
    #[error("it is too long to be written to the keychain without showing it to every program of this machine")]
    TooLong,
    /// The item does not hold afterwards what was to be kept.
    #[error("the keychain did not keep what was written to it")]
    NotKept,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.service, self.account)
    }
}

impl Item {
    /// The item of these names; `None` if they hold what cannot be written in a line of commands.
    pub(crate) fn named(service: &str, account: &str) -> Option<Self> {
        let is_plain =
            |text: &str| !text.is_empty() && !text.contains(['"', '\\', '\'']) && !text.contains(char::is_control);
        (is_plain(service) && is_plain(account))
            .then(|| Self { service: service.to_owned(), account: account.to_owned() })
    }

    /// The name that people see.
    pub(crate) fn service(&self) -> &str {
        &self.service
    }

    /// Whether this many bytes can be kept under it.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.command("").len() + 2 * bytes <= LONGEST_LINE
    }

    fn command(&self, hex: &str) -> Zeroizing<String> {
        let Self { service, account } = self;
        Zeroizing::new(format!("add-generic-password -U -a \"{account}\" -s \"{service}\" -X \"{hex}\"\n"))
    }
}

impl Keychain {
    /// The one of this machine, if it has one.
    #[must_use]
    pub fn of_this_machine() -> Option<&'static Self> {
        static HERE: OnceLock<Option<Keychain>> = OnceLock::new();
        HERE.get_or_init(|| {
            let usual = cfg!(target_os = "macos").then(|| PathBuf::from(PROGRAM));
            let program = std::env::var_os(VARIABLE).map_or(usual, |named| Some(PathBuf::from(named)));
            let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
            let program = program.filter(|program| !program.as_os_str().is_empty())?;
            Some(Self::asked_through(program, home.map(|home| home.join(DATABASE))))
        })
        .as_ref()
    }

    /// The one that this program speaks for.
    #[must_use]
    pub fn asked_through(program: PathBuf, database: Option<PathBuf>) -> Self {
        Self::patient(program, database, WITHIN)
    }

    fn patient(program: PathBuf, database: Option<PathBuf>, within: Duration) -> Self {
        Self(Arc::new(Inner { program, database, known: Mutex::default(), within, late: Mutex::default() }))
    }

    /// The file that changes whenever an item does, if it is known.
    pub(crate) fn database(&self) -> Option<&Path> {
        self.0.database.as_deref()
    }

    /// What the item holds; `None` if there is no such item. Blocks the thread.
    pub(crate) fn read(&self, item: &Item) -> Result<Option<Zeroizing<Vec<u8>>>, KeychainError> {
        let database = self.database().and_then(FileStamp::at);
        if let Some(known) = database.and_then(|now| self.known(item, now)) {
            return Ok(known);
        }
        if self.was_late() {
            return Err(KeychainError::Late);
        }
        let found = self.found(item)?;
        if let Some(database) = database {
            let known = Known { database, value: found.clone() };
            self.0.known.lock().unwrap_or_else(PoisonError::into_inner).insert(item.clone(), known);
        }
        Ok(found)
    }

    fn known(&self, item: &Item, now: FileStamp) -> Option<Option<Zeroizing<Vec<u8>>>> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(item).filter(|known| known.database == now).map(|known| known.value.clone())
    }

    fn found(&self, item: &Item) -> Result<Option<Zeroizing<Vec<u8>>>, KeychainError> {
        let arguments = ["find-generic-password", "-a", &item.account, "-s", &item.service, "-w"];
        match self.ask(&arguments, Zeroizing::default())? {
            (Ended::Well, said) => Ok(Some(value(said))),
            (Ended::NotFound, _) => Ok(None),
        }
    }

    /// Forgets what is known of items: the next look at each asks, whatever its file says.
    pub(crate) fn look_anew(&self) {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Keeps this in the item, which is made if there is none; gives how the database was before it was seen to be kept.
    /// Blocks the thread.
    pub(crate) fn write(&self, item: &Item, bytes: &[u8]) -> Result<Option<FileStamp>, KeychainError> {
        if !item.has_room_for(bytes.len()) {
            return Err(KeychainError::TooLong);
        }
        self.ask(&["-i"], item.command(&hex(bytes)))?;
        let database = self.database().and_then(FileStamp::at);
        // The program takes commands one by one, and how it ends tells of the last alone.
        match self.found(item)? {
            Some(kept) if *kept == bytes => Ok(database),
            Some(_) | None => Err(KeychainError::NotKept),
        }
    }

    /// Removes the item, if there is one. Blocks the thread.
    pub(crate) fn remove(&self, item: &Item) -> Result<(), KeychainError> {
        self.ask(&["delete-generic-password", "-a", &item.account, "-s", &item.service], Zeroizing::default()).map(drop)
    }

    fn ask(&self, arguments: &[&str], input: Zeroizing<String>) -> Result<(Ended, Zeroizing<Vec<u8>>), KeychainError> {
        let no_program = |source| KeychainError::NoProgram { program: self.0.program.clone(), source };
        let mut command = Command::new(&self.0.program);
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
        command.envs(PASSED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(no_program)?;
        let by = Deadline::after(now(), self.0.within);
        let told = told_in_time(&mut child, input, by).and_then(|said| Some((said, ended_in_time(&mut child, by)?)));
        *self.0.late.lock().unwrap_or_else(PoisonError::into_inner) = told.is_none().then(now);
        let Some((said, status)) = told else {
            end(&mut child);
            return Err(KeychainError::Late);
        };
        match status.code() {
            _ if said.len() > LONGEST_ANSWER => Err(KeychainError::TooMuch),
            Some(0) => Ok((Ended::Well, said)),
            Some(NOT_FOUND) => Ok((Ended::NotFound, said)),
            Some(LOCKED) => Err(KeychainError::Locked),
            _ => Err(KeychainError::Refused { status: status.to_string() }),
        }
    }

    /// Whether it gave no answer just now.
    fn was_late(&self) -> bool {
        let late = self.0.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.is_some_and(|at| now().since(at) < LEFT_ALONE)
    }
}

fn now() -> Timestamp {
    SystemClock::default().now()
}

/// How the program ended, if it did what it was asked for.
enum Ended {
    Well,
    NotFound,
}

/// All that it says to this, if that comes to an end in time.
fn told_in_time(child: &mut Child, input: Zeroizing<String>, by: Deadline) -> Option<Zeroizing<Vec<u8>>> {
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // One that ends without reading has said why by how it ends.
        let _ = stdin.write_all(input.as_bytes());
        drop((stdin, input));
        let mut said = Zeroizing::new(Vec::with_capacity(16 * 1024));
        // Nobody listens any more if it took too long.
        let _ = stdout.take(LONGEST_ANSWER as u64 + 1).read_to_end(&mut said).map(|_| tell.send(said));
    });
    told.recv_timeout(by.remaining(now())).ok()
}

/// How it ended, if it does in time: one that says nothing more may still hang.
fn ended_in_time(child: &mut Child, by: Deadline) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if !by.is_due(now()) => thread::sleep(BETWEEN_LOOKS),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Ends it with whatever it began.
fn end(child: &mut Child) {
    if let Some(leader) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(leader, Signal::KILL);
    }
    let _ = child.wait();
}

/// What an item holds, from what is said of it: a line, or hexadecimal digits where it is no plain text. Only Claude
/// Code's items may be so, which are objects.
fn value(mut said: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    if said.last() == Some(&b'\n') {
        said.pop();
    }
    match unhexed(&said) {
        Some(text) if text.first() == Some(&b'{') => text,
        Some(_) | None => said,
    }
}

pub(crate) fn unhexed(digits: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect::<Option<Vec<u8>>>().map(Zeroizing::new)
}

pub(crate) fn hex(bytes: &[u8]) -> Zeroizing<String> {
    let mut digits = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    for byte in bytes {
        write!(digits, "{byte:02x}").expect("a string takes all that is written to it");
    }
    digits
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
