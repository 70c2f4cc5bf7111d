//! Asking Claude Code whether it is logged in: its status command, in the folder of its own that an account names.
//!
//! That tells whether there is a login, never whether a provider accepts it. The command gets no secret of ours, and no
//! variable that could be taken for a login.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use super::brief::{self, BriefError};
use super::find::{FindError, Tool, find};
use crate::config::surroundings::Surroundings;

/// How long it may take.
pub const WITHIN: Duration = Duration::from_secs(10);
/// The variables that it sees of ours.
const PASSED: [&str; 7] = ["PATH", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// Whether a CLI has a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// It has.
    There,
    /// It has none.
    Missing,
}

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The CLI was not found.
    #[error(transparent)]
    Find(#[from] FindError),
    /// It did not run.
    #[error("`claude auth status` cannot be run: {0}; run it yourself to see why")]
    Run(#[from] std::io::Error),
    /// It took too long.
    #[error("`claude auth status` said nothing within {} s", WITHIN.as_secs())]
    Late,
    /// What it said is not understood.
    #[error("what `claude auth status` says is not understood; is it a Claude Code that knows --json?")]
    Unclear,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    logged_in: bool,
}

/// Asks Claude Code.
///
/// # Errors
/// When it cannot be asked, or does not say.
pub async fn login_of_claude(
    machine: &(dyn Surroundings + Send + Sync),
    config_dir: Option<&Path>,
) -> Result<Login, StatusError> {
    let found = find(Tool::Claude, None, machine)?;
    let mut command = Command::new(found.path);
    command.args(["auth", "status", "--json"]).env_clear();
    command.envs(PASSED.into_iter().filter_map(|name| Some((name, machine.var(name)?))));
    command.envs(machine.user_home().map(|home| ("HOME", home)));
    command.envs(config_dir.map(|dir| ("CLAUDE_CONFIG_DIR", dir)));
    let output = brief::output(command, WITHIN).await.map_err(|error| match error {
        BriefError::Run(error) => StatusError::Run(error),
        BriefError::Late(_) => StatusError::Late,
    })?;
    // It says the same with another exit status where it is not logged in.
    let said: Said = serde_json::from_slice(&output.stdout).map_err(|_| StatusError::Unclear)?;
    Ok(if said.logged_in { Login::There } else { Login::Missing })
}
