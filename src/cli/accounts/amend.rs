//! What is changed of an account in the configuration file: by the daemon, which puts it in force at once; without one by
//! ourselves, with the same care.

use std::sync::Arc;

use anyhow::bail;
use duduclaw_actors::id::EntryId;
use duduclaw_actors::roster::Switch;
use serde_json::{Value, json};

use crate::admin::{AccountAnswer, RemovedAnswer};
use crate::amend::{Amended, Change, concerned};
use crate::app::Configuration;
use crate::cli::control::Control;
use crate::cli::words::label;
use crate::cli::{Ended, Exit, Globals, say};
use crate::config::surroundings::Machine;
use crate::config::topology::{NameError, Topology};

/// What somebody wants of an account's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Switch(Switch),
    Priority(u32),
    Remove,
}

impl Wish {
    fn change(self) -> Change {
        match self {
            Self::Switch(switch) => Change::Switch(switch),
            Self::Priority(priority) => Change::Priority(priority),
            Self::Remove => Change::Remove,
        }
    }
}

pub(super) async fn run(globals: &Globals, account: &str, change: Wish) -> anyhow::Result<Exit> {
    let told = match Control::look(globals)? {
        Some(daemon) => by_daemon(&daemon, account, change).await?,
        None => by_ourselves(globals, account, change)?,
    };
    say(&format!("{told}\n"))?;
    Ok(Exit::Done)
}

async fn by_daemon(daemon: &Control, account: &str, change: Wish) -> anyhow::Result<String> {
    let (verb, params) = asked(account, change);
    if change == Wish::Remove {
        let RemovedAnswer { removed } = daemon.call(verb, params).await?;
        return Ok(format!("{removed}: removed from the configuration; its login stays where it is"));
    }
    let AccountAnswer { account } = daemon.call(verb, params).await?;
    Ok(format!("{}: {}, priority {}", account.id, label(&account.standing), account.standing.priority))
}

fn asked(account: &str, change: Wish) -> (&'static str, Value) {
    match change {
        Wish::Switch(Switch::On) => ("accounts.enable", json!({ "account": account })),
        Wish::Switch(Switch::Off) => ("accounts.disable", json!({ "account": account })),
        Wish::Priority(priority) => ("accounts.priority", json!({ "account": account, "priority": priority })),
        Wish::Remove => ("accounts.remove", json!({ "account": account })),
    }
}

fn by_ourselves(globals: &Globals, account: &str, change: Wish) -> anyhow::Result<String> {
    let mut configuration = Configuration::new(globals.named(), Arc::new(Machine));
    let loaded = configuration.load();
    let Some(ready) = loaded.ready else {
        bail!("the configuration has errors, so it is not changed; `duduclaw check` shows them");
    };
    let entry = meant(&ready.topology, account, change).map_err(|why| failed(&why.to_string(), Some(why.hint())))?;
    let entries = concerned(&ready.topology, &entry, change.change());
    let done = configuration.trial().and_then(|trial| trial.amend(&entries, change.change()));
    let done = done.map_err(|why| failed(&why.to_string(), why.hint(&ready.topology, change.change())))?;
    Ok(told(&entry, change, done))
}

fn meant(topology: &Topology, account: &str, change: Wish) -> Result<EntryId, NameError> {
    if change == Wish::Remove {
        return topology.entry_named(account).map(|entry| entry.id.clone());
    }
    let id = topology.account_named(account)?;
    let entry = topology.entry_named(account).ok().or_else(|| topology.representative(id));
    Ok(entry.expect("an account has an entry that represents it").id.clone())
}

fn told(entry: &EntryId, change: Wish, done: Amended) -> String {
    let what = match change {
        Wish::Switch(Switch::On) => "enabled".to_owned(),
        Wish::Switch(Switch::Off) => "disabled".to_owned(),
        Wish::Priority(priority) => format!("priority {priority}"),
        Wish::Remove => "removed from the configuration; its login stays where it is".to_owned(),
    };
    match done {
        Amended::Written => format!("{entry}: {what}; it acts when a daemon starts"),
        Amended::AsItWas => format!("{entry}: {what}; the configuration said so already"),
    }
}

fn failed(why: &str, hint: Option<String>) -> anyhow::Error {
    Ended::error(Exit::Failed, hint.map_or(why.to_owned(), |hint| format!("{why}; {hint}")))
}
