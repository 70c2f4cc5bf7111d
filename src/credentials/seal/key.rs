//! The key that stored secrets are sealed with: where it is, and making one.
//!
//! In order: a credential of systemd, the file that a variable names, the file that the configuration names, macOS'
//! keychain, `key` in the home. The last is made when something is to be sealed and none is there; but never while
//! something sealed exists, which a new key could not open. A file that cannot be a key is an error and stays as it is.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::credentials::file;

/// The name of the key among systemd's credentials.
const CREDENTIAL: &str = "duduclaw.key";
/// The bytes of a key.
const LENGTH: usize = 32;
/// What the name of a key ends with while it is written.
const DRAFT: &str = ".new";

/// A key.
pub struct Key {
    bytes: Zeroizing<[u8; LENGTH]>,
    id: KeyId,
}

/// What tells keys apart: the beginning of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyId(String);

impl KeyId {
    /// An id as it is written.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_id.then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("the key {} cannot be read: {source}", .path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It has not the size of a key.
    #[error("the key {} has {found} bytes and not {LENGTH}: put back the right file; it is never replaced", .path.display())]
    Size {
        /// Where it is.
        path: PathBuf,
        /// What size it has.
        found: u64,
    },
    /// A new key could not open what is sealed already.
    #[error("{} is sealed and its key is gone: put back {}, or remove what cannot be opened any more", .sealed.display(), .path.display())]
    Lost {
        /// Where the key would be.
        path: PathBuf,
        /// Something that is sealed.
        sealed: PathBuf,
    },
    /// It is given to us, and is not ours to change.
    #[error("the key {} is given by the service manager: change it there, and `duduclaw secrets export` and `import` bring the secrets over", .0.display())]
    Given(PathBuf),
    /// It cannot be made.
    #[error("the key {} cannot be made: {source}", .path.display())]
    Unmade {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// This home's secrets are sealed with another key.
    #[error(
        "this home is sealed with the key {sealed_with}, and the key here is {found}: use the right one, or let the daemon do it"
    )]
    Other {
        /// The key of the home.
        sealed_with: KeyId,
        /// The key that was found.
        found: KeyId,
    },
}

impl Key {
    fn of(bytes: Zeroizing<[u8; LENGTH]>) -> Self {
        let hash = Sha256::new().chain_update(b"duduclaw key\0").chain_update(bytes.as_slice()).finalize();
        let id = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { bytes, id: KeyId(id) }
    }

    /// A new one.
    ///
    /// # Errors
    /// When the machine gives no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; LENGTH]);
        fill_random(bytes.as_mut_slice())?;
        Ok(Self::of(bytes))
    }

    /// What tells it from others.
    #[must_use]
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    pub(super) fn bytes(&self) -> &[u8; LENGTH] {
        &self.bytes
    }

    /// The key in a file; `None` if there is no such file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        let file = match file::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(unreadable)?,
        };
        let mut bytes = Zeroizing::new(Vec::with_capacity(LENGTH + 1));
        let mut limited = file.take(LENGTH as u64 + 1);
        limited.read_to_end(&mut bytes).map_err(unreadable)?;
        match <[u8; LENGTH]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(Some(Self::of(Zeroizing::new(bytes)))),
            Err(_) => {
                let found = fs::metadata(path).map_or(bytes.len() as u64, |meta| meta.len());
                Err(KeyError::Size { path: path.to_owned(), found })
            }
        }
    }

    /// Writes it to a file that must not be there yet.
    ///
    /// # Errors
    /// When the file is there, or cannot be written.
    pub fn write_new(&self, path: &Path) -> io::Result<()> {
        let draft = beside(path, &format!(".{}{DRAFT}", self.id));
        let written = self.write_draft(&draft).and_then(|()| put_in_place(&draft, path));
        let _ = fs::remove_file(&draft);
        written?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    fn write_draft(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
        file.write_all(self.bytes.as_slice())?;
        file.sync_all()
    }
}

