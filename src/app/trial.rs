//! A change of the configuration file, tried before it is written: what comes of it must be good enough to be put in
//! force.
//!
//! For the daemon, and for commands where none runs. Never here: putting it in force.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use duduclaw_actors::id::EntryId;

use super::reload::{Machine, load};
use crate::admin::AmendFault;
use crate::amend::{Amended, Change, NewEntry, amend, bring};
use crate::config::locate::Named;
use crate::config::report;
use crate::config::surroundings::Surroundings;
use crate::config::topology::Ids;

/// The file, and how to find out what a text of it would mean.
pub struct Trial {
    pub(super) path: PathBuf,
    pub(super) named: Named,
    pub(super) machine: Machine,
    pub(super) ids: Ids,
}

impl Trial {
    /// Changes these entries, if what comes of it is good.
    ///
    /// # Errors
    /// When it cannot be done; then nothing was written.
    pub fn amend(&self, entries: &[EntryId], change: Change) -> Result<Amended, AmendFault> {
        Ok(amend(&self.path, entries, change, |text| self.check(text))?)
    }

    /// Adds these entries to a provider's list, if what comes of it is good.
    ///
    /// # Errors
    /// When it cannot be done; then nothing was written.
    pub(crate) fn bring(&self, provider: &str, there: &[NewEntry], new: &[NewEntry]) -> Result<Amended, AmendFault> {
        Ok(bring(&self.path, provider, there, new, |text| self.check(text))?)
    }

    fn check(&self, text: &str) -> Result<(), String> {
        let machine = Edited { machine: &*self.machine, path: &self.path, text };
        let loaded = load(&self.named, &machine, &mut self.ids.clone());
        if loaded.report.may_start() { Ok(()) } else { Err(report::render(&loaded.report)) }
    }
}

/// The machine as it would be with another text in one file.
struct Edited<'a> {
    machine: &'a (dyn Surroundings + Send + Sync),
    path: &'a Path,
    text: &'a str,
}

impl Surroundings for Edited<'_> {
    fn var(&self, name: &str) -> Option<OsString> {
        self.machine.var(name)
    }

    fn vars_beginning(&self, prefix: &str) -> Vec<String> {
        self.machine.vars_beginning(prefix)
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        if path == self.path { Ok(self.text.as_bytes().to_vec()) } else { self.machine.read(path) }
    }

    fn read_secret(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        self.machine.read_secret(path)
    }

    fn has_secret(&self, path: &Path) -> bool {
        self.machine.has_secret(path)
    }

    fn user_home(&self) -> Option<PathBuf> {
        self.machine.user_home()
    }
}
