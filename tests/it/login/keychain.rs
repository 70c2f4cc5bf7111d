//! The same where Claude Code keeps its login in macOS' keychain: everything that holds of its file holds of its item.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command as Program, Stdio};

use duduclaw::sim::{AccountChange, Endpoint};
use serde_json::{Value, json};
use tokio::process::Command;

use super::sweep;
use crate::binary::{Daemon, Setting, ask, client};
use crate::support::{eventually, login};

const IMPORT: [&str; 6] = ["login", "claude", "--name", "mine", "--mode", "import"];
const ITEM: [&str; 4] = ["-a", "me", "-s", "Claude Code-credentials"];

/// A user's keychain, and what speaks for it.
pub struct Keychain {
    folder: PathBuf,
    home: PathBuf,
}

impl Keychain {
    pub fn of(setting: &Setting) -> Self {
        let home = setting.home.path().to_owned();
        let folder = home.join("Library/Keychains");
        std::fs::create_dir_all(home.join(".claude")).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/security.sh");
        std::os::unix::fs::symlink(program, folder.join("security")).unwrap();
        Self { folder, home }
    }

    /// A command of a user who has it.
    pub fn beside(&self, mut command: Command) -> Command {
        command.env("DUDUCLAW_KEYCHAIN", self.folder.join("security")).env("USER", "me");
        command
    }

    pub fn calls(&self) -> String {
        std::fs::read_to_string(self.folder.join("calls")).unwrap_or_default()
    }

    pub fn say(&self, arguments: &[&str], input: &str) -> String {
        let mut program = Program::new(self.folder.join("security"));
        let child = program.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    /// As if Claude Code had logged in, or renewed its login.
    fn write(&self, setting: &Setting, account: &str, more: &Value) {
        let uuid = setting.sim.credentials(account).unwrap().uuid;
        let record = json!({"oauthAccount": {"accountUuid": uuid}});
        std::fs::write(self.home.join(".claude.json"), record.to_string()).unwrap();
        let mut login = login(&setting.sim, account);
        login["more"] = more.clone();
        self.put(&login);
    }

    fn put(&self, login: &Value) {
        let hex: String = login.to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
        let [a, me, s, service] = ITEM;
        self.say(&["-i"], &format!("add-generic-password -U {a} \"{me}\" {s} \"{service}\" -X \"{hex}\"\n"));
    }

    fn login(&self) -> Value {
        let said = self.say(&[&["find-generic-password"], &ITEM[..], &["-w"]].concat(), "");
        let said = said.trim();
        if said.starts_with('{') {
            return serde_json::from_str(said).unwrap();
        }
        let byte = |at| u8::from_str_radix(&said[at..at + 2], 16).unwrap();
        serde_json::from_slice(&(0..said.len()).step_by(2).map(byte).collect::<Vec<_>>()).unwrap()
    }

    fn access(&self) -> String {
        self.login()["claudeAiOauth"]["accessToken"].as_str().unwrap().to_owned()
    }

    fn expire(&self, setting: &Setting) {
        expire_token(setting);
        let mut login = self.login();
        login["claudeAiOauth"]["expiresAt"] = json!(1);
        self.put(&login);
    }
}

fn expire_token(setting: &Setting) {
    setting.sim.change("first", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
}

async fn served(daemon: &Daemon) -> u16 {
    ask(&client(), daemon.url(), "[[say: hello]]", false).send().await.unwrap().status().as_u16()
}

async fn run(keychain: &Keychain, setting: &Setting, arguments: &[&str]) -> (i32, String, String) {
    crate::binary::run(keychain.beside(setting.at_sim(arguments))).await
}

async fn daemon(keychain: &Keychain, setting: &Setting) -> Daemon {
    Daemon::of(keychain.beside(setting.at_sim(&["-vv", "serve"]))).await
}

#[tokio::test]
async fn the_login_in_the_keychain_is_taken_over_and_stays_linked() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    let (code, _, err) = run(&keychain, &setting, &IMPORT).await;
    assert_eq!(code, 1, "nobody is logged in");
    assert!(err.contains("log in with Claude Code"), "{err}");
    assert!(err.contains("\"Claude Code-credentials\" of \"me\""), "{err}");
    keychain.write(&setting, "first", &Value::Null);
    let (code, out, err) = run(&keychain, &setting, &IMPORT).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("linked to Claude Code's login in the keychain (Claude Code-credentials)"), "{out}");
    let stored = setting.stored_json("claude", "mine");
    assert_eq!(stored["duduclawAccountUuid"], json!(setting.sim.credentials("first").unwrap().uuid));
    assert!(!keychain.home.join(".claude/.credentials.json").exists());
    sweep::assert_clean(&setting, &[out, err, keychain.calls()]);
}

