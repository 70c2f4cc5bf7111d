//! `duduclaw import`: what other programs know, brought over. First it is only told what would be done.

mod accounts;
mod state;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Exit, Globals};
use crate::imports::Program;

/// Bring accounts and quota over from other programs.
#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    command: ImportCommand,
}

#[derive(Debug, Subcommand)]
enum ImportCommand {
    /// Accounts, priorities and thresholds of teamclaude: its teamclaude.json.
    #[command(
        after_help = "Example:\n  duduclaw import teamclaude --apply\n\nWithout PATH: $TEAMCLAUDE_CONFIG, else teamclaude.json in $XDG_CONFIG_HOME or ~/.config.\n\nExit status: 0 told or done, 1 not all of it could be done."
    )]
    Teamclaude(From),
    /// Accounts, priorities and thresholds of shunt: its shunt.toml or shunt.yaml, or a folder with its files.
    #[command(
        after_help = "Example:\n  duduclaw import shunt --apply\n  duduclaw import shunt ~/.config/shunt/shunt.yaml --apply\n\nWithout PATH: what shunt itself finds, which is shunt.toml, shunt.yaml or shunt.yml here, in shunt/ of $XDG_CONFIG_HOME or ~/.config, or in Homebrew's etc; and the logins in $SHUNT_CLAUDE_ACCOUNTS_DIR or ~/.shunt/accounts/claude.\n\nExit status: 0 told or done, 1 not all of it could be done."
    )]
    Shunt(From),
    /// Accounts and priorities of ccflare or better-ccflare: its database.
    #[command(
        after_help = "Example:\n  duduclaw import ccflare --apply\n\nWithout PATH: $BETTER_CCFLARE_DB_PATH or $ccflare_DB_PATH, else better-ccflare/better-ccflare.db or ccflare/ccflare.db in $XDG_CONFIG_HOME or ~/.config.\n\nExit status: 0 told or done, 1 not all of it could be done."
    )]
    Ccflare(From),
    /// What shunt knew of quota: its state file.
    #[command(
        after_help = "Example:\n  duduclaw import shunt-state\n  duduclaw import shunt-state ~/shunt-state.json\n\nWithout PATH: the state_path in [server.pool] of the configuration that shunt itself finds.\n\nExit status: 0 done, 1 it could not be done."
    )]
    ShuntState(StateArgs),
}

#[derive(Debug, Args)]
struct From {
    /// Its file, or the folder with it. Default: where it keeps it, see below.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Do it. Without, it is only told what would be done, and on a terminal asked for.
    #[arg(long)]
    apply: bool,
    /// The provider that gets the accounts; needed where several take Claude logins.
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
}

#[derive(Debug, Args)]
struct StateArgs {
    /// Its state file, of version 2 or 3. Default: the one that its configuration names.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// What others wrote, on one line of a terminal that obeys none of it.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}

pub(super) async fn run(args: ImportArgs, globals: &Globals) -> anyhow::Result<Exit> {
    match args.command {
        ImportCommand::Teamclaude(from) => accounts::run(Program::Teamclaude, &from, globals).await,
        ImportCommand::Shunt(from) => accounts::run(Program::Shunt, &from, globals).await,
        ImportCommand::Ccflare(from) => accounts::run(Program::Ccflare, &from, globals).await,
        ImportCommand::ShuntState(args) => state::run(&args, globals).await,
    }
}
