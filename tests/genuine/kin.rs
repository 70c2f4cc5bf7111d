//! A client as a process with its children: bounded in time, and gone when the test is.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// How long a client may take that waits for nothing.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What a client came to.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; nothing if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// The group of a client's processes; they end with it.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0.take() {
            // The group may be gone already.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// A program with an environment of nothing but a home and the usual places of programs.
pub fn program(path: &Path, home: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("HOME", home).env("TMPDIR", home).env("LANG", "C.UTF-8").current_dir(home);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
    command
}

/// Runs it to its end, or fails the test when it takes longer than that.
pub async fn run(mut command: Command, within: Duration) -> Finished {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
    let what = format!("{:?}", command.as_std().get_program());
    let child = command.spawn().unwrap_or_else(|error| panic!("{what} does not start: {error}"));
    let _group = Group(leader(&child));
    let ended = tokio::time::timeout(within, child.wait_with_output()).await;
    let output = ended.unwrap_or_else(|_| panic!("{what} took longer than {within:?}")).unwrap();
    Finished {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn leader(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}
