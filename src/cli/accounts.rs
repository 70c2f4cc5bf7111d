//! `duduclaw accounts`: the accounts one by one, what is added, and what is done to one.

mod act;
mod add;
mod amend;
mod list;
mod probe;

use clap::{Args, Subcommand};
use duduclaw_actors::roster::Switch;

use super::{Exit, Globals};
use amend::Wish;

/// List accounts; add, pause, resume, clear, probe, switch or remove one.
#[derive(Debug, Args)]
pub struct AccountsArgs {
    #[command(subcommand)]
    command: AccountsCommand,
}

#[derive(Debug, Subcommand)]
enum AccountsCommand {
    /// List all accounts, with where each is configured.
    #[command(after_help = "Example:\n  duduclaw accounts list --json\n\nExit status: 0 done, 4 no daemon answers.")]
    List(list::ListArgs),
    /// Add an account: a token or key, asked for or read from standard input.
    #[command(
        after_help = "Example:\n  duduclaw accounts add metered --provider anthropic\n  claude setup-token   # then\n  duduclaw accounts add backup --stdin < token.txt\n\nExit status: 0 saved, 1 it was not."
    )]
    Add(add::AddArgs),
    /// Give an account of the store another token or key; it stays who it is.
    #[command(after_help = "Example:\n  duduclaw accounts replace metered\n\nExit status: 0 saved, 1 it was not.")]
    Replace(add::ReplaceArgs),
    /// Switch an account on, in the configuration file.
    #[command(after_help = "Example:\n  duduclaw accounts enable work\n\nExit status: 0 done, 1 it cannot be done.")]
    Enable(Account),
    /// Switch an account off, in the configuration file.
    #[command(
        after_help = "Example:\n  duduclaw accounts disable anthropic/work\n\nExit status: 0 done, 1 it cannot be done."
    )]
    Disable(Account),
    /// Take an account out of use until it is resumed; it stays so over a restart.
    #[command(
        after_help = "Example:\n  duduclaw accounts pause work\n\nExit status: 0 done, 1 it cannot be done, 4 no daemon answers."
    )]
    Pause(Account),
    /// Take a paused account into use again.
    #[command(
        after_help = "Example:\n  duduclaw accounts resume work\n\nExit status: 0 done, 1 it cannot be done, 4 no daemon answers."
    )]
    Resume(Account),
    /// End an account's waits for quota and budget, and forget the figures behind them.
    #[command(
        after_help = "Example:\n  duduclaw accounts clear work\n\nExit status: 0 done, 1 it cannot be done, 4 no daemon answers."
    )]
    Clear(Account),
    /// Ask the provider now whether it knows an account's credential.
    #[command(
        after_help = "Example:\n  duduclaw accounts probe work\n\nExit status: 0 it does, 1 it cannot be asked, 3 it does not or says nothing, 4 no daemon answers."
    )]
    Probe(probe::ProbeArgs),
    /// Give an account another priority, in the configuration file; lower is preferred.
    #[command(
        after_help = "Example:\n  duduclaw accounts priority work 10\n\nExit status: 0 done, 1 it cannot be done."
    )]
    Priority(Priority),
    /// Take an account's entry out of the configuration file; its login stays where it is.
    #[command(
        after_help = "Example:\n  duduclaw accounts remove anthropic/old\n\nExit status: 0 done, 1 it cannot be done."
    )]
    Remove(Account),
}

#[derive(Debug, Args)]
struct Account {
    /// The account: its name, or provider/name where several have that name.
    #[arg(value_name = "ACCOUNT")]
    account: String,
}

#[derive(Debug, Args)]
struct Priority {
    /// The account: its name, or provider/name where several have that name.
    #[arg(value_name = "ACCOUNT")]
    account: String,
    /// The priority; 100 is what an account has that names none.
    #[arg(value_name = "NUMBER")]
    priority: u32,
}

pub(super) async fn run(args: AccountsArgs, globals: &Globals) -> anyhow::Result<Exit> {
    match args.command {
        AccountsCommand::Add(args) => add::add(args, globals).await,
        AccountsCommand::Replace(args) => add::replace(args, globals).await,
        AccountsCommand::List(args) => list::run(&args, globals).await,
        AccountsCommand::Probe(args) => probe::run(&args, globals).await,
        AccountsCommand::Enable(of) => amend::run(globals, &of.account, Wish::Switch(Switch::On)).await,
        AccountsCommand::Disable(of) => amend::run(globals, &of.account, Wish::Switch(Switch::Off)).await,
        AccountsCommand::Priority(to) => amend::run(globals, &to.account, Wish::Priority(to.priority)).await,
        AccountsCommand::Remove(of) => amend::run(globals, &of.account, Wish::Remove).await,
        AccountsCommand::Pause(of) => act::run(globals, "accounts.pause", &of.account).await,
        AccountsCommand::Resume(of) => act::run(globals, "accounts.resume", &of.account).await,
        AccountsCommand::Clear(of) => act::run(globals, "accounts.clear", &of.account).await,
    }
}
