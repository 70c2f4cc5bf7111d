//! `status --watch` on a terminal of its own: what it shows, what its keys do, and that the terminal is given back.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use tokio::process::{Child, Command};

use crate::binary::Setting;
use crate::support::PATIENCE;

/// A terminal with the program on it.
struct Terminal {
    master: File,
    slave: File,
    child: Child,
    shown: Arc<Mutex<String>>,
}

/// A terminal's two ends.
fn pair() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    // A program that held its own terminal's other end would never see it go.
    fcntl_setfd(&master, FdFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name).unwrap();
    tcsetwinsize(&slave, Winsize { ws_row: 20, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(master), slave)
}

fn begin(mut command: Command, slave: &File) -> Child {
    let end = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
}

/// The same program at the head of a session of its own, deaf to the word that its terminal is gone.
#[cfg(target_os = "linux")]
fn deaf(command: &Command) -> Command {
    let command = command.as_std();
    let mut deaf = Command::new("/usr/bin/setsid");
    deaf.args(["--ctty", "sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]);
    deaf.arg(command.get_program()).args(command.get_args()).env_clear().kill_on_drop(true);
    deaf.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    deaf
}

impl Terminal {
    fn with(setting: &Setting, arguments: &[&str]) -> Self {
        let (master, slave) = pair();
        let child = begin(setting.command(arguments), &slave);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut reader, seen) = (master.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut piece) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        });
        Self { master, slave, child, shown }
    }

    fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits until this was shown since the last such wait.
    async fn shows(&self, text: &str) {
        let mut waited = Duration::ZERO;
        while !self.shown().contains(text) {
            assert!(waited < PATIENCE, "{text:?} was not shown: {:?}", self.shown());
            tokio::time::sleep(Duration::from_millis(10)).await;
            waited += Duration::from_millis(10);
        }
        self.shown.lock().unwrap().clear();
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Waits for the end, by which the terminal is as it was.
    async fn ends(mut self) -> Option<i32> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        self.shows("\u{1b}[?1049l").await;
        assert!(!self.is_raw(), "what is typed is seen again");
        ended.code()
    }
}

#[tokio::test]
async fn keys_choose_pause_probe_and_quit_and_the_terminal_is_given_back() {
    let setting = Setting::with(&["a", "b"], "").await;
    let mut daemon = setting.serve().await;
    let mut terminal = Terminal::with(&setting, &["status", "--watch"]);
    terminal.shows("2 of 2 serve").await;
    assert!(terminal.is_raw());
    terminal.press("\u{1b}[Bp");
    terminal.shows("anthropic/b: paused").await;
    terminal.shows("1 of 2 serve").await;
    terminal.press("b");
    terminal.shows("anthropic/b: the provider knows the credential").await;
    terminal.press("p");
    terminal.shows("anthropic/b: available").await;
    terminal.press("kc");
    terminal.shows("anthropic/a: available").await;
    terminal.press("q");
    assert_eq!(terminal.ends().await, Some(0));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_signal_gives_the_terminal_back_too() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let terminal = Terminal::with(&setting, &["status", "--watch"]);
        terminal.shows("1 of 1 serve").await;
        let pid = Pid::from_raw(i32::try_from(terminal.child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(terminal.ends().await, Some(0), "{signal:?}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// As under `nohup`: nobody tells the program, and reading on would never end.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_whose_terminal_goes_away_ends() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    let watch: (&[&str], &str) = (&["status", "--watch"], "1 of 1 serve");
    let prompt: (&[&str], &str) = (&["accounts", "add", "metered", "--provider", "anthropic"], "it is not shown");
    for (arguments, shown) in [watch, prompt] {
        let (mut master, slave) = pair();
        let mut child = begin(deaf(&setting.command(arguments)), &slave);
        let seen = tokio::task::spawn_blocking(move || {
            let (mut said, mut piece) = (String::new(), [0; 4096]);
            while !said.contains(shown) {
                let length = master.read(&mut piece).unwrap();
                said.push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        });
        tokio::time::timeout(PATIENCE, seen).await.expect("it asks").unwrap();
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        assert!(ended.is_ok(), "{arguments:?} goes on without its terminal");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_daemon_that_went_away_is_told_and_found_again() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    let mut terminal = Terminal::with(&setting, &["status", "--watch"]);
    terminal.shows("1 of 1 serve").await;
    assert_eq!(daemon.stop().await, Some(0));
    terminal.shows("no answer, trying again").await;
    let mut daemon = setting.serve().await;
    terminal.shows("1 of 1 serve").await;
    terminal.shows("1 of 1 serve").await;
    assert!(!terminal.shown().contains("no answer"));
    terminal.press("q");
    assert_eq!(terminal.ends().await, Some(0));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn without_a_terminal_or_a_daemon_it_says_so_and_takes_nothing() {
    let setting = Setting::with(&["a"], "").await;
    let (code, out, err) = setting.run(&["status", "--watch"]).await;
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("needs a terminal"), "{err}");
    let mut terminal = Terminal::with(&setting, &["status", "--watch"]);
    let ended = tokio::time::timeout(PATIENCE, terminal.child.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(4));
    assert!(!terminal.shown().contains("\u{1b}[?1049h"));
}

/// What is followed goes on when the daemon does.
#[tokio::test]
async fn activity_is_followed_over_a_restart() {
    let setting = Setting::with(&["a", "b"], "").await;
    let mut daemon = setting.serve().await;
    let mut terminal = Terminal::with(&setting, &["activity", "--follow", "--limit", "1"]);
    terminal.shows("The gateway serves at").await;
    assert_eq!(setting.run(&["accounts", "pause", "b"]).await.0, 0);
    terminal.shows("b was paused.").await;
    assert_eq!(daemon.stop().await, Some(0));
    terminal.shows("the daemon went away").await;
    let mut daemon = setting.serve().await;
    terminal.shows("The gateway serves at").await;
    assert_eq!(setting.run(&["accounts", "resume", "b"]).await.0, 0);
    terminal.shows("b was resumed.").await;
    terminal.child.kill().await.unwrap();
    assert_eq!(daemon.stop().await, Some(0));
}
