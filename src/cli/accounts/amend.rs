//! What is changed of an account in the configuration file: by the daemon, which puts it in force at once; without one by
//! ourselves, with the same care.

use std::sync::Arc;

use anyhow::bail;
use duduclaw_actors::id::EntryId;
use duduclaw_actors::roster::Switch;
use serde_json::{Value, json};

use crate::admin::{AccountAnswer, RemovedAnswer};
use crate::amend::{Amended, Change, concerned, sequel};
use crate::app::Configuration;
use crate::cli::control::Control;
use crate::cli::words::label;
use crate::cli::{Ended, Exit, Globals, say};
use crate::config::surroundings::Machine;

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
        let RemovedAnswer { removed, notes } = daemon.call(verb, params).await?;
        return Ok(with(&format!("{removed}: {}", done(change)), &notes));
    }
    let AccountAnswer { account, named, notes } = daemon.call(verb, params).await?;
    if named != account.id {
        let now = format!("{}, priority {}", label(&account.standing), account.standing.priority);
        return Ok(format!("{} ({now})", with(&format!("{named}: {}", done(change)), &notes)));
    }
    let now = format!("{named}: {}, priority {}", label(&account.standing), account.standing.priority);
    Ok(with(&now, &notes))
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
    let concerned = concerned(&ready.topology, account, change.change());
    let (entries, account) = concerned.map_err(|why| failed(&why.to_string(), Some(why.hint())))?;
    let done = configuration.trial().and_then(|trial| trial.amend(&entries, change.change()));
    let done = done.map_err(|why| failed(&why.to_string(), why.hint(&ready.topology, change.change())))?;
    let after = configuration.load().ready.unwrap_or(ready);
    let sequel = sequel(&after.topology, account, &entries, change.change());
    Ok(with(&told(&entries[0], change, done), sequel.as_slice()))
}

fn told(entry: &EntryId, change: Wish, amended: Amended) -> String {
    let what = done(change);
    match amended {
        Amended::Written => format!("{entry}: {what}; it acts when a daemon starts"),
        Amended::AsItWas => format!("{entry}: {what}; the configuration said so already"),
    }
}

/// What became of an entry.
fn done(change: Wish) -> String {
    match change {
        Wish::Switch(Switch::On) => "enabled".to_owned(),
        Wish::Switch(Switch::Off) => "disabled".to_owned(),
        Wish::Priority(priority) => format!("priority {priority}"),
        Wish::Remove => "removed from the configuration; its login stays where it is".to_owned(),
    }
}

fn with(text: &str, notes: &[String]) -> String {
    notes.iter().fold(text.to_owned(), |text, note| format!("{text}; {note}"))
}

fn failed(why: &str, hint: Option<String>) -> anyhow::Error {
    Ended::error(Exit::Failed, hint.map_or(why.to_owned(), |hint| format!("{why}; {hint}")))
}
