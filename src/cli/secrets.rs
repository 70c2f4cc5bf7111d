//! `duduclaw secrets`: the key of stored secrets, and carrying them to another machine.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use duduclaw_actors::id::Family;
use zeroize::Zeroizing;

use super::{Ended, Exit, Globals, hint, prompt, say};
use crate::app::{Configuration, Home, sealer};
use crate::config::Ready;
use crate::config::surroundings::Machine;
use crate::credentials::{
    Brought, Fate, FreePlace, IfThere, SHORTEST_PASSPHRASE, Sealer, export, import, process_environment, rekey,
    stored_accounts,
};

/// Change the key of stored secrets, or carry them to another machine.
#[derive(Debug, Args)]
pub struct SecretsArgs {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// Seal all stored secrets with a new key, also while a daemon runs.
    #[command(
        after_help = "Examples:\n  duduclaw secrets rekey\n  duduclaw secrets rekey --to keychain\n\nInterrupted, it goes on when it is run again."
    )]
    Rekey(RekeyArgs),
    /// Write all stored secrets to a file, under a passphrase.
    #[command(after_help = "Example:\n  duduclaw secrets export ~/duduclaw-secrets.json")]
    Export(ExportArgs),
    /// Bring in the accounts of such a file, each sealed with this home's own key.
    #[command(
        after_help = "Example:\n  duduclaw secrets import ~/duduclaw-secrets.json\n\nExit status: 0 all were brought in, 1 some were not, 3 some are there already."
    )]
    Import(ImportArgs),
}

#[derive(Debug, Args)]
struct RekeyArgs {
    /// Have the new key there; without it, where the old one is.
    #[arg(long, value_name = "PLACE")]
    to: Option<KeyHolder>,
}

/// Where a key can be put.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum KeyHolder {
    /// macOS' keychain.
    Keychain,
    /// The file `key` in the home.
    File,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// The file to be made; one that is there stays as it is.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// The file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Put its accounts in the place of those that are called alike.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Debug, Args)]
struct PassphraseArgs {
    /// Read the passphrase from standard input.
    #[arg(long)]
    stdin: bool,
}

/// The store and what opens it.
struct Store {
    home: PathBuf,
    ready: Ready,
    sealer: Sealer,
}

pub(super) fn run(args: &SecretsArgs, globals: &Globals) -> Result<Exit> {
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let Some(ready) = loaded.ready else {
        bail!("the configuration has errors; `duduclaw check` shows them");
    };
    let sealer = sealer(&ready.settings, &loaded.home, &process_environment());
    let store = Store { home: loaded.home, ready, sealer };
    match &args.command {
        SecretsCommand::Rekey(args) => store.rekey(args),
        SecretsCommand::Export(args) => store.export(args),
        SecretsCommand::Import(args) => store.import(args),
    }
}

impl Store {
    fn rekey(&self, args: &RekeyArgs) -> Result<Exit> {
        let to = args.to.map(|holder| match holder {
            KeyHolder::Keychain => FreePlace::Keychain,
            KeyHolder::File => FreePlace::File,
        });
        match rekey(self.sealer.places(), &self.ready.settings.accounts_dir, to)? {
            Some(done) => say(&format!(
                "the new key is {}; {} values in {} files are sealed with it\n",
                done.key, done.values, done.files
            ))?,
            None => say("there is no key, and nothing is sealed; the first stored secret makes one\n")?,
        }
        Ok(Exit::Done)
    }

    fn export(&self, args: &ExportArgs) -> Result<Exit> {
        if args.file.symlink_metadata().is_ok() {
            bail!("{} is there already, and is left as it is; name another file", args.file.display());
        }
        let files = self.files()?;
        if files.is_empty() {
            bail!("no account is stored in {}: there is nothing to carry", self.ready.settings.accounts_dir.display());
        }
        let passphrase = args.passphrase.ask(Asked::Twice)?;
        let (bytes, accounts) = export(&files, &self.sealer, &passphrase)?;
        write_new(&args.file, &bytes).with_context(|| format!("{} cannot be written", args.file.display()))?;
        say(&format!(
            "{accounts} accounts are in {}; logins that are renewed here from now on are not: use the file soon\n",
            args.file.display()
        ))?;
        Ok(Exit::Done)
    }

    fn import(&self, args: &ImportArgs) -> Result<Exit> {
        let bytes = std::fs::read(&args.file).with_context(|| format!("{} cannot be read", args.file.display()))?;
        let passphrase = args.passphrase.ask(Asked::Once)?;
        Home::open(&self.home)?;
        let if_there = if args.replace { IfThere::Replace } else { IfThere::Keep };
        let brought = import(&bytes, &passphrase, &self.ready.settings.accounts_dir, &self.sealer, if_there)?;
        let mut exit = Exit::Done;
        for Brought { account, fate } in brought {
            match fate {
                Ok(Fate::Written) => say(&format!("{account}: brought in\n"))?,
                Ok(Fate::Kept) => {
                    exit = if exit == Exit::Failed { exit } else { Exit::Degraded };
                    say(&format!("{account}: there already, and left as it is; --replace takes the other one\n"))?;
                }
                Err(error) => {
                    exit = Exit::Failed;
                    hint(&format!("duduclaw: {account} was not brought in: {error}"));
                }
            }
        }
        Ok(exit)
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

/// Writes a file that is not there yet, whole or not at all.
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| drop(std::fs::remove_file(path)))
}

/// How often a passphrase is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Whoever is wrong about it is told.
    Once,
    /// Nobody else knows it.
    Twice,
}

impl PassphraseArgs {
    fn ask(&self, asked: Asked) -> Result<Zeroizing<String>> {
        if self.stdin {
            let text = prompt::standard_input()?;
            return Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()));
        }
        if !prompt::is_possible() {
            let text = "nobody is there to be asked for the passphrase; pipe it in, with --stdin";
            return Err(Ended::error(Exit::Usage, text.to_owned()));
        }
        let passphrase = prompt::hidden(&format!("The passphrase ({SHORTEST_PASSPHRASE} characters at least): "))?;
        if asked == Asked::Twice && *prompt::hidden("Once more: ")? != *passphrase {
            bail!("the two are not alike; nothing was written");
        }
        Ok(passphrase)
    }
}