/// Where the key may be.
#[derive(Clone, Debug, Default)]
pub struct KeyPlaces {
    /// systemd's folder of credentials.
    pub credentials: Option<PathBuf>,
    /// The file that `DUDUCLAW_KEY_FILE` names.
    pub variable: Option<PathBuf>,
    /// The file that `[secrets] key_file` names.
    pub configured: Option<PathBuf>,
    /// The home, where a key is made.
    pub home: Option<PathBuf>,
    /// The folder of stored accounts, where sealed values may be.
    pub accounts: Option<PathBuf>,
}

impl KeyPlaces {
    /// No place.
    #[must_use]
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// The home alone.
    #[must_use]
    pub fn in_home(home: PathBuf) -> Self {
        Self { accounts: Some(home.join("accounts")), home: Some(home), ..Self::default() }
    }

    /// The key in use, from the first place that has one. A place that the user named must have one.
    ///
    /// # Errors
    /// When it is there and cannot be had.
    pub fn find(&self) -> Result<Option<Key>, KeyError> {
        if let Some(key) =
            self.credentials.as_deref().map(|folder| Key::read(&folder.join(CREDENTIAL))).transpose()?.flatten()
        {
            return Ok(Some(key));
        }
        let own = self.home.as_deref().map(|home| home.join("key"));
        let elsewhere = |path: &&PathBuf| Some(*path) != own.as_ref();
        if let Some(named) = [&self.variable, &self.configured].into_iter().flatten().find(elsewhere) {
            let missing = || KeyError::Unreadable { path: named.clone(), source: io::ErrorKind::NotFound.into() };
            return Key::read(named)?.map(Some).ok_or_else(missing);
        }
        own.map(|own| Key::read(&own)).transpose().map(Option::flatten)
    }

    /// The key to seal with; made where there is none and nothing is sealed.
    ///
    /// # Errors
    /// When it cannot be had or made, or the home's secrets are sealed with another.
    pub fn find_or_make(&self) -> Result<Key, KeyError> {
        let key = match self.find()? {
            Some(key) => key,
            None => self.make()?,
        };
        match self.agree_with_home(&key) {
            Ok(()) => Ok(key),
            // A new key that is on its way to its place opens already what it sealed.
            Err(KeyError::Other { sealed_with, found }) => {
                self.with_id(&sealed_with)?.ok_or(KeyError::Other { sealed_with, found })
            }
            Err(error) => Err(error),
        }
    }

