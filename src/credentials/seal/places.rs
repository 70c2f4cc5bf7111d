//! Where the key is looked for, and making one.
//!
//! In order: a credential of systemd, the file that a variable names, the file that the configuration names, macOS'
//! keychain, `key` in the home. The home says by its key's id (`key.id`) which key is its own, and the keychain keeps keys
//! under their ids: so it holds one of this home only if that was put there, and the home may be moved. A key is made in
//! the home, when something is to be sealed and none is there; but never while something sealed exists, which a new key
//! could not open. A file that cannot be a key is an error and stays as it is.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::key::{Key, KeyError, KeyId, next_to};
use crate::credentials::file;
use crate::credentials::keychain::Keychain;

/// The name of the key among systemd's credentials.
const CREDENTIAL: &str = "duduclaw.key";

/// Where the key may be.
#[derive(Clone, Default)]
pub struct KeyPlaces {
    /// systemd's folder of credentials.
    pub credentials: Option<PathBuf>,
    /// The file that `DUDUCLAW_KEY_FILE` names.
    pub variable: Option<PathBuf>,
    /// The file that `[secrets] key_file` names.
    pub configured: Option<PathBuf>,
    /// The machine's keychain, if it has one.
    pub keychain: Option<Keychain>,
    /// The home, where a key is made.
    pub home: Option<PathBuf>,
    /// The folder of stored accounts, where sealed values may be.
    pub accounts: Option<PathBuf>,
}

/// Where a key is that is ours to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// A file.
    File(PathBuf),
    /// The machine's keychain.
    Keychain,
}

