//! A key that secrets are sealed with, in a file or in a keychain.
//!
//! Never here: which of them is used.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::credentials::file;
use crate::credentials::keychain::{Item, Keychain, KeychainError, hex, unhexed};

/// The bytes of a key.
const LENGTH: usize = 32;
/// What the name of a key ends with while it is written.
const DRAFT: &str = ".new";
/// What keys are called in a keychain, each under its id.
const SERVICE: &str = "duduclaw key";
/// What a key begins with there: no text that could be taken for digits alone.
const KEPT: &str = "duduclaw-key:";

/// A key.
pub struct Key {
    bytes: Zeroizing<[u8; LENGTH]>,
    id: KeyId,
}

/// What tells keys apart: the beginning of a hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// The keychain does not do what it is asked for.
    #[error("the key cannot be had from the keychain, or be put there: {0}")]
    Keychain(#[from] KeychainError),
    /// What is in the keychain is no key.
    #[error("what the keychain holds as the key {0} is none: put back the right one; it is never replaced")]
    Kept(KeyId),
    /// There is no keychain.
    #[error("this machine has no keychain; the key stays in its file")]
    NoKeychain,
    /// The user named its place.
    #[error("the key's place is named: take {} out of DUDUCLAW_KEY_FILE or [secrets] key_file first", .0.display())]
    Named(PathBuf),
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

    /// The key that a keychain holds under this id; `None` if it holds none.
    pub(super) fn kept(keychain: &Keychain, id: &KeyId) -> Result<Option<Self>, KeyError> {
        let Some(item) = item(id) else { return Ok(None) };
        let Some(text) = keychain.read(&item)? else { return Ok(None) };
        let bytes = text.strip_prefix(KEPT.as_bytes()).and_then(unhexed);
        let bytes = bytes.and_then(|bytes| <[u8; LENGTH]>::try_from(bytes.as_slice()).ok());
        let key = bytes.map(|bytes| Self::of(Zeroizing::new(bytes))).filter(|key| key.id == *id);
        key.map(Some).ok_or_else(|| KeyError::Kept(id.clone()))
    }

    /// Puts it into a keychain.
    pub(super) fn keep(&self, keychain: &Keychain) -> Result<(), KeyError> {
        let Some(item) = item(&self.id) else { return Err(KeyError::Kept(self.id.clone())) };
        let text = Zeroizing::new(format!("{KEPT}{}", hex(self.bytes.as_slice()).as_str()));
        keychain.write(&item, text.as_bytes()).map(drop).map_err(KeyError::Keychain)
    }

    /// Whether a keychain holds it. One that cannot be asked does not.
    pub(super) fn is_kept(&self, keychain: &Keychain) -> bool {
        Self::kept(keychain, &self.id).is_ok_and(|kept| kept.is_some())
    }

    /// Takes the key of this id out of a keychain, if it is there.
    pub(super) fn forget(keychain: &Keychain, id: &KeyId) -> Result<(), KeyError> {
        item(id).map_or(Ok(()), |item| keychain.remove(&item)).map_err(KeyError::Keychain)
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

fn item(id: &KeyId) -> Option<Item> {
    Item::named(SERVICE, &id.0)
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

pub(in crate::credentials) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::from)
}

#[cfg(test)]
mod tests;
