//! Taking over the login of Claude Code: both go on using it, and nobody logs the other out.

use std::path::PathBuf;

use duduclaw::sim::{AccountChange, Endpoint};
use serde_json::{Value, json};

use super::sweep;
use crate::binary::{Daemon, Setting, ask, client};
use crate::support::{eventually, login};

const IMPORT: [&str; 6] = ["login", "claude", "--name", "mine", "--mode", "import"];

/// Claude Code's own files.
struct Own {
    file: PathBuf,
    record: PathBuf,
}

impl Own {
    fn of(setting: &Setting, account: &str) -> Self {
        let home = setting.home.path();
        std::fs::create_dir_all(home.join(".claude")).unwrap();
        let own = Self { file: home.join(".claude/.credentials.json"), record: home.join(".claude.json") };
        own.write(setting, account);
        own
    }

    /// As if Claude Code had logged in.
    fn write(&self, setting: &Setting, account: &str) {
        let uuid = setting.sim.credentials(account).unwrap().uuid;
        std::fs::write(&self.record, json!({"oauthAccount": {"accountUuid": uuid}}).to_string()).unwrap();
        std::fs::write(&self.file, login(&setting.sim, account).to_string()).unwrap();
    }

    fn access(&self) -> String {
        let text = std::fs::read_to_string(&self.file).unwrap();
        let login: Value = serde_json::from_str(&text).unwrap();
        login["claudeAiOauth"]["accessToken"].as_str().unwrap().to_owned()
    }
}

async fn served(daemon: &Daemon) -> u16 {
    ask(&client(), daemon.url(), "[[say: hello]]", false).send().await.unwrap().status().as_u16()
}

fn expire(setting: &Setting, own: &Own) {
    setting.sim.change("first", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
    let text = std::fs::read_to_string(&own.file).unwrap();
    let mut login: Value = serde_json::from_str(&text).unwrap();
    login["claudeAiOauth"]["expiresAt"] = json!(1);
    std::fs::write(&own.file, login.to_string()).unwrap();
}

#[tokio::test]
async fn without_a_terminal_the_login_of_claude_code_is_taken_over_and_stays_linked() {
    let setting = super::setting(&["first"]).await;
    let own = Own::of(&setting, "first");
    let (code, out, err) = setting.run(&["login", "claude", "--name", "mine"]).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("anthropic/mine: oauth saved, the provider knows it\nin use as anthropic/mine\n"), "{out}");
    assert!(out.contains("stays linked to"), "{out}");
    let stored = setting.stored_json("claude", "mine");
    assert_eq!(stored["duduclawLinkedTo"], json!(own.file));
    assert_eq!(stored["duduclawAccountUuid"], json!(setting.sim.credentials("first").unwrap().uuid));
    sweep::assert_clean(&setting, &[out, err]);
}

#[tokio::test]
async fn what_we_renew_is_in_claude_codes_file_and_what_it_renews_is_ours() {
    let setting = super::setting(&["first"]).await;
    let own = Own::of(&setting, "first");
    assert_eq!(setting.run(&IMPORT).await.0, 0);
    let mut daemon = Daemon::of(setting.at_sim(&["-vv", "serve"])).await;
    for round in 1..=3 {
        // We renew: its file has the new pair, the copy is sealed and new.
        let (before, copy) = (own.access(), std::fs::read(setting.stored("claude", "mine")).unwrap());
        expire(&setting, &own);
        assert_eq!(served(&daemon).await, 200);
        let held = setting.sim.credentials("first").unwrap();
        assert_eq!(own.access(), held.token, "round {round}");
        assert_ne!(own.access(), before);
        assert_ne!(std::fs::read(setting.stored("claude", "mine")).unwrap(), copy, "the copy follows");
        // Claude Code renews: we adopt it, and spend nothing.
        let spent = setting.sim.hits("first", Endpoint::Token).len();
        setting
            .sim
            .change("first", &AccountChange { expire_tokens: true, log_in: true, ..AccountChange::default() })
            .unwrap();
        let copy = std::fs::read(setting.stored("claude", "mine")).unwrap();
        own.write(&setting, "first");
        eventually(|| (std::fs::read(setting.stored("claude", "mine")).unwrap() != copy).then_some(())).await;
        assert_eq!(served(&daemon).await, 200);
        assert_eq!(setting.sim.hits("first", Endpoint::Token).len(), spent, "nobody renewed what was new");
    }
    assert_eq!(daemon.stop().await, Some(0));
    sweep::assert_clean(&setting, &[daemon.said()]);
}