#[tokio::test]
async fn what_we_renew_is_in_its_item_and_what_it_renews_is_ours() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    let theirs = json!({"mcpOAuth": {"name": "Zoë's \"server\" $(id)"}});
    keychain.write(&setting, "first", &theirs);
    assert_eq!(run(&keychain, &setting, &IMPORT).await.0, 0);
    let mut daemon = daemon(&keychain, &setting).await;
    for round in 1..=3 {
        keychain.expire(&setting);
        assert_eq!(served(&daemon).await, 200, "round {round}: {}", daemon.said());
        assert_eq!(keychain.access(), setting.sim.credentials("first").unwrap().token, "round {round}");
        assert_eq!(keychain.login()["more"], theirs, "what else is there stays");
        let spent = setting.sim.hits("first", Endpoint::Token).len();
        let again = AccountChange { expire_tokens: true, log_in: true, ..AccountChange::default() };
        setting.sim.change("first", &again).unwrap();
        let copy = std::fs::read(setting.stored("claude", "mine")).unwrap();
        keychain.write(&setting, "first", &theirs);
        eventually(|| (std::fs::read(setting.stored("claude", "mine")).unwrap() != copy).then_some(())).await;
        assert_eq!(served(&daemon).await, 200);
        assert_eq!(setting.sim.hits("first", Endpoint::Token).len(), spent, "nobody renewed what was new");
    }
    assert_eq!(daemon.stop().await, Some(0));
    sweep::assert_clean(&setting, &[daemon.said(), keychain.calls()]);
}

#[tokio::test]
async fn two_daemons_and_claude_code_share_the_item_and_nobody_loses_it() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    keychain.write(&setting, "first", &Value::Null);
    assert_eq!(run(&keychain, &setting, &IMPORT).await.0, 0);
    let other = tempfile::tempdir().unwrap();
    for name in ["config.toml", "key", "key.id", "accounts/claude/mine.json"] {
        std::fs::create_dir_all(other.path().join("accounts/claude")).unwrap();
        std::fs::copy(setting.home.path().join(name), other.path().join(name)).unwrap();
    }
    let mut second = keychain.beside(setting.at_sim(&["serve"]));
    second.env("DUDUCLAW_HOME", other.path());
    let mut daemons = [daemon(&keychain, &setting).await, Daemon::of(second).await];
    for round in 0..4 {
        keychain.expire(&setting);
        let asked = daemons.iter().flat_map(|daemon| (0..4).map(|_| served(daemon)));
        let statuses = futures_util::future::join_all(asked).await;
        assert!(statuses.iter().all(|status| *status == 200), "round {round}: {statuses:?}");
        assert_eq!(keychain.access(), setting.sim.credentials("first").unwrap().token);
        let again = AccountChange { expire_tokens: true, log_in: true, ..AccountChange::default() };
        setting.sim.change("first", &again).unwrap();
        keychain.write(&setting, "first", &Value::Null);
    }
    let refused = setting.sim.log().into_iter().filter(|r| r.endpoint == Endpoint::Token && r.status != Some(200));
    assert_eq!(refused.count(), 0, "no refresh token was spent twice");
    for daemon in &mut daemons {
        assert_eq!(daemon.stop().await, Some(0));
    }
}

