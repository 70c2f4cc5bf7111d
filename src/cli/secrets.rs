//! `duduclaw secrets`: the key of stored secrets.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use duduclaw_actors::id::Family;

use super::{Exit, Globals, say};
use crate::app::{Configuration, sealer};
use crate::config::Ready;
use crate::config::surroundings::Machine;
use crate::credentials::{Sealer, process_environment, rekey, stored_accounts};

/// Change the key that stored secrets are sealed with.
#[derive(Debug, Args)]
pub struct SecretsArgs {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// Seal all stored secrets with a new key, also while a daemon runs.
    #[command(after_help = "Example:\n  duduclaw secrets rekey\n\nInterrupted, it goes on when it is run again.")]
    Rekey,
}

/// The store and what opens it.
struct Store {
    ready: Ready,
    sealer: Sealer,
}

pub(super) fn run(args: &SecretsArgs, globals: &Globals) -> Result<Exit> {
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let Some(ready) = loaded.ready else {
        bail!("the configuration has errors; `duduclaw check` shows them");
    };
    let sealer = sealer(&ready.settings, &loaded.home, &process_environment());
    let store = Store { ready, sealer };
    match args.command {
        SecretsCommand::Rekey => store.rekey(),
    }
}

impl Store {
    fn rekey(&self) -> Result<Exit> {
        match rekey(self.sealer.places(), &self.files()?)? {
            Some(done) => say(&format!(
                "the new key is {}; {} values in {} files are sealed with it\n",
                done.key, done.values, done.files
            ))?,
            None => say("there is no key, and nothing is sealed; the first stored secret makes one\n")?,
        }
        Ok(Exit::Done)
    }

    /// Every file of the store.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for family in Family::ALL {
            let stored = stored_accounts(&self.ready.settings.accounts_dir, family)?;
            files.extend(stored.into_iter().map(|account| account.path));
        }
        Ok(files)
    }
}
