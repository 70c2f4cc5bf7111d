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

use duduclaw_actors::id::{AccountId, EntryId};
use duduclaw_actors::roster::Switch;

use crate::config::topology::{NameError, Topology};

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

/// The entries that a change of this name concerns, and their account. Entries of the same account by other names stay
/// as they are.
///
/// # Errors
/// When there is none of this name, or they are of several accounts; for what goes, when there are several at all.
pub fn concerned(topology: &Topology, name: &str, change: Change) -> Result<(Vec<EntryId>, AccountId), NameError> {
    let entries = match change {
        Change::Remove | Change::Add => vec![topology.entry_named(name)?],
        Change::Switch(_) | Change::Priority(_) => topology.entries_named(name)?,
    };
    Ok((entries.iter().map(|entry| entry.id.clone()).collect(), entries[0].account))
}

/// What is to be known of the account after a change of one of its entries, where it goes by another name as well.
#[must_use]
pub fn sequel(topology: &Topology, account: AccountId, changed: &[EntryId], change: Change) -> Option<String> {
    let stands = topology.representative(account).filter(|stands| !changed.contains(&stands.id))?;
    let is_on = stands.switch == Switch::On;
    match change {
        Change::Switch(Switch::Off) | Change::Remove if is_on => Some(format!("the account goes on as {}", stands.id)),
        Change::Switch(Switch::Off) | Change::Add => None,
        Change::Remove => Some(format!("the account stays as {}, which is switched off", stands.id)),
        Change::Switch(Switch::On) | Change::Priority(_) => {
            Some(format!("the account is {}, and only that one's secret and settings are used", stands.id))
        }
    }
}
