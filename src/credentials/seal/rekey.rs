//! A new key for what is sealed.
//!
//! Whenever it is interrupted, everything opens, and doing it again goes on where it stopped: the new key lies beside the
//! old one, or in the keychain, until all is sealed with it, and only then takes its place. From the first moment the home is known to be
//! sealed with the new key, and whoever seals something meanwhile does it with that one.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use duduclaw_actors::id::Family;

use super::key::{clear_drafts, next_to};
use super::{
    FreePlace, Key, KeyError, KeyId, KeyPlace, KeyPlaces, OpenError, Place, SealError, Sealer, Sealing, is_sealed,
    sealed_by,
};
use crate::credentials::error::SourceError;
use crate::credentials::file;
use crate::credentials::keychain::Keychain;
use crate::credentials::lock::{Held, RefreshLock, hold};
use crate::credentials::source::store_name;
use crate::credentials::store::{StoredAccount, stored_accounts, stored_and_coming};
use crate::credentials::values::each_text;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rekeyed {
    /// The new key.
    pub key: KeyId,
    /// How many values were sealed with it.
    pub values: usize,
    /// In how many files.
    pub files: usize,
}

/// Why it was not done, or not to its end. Everything still opens.
#[derive(Debug, thiserror::Error)]
pub enum RekeyError {
    /// The key cannot be had or made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Another process is at it.
    #[error("another process is changing the key; let it finish")]
    Busy,
    /// A file holds what its key alone would open.
    #[error("{0}; correct or remove it first: with the old key gone it could not be opened any more")]
    Unreadable(#[from] SourceError),
    /// A value in a file does not open.
    #[error("{}: `{field}` {why}; put it right or remove the file first", .path.display())]
    Closed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        field: String,
        /// Why it does not open.
        #[source]
        why: OpenError,
    },
    /// A value cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Another program keeps a file.
    #[error("{} cannot be had: {holder}; run this again to go on", .path.display())]
    Held {
        /// The file.
        path: PathBuf,
        /// Who.
        holder: String,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {source}; run this again to go on", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Seals all that the files of the account store hold with a new key, in the place of the old one or in another; `None` if
/// there is no key, and so nothing sealed, and no other place is wanted for the one to come.
///
/// # Errors
/// When it cannot be done to its end. Nothing is lost, and doing it again goes on.
pub fn rekey(places: &KeyPlaces, accounts: &Path, to: Option<FreePlace>) -> Result<Option<Rekeyed>, RekeyError> {
    let to = match to {
        Some(place) => Some(places.free(place)?),
        None => places.place()?,
    };
    let Some(to) = to else {
        // What is sealed and has no key is told.
        return Ok(places.look().map(|_| None)?);
    };
    let own = places.own().unwrap_or_default();
    let _alone = alone(if let KeyPlace::File(path) = &to { path } else { &own })?;
    let sealer = Sealer::new(Sealing::On, places.clone());
    in_store(accounts, stored_accounts)?.iter().try_for_each(|file| resealed(file, &sealer, None).map(|_| ()))?;
    let mut old = places.leaving()?;
    old.extend(places.home_id()?);
    let next = begin(places, &to, &old)?;
    places.remember(next.id())?;
    let mut done = Rekeyed { key: next.id().clone(), values: 0, files: 0 };
    // Looked at again only now: who began before that to add an account had its lock, and may have sealed with the old key.
    for file in in_store(accounts, stored_and_coming)? {
        let resealed = reseal(&file, &sealer, &next)?;
        done.values += resealed.values;
        done.files += usize::from(resealed.values > 0);
        old.extend(resealed.before);
    }
    old.remove(next.id());
    finish(places, &to, &old)?;
    Ok(Some(done))
}

/// Has the new key in its place alone, and the old ones nowhere.
fn finish(places: &KeyPlaces, to: &KeyPlace, old: &BTreeSet<KeyId>) -> Result<(), RekeyError> {
    match to {
        KeyPlace::File(path) => {
            let moved = fs::rename(next_to(path), path).and_then(|()| file::sync_directory(path));
            moved.map_err(|source| RekeyError::Write { path: path.clone(), source })?;
        }
        KeyPlace::Keychain => {
            let own = places.own().unwrap_or_default();
            for path in [next_to(&own), own] {
                removed(&path).map_err(|source| RekeyError::Write { path, source })?;
            }
        }
    }
    let forget = |keychain: &Keychain| old.iter().try_for_each(|id| Key::forget(keychain, id));
    places.keychain.as_ref().map_or(Ok(()), forget)?;
    places.all_left().map_err(RekeyError::Key)
}

fn removed(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.and_then(|()| file::sync_directory(path)),
    }
}

/// The files of all families.
fn in_store(
    accounts: &Path,
    of_family: impl Fn(&Path, Family) -> Result<Vec<StoredAccount>, SourceError>,
) -> Result<Vec<PathBuf>, SourceError> {
    let mut files = Vec::new();
    for family in Family::ALL {
        files.extend(of_family(accounts, family)?.into_iter().map(|account| account.path));
    }
    Ok(files)
}

/// One process at a time.
fn alone(path: &Path) -> Result<File, RekeyError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let lock = opened.map_err(|source| RekeyError::Write { path: path.clone(), source })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(RekeyError::Busy),
        Err(TryLockError::Error(source)) => Err(RekeyError::Write { path, source }),
    }
}

