//! The command line: one command a file. The only place that prints.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "commands speak to a person at a terminal")]

pub mod sim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod check;
mod completions;
mod daemon;
mod env;
mod logging;
mod notify;
mod serve;
mod service;
mod status;

/// What a command's exit status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// It works, with warnings or less than it should.
    Degraded = 3,
    /// No daemon answers.
    Unreachable = 4,
    /// Another program has its address or its home: starting it again cannot help.
    Taken = duduclaw_service::TAKEN as isize,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// One address for every AI client: keeps agents working while accounts hit limits, die and come back.
#[derive(Debug, Parser)]
#[command(name = "duduclaw", version, propagate_version = true)]
pub struct Cli {
    /// The home directory. Default: $DUDUCLAW_HOME, ~/.duduclaw.
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The configuration file. Default: $DUDUCLAW_CONFIG, `config.toml` in the home directory.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Log more; twice for all.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Log errors only.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon in the foreground.
    #[command(after_help = "Example:\n  duduclaw serve\n  ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude")]
    Serve(serve::ServeArgs),
    /// Check the configuration and the secrets it names; change nothing.
    #[command(
        after_help = "Example:\n  duduclaw check --config ~/.duduclaw/config.toml\n\nExit status: 0 all is well, 1 errors, 3 warnings."
    )]
    Check(check::CheckArgs),
    /// Show the fleet: state, quota windows, waits.
    #[command(
        after_help = "Example:\n  duduclaw status --json\n\nExit status: 0 all accounts serve, 3 some do not, 4 no daemon answers."
    )]
    Status(status::StatusArgs),
    /// Print the variables that point a client here.
    #[command(after_help = "Example:\n  eval \"$(duduclaw env)\" && claude")]
    Env(env::EnvArgs),
    /// Run under a service manager: print the files for it.
    #[command(after_help = "Example:\n  duduclaw service print --user")]
    Service(service::ServiceArgs),
    /// Serve a simulated Anthropic on a loopback port.
    #[command(after_help = "Example:\n  duduclaw sim --accounts 3")]
    Sim(sim::SimArgs),
    /// Print completions for a shell.
    #[command(after_help = "Example:\n  duduclaw completions zsh > ~/.zfunc/_duduclaw")]
    Completions(completions::CompletionsArgs),
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("duduclaw: {error:#}");
            Exit::Failed.into()
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    let globals = Globals { home: cli.home, config: cli.config, verbose: cli.verbose, quiet: cli.quiet };
    match cli.command {
        Command::Serve(args) => serve::run(args, &globals),
        Command::Check(args) => check::run(&args, &globals),
        Command::Status(args) => runtime()?.block_on(status::run(args, &globals)),
        Command::Env(args) => env::run(&args, &globals),
        Command::Service(args) => service::run(&args, &globals),
        Command::Sim(args) => {
            logging::start(&globals, None);
            runtime()?.block_on(sim::run(args, &mut std::io::stdout()))?;
            Ok(Exit::Done)
        }
        Command::Completions(args) => completions::run(&args),
    }
}

/// What every command knows.
#[derive(Debug)]
pub(crate) struct Globals {
    pub(crate) home: Option<PathBuf>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) verbose: u8,
    pub(crate) quiet: bool,
}

impl Globals {
    pub(crate) fn named(&self) -> crate::config::locate::Named {
        crate::config::locate::Named { home: self.home.clone(), config: self.config.clone() }
    }
}

pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