#[tokio::test]
async fn whoever_logs_out_there_leaves_the_copy_to_us() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    keychain.write(&setting, "first", &Value::Null);
    assert_eq!(run(&keychain, &setting, &IMPORT).await.0, 0);
    let mut daemon = daemon(&keychain, &setting).await;
    keychain.say(&[&["delete-generic-password"], &ITEM[..]].concat(), "");
    expire_token(&setting);
    for _ in 0..2 {
        assert_eq!(served(&daemon).await, 200);
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// What could not be written back would log Claude Code out: its refresh token is not spent.
#[tokio::test]
async fn an_item_that_is_too_long_to_be_written_unseen_is_left_to_claude_code() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    keychain.write(&setting, "first", &Value::Null);
    let missing = 1_960 - keychain.login().to_string().len();
    keychain.write(&setting, "first", &json!("x".repeat(missing)));
    assert_eq!(run(&keychain, &setting, &IMPORT).await.0, 0);
    let mut daemon = daemon(&keychain, &setting).await;
    assert_eq!(served(&daemon).await, 200);
    keychain.expire(&setting);
    assert_ne!(served(&daemon).await, 200);
    assert!(setting.sim.hits("first", Endpoint::Token).is_empty(), "nothing is spent");
    assert!(daemon.said().contains("too long to be written to the keychain"), "{}", daemon.said());
    let again = AccountChange { expire_tokens: true, log_in: true, ..AccountChange::default() };
    setting.sim.change("first", &again).unwrap();
    keychain.write(&setting, "first", &json!({}));
    let mut tries = 0;
    while served(&daemon).await != 200 {
        tries += 1;
        assert!(tries < 1000, "what Claude Code renewed serves");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_configuration_may_name_claude_codes_file_where_its_login_is_in_the_keychain() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    let config = setting.home.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let entry = "[[providers.anthropic.accounts]]\nname = \"own\"\ncredentials = \"~/.claude/.credentials.json\"\n";
    std::fs::write(&config, text.replacen("[providers.codex]", &format!("{entry}[providers.codex]"), 1)).unwrap();
    let (_, out, _) = run(&keychain, &setting, &["check"]).await;
    assert!(out.contains("not logged in"), "{out}");
    keychain.write(&setting, "first", &Value::Null);
    let (_, out, _) = run(&keychain, &setting, &["check"]).await;
    assert!(!out.contains("not logged in"), "{out}");
    let mut daemon = daemon(&keychain, &setting).await;
    keychain.expire(&setting);
    assert_eq!(served(&daemon).await, 200, "{}", daemon.said());
    assert_eq!(keychain.access(), setting.sim.credentials("first").unwrap().token);
    assert_eq!(daemon.stop().await, Some(0));
    sweep::assert_clean(&setting, &[daemon.said(), keychain.calls()]);
}

#[tokio::test]
async fn without_a_configuration_the_login_in_the_keychain_is_found() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    std::fs::remove_file(setting.home.path().join("config.toml")).unwrap();
    let (_, before, _) = run(&keychain, &setting, &["doctor", "--offline"]).await;
    assert!(!before.contains("claude_oauth: claude-code"), "{before}");
    keychain.write(&setting, "first", &Value::Null);
    let (_, out, err) = run(&keychain, &setting, &["doctor", "--offline"]).await;
    assert!(out.contains("claude_oauth: claude-code"), "{out}{err}");
}

/// The key of stored secrets: put there beside a daemon, which goes on without losing a login.
#[tokio::test]
async fn the_key_is_put_into_the_keychain_beside_a_daemon() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    keychain.write(&setting, "first", &Value::Null);
    assert_eq!(run(&keychain, &setting, &IMPORT).await.0, 0);
    keychain.say(&[&["delete-generic-password"], &ITEM[..]].concat(), "");
    let mut daemon = daemon(&keychain, &setting).await;
    let (code, out, err) = run(&keychain, &setting, &["secrets", "rekey", "--to", "keychain"]).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("2 values in 1 files are sealed with it"), "{out}");
    assert!(!setting.home.path().join("key").exists());
    expire_token(&setting);
    assert_eq!(served(&daemon).await, 200, "what it renews it seals with the new key");
    assert_eq!(daemon.stop().await, Some(0));
    let mut daemon = self::daemon(&keychain, &setting).await;
    assert_eq!(served(&daemon).await, 200);
    assert_eq!(daemon.stop().await, Some(0));
    let (_, doctor, _) = run(&keychain, &setting, &["doctor", "--offline"]).await;
    assert!(doctor.contains(", in the keychain\n"), "{doctor}");
    let (code, _, err) = run(&keychain, &setting, &["secrets", "rekey", "--to", "file"]).await;
    assert_eq!(code, 0, "{err}");
    assert!(setting.home.path().join("key").exists());
    sweep::assert_clean(&setting, &[out, doctor, daemon.said(), keychain.calls()]);
}

