//! Running a program for what it prints, and not for long.

use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BriefError {
    #[error(transparent)]
    Run(#[from] io::Error),
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
}

/// What the program prints. It reads nothing; if it takes too long, or nobody waits for it any more, it ends together with
/// whatever it began: a program is often a script, and its own end alone would leave the one that hangs.
pub(crate) async fn output(mut command: Command, within: Duration) -> Result<Output, BriefError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let child = command.spawn()?;
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let output =
        tokio::time::timeout(within, child.wait_with_output()).await.map_err(|_| BriefError::Late(within))??;
    group.0 = None;
    Ok(output)
}

/// A program and what it began, ended when this is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        command
    }

    #[tokio::test]
    async fn what_it_prints_is_told_with_how_it_ended() {
        let output = output(script("echo said; echo why >&2; exit 3"), Duration::from_secs(60)).await.unwrap();
        assert_eq!((output.stdout, output.stderr, output.status.code()), (b"said\n".into(), b"why\n".into(), Some(3)));
        let missing = super::output(Command::new("/no/such/program"), Duration::from_secs(60)).await;
        assert!(matches!(missing, Err(BriefError::Run(_))));
    }

    /// The pipe that all of them hold is closed when the last of them is gone.
    #[tokio::test]
    async fn whatever_a_hanging_script_began_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("alive");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let text = format!("exec 3>'{}'; sleep 1000 & sleep 1000", pipe.display());
        let reader = tokio::task::spawn_blocking(move || std::fs::read(pipe));
        let late = output(script(&text), Duration::from_millis(500)).await;
        assert!(matches!(late, Err(BriefError::Late(_))));
        let read = tokio::time::timeout(Duration::from_secs(20), reader).await.expect("nobody holds it any more");
        assert_eq!(read.unwrap().unwrap(), b"");
    }
}
