//! The folder of stored accounts: `<accounts>/<family>/<name>.json`, one file an account.
//!
//! Never here: what is in the files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use duduclaw_actors::id::Family;

use super::error::SourceError;
use super::lock::locked_by;

/// An account file of the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredAccount {
    /// The account's name: the file's without its ending.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// Whether a text can name a stored account: `[a-z0-9-]+`, which no path trick fits into.
#[must_use]
pub fn is_store_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// The file of a stored account of this name, which [`is_store_name`] has accepted.
#[must_use]
pub fn store_file(accounts: &Path, family: Family, name: &str) -> PathBuf {
    accounts.join(family.as_str()).join(format!("{name}.json"))
}

/// All stored accounts of a family in the order of their names; none if there is no folder. What is in the files is not
/// looked at: a corrupt one is an account, a broken one.
///
/// # Errors
/// When the folder is there and cannot be listed.
pub fn stored_accounts(accounts: &Path, family: Family) -> Result<Vec<StoredAccount>, SourceError> {
    listed(accounts, family, account_file)
}

/// The same, and those that somebody may be about to make: their locks are there before they are.
///
/// # Errors
/// When the folder is there and cannot be listed.
pub(super) fn stored_and_coming(accounts: &Path, family: Family) -> Result<Vec<StoredAccount>, SourceError> {
    let mut found = stored_accounts(accounts, family)?;
    let coming = listed(accounts, family, |lock| locked_by(&lock).and_then(named))?;
    found.extend(coming.into_iter().filter(|account| account.path.symlink_metadata().is_err()));
    Ok(found)
}

fn listed(
    accounts: &Path,
    family: Family,
    account: impl Fn(PathBuf) -> Option<StoredAccount>,
) -> Result<Vec<StoredAccount>, SourceError> {
    let folder = accounts.join(family.as_str());
    let failed = |source| SourceError::Folder { path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(account(entry.map_err(failed)?.path()));
    }
    found.sort();
    Ok(found)
}

fn account_file(path: PathBuf) -> Option<StoredAccount> {
    named(path).filter(|account| fs::metadata(&account.path).is_ok_and(|meta| meta.is_file()))
}

fn named(path: PathBuf) -> Option<StoredAccount> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
    is_store_name(&name).then_some(StoredAccount { name, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(accounts: &Path) -> Vec<String> {
        let found = stored_accounts(accounts, Family::Claude).expect("listed");
        found.into_iter().map(|account| account.name).collect()
    }

    #[test]
    fn valid_names_are_listed_in_order_and_nothing_else() {
        let accounts = tempfile::tempdir().expect("a folder");
        let folder = accounts.path().join("claude");
        fs::create_dir(&folder).expect("made");
        for file in [
            "b.json",
            "a-2.json",
            "Upper.json",
            "a_b.json",
            ".json",
            "x.txt",
            ".a.json.duduclaw-new",
            "a-2.json.duduclaw.lock",
        ] {
            fs::write(folder.join(file), "{}").expect("written");
        }
        fs::write(folder.join("corrupt.json"), "{}}").expect("written");
        fs::create_dir(folder.join("folder.json")).expect("made");
        std::os::unix::fs::symlink(folder.join("b.json"), folder.join("z.json")).expect("linked");
        assert_eq!(names(accounts.path()), ["a-2", "b", "corrupt", "z"]);
    }

    #[test]
    fn a_missing_folder_is_empty_and_another_failure_is_told() {
        let accounts = tempfile::tempdir().expect("a folder");
        assert!(names(accounts.path()).is_empty());
        fs::write(accounts.path().join("claude"), "a file").expect("written");
        let error = stored_accounts(accounts.path(), Family::Claude).expect_err("no folder");
        assert!(error.to_string().contains("cannot be listed"), "{error}");
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["", "..", "../x", "a/b", "a.b", "A", "ä"] {
            assert!(!is_store_name(name), "{name}");
        }
        assert!(is_store_name("work-1"));
        let path = store_file(Path::new("/s"), Family::Codex, "work-1");
        assert_eq!(path, Path::new("/s/codex/work-1.json"));
    }
}
