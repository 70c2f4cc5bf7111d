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
        after_help = "Example:\n  duduclaw import teamclaude ~/.config/teamclaude.json --apply\n\nExit status: 0 told or done, 1 not all of it could be done."
    )]
    Teamclaude(From),
    /// Accounts, priorities and thresholds of shunt: its shunt.toml, or its folder.
    #[command(
        after_help = "Example:\n  duduclaw import shunt ~/.shunt --apply\n\nExit status: 0 told or done, 1 not all of it could be done."
    )]
    Shunt(From),
    /// Accounts and priorities of ccflare: its database.
    #[command(
        after_help = "Example:\n  duduclaw import ccflare ~/.config/ccflare/ccflare.db --apply\n\nExit status: 0 told or done, 1 not all of it could be done."
    )]
    Ccflare(From),
    /// What shunt knew of quota: its state file.
    #[command(
        after_help = "Example:\n  duduclaw import shunt-state ~/shunt-state.json\n\nExit status: 0 done, 1 it could not be done."
    )]
    ShuntState(StateArgs),
}

#[derive(Debug, Args)]
struct From {
    /// Its file.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Do it. Without, it is only told what would be done, and on a terminal asked for.
    #[arg(long)]
    apply: bool,
    /// The provider that gets the accounts; needed where several take Claude logins.
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
}

#[derive(Debug, Args)]
struct StateArgs {
    /// Its state file, of version 2 or 3.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: ImportArgs, globals: &Globals) -> anyhow::Result<Exit> {
    match args.command {
        ImportCommand::Teamclaude(from) => accounts::run(Program::Teamclaude, &from, globals).await,
        ImportCommand::Shunt(from) => accounts::run(Program::Shunt, &from, globals).await,
        ImportCommand::Ccflare(from) => accounts::run(Program::Ccflare, &from, globals).await,
        ImportCommand::ShuntState(args) => state::run(&args, globals).await,
    }
}
