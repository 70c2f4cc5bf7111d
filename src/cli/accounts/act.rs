//! What only a running daemon can do to an account: it is its memory that changes.

use serde_json::json;

use crate::admin::AccountAnswer;
use crate::cli::control::Control;
use crate::cli::words::{label, same};
use crate::cli::{Ended, Exit, Globals, say};

const NO_DAEMON: &str = "no daemon runs for this home, and what it remembers is not changed without it; start it with \
                         `duduclaw serve`, or use `duduclaw accounts disable`, which changes the configuration";

pub(super) async fn run(globals: &Globals, verb: &str, account: &str) -> anyhow::Result<Exit> {
    let Some(daemon) = Control::look(globals)? else {
        return Err(Ended::error(Exit::Unreachable, NO_DAEMON.to_owned()));
    };
    let AccountAnswer { account, named, notes } = daemon.call(verb, json!({ "account": account })).await?;
    let notes = notes.iter().fold(String::new(), |text, note| format!("{text}; {note}"));
    say(&format!("{}: {}{notes}\n", same(&named, &account.id), label(&account.standing)))?;
    Ok(Exit::Done)
}