    fn make(&self) -> Result<Key, KeyError> {
        let path = self.home.as_deref().map(|home| home.join("key")).unwrap_or_default();
        let unmade = |source| KeyError::Unmade { path: path.clone(), source };
        if let Some(sealed) = self.accounts.as_deref().and_then(first_sealed) {
            return Err(KeyError::Lost { path, sealed });
        }
        let key = Key::random().map_err(unmade)?;
        match key.write_new(&path) {
            Ok(()) => Ok(key),
            // Another process made one meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Key::read(&path)?.ok_or_else(|| unmade(io::ErrorKind::NotFound.into()))
            }
            Err(error) => Err(unmade(error)),
        }
    }

    /// The key in use by its id, found without making or writing anything.
    ///
    /// # Errors
    /// When it cannot be had, is gone while something is sealed, or is not the one the home is sealed with.
    pub fn look(&self) -> Result<Option<KeyId>, KeyError> {
        let home = self.home.as_deref().map(|home| home.join("key")).unwrap_or_default();
        match (self.find()?, self.accounts.as_deref().and_then(first_sealed)) {
            (Some(key), _) => self.remembered(&key).map(|_| Some(key.id)),
            (None, Some(sealed)) => Err(KeyError::Lost { path: home, sealed }),
            (None, None) => Ok(None),
        }
    }

    /// The file of the key in use; `None` if there is no key.
    ///
    /// # Errors
    /// When it cannot be had, or is none of ours to change.
    pub fn place(&self) -> Result<Option<PathBuf>, KeyError> {
        let of_systemd = self.credentials.as_deref().map(|folder| folder.join(CREDENTIAL)).filter(|path| path.exists());
        match of_systemd {
            Some(path) => Err(KeyError::Given(path)),
            None => Ok(self.find()?.and(self.own_or_named())),
        }
    }

    fn own_or_named(&self) -> Option<PathBuf> {
        let own = self.home.as_deref().map(|home| home.join("key"));
        self.variable.clone().or_else(|| self.configured.clone()).or(own)
    }

    /// The key with this id: the one in use, or the one that is to come after it.
    pub(super) fn with_id(&self, id: &KeyId) -> Result<Option<Key>, KeyError> {
        let wanted = |key: &Key| key.id == *id;
        if let Some(key) = self.find()?.filter(wanted) {
            return Ok(Some(key));
        }
        let next = self.own_or_named().map(|path| Key::read(&next_to(&path))).transpose()?.flatten();
        match next.filter(wanted) {
            Some(key) => Ok(Some(key)),
            // It may have taken its place between the two looks.
            None => Ok(self.find()?.filter(wanted)),
        }
    }

    /// Says by which key the home is sealed from now on; who has another one seals nothing.
    pub(super) fn remember(&self, id: &KeyId) -> Result<(), KeyError> {
        let Some(path) = self.id_file() else { return Ok(()) };
        let written = file::put(&path, id.0.as_bytes());
        written.map(|_| ()).map_err(|source| KeyError::Unmade { path, source })
    }

    /// The files that may hold it.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let of_systemd = self.credentials.as_deref().map(|folder| folder.join(CREDENTIAL));
        let own = self.home.as_deref().map(|home| home.join("key"));
        [of_systemd, self.variable.clone(), self.configured.clone(), own].into_iter().flatten().collect()
    }

    /// The home remembers its key's id, so that two processes with different keys do not seal in turns.
    fn agree_with_home(&self, key: &Key) -> Result<(), KeyError> {
        if self.remembered(key)? == Remembered::Yes {
            return Ok(());
        }
        let Some(path) = self.id_file() else { return Ok(()) };
        let made = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
        made.and_then(|mut file| file.write_all(key.id.0.as_bytes()))
            .map_err(|source| KeyError::Unmade { path, source })
    }

    /// Whether the home knows the key; another one that it knows is an error.
    fn remembered(&self, key: &Key) -> Result<Remembered, KeyError> {
        let Some(path) = self.id_file() else { return Ok(Remembered::Yes) };
        match fs::read_to_string(&path) {
            Ok(text) => match KeyId::parse(text.trim()) {
                Some(id) if id != key.id => Err(KeyError::Other { sealed_with: id, found: key.id.clone() }),
                Some(_) | None => Ok(Remembered::Yes),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Remembered::NotYet),
            Err(source) => Err(KeyError::Unreadable { path, source }),
        }
    }

    fn id_file(&self) -> Option<PathBuf> {
        self.home.as_deref().map(|home| home.join("key.id"))
    }
}

/// Whether the home knows a key by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remembered {
    Yes,
    NotYet,
}

/// Gives a file another name, unless one of that name is there.
fn put_in_place(draft: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(draft, path) {
        // Not every file system has links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && path.symlink_metadata().is_err() => {
            fs::rename(draft, path)
        }
        linked => linked,
    }
}

/// Where the key lies that is to come after the one at this path.
pub(super) fn next_to(path: &Path) -> PathBuf {
    beside(path, ".next")
}

/// Removes what processes that were killed left of keys that were to be at this path, while nobody writes one.
pub(super) fn clear_drafts(path: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    let id = |draft: &str| KeyId::parse(draft.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(DRAFT)?);
    let files = fs::read_dir(folder)?.flatten().map(|file| file.path());
    let mut drafts = files.filter(|file| file.file_name().and_then(|name| name.to_str()).and_then(id).is_some());
    drafts.try_for_each(fs::remove_file)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// A file of the store in which something is sealed.
fn first_sealed(accounts: &Path) -> Option<PathBuf> {
    let families = fs::read_dir(accounts).ok()?.flatten();
    let files = families.filter_map(|family| fs::read_dir(family.path()).ok()).flat_map(Iterator::flatten);
    let holds = |path: &PathBuf| {
        file::read(path).is_ok_and(|(bytes, _)| memchr::memmem::find(&bytes, super::MARK.as_bytes()).is_some())
    };
    files.map(|file| file.path()).find(holds)
}

pub(in crate::credentials) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let filled = rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled == bytes.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests;
