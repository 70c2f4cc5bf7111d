//! The command line: one command a file. The only place that prints.

pub mod sim;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod accounts;
mod activity;
mod check;
mod claude;
mod completions;
mod control;
mod daemon;
mod demo;
mod doctor;
mod env;
mod failures;
mod import;
mod logging;
mod login;
mod notify;
mod prompt;
mod route;
mod saving;
mod secrets;
mod serve;
mod service;
mod status;
mod stream;
mod usage;
mod watch;
mod words;

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
    #[arg(long, global = true, display_order = 900, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The configuration file. Default: $DUDUCLAW_CONFIG, `config.toml` in the home directory.
    #[arg(long, global = true, display_order = 900, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Log more; twice for all.
    #[arg(short, long, global = true, display_order = 900, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Log errors only.
    #[arg(short, long, global = true, display_order = 900)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what it does: the whole system on simulated accounts, told step by step.
    #[command(after_help = "Example:\n  duduclaw demo\n  duduclaw demo --fast --json\n\n\
                            Exit status: 0 all went as it should, 1 an expected event did not come.")]
    Demo(demo::DemoArgs),
    /// Run Claude Code through the gateway; whatever follows is for Claude Code itself.
    #[command(after_help = "Example:\n  duduclaw claude\n  duduclaw claude -p \"What does this project do?\"\n\n\
                            Options of duduclaw itself stand before the command: duduclaw --home DIR claude.\n\
                            The exit status is Claude Code's own; 1 if it cannot be run.")]
    Claude(claude::ClaudeArgs),
    /// Run the daemon in the foreground.
    #[command(
        after_help = "Example:\n  duduclaw serve\n  eval \"$(duduclaw env)\" && claude    # in another terminal\n\n\
                            Exit status: 0 stopped in order, 1 it failed."
    )]
    Serve(serve::ServeArgs),
    /// Check the configuration and the secrets it names; change nothing.
    #[command(
        after_help = "Example:\n  duduclaw check --config ~/.duduclaw/config.toml\n\nExit status: 0 all is well, 1 errors, 3 warnings."
    )]
    Check(check::CheckArgs),
    /// Show the fleet: state, quota windows, waits.
    #[command(
        after_help = "Example:\n  duduclaw status --watch\n  duduclaw status --json\n\nExit status: 0 all accounts in use serve, 3 some do not, or none is in use, 4 no daemon answers."
    )]
    Status(status::StatusArgs),
    /// List accounts; add, pause, resume, clear, probe, switch or remove one.
    #[command(after_help = "Example:\n  duduclaw accounts list\n  duduclaw accounts pause work")]
    Accounts(accounts::AccountsArgs),
    /// Log in at a provider, or take over a login, and save the account.
    #[command(
        after_help = "Example:\n  duduclaw login claude --name work\n  duduclaw login codex --name work --mode device"
    )]
    Login(login::LoginArgs),
    /// Bring accounts, their settings and quota over from teamclaude, shunt or ccflare.
    #[command(
        after_help = "Example:\n  duduclaw import teamclaude ~/.config/teamclaude.json\n  duduclaw import shunt ~/.shunt --apply"
    )]
    Import(import::ImportArgs),
    /// Show what happened, and with --follow what happens.
    #[command(
        after_help = "Example:\n  duduclaw activity --follow\n  duduclaw activity --severity warning --json\n\nExit status: 0 done, 4 no daemon answers."
    )]
    Activity(activity::ActivityArgs),
    /// Show messages that did not arrive at once, or at all.
    #[command(
        after_help = "Example:\n  duduclaw failures --lost\n\nReads the store itself where no daemon runs. Exit status: 0 done, 1 it cannot be read."
    )]
    Failures(failures::FailuresArgs),
    /// Show tokens, cost and cache efficiency of a period.
    #[command(
        after_help = "Example:\n  duduclaw usage\n  duduclaw usage --by day --since 7d\n  duduclaw usage --by client --since 2026-11-01 --until 2026-11-30 --json\n\nReads the store itself where no daemon runs. Exit status: 0 done, 1 it cannot be read."
    )]
    Usage(usage::UsageArgs),
    /// Explain where a request for a model would go now.
    #[command(
        after_help = "Example:\n  duduclaw route --explain --model claude-opus-5-5\n\nExit status: 0 it would be sent, 3 nothing can serve it now, 4 no daemon answers."
    )]
    Route(route::RouteArgs),
    /// Look whether all is as it should be, and say what to do where it is not; change nothing.
    #[command(
        after_help = "Example:\n  duduclaw doctor\n  duduclaw doctor --offline --json\n\nExit status: 0 all is well, 1 something is wrong, 3 something to know."
    )]
    Doctor(doctor::DoctorArgs),
    /// Change the key of stored secrets, or carry them to another machine.
    #[command(after_help = "Example:\n  duduclaw secrets rekey\n  duduclaw secrets export ~/duduclaw-secrets.json")]
    Secrets(secrets::SecretsArgs),
    /// Print the variables that point a client here.
    #[command(after_help = "Example:\n  eval \"$(duduclaw env)\" && claude")]
    Env(env::EnvArgs),
    /// Run under a service manager: print the files for it.
    #[command(after_help = "Example:\n  duduclaw service print --user")]
    Service(service::ServiceArgs),
    /// Serve a simulated Anthropic on a loopback port.
    Sim(sim::SimArgs),
    /// Print completions for a shell.
    #[command(after_help = "Example:\n  duduclaw completions zsh > ~/.zfunc/_duduclaw")]
    Completions(completions::CompletionsArgs),
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse_from(guarded(std::env::args_os().collect()));
    match run(cli) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            hint(&format!("duduclaw: {}", whole(&error)));
            Ended::exit_of(&error).into()
        }
    }
}