impl fmt::Debug for KeyPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPlaces").field("files", &self.files()).finish_non_exhaustive()
    }
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
        if let Some(named) = self.named() {
            let missing = || KeyError::Unreadable { path: named.to_owned(), source: io::ErrorKind::NotFound.into() };
            return Key::read(named)?.map(Some).ok_or_else(missing);
        }
        self.homes_own()
    }

    /// The file that the user named, unless it is the home's own.
    fn named(&self) -> Option<&Path> {
        let own = self.own();
        let files = [&self.variable, &self.configured].into_iter().flatten();
        files.map(PathBuf::as_path).find(|path| Some(*path) != own.as_deref())
    }

    /// The home's key: in the keychain where the home says so, else in its file.
    fn homes_own(&self) -> Result<Option<Key>, KeyError> {
        let in_file = self.own().map(|own| Key::read(&own)).transpose().map(Option::flatten);
        let Some((keychain, id)) = self.keychain.as_ref().zip(self.home_id()?) else { return in_file };
        match in_file {
            Ok(Some(key)) if *key.id() == id => Ok(Some(key)),
            other => Key::kept(keychain, &id)?.map_or(other, |key| Ok(Some(key))),
        }
    }

    /// The key in use, or the one that is on its way to its place and has sealed something already.
    fn current(&self) -> Result<Option<Key>, KeyError> {
        match (self.find()?, self.home_id()?) {
            (None, Some(id)) => self.with_id(&id),
            (found, _) => Ok(found),
        }
    }

    /// The key to seal with; made where there is none and nothing is sealed.
    ///
    /// # Errors
    /// When it cannot be had or made, or the home's secrets are sealed with another.
    pub fn find_or_make(&self) -> Result<Key, KeyError> {
        let Some(key) = self.current()? else {
            let made = self.make()?;
            self.remember(made.id())?;
            return Ok(made);
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

    pub(super) fn make(&self) -> Result<Key, KeyError> {
        let path = self.own().unwrap_or_default();
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
        match (self.current()?, self.accounts.as_deref().and_then(first_sealed)) {
            (Some(key), _) => self.remembered(&key).map(|_| Some(key.id().clone())),
            (None, Some(sealed)) => Err(KeyError::Lost { path: self.own().unwrap_or_default(), sealed }),
            (None, None) => Ok(None),
        }
    }

    /// Where the key in use is; `None` if there is no key.
    ///
    /// # Errors
    /// When it cannot be had, or is none of ours to change.
    pub fn place(&self) -> Result<Option<KeyPlace>, KeyError> {
        self.is_ours()?;
        let Some(key) = self.current()? else { return Ok(None) };
        let is_kept = self.named().is_none() && self.keychain.as_ref().is_some_and(|keychain| key.is_kept(keychain));
        let in_file = || self.own_or_named().map(KeyPlace::File);
        Ok(if is_kept { Some(KeyPlace::Keychain) } else { in_file() })
    }

    /// Whether the key is ours to change.
    fn is_ours(&self) -> Result<(), KeyError> {
        let of_systemd = self.credentials.as_deref().map(|folder| folder.join(CREDENTIAL)).filter(|path| path.exists());
        of_systemd.map_or(Ok(()), |path| Err(KeyError::Given(path)))
    }

    /// Where a key of this home can be put that nobody named a place for.
    ///
    /// # Errors
    /// When its place is named, or there is no such place.
    pub(super) fn free(&self, place: FreePlace) -> Result<KeyPlace, KeyError> {
        self.is_ours()?;
        if let Some(path) = self.named() {
            return Err(KeyError::Named(path.to_owned()));
        }
        match place {
            FreePlace::File => Ok(KeyPlace::File(self.own().unwrap_or_default())),
            FreePlace::Keychain => self.keychain.as_ref().map(|_| KeyPlace::Keychain).ok_or(KeyError::NoKeychain),
        }
    }

    /// The file in the home.
    pub(super) fn own(&self) -> Option<PathBuf> {
        self.home.as_deref().map(|home| home.join("key"))
    }

    fn own_or_named(&self) -> Option<PathBuf> {
        self.variable.clone().or_else(|| self.configured.clone()).or_else(|| self.own())
    }

    /// The key with this id: the one in use, the one that is to come after it, or the one that it comes after.
    pub(super) fn with_id(&self, id: &KeyId) -> Result<Option<Key>, KeyError> {
        let wanted = |key: &Key| key.id() == id;
        if let Some(key) = self.find()?.filter(wanted) {
            return Ok(Some(key));
        }
        for path in self.own_or_named().into_iter().flat_map(|path| [next_to(&path), path]) {
            if let Some(key) = Key::read(&path)?.filter(wanted) {
                return Ok(Some(key));
            }
        }
        let kept = self.keychain.as_ref().map(|keychain| Key::kept(keychain, id)).transpose()?.flatten();
        match kept {
            Some(key) => Ok(Some(key)),
            // It may have taken its place between the two looks.
            None => Ok(self.find()?.filter(wanted)),
        }
    }

    /// Says by which key the home is sealed from now on; who has another one seals nothing.
    pub(super) fn remember(&self, id: &KeyId) -> Result<(), KeyError> {
        let Some(path) = self.id_file() else { return Ok(()) };
        let written = file::put(&path, id.to_string().as_bytes());
        written.map(|_| ()).map_err(|source| KeyError::Unmade { path, source })
    }

    /// The keys that are to go from the keychain when a change of the key comes to its end.
    pub(super) fn leaving(&self) -> Result<BTreeSet<KeyId>, KeyError> {
        let Some(path) = self.leaving_file() else { return Ok(BTreeSet::new()) };
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().filter_map(KeyId::parse).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(source) => Err(KeyError::Unreadable { path, source }),
        }
    }

    /// Notes them, so that whoever goes on with it knows them, too.
    pub(super) fn leave<'a>(&self, ids: impl Iterator<Item = &'a KeyId>) -> Result<(), KeyError> {
        let Some(path) = self.leaving_file() else { return Ok(()) };
        let text: String = ids.map(|id| format!("{id}\n")).collect();
        file::put(&path, text.as_bytes()).map(|_| ()).map_err(|source| KeyError::Unmade { path, source })
    }

    /// They are gone.
    pub(super) fn all_left(&self) -> Result<(), KeyError> {
        let Some(path) = self.leaving_file() else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(KeyError::Unmade { path, source }),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn leaving_file(&self) -> Option<PathBuf> {
        self.home.as_deref().filter(|_| self.keychain.is_some()).map(|home| home.join("key.leaving"))
    }

    /// The files that may hold it.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let of_systemd = self.credentials.as_deref().map(|folder| folder.join(CREDENTIAL));
        [of_systemd, self.variable.clone(), self.configured.clone(), self.own()].into_iter().flatten().collect()
    }

    /// The home remembers its key's id, so that two processes with different keys do not seal in turns.
    fn agree_with_home(&self, key: &Key) -> Result<(), KeyError> {
        if self.remembered(key)? == Remembered::Yes {
            return Ok(());
        }
        let Some(path) = self.id_file() else { return Ok(()) };
        let made = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
        made.and_then(|mut file| file.write_all(key.id().to_string().as_bytes()))
            .map_err(|source| KeyError::Unmade { path, source })
    }

    /// Whether the home knows the key; another one that it knows is an error.
    fn remembered(&self, key: &Key) -> Result<Remembered, KeyError> {
        match (self.id_file().is_some(), self.home_id_if_there()?) {
            (false, _) | (true, Some(None)) => Ok(Remembered::Yes),
            (true, Some(Some(id))) if id != *key.id() => {
                Err(KeyError::Other { sealed_with: id, found: key.id().clone() })
            }
            (true, Some(Some(_))) => Ok(Remembered::Yes),
            (true, None) => Ok(Remembered::NotYet),
        }
    }

    /// The id by which the home knows its key.
    pub(super) fn home_id(&self) -> Result<Option<KeyId>, KeyError> {
        self.home_id_if_there().map(Option::flatten)
    }

    /// `None`: nothing is remembered. `Some(None)`: what is remembered makes no sense.
    fn home_id_if_there(&self) -> Result<Option<Option<KeyId>>, KeyError> {
        let Some(path) = self.id_file() else { return Ok(None) };
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(KeyId::parse(text.trim()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(KeyError::Unreadable { path, source }),
        }
    }

    fn id_file(&self) -> Option<PathBuf> {
        self.home.as_deref().map(|home| home.join("key.id"))
    }
}

/// A place that needs no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreePlace {
    /// The home's own file.
    File,
    /// The machine's keychain.
    Keychain,
}

/// Whether the home knows a key by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remembered {
    Yes,
    NotYet,
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

#[cfg(test)]
mod tests;