/// The key to come: one that was begun before, or a new one.
fn begin(places: &KeyPlaces, to: &KeyPlace, old: &BTreeSet<KeyId>) -> Result<Key, RekeyError> {
    let unmade = |source| KeyError::Unmade { path: places.own().unwrap_or_default(), source };
    let key = match to {
        KeyPlace::File(path) => begin_beside(path)?,
        KeyPlace::Keychain => Key::random().map_err(unmade)?,
    };
    // Before a keychain has it, and before the home knows it: if this ends then, nothing else tells what is left there.
    places.leave(old.iter().chain([key.id()]))?;
    match to {
        KeyPlace::File(_) => {}
        KeyPlace::Keychain => key.keep(places.keychain.as_ref().ok_or(KeyError::NoKeychain)?)?,
    }
    Ok(key)
}

fn begin_beside(path: &Path) -> Result<Key, RekeyError> {
    let next = next_to(path);
    let unmade = |source| KeyError::Unmade { path: next.clone(), source };
    clear_drafts(&next).map_err(unmade)?;
    if let Some(key) = Key::read(&next)? {
        return Ok(key);
    }
    let key = Key::random().map_err(unmade)?;
    key.write_new(&next).map_err(unmade)?;
    Ok(key)
}

/// Seals a file's values with the new key, while nobody else writes it.
fn reseal(path: &Path, sealer: &Sealer, next: &Key) -> Result<Resealed, RekeyError> {
    let _lock = lock(path)?;
    if !path.exists() {
        return Ok(Resealed::default());
    }
    let resealed = resealed(path, sealer, Some(next))?;
    if resealed.values > 0 {
        file::replace(path, resealed.text.as_bytes())
            .map_err(|source| RekeyError::Write { path: path.to_owned(), source })?;
    }
    Ok(resealed)
}

/// A file with its values sealed with another key.
#[derive(Default)]
struct Resealed {
    /// How many there were.
    values: usize,
    /// The keys that they were sealed with.
    before: BTreeSet<KeyId>,
    text: String,
}

fn lock(path: &Path) -> Result<RefreshLock, RekeyError> {
    match hold(path).map_err(|source| RekeyError::Write { path: path.to_owned(), source })? {
        Held::Ours(lock) => Ok(lock),
        Held::By(holder) => Err(RekeyError::Held { path: path.to_owned(), holder }),
    }
}

/// How many values of a file are not sealed with the new key yet, and the file with them sealed and otherwise byte for
/// byte as it was. Without a new key it is only seen whether they all open.
fn resealed(path: &Path, sealer: &Sealer, next: Option<&Key>) -> Result<Resealed, RekeyError> {
    let (bytes, _) = file::read(path)?;
    let document = file::json(path, &bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (account, mut done) = (store_name(path), Resealed { text, ..Resealed::default() });
    each_text(&document, &mut |field, value| {
        if !is_sealed(value) || next.is_some_and(|next| sealed_by(value).as_ref() == Some(next.id())) {
            return Ok(());
        }
        let place = Place { account: &account, field };
        let closed = |why| RekeyError::Closed { path: path.to_owned(), field: field.to_owned(), why };
        let plain = sealer.open(value, place).map_err(closed)?;
        if let Some(next) = next {
            // No other text is like it: each was sealed with a nonce of its own.
            done.text = done.text.replacen(value, &next.seal(&plain, place)?, 1);
            done.values += 1;
            done.before.extend(sealed_by(value));
        }
        Ok::<_, RekeyError>(())
    })?;
    Ok(done)
}

#[cfg(test)]
mod tests;
