//! Two daemons of two homes that share one login, in the file that Claude Code itself keeps.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duduclaw::admin::PoolView;
use duduclaw::app::DaemonRecord;
use duduclaw::sim::{AccountChange, AccountSpec, Endpoint, Fault, FaultRule, Record, Sim, SimConfig, SimHandle};
use duduclaw_actors::clock::{SystemClock, instant};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::storm::{Seen, all_served, send};
use crate::support::PATIENCE;

/// A daemon of the built binary.
struct Daemon {
    process: Child,
    home: PathBuf,
    url: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        signal(&self.process, "-CONT");
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn signal(process: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

impl Daemon {
    async fn start(home: &Path, config: &str, token_of_b: &str) -> Self {
        std::fs::create_dir_all(home).unwrap();
        std::fs::write(home.join("config.toml"), config).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_duduclaw"))
            .arg("--home")
            .arg(home)
            .arg("serve")
            .env_remove("ANTHROPIC_API_KEY")
            .env("HOME", home)
            .env("TOKEN_OF_B", token_of_b)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(home.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut daemon = Self { process, home: home.to_owned(), url: String::new() };
        daemon.url = daemon.address().await;
        daemon
    }

    async fn address(&mut self) -> String {
        for _ in 0..4000 {
            if let Some(record) = self.record() {
                return record.addresses[0].clone();
            }
            assert!(self.process.try_wait().unwrap().is_none(), "it does not start: {}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it does not say where it listens: {}", self.log());
    }

    fn record(&self) -> Option<DaemonRecord> {
        serde_json::from_slice(&std::fs::read(self.home.join("daemon.json")).ok()?).ok()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    async fn needs_login(&self, client: &reqwest::Client) -> bool {
        let key = std::fs::read_to_string(self.home.join("admin-token")).unwrap();
        let request = client.get(format!("{}/admin/api/pool", self.url)).bearer_auth(key.trim());
        let pool: PoolView = request.send().await.unwrap().json().await.unwrap();
        pool.providers.into_iter().flat_map(|provider| provider.accounts).any(|account| account.needs_login)
    }
}

/// Two daemons, one provider, one login that both use; `b` is there too if it is wanted.
struct Street {
    sim: SimHandle,
    folder: tempfile::TempDir,
    client: reqwest::Client,
    daemons: Vec<Daemon>,
    login: &'static str,
}

/// The file that Claude Code itself keeps, and locks in a way that outlives a process.
const OF_CLAUDE: &str = ".credentials.json";
/// A file that only daemons of ours use.
const OURS: &str = "stored.json";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Second {
    Account,
    None,
}

impl Street {
    async fn with(second: Second) -> Self {
        Self::on(OF_CLAUDE, second).await
    }

    async fn on(login: &'static str, second: Second) -> Self {
        let config = SimConfig {
            token_delay_millis: 300,
            ..SimConfig::with([AccountSpec::oauth("a"), AccountSpec::setup_token("b")])
        };
        let loopback = "127.0.0.1:0".parse().unwrap();
        let sim = Sim::start(config, Arc::new(SystemClock::default()), loopback).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut street = Self { sim, folder, client: crate::binary::client(), daemons: Vec::new(), login };
        street.write_expired_login();
        let text = street.config(second);
        let token_of_b = street.sim.credentials("b").unwrap().token;
        for home in ["one", "two"] {
            street.daemons.push(Daemon::start(&street.folder.path().join(home), &text, &token_of_b).await);
        }
        street
    }

    fn config(&self, second: Second) -> String {
        let mut text = format!(
            "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{}\"\n\
             auth = \"claude_oauth\"\ntoken_url = \"{}\"\n\
             [[providers.anthropic.accounts]]\nname = \"a\"\ncredentials = \"{}\"\n",
            self.sim.base_url(),
            self.sim.token_url(),
            self.login_file().display()
        );
        if second == Second::Account {
            text.push_str("[[providers.anthropic.accounts]]\nname = \"b\"\ntoken_env = \"TOKEN_OF_B\"\n");
        }
        text
    }

    fn login_file(&self) -> PathBuf {
        self.folder.path().join(self.login)
    }

    /// As Claude Code keeps it; its access token ended a minute ago.
    fn write_expired_login(&self) {
        self.sim.change("a", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
        let held = self.sim.credentials("a").unwrap();
        let login = json!({"claudeAiOauth": {
            "accessToken": held.token, "refreshToken": held.refresh_token,
            "expiresAt": held.expires_at.unwrap() - 60_000, "scopes": ["user:inference"], "subscriptionType": "max",
        }, "mcpOAuth": {"kept": true}});
        std::fs::write(self.login_file(), login.to_string()).unwrap();
    }

    fn ask(&self, daemon: usize, session: &str) -> reqwest::RequestBuilder {
        let body = json!({
            "model": "claude-opus-5-5", "max_tokens": 64, "stream": true,
            "messages": [{"role": "user", "content": "[[say: hi]]"}],
        });
        let request = self.client.post(format!("{}/v1/messages", self.daemons[daemon].url));
        request.header("anthropic-version", "2023-06-01").header("x-claude-code-session-id", session).json(&body)
    }

    /// So many sessions at once.
    fn wave(&self, daemon: usize, count: usize) -> JoinSet<Seen> {
        let mut wave = JoinSet::new();
        for mark in 0..count {
            wave.spawn(send(mark, self.ask(daemon, &format!("s-{daemon}-{mark}"))));
        }
        wave
    }

    fn exchanges(&self) -> Vec<Record> {
        self.sim.log().into_iter().filter(|record| record.endpoint == Endpoint::Token).collect()
    }

    async fn nobody_is_logged_out(&self) {
        let exchanges = self.exchanges();
        let statuses: Vec<_> = exchanges.iter().map(|record| record.status).collect();
        assert_eq!(statuses, [Some(200)], "exactly one refresh");
        for daemon in &self.daemons {
            assert!(!daemon.needs_login(&self.client).await, "{}", daemon.log());
        }
        let login: Value = serde_json::from_slice(&std::fs::read(self.login_file()).unwrap()).unwrap();
        assert_eq!(login["claudeAiOauth"]["refreshToken"], json!(self.sim.credentials("a").unwrap().refresh_token));
        assert_eq!(login["mcpOAuth"]["kept"], true, "what is not ours stays");
    }
}

/// C30, between processes: the second adopts what the first has written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_daemons_on_one_login_refresh_it_once() {
    let street = Street::with(Second::None).await;
    let (one, two) = (street.wave(0, 50), street.wave(1, 50));
    for wave in [one, two] {
        all_served(&timeout(PATIENCE, wave.join_all()).await.expect("all are served"));
    }
    street.nobody_is_logged_out().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_stopped_while_it_refreshes_holds_up_nobody_who_has_another_account() {
    let street = Street::with(Second::Account).await;
    let first = street.wave(0, 50);
    timeout(PATIENCE, street.sim.until(|log| log.iter().any(|record| record.endpoint == Endpoint::Token)))
        .await
        .expect("it begins to refresh");
    signal(&street.daemons[0].process, "-STOP");
    let began = instant();
    let second = timeout(PATIENCE, street.wave(1, 50).join_all()).await.expect("served while the other is stopped");
    let took = began.elapsed();
    all_served(&second);
    assert!(second.iter().all(|seen| seen.account.as_deref() == Some("b")), "by the other account");
    assert!(took < Duration::from_secs(6), "it took {took:?}");
    let again = timeout(Duration::from_secs(2), street.wave(1, 20).join_all()).await;
    all_served(&again.expect("nobody waits for what is known to be blocked"));
    signal(&street.daemons[0].process, "-CONT");
    all_served(&timeout(PATIENCE, first.join_all()).await.expect("the first daemon goes on"));
    for daemon in 0..2 {
        until_served_by_a(&street, daemon).await;
    }
    street.nobody_is_logged_out().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_another_account_requests_wait_for_a_stopped_daemon_and_none_is_lost() {
    let street = Street::with(Second::None).await;
    let first = street.wave(0, 50);
    timeout(PATIENCE, street.sim.until(|log| log.iter().any(|record| record.endpoint == Endpoint::Token)))
        .await
        .expect("it begins to refresh");
    signal(&street.daemons[0].process, "-STOP");
    let second = street.wave(1, 50);
    // Long enough for a lock by age alone to be taken from it, were its age counted in moments.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(street.exchanges().len(), 1, "nobody spends the token again");
    signal(&street.daemons[0].process, "-CONT");
    for wave in [first, second] {
        all_served(&timeout(PATIENCE, wave.join_all()).await.expect("all are served"));
    }
    street.nobody_is_logged_out().await;
}

/// A daemon that dies in the middle of a refresh, before the provider took the token, leaves the lock free at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_while_it_refreshes_leaves_no_lock_behind() {
    let street = Street::on(OURS, Second::None).await;
    street.sim.fault(FaultRule::next("a", 1, Fault::StallBeforeHead).on(Endpoint::Token));
    let _lost = street.wave(0, 1);
    timeout(PATIENCE, street.sim.until(|log| log.iter().any(|record| record.endpoint == Endpoint::Token)))
        .await
        .expect("it begins to refresh");
    signal(&street.daemons[0].process, "-KILL");
    all_served(&timeout(PATIENCE, street.wave(1, 20).join_all()).await.expect("the other daemon refreshes"));
    assert_eq!(street.exchanges().len(), 2);
}

async fn until_served_by_a(street: &Street, daemon: usize) {
    for mark in 0..1000 {
        let seen = send(mark, street.ask(daemon, &format!("again-{daemon}-{mark}"))).await;
        assert!(seen.is_whole(), "{seen:?}");
        if seen.account.as_deref() == Some("a") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the renewed account does not serve: {}", street.daemons[daemon].log());
}
