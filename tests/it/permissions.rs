//! What may not be read or written, as a user for whom that means something: where the tests run as root, the program runs
//! as nobody.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use duduclaw::sim::{AccountChange, Endpoint};
use tokio::process::Command;

use crate::binary::{Daemon, Setting, ask, client, run};
use crate::login::sweep::files;
use crate::support::eventually;

/// Nobody, and nobody's group.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Setting {
    /// The program as a user whom permissions concern.
    fn as_a_user(&self, arguments: &[&str]) -> Command {
        let mut command = self.at_sim(arguments);
        if !is_root() {
            return command;
        }
        let program = self.home.path().join("program");
        if !program.exists() {
            fs::copy(env!("CARGO_BIN_EXE_duduclaw"), &program).unwrap();
        }
        let mut ours = Command::new(&program);
        ours.args(arguments).env_clear().kill_on_drop(true).uid(NOBODY).gid(NOBODY);
        for (name, value) in command.as_std_mut().get_envs() {
            ours.env(name, value.unwrap_or_default());
        }
        self.give();
        ours
    }

    /// Makes all of the home that user's.
    fn give(&self) {
        let home = self.home.path();
        for path in files(home).iter().map(PathBuf::as_path).chain([home, &self.store(), &home.join("accounts")]) {
            if path.exists() {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
    }

    fn store(&self) -> PathBuf {
        self.home.path().join("accounts/claude")
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Two logins of the store.
async fn stored() -> Setting {
    let setting = crate::login::setting(&["a", "b"]).await;
    fs::create_dir_all(setting.store()).unwrap();
    for name in ["a", "b"] {
        fs::rename(setting.home.path().join(format!("{name}.json")), setting.store().join(format!("{name}.json")))
            .unwrap();
    }
    setting
}

/// C110: a file that may not be read is one account's trouble, and not taken for one that is not there.
#[tokio::test]
async fn what_may_not_be_read_breaks_its_account_alone_and_heals() {
    let setting = stored().await;
    let path = setting.store().join("a.json");
    let before = fs::read(&path).unwrap();
    let command = setting.as_a_user(&["serve"]);
    mode(&path, 0o000);
    let mut daemon = Daemon::of(command).await;
    daemon.until("may not be read").await;
    let answer = ask(&client(), daemon.url(), "hi", false).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["x-duduclaw-account"]), (200, &"b".parse().unwrap()));
    let (code, out, err) = run(setting.as_a_user(&["doctor"])).await;
    mode(&path, 0o000);
    assert_eq!(code, 1, "{out}{err}");
    let line = out.lines().find(|line| line.contains("anthropic/a:")).unwrap_or_else(|| panic!("{out}"));
    assert!(line.starts_with("FAIL") && line.contains("may not be read by this user"), "{line}");
    mode(&path, 0o600);
    assert_eq!(fs::read(&path).unwrap(), before);
    let (code, out, err) = run(setting.as_a_user(&["accounts", "probe", "a"])).await;
    assert!(out.contains("knows"), "{code}: {out}{err}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// A renewed login that cannot be written is used from memory, told, and written when it can be.
#[tokio::test]
async fn a_store_that_may_not_be_written_costs_no_request_and_no_login() {
    let setting = stored().await;
    let mut daemon = Daemon::of(setting.as_a_user(&["serve"])).await;
    let before = fs::read(setting.store().join("a.json")).unwrap();
    mode(&setting.store(), 0o500);
    for name in ["a", "b"] {
        let ended = AccountChange { expire_tokens: true, ..AccountChange::default() };
        setting.sim.change(name, &ended).unwrap();
    }
    for nth in 0..4 {
        let asked = ask(&client(), daemon.url(), "hi", false).header("x-claude-code-session-id", format!("s{nth}"));
        assert_eq!(asked.send().await.unwrap().status(), 200);
    }
    daemon.until("cannot be written").await;
    assert_eq!(fs::read(setting.store().join("a.json")).unwrap(), before);
    let renewed = ["a", "b"].map(|name| (name, !setting.sim.hits(name, Endpoint::Token).is_empty()));
    assert!(renewed.iter().any(|(_, renewed)| *renewed), "somebody was renewed");
    mode(&setting.store(), 0o700);
    for (name, _) in renewed.into_iter().filter(|(_, renewed)| *renewed) {
        let path = setting.store().join(format!("{name}.json"));
        eventually(|| fs::read_to_string(&path).unwrap().contains("duduclaw-sealed").then_some(())).await;
    }
    assert_eq!(daemon.stop().await, Some(0));
    let mut daemon = Daemon::of(setting.as_a_user(&["serve"])).await;
    for nth in 0..4 {
        let asked = ask(&client(), daemon.url(), "hi", false).header("x-claude-code-session-id", format!("t{nth}"));
        assert_eq!(asked.send().await.unwrap().status(), 200);
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_home_that_may_not_be_written_starts_nothing_and_says_so() {
    let setting = stored().await;
    let command = setting.as_a_user(&["serve"]);
    mode(setting.home.path(), 0o500);
    let (code, out, err) = run(command).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("check its owner and permissions"), "{err}");
    let command = setting.as_a_user(&["doctor"]);
    let (code, out, _) = run(command).await;
    assert_eq!(code, 1);
    assert!(out.contains("this user may not write into it"), "{out}");
    mode(setting.home.path(), 0o700);
}

/// A disk that takes no byte more: nothing is half written, and what was there stays.
#[tokio::test]
async fn a_full_disk_loses_no_byte_of_what_was_there() {
    let setting = stored().await;
    let login = crate::support::login(&setting.sim, "a").to_string();
    let offered = setting.home.path().join("offered.json");
    fs::write(&offered, &login).unwrap();
    let before: Vec<_> = files(&setting.store()).into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    for name in ["new", "a"] {
        let script = format!(
            "trap '' XFSZ; ulimit -f 0; exec \"$0\" accounts add {name} --provider anthropic --replace --stdin < '{}'",
            offered.display()
        );
        let ours = setting.at_sim(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_duduclaw")]).env_clear();
        for (variable, value) in ours.as_std().get_envs() {
            command.env(variable, value.unwrap_or_default());
        }
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("nothing was saved") || said.contains("cannot be"), "{said}");
    }
    for (bytes, path) in before {
        assert_eq!(fs::read(&path).unwrap(), bytes, "{}", path.display());
    }
    let names: Vec<_> =
        files(&setting.store()).iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    assert!(!names.iter().any(|name| name == "new.json" || name.contains("duduclaw-new")), "{names:?}");
}
