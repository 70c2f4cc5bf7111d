//! Changing the configuration file for its owner: one account's entry in it, and nothing else.
//!
//! `text` changes the text and keeps every comment; `file` changes the file in one step, so that no reader sees half of
//! it and no other writer's change is lost; `advice` says what to write where there is no entry to change. Never here:
//! what a configuration means, and putting it in force.

mod advice;
mod bring;
mod file;
mod text;

use std::path::Path;

use duduclaw_actors::id::EntryId;
use duduclaw_actors::roster::Switch;

use crate::config::topology::Topology;

pub use advice::{advice, entry_to_add};
pub(crate) use bring::{NewEntry, bring as brought};
pub use file::FileError;
pub use text::{Form, TextError};

/// A change of accounts' entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// On or off.
    Switch(Switch),
    /// Another priority; lower is preferred.
    Priority(u32),
    /// The entry goes.
    Remove,
    /// A new entry, of the account of this name in the store.
    Add,
}

/// What became of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amended {
    /// It is another.
    Written,
    /// It said so already.
    AsItWas,
}

/// Why the file was not changed; it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum AmendError {
    /// The entry cannot be changed in this text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change, or what stood there before, makes a configuration that cannot be put in force.
    #[error("the configuration would not be put in force, so nothing was written:\n{0}")]
    Refused(String),
}

/// Changes these entries in the file, if what comes of it passes `check`.
///
/// # Errors
/// When it cannot be done; then nothing was written.
pub fn amend(
    path: &Path,
    entries: &[EntryId],
    change: Change,
    check: impl Fn(&str) -> Result<(), String>,
) -> Result<Amended, AmendError> {
    file::replace(path, |text| {
        let changed = entries.iter().try_fold(text.to_owned(), |text, entry| text::change(&text, entry, change))?;
        check(&changed).map_err(AmendError::Refused)?;
        Ok(changed)
    })
}

/// Adds these entries to the file, if what comes of it passes `check`. `there` are the provider's accounts of now, for a
/// provider that has no list of its own yet.
///
/// # Errors
/// When it cannot be done; then nothing was written.
pub(crate) fn bring(
    path: &Path,
    provider: &str,
    there: &[NewEntry],
    new: &[NewEntry],
    check: impl Fn(&str) -> Result<(), String>,
) -> Result<Amended, AmendError> {
    file::replace(path, |text| {
        let changed = bring::bring(text, provider, there, new)?;
        check(&changed).map_err(AmendError::Refused)?;
        Ok(changed)
    })
}

/// How the configuration in this file writes its fleet; by providers if there is none.
#[must_use]
pub fn form_of(path: Option<&Path>) -> Form {
    let text = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    text::form(&text)
}

/// The entries that a change concerns: all of an account, or the one that goes.
#[must_use]
pub fn concerned(topology: &Topology, entry: &EntryId, change: Change) -> Vec<EntryId> {
    let account = topology.entry(entry).map(|entry| entry.account);
    match change {
        Change::Remove | Change::Add => vec![entry.clone()],
        Change::Switch(_) | Change::Priority(_) => {
            let all = topology.entries().iter().filter(|entry| Some(entry.account) == account);
            all.map(|entry| entry.id.clone()).collect()
        }
    }
}
