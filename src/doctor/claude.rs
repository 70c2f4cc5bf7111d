//! Is Claude Code there, does it run, would the service find it, and does it say that it is logged in?

use std::path::Path;
use std::time::Duration;

use duduclaw_actors::id::CredentialKind;
use serde::Deserialize;
use tokio::process::Command;

use super::Doctor;
use super::finding::{Finding, Group};
use crate::process::brief;
use crate::process::find::{Found, Tool, find, path_for};

/// Less than a look may take, so that a tool that hangs is told as such.
const WITHIN: Duration = Duration::from_secs(9);
/// What the tool's word is worth.
const WORTH: &str = "it proves only that a login file or variable exists";

/// What `claude auth status` prints.
#[derive(Deserialize)]
struct AuthStatus {
    #[serde(rename = "loggedIn")]
    logged_in: bool,
}

pub(super) async fn look(doctor: &Doctor) -> Vec<Finding> {
    let configured = doctor.ready().and_then(|ready| ready.settings.claude_path.clone());
    match find(Tool::Claude, configured.as_deref(), &*doctor.machine) {
        Ok(found) => {
            let (version, status) =
                tokio::join!(run(&found.path, &["--version"]), run(&found.path, &["auth", "status"]));
            vec![the_tool(&found, version), logged_in(doctor, status)]
        }
        Err(error) => {
            let text = error.to_string();
            let mut lines = text.lines();
            let finding = Finding::warn(Group::Tools, "claude", lines.next().unwrap_or_default());
            vec![finding.advised("`duduclaw claude` needs it; the gateway does not")]
        }
    }
}

fn the_tool(found: &Found, version: Result<String, String>) -> Finding {
    let others = match &found.others[..] {
        [] => String::new(),
        others => {
            let others: Vec<_> = others.iter().map(|path| path.display().to_string()).collect();
            format!("; also found: {}", others.join(", "))
        }
    };
    match version {
        Ok(version) => {
            Finding::pass(Group::Tools, "claude", format!("{}, {}{others}", found.path.display(), first_line(&version)))
        }
        Err(why) => {
            Finding::fail(Group::Tools, "claude", format!("{} does not run: {why}{others}", found.path.display()))
                .advised("install it again, or set DUDUCLAW_CLAUDE_PATH to another one")
        }
    }
}

fn logged_in(doctor: &Doctor, said: Result<String, String>) -> Finding {
    const WHAT: &str = "claude auth status";
    let entries = doctor.ready().into_iter().flat_map(|ready| ready.topology.entries());
    let needed = entries.into_iter().any(|entry| entry.kind == CredentialKind::Keychain);
    match said.map(|said| serde_json::from_str::<AuthStatus>(&said).ok().map(|status| status.logged_in)) {
        Ok(Some(true)) => Finding::pass(Group::Tools, WHAT, format!("says logged in; {WORTH}")),
        Ok(Some(false)) if needed => {
            Finding::fail(Group::Tools, WHAT, "says not logged in, and an account relies on it")
                .advised("claude /login")
        }
        Ok(Some(false)) => Finding::pass(Group::Tools, WHAT, "says not logged in; no account relies on it"),
        Ok(None) => Finding::warn(Group::Tools, WHAT, "says nothing that is understood").advised("update Claude Code"),
        Err(why) => Finding::warn(Group::Tools, WHAT, why).advised("run it by hand and see"),
    }
}

/// What it prints, with nothing to read and not for long. Its exit status says only what it prints.
async fn run(program: &Path, args: &[&str]) -> Result<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.args(args).env("PATH", path_for(program, &path));
    match brief::output(command, WITHIN).await {
        Err(error) => Err(error.to_string()),
        Ok(output) if output.stdout.is_empty() => Err(format!("it prints nothing ({})", output.status)),
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
    }
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}