#[tokio::test]
async fn a_locked_keychain_is_said_and_what_to_do() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    keychain.write(&setting, "first", &Value::Null);
    std::fs::write(keychain.folder.join("locked"), "").unwrap();
    let (code, _, err) = run(&keychain, &setting, &IMPORT).await;
    assert_eq!(code, 1);
    assert!(err.contains("the keychain is locked") && err.contains("unlock-keychain"), "{err}");
    let (code, _, err) = setting.run(&["secrets", "rekey", "--to", "keychain"]).await;
    assert_eq!(code, 1);
    assert!(err.contains("no keychain"), "{err}");
}

/// The configuration itself needs no secret, and is good; that none of them opens is said all the same.
#[tokio::test]
async fn check_names_stored_accounts_that_do_not_open() {
    let setting = super::setting(&["first"]).await;
    let keychain = Keychain::of(&setting);
    keychain.write(&setting, "first", &Value::Null);
    assert_eq!(run(&keychain, &setting, &IMPORT).await.0, 0);
    keychain.say(&[&["delete-generic-password"], &ITEM[..]].concat(), "");
    let (_, before, _) = run(&keychain, &setting, &["check"]).await;
    assert!(!before.contains("undecryptable"), "{before}");
    std::fs::write(setting.home.path().join("key"), "short").unwrap();
    let (code, out, _) = run(&keychain, &setting, &["check"]).await;
    assert!(out.contains("account anthropic/mine is broken (undecryptable)"), "{out}");
    assert_eq!(code, 3);
    let (_, doctor, _) = run(&keychain, &setting, &["doctor", "--offline"]).await;
    let line = doctor.lines().find(|line| line.contains("anthropic/mine: broken")).unwrap();
    assert!(line.ends_with("see the line about the key"), "{line}");
}

/// What is asked of a keychain that hangs is nobody's wait but its own: with one thread that serves, all would stand still.
#[tokio::test]
async fn a_keychain_that_hangs_stops_no_request_and_no_status() {
    let setting = super::setting(&["first", "second"]).await;
    let keychain = Keychain::of(&setting);
    let config = setting.home.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let other = setting.home.path().join("second.json");
    std::fs::write(&other, login(&setting.sim, "second").to_string()).unwrap();
    let entries = format!(
        "[[providers.anthropic.accounts]]\nname = \"own\"\ncredentials = \"~/.claude/.credentials.json\"\n\
         [[providers.anthropic.accounts]]\nname = \"other\"\ncredentials = \"{}\"\n",
        other.display()
    );
    let text = text.replacen("[providers.codex]", &format!("{entries}[providers.codex]"), 1);
    std::fs::write(&config, &text).unwrap();
    let mut command = keychain.beside(setting.at_sim(&["-vv", "serve"]));
    command.env("TOKIO_WORKER_THREADS", "1");
    let mut daemon = Daemon::of(command).await;
    std::fs::write(keychain.folder.join("silent"), "").unwrap();
    let calls = keychain.calls().lines().count();
    std::fs::write(keychain.folder.join("login.keychain-db"), "changed").unwrap();
    std::fs::write(&config, format!("{text}\n# Changed.\n")).unwrap();
    eventually(|| (keychain.calls().lines().count() > calls).then_some(())).await;
    let within = std::time::Duration::from_secs(5);
    for _ in 0..4 {
        assert_eq!(tokio::time::timeout(within, served(&daemon)).await, Ok(200), "{}", daemon.said());
        let (code, _, err) = tokio::time::timeout(within, run(&keychain, &setting, &["status"])).await.unwrap();
        assert!(code != 4, "{err}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}
