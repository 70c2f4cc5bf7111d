//! `duduclaw import shunt-state`: by the daemon that runs, else into the store, from which the next one takes it.

use std::sync::Arc;

use anyhow::Context;
use duduclaw_actors::clock::{Clock, SystemClock};
use serde_json::json;

use super::StateArgs;
use crate::admin::StateAnswer;
use crate::app::Home;
use crate::app::imported::import_into;
use crate::cli::control::Control;
use crate::cli::saving::Files;
use crate::cli::{Exit, Globals, say};
use crate::store::StoreFile;

/// The largest body that the daemon takes, less what stands around the text.
const LARGEST: usize = 60 * 1024;

pub(super) async fn run(args: &StateArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let bytes = std::fs::read(&args.path).with_context(|| format!("{} cannot be read", args.path.display()))?;
    let answer = match Control::look(globals)? {
        Some(_) if bytes.len() > LARGEST => {
            anyhow::bail!("the file is too large to be handed to the daemon; stop it, import, and start it again")
        }
        Some(daemon) => {
            let text = String::from_utf8(bytes).with_context(|| format!("{} is not text", args.path.display()))?;
            daemon.call("state.import", json!({ "state": text })).await?
        }
        None => by_ourselves(&bytes, globals).with_context(|| format!("{}", args.path.display()))?,
    };
    tell(&answer, args.json)
}

fn by_ourselves(bytes: &[u8], globals: &Globals) -> anyhow::Result<StateAnswer> {
    let files = Files::open(globals)?;
    let home = Home::open(&files.home)?;
    // No daemon starts in between.
    let _lock = home.lock()?;
    let clock = Arc::new(SystemClock::default());
    let mut opened = StoreFile::at(home.store_path(), Arc::clone(&clock) as _).opener()()?;
    let took = import_into(&mut *opened.store, &files.ready.topology, bytes, clock.now().wall)?;
    Ok(took.into())
}

fn tell(answer: &StateAnswer, as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        say(&format!("{}\n", serde_json::to_string_pretty(answer)?))?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for account in &answer.accounts {
        text.push_str(&format!("{account}: its quota is known\n"));
    }
    for orphan in &answer.orphans {
        text.push_str(&format!("{orphan}: no such account here; what is known of it waits for one\n"));
    }
    if text.is_empty() {
        text.push_str("the file knows nothing that is still true\n");
    }
    say(&text)?;
    Ok(Exit::Done)
}
