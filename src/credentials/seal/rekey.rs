//! A new key for what is sealed.
//!
//! Whenever it is interrupted, everything opens, and doing it again goes on where it stopped: the new key lies beside the
//! old one until all is sealed with it, and only then takes its place. From the first moment the home is known to be
//! sealed with the new key, and whoever seals something meanwhile does it with that one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use duduclaw_actors::id::Family;

use super::key::{clear_drafts, next_to};
use super::{Key, KeyError, KeyId, KeyPlaces, OpenError, Place, SealError, Sealer, Sealing, is_sealed, sealed_by};
use crate::credentials::error::SourceError;
use crate::credentials::file;
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

/// Seals all that the files of the account store hold with a new key; `None` if there is no key, and so nothing sealed.
///
/// # Errors
/// When it cannot be done to its end. Nothing is lost, and doing it again goes on.
pub fn rekey(places: &KeyPlaces, accounts: &Path) -> Result<Option<Rekeyed>, RekeyError> {
    let Some(path) = places.place()? else { return Ok(None) };
    let _alone = alone(&path)?;
    let sealer = Sealer::new(Sealing::On, places.clone());
    in_store(accounts, stored_accounts)?.iter().try_for_each(|file| resealed(file, &sealer, None).map(|_| ()))?;
    let next = begin(&path)?;
    places.remember(next.id())?;
    let mut done = Rekeyed { key: next.id().clone(), values: 0, files: 0 };
    // Looked at again only now: who began before that to add an account had its lock, and may have sealed with the old key.
    for file in in_store(accounts, stored_and_coming)? {
        let values = reseal(&file, &sealer, &next)?;
        done.values += values;
        done.files += usize::from(values > 0);
    }
    let finished = fs::rename(next_to(&path), &path).and_then(|()| file::sync_directory(&path));
    finished.map_err(|source| RekeyError::Write { path, source })?;
    Ok(Some(done))
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
fn begin(path: &Path) -> Result<Key, RekeyError> {
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
fn reseal(path: &Path, sealer: &Sealer, next: &Key) -> Result<usize, RekeyError> {
    let _lock = lock(path)?;
    if !path.exists() {
        return Ok(0);
    }
    let (values, document) = resealed(path, sealer, Some(next))?;
    if values > 0 {
        file::replace(path, document.as_bytes())
            .map_err(|source| RekeyError::Write { path: path.to_owned(), source })?;
    }
    Ok(values)
}

fn lock(path: &Path) -> Result<RefreshLock, RekeyError> {
    match hold(path).map_err(|source| RekeyError::Write { path: path.to_owned(), source })? {
        Held::Ours(lock) => Ok(lock),
        Held::By(holder) => Err(RekeyError::Held { path: path.to_owned(), holder }),
    }
}

/// How many values of a file are not sealed with the new key yet, and the file with them sealed and otherwise byte for
/// byte as it was. Without a new key it is only seen whether they all open.
fn resealed(path: &Path, sealer: &Sealer, next: Option<&Key>) -> Result<(usize, String), RekeyError> {
    let (bytes, _) = file::read(path)?;
    let document = file::json(path, &bytes)?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let (account, mut values) = (store_name(path), 0);
    each_text(&document, &mut |field, value| {
        if !is_sealed(value) || next.is_some_and(|next| sealed_by(value).as_ref() == Some(next.id())) {
            return Ok(());
        }
        let place = Place { account: &account, field };
        let closed = |why| RekeyError::Closed { path: path.to_owned(), field: field.to_owned(), why };
        let plain = sealer.open(value, place).map_err(closed)?;
        if let Some(next) = next {
            // No other text is like it: each was sealed with a nonce of its own.
            text = text.replacen(value, &next.seal(&plain, place)?, 1);
            values += 1;
        }
        Ok::<_, RekeyError>(())
    })?;
    Ok((values, text))
}

#[cfg(test)]
mod tests;
