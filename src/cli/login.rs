//! `duduclaw login`: an account from a login at its provider, or from the one that another program of this machine has.
//!
//! No token is ever shown. Never here: the protocol.

mod browser;
mod claude;
mod codex;
mod import;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Exit, Globals};
pub(super) use import::not_the_machines;

/// Log in, and save the account.
#[derive(Debug, Args)]
pub struct LoginArgs {
    #[command(subcommand)]
    command: LoginCommand,
}

#[derive(Debug, Subcommand)]
enum LoginCommand {
    /// Log in to Claude, take over Claude Code's login, or make a token for a year.
    #[command(
        after_help = "Example:\n  duduclaw login claude --name work\n  duduclaw login claude --name mine --mode import\n  duduclaw login claude --name backup --mode setup-token --manual\n\nExit status: 0 saved, 1 it was not."
    )]
    Claude(ClaudeArgs),
    /// Log in to ChatGPT, for Codex.
    #[command(
        after_help = "Example:\n  duduclaw login codex --name work\n  duduclaw login codex --name work --mode device\n\nExit status: 0 saved, 1 it was not."
    )]
    Codex(CodexArgs),
}

#[derive(Debug, Args)]
struct ClaudeArgs {
    /// How. On a terminal it is asked for; else the login of Claude Code is taken over.
    #[arg(long, value_enum)]
    mode: Option<ClaudeMode>,
    /// The old name of `--mode setup-token`.
    #[arg(long, hide = true, conflicts_with = "mode")]
    long_lived: bool,
    /// With --mode import: the credentials file. Default: Claude Code's own.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct CodexArgs {
    /// How: by a browser on this machine, or by a code that is typed on another.
    #[arg(long, value_enum, default_value = "oauth")]
    mode: CodexMode,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// What the account is to be called; one of that name is replaced.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The provider, by its name in the configuration; needed where several take such logins.
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Paste the code by hand, without waiting for a browser.
    #[arg(long)]
    manual: bool,
    /// Add its entry to the configuration, where it needs one to serve.
    #[arg(long)]
    write_config: bool,
    /// As JSON, as the control API gives it.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClaudeMode {
    /// A new login, which renews itself.
    Oauth,
    /// The login that Claude Code has; both go on using it.
    Import,
    /// A token for a year, for inference alone.
    SetupToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CodexMode {
    /// By a browser on this machine.
    Oauth,
    /// By a code that is typed on another machine.
    Device,
}

pub(super) async fn run(args: LoginArgs, globals: &Globals) -> anyhow::Result<Exit> {
    match args.command {
        LoginCommand::Claude(args) => claude::run(args, globals).await,
        LoginCommand::Codex(args) => codex::run(args, globals).await,
    }
}
