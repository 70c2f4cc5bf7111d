//! `duduclaw service`: running under a service manager.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use duduclaw_service::Scope;

use super::{Exit, Globals, hint, say};
use crate::app::{Configuration, unit};
use crate::config::surroundings::Machine;
use crate::config::topology::Topology;
use crate::credentials::SecretSource;

/// Run under a service manager.
#[derive(Debug, Args)]
pub struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Print the files that make it a service, each under a line with its place; change nothing.
    #[command(after_help = "Example:\n  duduclaw service print --user")]
    Print(PrintArgs),
}

#[derive(Debug, Args)]
struct PrintArgs {
    /// For your own service manager (the default).
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// For the machine's service manager; it runs as the user who prints.
    #[arg(long)]
    system: bool,
}

pub(super) fn run(args: &ServiceArgs, globals: &Globals) -> Result<Exit> {
    match &args.command {
        ServiceCommand::Print(args) => print(args, globals),
    }
}

fn print(args: &PrintArgs, globals: &Globals) -> Result<Exit> {
    let scope = if args.system { Scope::System { user: unit::user() } } else { Scope::User };
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let Some(ready) = &loaded.ready else {
        bail!("the configuration has errors; `duduclaw check` shows them");
    };
    let plan = unit::plan(scope, &globals.named(), &loaded, ready)?;
    for file in unit::files(&plan)? {
        say(&format!("# ---- {}\n{}", file.path.display(), file.text))?;
    }
    // launchd opens the log there, and systemd lets the machine's service write there alone, before it could make it.
    if args.system || cfg!(target_os = "macos") {
        warn_of_a_missing_home(&plan.home);
    }
    if args.system && !cfg!(target_os = "macos") {
        warn_of_the_sandbox(&plan.home, &ready.topology);
    }
    Ok(Exit::Done)
}

fn warn_of_a_missing_home(home: &Path) {
    if !home.is_dir() {
        hint(&format!("duduclaw: {0} is not there yet; the service needs it: mkdir -m 700 '{0}'", home.display()));
    }
}

/// What would work at a terminal and does not in a unit that writes nothing but its home.
fn warn_of_the_sandbox(home: &Path, topology: &Topology) {
    for path in topology.entries().iter().filter_map(|entry| foreign_login(&entry.source, home)) {
        hint(&format!(
            "duduclaw: {} lies outside {}, where the service cannot write down a renewed login; use --user",
            path.display(),
            home.display()
        ));
    }
}

fn foreign_login<'a>(source: &'a SecretSource, home: &Path) -> Option<&'a Path> {
    match source {
        SecretSource::CredentialsFile(path) | SecretSource::StoreFile(path) => {
            Some(path.as_path()).filter(|path| !path.starts_with(home))
        }
        SecretSource::TokenEnv(_) | SecretSource::ApiKeyEnv(_) | SecretSource::Keychain { .. } | SecretSource::None => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logins_outside_the_home_cannot_be_renewed_there() {
        let home = Path::new("/h");
        let file = |path: &str| SecretSource::CredentialsFile(path.into());
        assert_eq!(
            foreign_login(&file("/u/.claude/.credentials.json"), home),
            Some("/u/.claude/.credentials.json".as_ref())
        );
        assert_eq!(foreign_login(&file("/h/accounts/a.json"), home), None);
        assert_eq!(foreign_login(&SecretSource::TokenEnv("X".to_owned()), home), None);
    }
}