/// Whoever logs out there, or in as somebody else, has left the copy to us.
#[tokio::test]
async fn a_login_that_was_left_there_goes_on_here() {
    for leave in ["out", "in as second"] {
        let setting = super::setting(&["first", "second"]).await;
        let own = Own::of(&setting, "first");
        assert_eq!(setting.run(&IMPORT).await.0, 0);
        let mut daemon = Daemon::of(setting.at_sim(&["serve"])).await;
        assert_eq!(served(&daemon).await, 200);
        if leave == "out" {
            std::fs::remove_file(&own.file).unwrap();
        } else {
            own.write(&setting, "second");
        }
        setting.sim.change("first", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
        for _ in 0..2 {
            assert_eq!(served(&daemon).await, 200, "{leave}");
        }
        let used = setting.sim.hits("second", Endpoint::Messages).len();
        assert_eq!(used, 0, "{leave}: another account's login is not taken for this one");
        if leave != "out" {
            assert_eq!(own.access(), setting.sim.credentials("second").unwrap().token, "its file is left alone");
        }
        assert_eq!(daemon.stop().await, Some(0));
    }
}

#[tokio::test]
async fn what_cannot_be_taken_over_is_said() {
    let setting = super::setting(&["first"]).await;
    let (code, _, err) = setting.run(&IMPORT).await;
    assert_eq!(code, 1);
    assert!(err.contains(".claude/.credentials.json") && err.contains("--mode oauth"), "{err}");
    let own = Own::of(&setting, "first");
    std::fs::write(&own.file, "{\"claudeAiOauth\": {\"accessToken\": \"CANARY CANARY\"}}").unwrap();
    let (code, _, err) = setting.run(&IMPORT).await;
    assert_eq!(code, 1);
    assert!(err.contains("white space") && !err.contains("CANARY"), "{err}");
    let unknown = json!({"claudeAiOauth": {"accessToken": "sk-ant-oat01-x", "refreshToken": "r"}});
    std::fs::write(&own.file, unknown.to_string()).unwrap();
    let (code, _, err) = setting.run(&IMPORT).await;
    assert_eq!(code, 1);
    assert!(err.contains("401"), "{err}");
    assert!(!setting.stored("claude", "mine").exists());
    let (code, _, err) = setting.run(&["login", "claude", "--name", "Mine!"]).await;
    assert_eq!(code, 2, "{err}");
}

/// Nothing is asked about a token that has ended: it is renewed on use, and proven then.
#[tokio::test]
async fn a_login_whose_token_has_ended_is_taken_over_unverified() {
    let setting = super::setting(&["first"]).await;
    let own = Own::of(&setting, "first");
    expire(&setting, &own);
    let (code, out, err) = setting.run(&IMPORT).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("unverified"), "{out}");
    let mut daemon = Daemon::of(setting.at_sim(&["serve"])).await;
    assert_eq!(served(&daemon).await, 200);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Two daemons and Claude Code itself on one login, over several expiries: whoever comes first renews, the others adopt,
/// and no refresh token is spent twice.
#[tokio::test]
async fn daemons_and_claude_code_share_a_linked_login_and_nobody_loses_it() {
    let setting = super::setting(&["first"]).await;
    let own = Own::of(&setting, "first");
    assert_eq!(setting.run(&IMPORT).await.0, 0);
    let other = tempfile::tempdir().unwrap();
    for name in ["config.toml", "key", "key.id", "accounts/claude/mine.json"] {
        std::fs::create_dir_all(other.path().join("accounts/claude")).unwrap();
        std::fs::copy(setting.home.path().join(name), other.path().join(name)).unwrap();
    }
    let mut command = setting.at_sim(&["serve"]);
    command.env("DUDUCLAW_HOME", other.path());
    let mut daemons = [Daemon::of(setting.at_sim(&["serve"])).await, Daemon::of(command).await];
    for round in 0..4 {
        expire(&setting, &own);
        let asked = daemons.iter().flat_map(|daemon| (0..4).map(|_| served(daemon)));
        let statuses = futures_util::future::join_all(asked).await;
        assert!(statuses.iter().all(|status| *status == 200), "round {round}: {statuses:?}");
        assert_eq!(own.access(), setting.sim.credentials("first").unwrap().token);
        // Claude Code's own turn.
        setting
            .sim
            .change("first", &AccountChange { expire_tokens: true, log_in: true, ..AccountChange::default() })
            .unwrap();
        own.write(&setting, "first");
    }
    let refused = setting.sim.log().into_iter().filter(|r| r.endpoint == Endpoint::Token && r.status != Some(200));
    assert_eq!(refused.count(), 0, "no refresh token was spent twice");
    for daemon in &mut daemons {
        assert_eq!(daemon.stop().await, Some(0));
    }
}

/// A file that makes no sense is no leave-taking: renewing the copy could log the other program out.
#[tokio::test]
async fn while_claude_codes_file_makes_no_sense_the_account_is_broken_and_nothing_is_renewed() {
    let setting = super::setting(&["first"]).await;
    let own = Own::of(&setting, "first");
    assert_eq!(setting.run(&IMPORT).await.0, 0);
    let copy = std::fs::read(setting.stored("claude", "mine")).unwrap();
    std::fs::write(&own.file, "{ \"claudeAiOauth\": ").unwrap();
    setting.sim.change("first", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
    let mut daemon = Daemon::of(setting.at_sim(&["serve"])).await;
    assert_ne!(served(&daemon).await, 200);
    let (_, list, _) = setting.run(&["accounts", "list"]).await;
    assert!(list.contains("broken (unreadable)"), "{list}");
    assert!(setting.sim.hits("first", Endpoint::Token).is_empty(), "nothing is renewed");
    assert_eq!(std::fs::read(setting.stored("claude", "mine")).unwrap(), copy);
    own.write(&setting, "first");
    let mut tries = 0;
    while served(&daemon).await != 200 {
        tries += 1;
        assert!(tries < 1000, "it heals by itself");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(daemon.stop().await, Some(0));
}
