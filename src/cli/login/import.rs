//! Taking over the login that Claude Code has on this machine. Its file, or its item in the keychain, stays the authority:
//! both go on using it, and whoever renews it, renews it there.
//!
//! It is done here, also beside a daemon: the login is in this user's home, and only the account store is written.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::cli::control::Control;
use crate::cli::login::{ClaudeArgs, browser};
use crate::cli::saving::{Files, tell};
use crate::cli::{Exit, Globals};
use crate::config::surroundings::{Machine, Surroundings};
use crate::credentials::{KeptIn, LoginKind, Origin, Taken, existing_login, looked_for, read_kept};

pub(super) async fn run(args: &ClaudeArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let daemon = Control::look(globals)?;
    not_the_machines(daemon.as_ref())?;
    let files = Files::open(globals)?;
    let to = browser::destination(&files, LoginKind::Claude, &args.common)?;
    let to = to.saves(&files.ready.topology, &args.common.name)?;
    let path = args.from.clone().or_else(claude_codes_own).context("no home directory is known; give --from FILE")?;
    let path = std::path::absolute(&path)?;
    if path.starts_with(&to.accounts_dir) {
        bail!("{} is in the account store already", path.display());
    }
    let fresh = existing_login(&path).with_context(|| {
        let items = looked_for(&path).join(", ");
        let also = if items.is_empty() { items } else { format!(" (in the keychain {items} was looked for)") };
        format!("there is no login to take over{also}; log in with Claude Code, give --from FILE, or use --mode oauth")
    })?;
    let is_linked = matches!(fresh.origin, Origin::Linked(_));
    let name = &args.common.name;
    let saved = files.registrar.save(&to, name, fresh, Taken::Replace).await?;
    let mut answer = files.settle(&to, name, &saved, args.common.write_config)?;
    answer.notes.extend(
        is_linked.then(|| format!("it stays linked to {}: log in and out there as before", whereabouts(&path))),
    );
    if let Some(daemon) = daemon
        && let Err(error) = daemon.call::<Value>("config.reload", json!({})).await
    {
        answer.notes.push(format!("the daemon has not taken it up yet: {error}"));
    }
    tell(&answer, args.common.json)
}

/// Where a login is that is known by a file's name, for people.
fn whereabouts(path: &Path) -> String {
    match read_kept(path).map(|kept| kept.place) {
        Ok(KeptIn::Item(item)) => format!("Claude Code's login in the keychain ({})", item.service()),
        Ok(KeptIn::File) | Err(_) => path.display().to_string(),
    }
}

/// Refuses what would end in a home that the daemon does not look at.
pub(in crate::cli) fn not_the_machines(daemon: Option<&Control>) -> anyhow::Result<()> {
    if daemon.is_some_and(Control::is_the_machines) {
        bail!(
            "the daemon of this machine runs as another user, and can neither read files of your home nor has its accounts \
             there; use `duduclaw login claude --mode oauth`, or name your own home with --home"
        );
    }
    Ok(())
}

fn claude_codes_own() -> Option<PathBuf> {
    let chosen = Machine.text_var("CLAUDE_CONFIG_DIR").map(|dir| PathBuf::from(dir.trim()));
    let folder = chosen.or_else(|| Machine.user_home().map(|home| home.join(".claude")))?;
    Some(folder.join(".credentials.json"))
}
