//! `duduclaw import shunt-state`: by the daemon that runs, else into the store, from which the next one takes it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use duduclaw_actors::clock::{Clock, SystemClock, Wall};
use serde_json::json;

use super::{StateArgs, shown};
use crate::admin::StateAnswer;
use crate::app::Home;
use crate::app::imported::{StateFile, import_into};
use crate::cli::control::Control;
use crate::cli::saving::Files;
use crate::cli::{Exit, Globals, say};
use crate::config::surroundings::Machine;
use crate::imports::{usual_shunt_state, whole_file};
use crate::store::StoreFile;

/// The largest body that the daemon takes, less what stands around the text.
const LARGEST: usize = 60 * 1024;

pub(super) async fn run(args: &StateArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let path = match &args.path {
        Some(path) => path.clone(),
        None => usual_shunt_state(&Machine)?,
    };
    let (bytes, written) = file(&path).with_context(|| match &args.path {
        Some(path) => format!("{} cannot be read; name the file with shunt's state", path.display()),
        None => format!("{}, which shunt's own configuration names, cannot be read; name the file", path.display()),
    })?;
    let answer = match Control::look(globals)? {
        Some(_) if bytes.len() > LARGEST => {
            anyhow::bail!("the file is too large to be handed to the daemon; stop it, import, and start it again")
        }
        Some(daemon) => {
            let text = String::from_utf8(bytes).with_context(|| format!("{} is not text", path.display()))?;
            let written = written.map(Wall::as_secs);
            daemon.call("state.import", json!({ "state": text, "written_at": written })).await?
        }
        None => {
            let file = StateFile { bytes: &bytes, written };
            by_ourselves(file, globals).with_context(|| format!("{}", path.display()))?
        }
    };
    tell(&answer, args.json)
}

/// What it holds, and when that was written.
fn file(path: &Path) -> std::io::Result<(Vec<u8>, Option<Wall>)> {
    let bytes = whole_file(path)?;
    let since = std::fs::metadata(path)?.modified()?.duration_since(std::time::UNIX_EPOCH);
    let written = since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).map(Wall);
    Ok((bytes, written))
}

fn by_ourselves(file: StateFile<'_>, globals: &Globals) -> anyhow::Result<StateAnswer> {
    let files = Files::open(globals)?;
    let home = Home::open(&files.home)?;
    // No daemon starts in between.
    let _lock = home.lock()?;
    let clock = Arc::new(SystemClock::default());
    let mut opened = StoreFile::at(home.store_path(), Arc::clone(&clock) as _).opener()()?;
    let took = import_into(&mut *opened.store, &files.ready.topology, file, clock.now().wall)?;
    Ok(took.into())
}

fn tell(answer: &StateAnswer, as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        say(&format!("{}\n", serde_json::to_string_pretty(answer)?))?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for account in &answer.accounts {
        text.push_str(&format!("{}: its quota is known\n", shown(account)));
    }
    for orphan in &answer.orphans {
        text.push_str(&format!("{}: no such account here; what is known of it waits for one\n", shown(orphan)));
    }
    if text.is_empty() {
        text.push_str("the file knows nothing that is still true\n");
    }
    say(&text)?;
    Ok(Exit::Done)
}
