//! Where a credential really is that is known by the name of a file.
//!
//! As a rule that is the file. But where there is a keychain, Claude Code keeps its login in an item there, and in its
//! file only while the keychain cannot be had; it reads them in this order, and so do we. The name of its file stands for
//! both, so that everything that is said of the file holds of the item as well: whose it is, who may renew it, what is a
//! copy of it.
//!
//! Never here: what the bytes mean.

use std::env;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::error::SourceError;
use super::file::{self, FileStamp};
use super::identity::claude_config_dir;
use super::keychain::{Item, Keychain, KeychainError};

/// What Claude Code calls its login in a keychain.
const SERVICE: &str = "Claude Code-credentials";
/// Whose it is there if the user's name does not go into a command.
const NOBODY: &str = "claude-code-user";

/// A file, and how it was when it was looked at: `None` if it was not there.
pub(crate) type Seen = (PathBuf, Option<FileStamp>);

/// A credential as it was found.
pub(crate) struct Kept {
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    /// As long as these files are so, it is the same.
    pub(crate) seen: Vec<Seen>,
    pub(crate) place: Place,
}

/// Where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File,
    Item(Item),
}

/// Whether what is renewed can be written where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Enough,
    /// It can be read there, and is too long to be written.
    TooLittle,
}

/// Why a credential cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWritten {
    #[error("{} cannot be written: {source}", .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("Claude Code's login cannot be written: {0}")]
    Item(#[from] KeychainError),
}

/// Reads what the file's name stands for.
pub(crate) fn read(path: &Path) -> Result<Kept, SourceError> {
    read_beside(path, Keychain::of_this_machine())
}

/// The items of a keychain that are looked at before the file, for people; none where there is no keychain.
pub(crate) fn looked_for(path: &Path) -> Vec<String> {
    let config_dir = Keychain::of_this_machine().and_then(|_| claude_config_dir(path));
    config_dir.map(items).unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// Has the next look go to where things are, and not by what is known of them: something hangs on it.
pub(crate) fn look_anew() {
    if let Some(keychain) = Keychain::of_this_machine() {
        keychain.look_anew();
    }
}

/// Replaces it where it was found; gives how the files are then.
pub(crate) fn replace(path: &Path, place: &Place, bytes: &[u8]) -> Result<Vec<Seen>, NotWritten> {
    replace_beside(path, place, bytes, Keychain::of_this_machine())
}

/// The files whose change may be a change of what the name stands for.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let database =
        Keychain::of_this_machine().filter(|_| claude_config_dir(path).is_some()).and_then(Keychain::database);
    [Some(path), database].into_iter().flatten().map(Path::to_owned).collect()
}

fn read_beside(path: &Path, keychain: Option<&Keychain>) -> Result<Kept, SourceError> {
    let Some((keychain, config_dir)) = keychain.zip(claude_config_dir(path)) else {
        let (bytes, stamp) = file::read(path)?;
        return Ok(Kept { bytes, seen: vec![(path.to_owned(), Some(stamp))], place: Place::File });
    };
    let database = keychain.database().map(|database| (database.to_owned(), FileStamp::at(database)));
    let mut problem = None;
    for item in items(config_dir) {
        match keychain.read(&item) {
            Ok(Some(bytes)) => {
                return Ok(Kept { bytes, seen: database.into_iter().collect(), place: Place::Item(item) });
            }
            Ok(None) => {}
            Err(error) => problem = Some(error),
        }
    }
    match (file::read(path), problem) {
        (Ok((bytes, stamp)), _) => {
            let seen = [Some((path.to_owned(), Some(stamp))), database].into_iter().flatten().collect();
            Ok(Kept { bytes, seen, place: Place::File })
        }
        (Err(SourceError::Missing { path }), Some(problem)) => Err(SourceError::Keychain { path, problem }),
        (Err(error), _) => Err(error),
    }
}

fn replace_beside(
    path: &Path,
    place: &Place,
    bytes: &[u8],
    keychain: Option<&Keychain>,
) -> Result<Vec<Seen>, NotWritten> {
    match (place, keychain) {
        (Place::Item(item), Some(keychain)) => {
            let stamp = keychain.write(item, bytes)?;
            Ok(keychain.database().map(|database| (database.to_owned(), stamp)).into_iter().collect())
        }
        (Place::Item(_) | Place::File, _) => {
            let failed = |source| NotWritten::File { path: path.to_owned(), source };
            let stamp = file::replace(path, bytes).map_err(failed)?;
            Ok(vec![(path.to_owned(), Some(stamp))])
        }
    }
}

impl Place {
    /// Whether a credential of this length can be written here after it was renewed.
    pub(crate) fn room(&self, bytes: usize) -> Room {
        /// By how much a renewed pair may be longer.
        const LONGER: usize = 64;
        match self {
            Self::Item(item) if !item.has_room_for(bytes + LONGER) => Room::TooLittle,
            Self::Item(_) | Self::File => Room::Enough,
        }
    }
}

/// The items that Claude Code may keep the login of a folder in. The usual folder has a name of its own, unless it was
/// chosen like any other.
fn items(config_dir: &Path) -> Vec<Item> {
    let account = account(&["USER", "LOGNAME"].map(|name| env::var(name).unwrap_or_default()));
    let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().join(".claude"));
    let usual = (home.as_deref() == Some(config_dir)).then(|| SERVICE.to_owned());
    let services = [usual, config_dir.to_str().map(service_of_chosen)];
    services.into_iter().flatten().filter_map(|service| Item::named(&service, &account)).collect()
}

fn service_of_chosen(config_dir: &str) -> String {
    let hash = Sha256::digest(config_dir.as_bytes());
    let digits: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{SERVICE}-{digits}")
}

fn account(names: &[String]) -> String {
    let name = names.iter().find(|name| !name.is_empty());
    let is_plain = |name: &&String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    name.filter(is_plain).cloned().unwrap_or_else(|| NOBODY.to_owned())
}

#[cfg(test)]
mod tests;