/// An error with its causes. What an error says of its cause itself is not said again.
fn whole(error: &anyhow::Error) -> String {
    error
        .chain()
        .skip(1)
        .map(ToString::to_string)
        .fold(error.to_string(), |said, cause| if said.contains(&cause) { said } else { format!("{said}: {cause}") })
}

/// Why a command ends, with the exit code that says so.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Ended {
    exit: Exit,
    text: String,
}

impl Ended {
    /// The error that ends a command so.
    pub(crate) fn error(exit: Exit, text: String) -> anyhow::Error {
        Self { exit, text }.into()
    }

    /// The exit code that an error calls for.
    pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
        error.downcast_ref::<Self>().map_or(Exit::Failed, |ended| ended.exit)
    }
}

/// Commands that pass on whatever follows them.
const PASSING: [&str; 1] = ["claude"];

/// The command line with `--` after a command that passes everything on, so that nothing after it is read as ours.
fn guarded(mut line: Vec<OsString>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(word) = line.get(at).and_then(|word| word.to_str()) {
        if PASSING.contains(&word) {
            line.insert(at + 1, "--".into());
            return line;
        }
        if !word.starts_with('-') {
            return line;
        }
        at += if takes_value(word) { 2 } else { 1 };
    }
    line
}

fn takes_value(option: &str) -> bool {
    let command = Cli::command();
    let mut known = command.get_arguments().filter(|argument| argument.get_action().takes_values());
    known.any(|argument| argument.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long)))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let globals = Globals { home: cli.home, config: cli.config, verbose: cli.verbose, quiet: cli.quiet };
    let exit = match cli.command {
        Command::Claude(args) => return runtime()?.block_on(claude::run(args, &globals)),
        Command::Demo(args) => runtime()?.block_on(demo::run(args, &globals))?,
        Command::Serve(args) => serve::run(args, &globals)?,
        Command::Check(args) => check::run(&args, &globals)?,
        Command::Status(args) => runtime()?.block_on(status::run(args, &globals))?,
        Command::Accounts(args) => runtime()?.block_on(accounts::run(args, &globals))?,
        Command::Login(args) => runtime()?.block_on(login::run(args, &globals))?,
        Command::Import(args) => runtime()?.block_on(import::run(args, &globals))?,
        Command::Activity(args) => runtime()?.block_on(activity::run(args, &globals))?,
        Command::Failures(args) => runtime()?.block_on(failures::run(args, &globals))?,
        Command::Usage(args) => runtime()?.block_on(usage::run(args, &globals))?,
        Command::Route(args) => runtime()?.block_on(route::run(args, &globals))?,
        Command::Doctor(args) => runtime()?.block_on(doctor::run(args, &globals))?,
        Command::Secrets(args) => secrets::run(&args, &globals)?,
        Command::Env(args) => env::run(&args, &globals)?,
        Command::Service(args) => service::run(&args, &globals)?,
        Command::Sim(args) => {
            logging::start(&globals, None);
            runtime()?.block_on(sim::run(args, &mut std::io::stdout()))?;
            Exit::Done
        }
        Command::Completions(args) => completions::run(&args)?,
    };
    Ok(exit.into())
}

/// Says something on standard output.
///
/// # Errors
/// When it cannot be written; a reader that has gone away is one such error, which [`main`] takes for a quiet end.
pub(crate) fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Tells a person something that is no answer of the command. Nobody may be there to read it, or there is no room for
/// it: that ends nothing.
pub(crate) fn hint(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.into_iter().any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(line: &[&str]) -> Vec<String> {
        let line = guarded(line.iter().map(OsString::from).collect());
        line.into_iter().map(|word| word.into_string().expect("it is text")).collect()
    }

    #[test]
    fn whatever_follows_claude_is_for_claude() {
        assert_eq!(guard(&["duduclaw", "claude", "--help"]), ["duduclaw", "claude", "--", "--help"]);
        let line = ["duduclaw", "-v", "--home", "claude", "--config=x", "claude", "-v", "--", "a"];
        let guarded = ["duduclaw", "-v", "--home", "claude", "--config=x", "claude", "--", "-v", "--", "a"];
        assert_eq!(guard(&line), guarded);
        assert_eq!(guard(&["duduclaw", "help", "claude"]), ["duduclaw", "help", "claude"]);
        assert_eq!(guard(&["duduclaw"]), ["duduclaw"]);
        let cli = Cli::parse_from(guard(&["duduclaw", "--home", "/h", "claude", "--home", "/x", "--", "-V"]));
        assert_eq!(cli.home, Some(PathBuf::from("/h")));
        let Command::Claude(args) = cli.command else { panic!("it is that command") };
        assert_eq!(format!("{args:?}"), r#"ClaudeArgs { args: ["--home", "/x", "--", "-V"] }"#);
    }

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("not saved: {0}")]
        struct Outer(#[source] std::io::Error);
        let error = anyhow::Error::from(Outer(std::io::Error::other("no room")));
        assert_eq!(whole(&error), "not saved: no room");
        assert_eq!(whole(&error.context("it failed")), "it failed: not saved: no room");
        assert_eq!(whole(&anyhow::anyhow!("no room").context("not saved")), "not saved: no room");
    }

    #[test]
    fn every_command_has_an_example() {
        fn look(command: &mut clap::Command) {
            let help = command.render_help().to_string();
            assert!(help.contains("Example"), "{help}");
            command.get_subcommands_mut().filter(|command| command.get_name() != "help").for_each(look);
        }
        let mut command = Cli::command();
        command.build();
        command.get_subcommands_mut().filter(|command| command.get_name() != "help").for_each(look);
    }
}
