//! `duduclaw completions`: what a shell needs to complete our commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Exit, say};

/// Print completions for a shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell.
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "duduclaw", &mut script);
    say(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
