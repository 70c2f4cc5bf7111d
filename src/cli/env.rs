//! `duduclaw env`: the variables that point a client here.

use clap::{Args, ValueEnum};

use super::{Exit, Globals, daemon};

/// Print the variables that point a client here.
#[derive(Debug, Args)]
pub struct EnvArgs {
    /// The shell that reads them.
    #[arg(long, value_enum, default_value_t = Shell::Sh)]
    shell: Shell,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    /// sh, bash, zsh and their kin.
    Sh,
    /// fish.
    Fish,
    /// PowerShell.
    Powershell,
}

/// What clients send when the gateway asks for no token: Claude Code wants to send some.
const ANY_TOKEN: &str = "duduclaw";

pub(super) fn run(args: &EnvArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let url = daemon::address(globals)?;
    let variables = [("ANTHROPIC_BASE_URL", url.as_str()), ("ANTHROPIC_AUTH_TOKEN", ANY_TOKEN)];
    if args.json {
        let object: serde_json::Map<String, serde_json::Value> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        println!("{}", serde_json::to_string_pretty(&object)?);
        return Ok(Exit::Done);
    }
    for (name, value) in variables {
        println!("{}", line(args.shell, name, value));
    }
    Ok(Exit::Done)
}

fn line(shell: Shell, name: &str, value: &str) -> String {
    match shell {
        Shell::Sh => format!("export {name}='{value}'"),
        Shell::Fish => format!("set -gx {name} '{value}'"),
        Shell::Powershell => format!("$env:{name} = '{value}'"),
    }
}
