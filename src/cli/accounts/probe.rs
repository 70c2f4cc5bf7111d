//! `duduclaw accounts probe`: the provider is asked now.

use clap::Args;
use serde_json::json;

use crate::admin::{ProbeAnswer, ProbeVerdict};
use crate::cli::control::Control;
use crate::cli::words::{label, same};
use crate::cli::{Exit, Globals, say};

#[derive(Debug, Args)]
pub(super) struct ProbeArgs {
    /// The account: its name, or provider/name where several have that name.
    #[arg(value_name = "ACCOUNT")]
    account: String,
    /// As JSON, as the control API gives it.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &ProbeArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let params = json!({ "account": args.account });
    let said: ProbeAnswer = Control::find(globals)?.call("accounts.probe", params).await?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&said)?))?;
    } else {
        let (id, state) = match &said.account {
            Some(account) => (same(&said.named, &account.id), format!(" ({})", label(&account.standing))),
            None => (said.named.clone(), String::new()),
        };
        say(&format!("{id}: {}{state}\n", said.summary))?;
    }
    Ok(match said.verdict {
        ProbeVerdict::Valid => Exit::Done,
        ProbeVerdict::InvalidToken | ProbeVerdict::OrgRefused | ProbeVerdict::Undecided | ProbeVerdict::NotAsked => {
            Exit::Degraded
        }
    })
}
