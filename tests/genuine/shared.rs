//! One login, four programs: two daemons, one of them over a linked import in its sealed store, and two of the genuine
//! Claude Code that use the login themselves, without a gateway. Refresh tokens are good for one use, and nobody is ever
//! logged out.
//!
//! Claude Code knows one address for tokens: `HTTPS_PROXY` and `NODE_EXTRA_CA_CERTS` bring it to the simulator. No clock is
//! moved: either the provider ends the token between rounds, so that everybody is refused at once and renews, or its tokens
//! live for less than the five minutes in advance of which everybody renews, so that every use is one too many.
//!
//! The same in macOS' keychain, with Claude Code as it is built for macOS, wherever that runs. The keychain is the one of
//! `tests/it/security.sh`: a program called `security` is all that either side knows of it.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use duduclaw::sim::{AccountChange, AccountSpec, Endpoint, Record};
use serde_json::{Value, json};

use crate::detour::Detour;
use crate::installed::{self, Version};
use crate::kin;
use crate::stage::{Stage, spawned};
use crate::story::Story;

const ROUNDS: usize = 4;

/// All who share the login.
struct Sharers {
    stage: Stage,
    detour: Detour,
    second: String,
    keychain: Option<Keychain>,
    _daemon: tokio::process::Child,
}

/// A keychain in a folder of its own.
struct Keychain(tempfile::TempDir);

const ITEM: [&str; 4] = ["-a", "me", "-s", "Claude Code-credentials"];

impl Keychain {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/security.sh");
        std::os::unix::fs::symlink(source, folder.path().join("security")).unwrap();
        Self(folder)
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("security")
    }

    fn say(&self, arguments: &[&str], input: &str) -> Vec<u8> {
        let program = std::process::Command::new(self.program())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = program.unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().stdout
    }

    /// Takes the login out of Claude Code's file.
    fn take(&self, file: &Path) {
        let hex: String = std::fs::read(file).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        let [a, me, s, service] = ITEM;
        self.say(&["-i"], &format!("add-generic-password -U {a} \"{me}\" {s} \"{service}\" -X \"{hex}\"\n"));
        std::fs::remove_file(file).unwrap();
    }

    fn login(&self) -> Vec<u8> {
        self.say(&[&["find-generic-password"], &ITEM[..], &["-w"]].concat(), "")
    }
}

impl Sharers {
    async fn of(login: AccountSpec) -> Self {
        Self::with(login, None).await
    }

    async fn with(login: AccountSpec, keychain: Option<Keychain>) -> Self {
        let program = keychain.as_ref().map(Keychain::program).unwrap_or_default();
        let stage = Stage::of([login]).unconfigured().var("DUDUCLAW_SERVER__BIND", "127.0.0.1:0");
        let stage = stage
            .var("DUDUCLAW_KEYCHAIN", &program.display().to_string())
            .var("USER", "me")
            .var("DUDUCLAW_LOG__FORMAT", "json")
            .var("DUDUCLAW_PROVIDERS__ANTHROPIC__BASE_URL", "{sim}")
            .var("DUDUCLAW_PROVIDERS__ANTHROPIC__TOKEN_URL", "{sim}/v1/oauth/token")
            .start()
            .await;
        // Long enough that everybody comes while one renews.
        stage.sim.set_token_delay(if keychain.is_some() { 9_000 } else { 2_500 });
        let detour = Detour::to(&stage.sim.token_url(), stage.folder.path()).await;
        if let Some(keychain) = &keychain {
            keychain.take(&stage.folder.path().join(".claude/.credentials.json"));
        }
        let home = stage.home("second");
        let config = format!(
            "[server]\nbind = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n[providers.anthropic]\nkind = \"anthropic\"\n\
             base_url = \"{}\"\nauth = \"claude_oauth\"\ntoken_url = \"{}\"\n",
            stage.sim.base_url(),
            stage.sim.token_url()
        );
        std::fs::write(home.join("config.toml"), config).unwrap();
        let ours = |arguments: &[&str]| {
            let mut command = kin::program(env!("CARGO_BIN_EXE_duduclaw").as_ref(), stage.folder.path());
            command.args(arguments).env("DUDUCLAW_HOME", &home).env("DUDUCLAW_KEYCHAIN", &program).env("USER", "me");
            command
        };
        let imported =
            kin::run(ours(&["login", "claude", "--name", "linked", "--mode", "import"]), kin::PATIENCE).await;
        assert_eq!(imported.code, Some(0), "{imported:?}");
        let copy = std::fs::read_to_string(home.join("accounts/claude/linked.json")).unwrap();
        assert!(copy.contains("duduclaw-sealed") && !copy.contains("sk-ant-"), "{copy}");
        let story = Story::default();
        let (daemon, second) = spawned(ours(&["-v", "serve"]), &story).await;
        Self { stage, detour, second, keychain, _daemon: daemon }
    }

    fn file(&self) -> PathBuf {
        self.stage.folder.path().join(".claude/.credentials.json")
    }

    /// Claude Code with the login itself, and no gateway.
    async fn claude(&self, version: Version, round: usize) {
        let program = self.keychain.as_ref().map_or_else(|| installed::claude(version), |_| installed::claude_of_mac());
        let mut command = kin::program(&program, self.stage.folder.path());
        if let Some(keychain) = &self.keychain {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::iter::once(keychain.0.path().to_owned()).chain(std::env::split_paths(&path));
            command.env("PATH", std::env::join_paths(folders).unwrap()).env("USER", "me");
        }
        let folder = self.stage.home(&format!("{version:?}-{round}"));
        command.current_dir(folder).args(["-p", "[[say: Served.]]", "--output-format", "json"]);
        command.env("ANTHROPIC_BASE_URL", self.stage.sim.base_url()).env("NO_PROXY", "127.0.0.1");
        command.env("HTTPS_PROXY", &self.detour.url).env("NODE_EXTRA_CA_CERTS", &self.detour.authority);
        for quiet in ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER"] {
            command.env(quiet, "1");
        }
        let finished = kin::run(command, kin::PATIENCE).await;
        let told: Value = serde_json::from_str(&finished.out).unwrap_or_else(|_| panic!("no JSON: {finished:?}"));
        assert_eq!(
            (finished.code, &told["is_error"], &told["result"]),
            (Some(0), &json!(false), &json!("Served.")),
            "{told}"
        );
    }

    /// A request through a daemon.
    async fn through(&self, url: &str, session: &str) {
        let body =
            json!({"model": "claude-opus-5-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{url}/v1/messages")).header("anthropic-version", "2023-06-01").json(&body);
        let answer = request.header("x-claude-code-session-id", session).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    }

    /// Everybody at once.
    async fn round(&self, round: usize) {
        tokio::join!(
            self.claude(Version::Usual, round),
            self.claude(Version::Pinned, round),
            self.through(&self.stage.url, "a"),
            self.through(&self.stage.url, "b"),
            self.through(&self.second, "c"),
            self.through(&self.second, "d"),
        );
    }

    /// Both Claude Codes at once, and nobody else: one of them renews, and the daemons take what it wrote.
    async fn theirs(&self, round: usize) {
        let before = self.renewals().len();
        tokio::join!(self.claude(Version::Usual, round), self.claude(Version::Pinned, round));
        let renewals = self.renewals();
        assert!(renewals[before..].iter().any(is_theirs), "{:?}", &renewals[before..]);
        let after = renewals.len();
        self.through(&self.stage.url, "a").await;
        self.through(&self.second, "c").await;
        assert_eq!(self.renewals().len(), after, "what is new is not renewed again");
    }

    fn renewals(&self) -> Vec<Record> {
        self.stage.sim.log().into_iter().filter(|record| record.endpoint == Endpoint::Token).collect()
    }

    /// Nobody was ever refused a renewal, and the file that counts comes to have the pair that is good.
    async fn nobody_is_logged_out(&self, at_least: usize) {
        let landed = async {
            while !self.has_the_good_pair() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(kin::PATIENCE, landed).await.expect("a renewal under way is written down");
        let renewals = self.renewals();
        let refused: Vec<_> =
            renewals.iter().filter(|record| record.status.is_some_and(|status| status != 200)).collect();
        assert!(refused.is_empty(), "{refused:?}");
        assert!(renewals.len() >= at_least, "{} renewals", renewals.len());
    }

    fn has_the_good_pair(&self) -> bool {
        let kept = self.keychain.as_ref().map_or_else(|| std::fs::read(self.file()).unwrap(), Keychain::login);
        let file: Value = serde_json::from_slice(&kept).unwrap();
        let (held, good) = (&file["claudeAiOauth"], self.stage.sim.credentials("a").unwrap());
        held["refreshToken"].as_str() == good.refresh_token.as_deref() && held["accessToken"] == good.token.as_str()
    }
}

fn is_theirs(renewal: &Record) -> bool {
    !renewal.headers.iter().any(|(_, value)| value.starts_with("duduclaw/"))
}

impl Sharers {
    /// The provider ends the token before every round: all come at once, or Claude Code alone.
    async fn refused_at_once(&self) {
        for round in 0..ROUNDS {
            let ended = AccountChange { expire_tokens: true, ..AccountChange::default() };
            self.stage.sim.change("a", &ended).unwrap();
            if round % 2 == 0 {
                self.round(round).await;
            } else {
                self.theirs(round).await;
            }
            self.nobody_is_logged_out(round + 1).await;
        }
    }

    async fn always_due(&self) {
        for round in 0..ROUNDS {
            self.round(round).await;
            self.nobody_is_logged_out(1).await;
        }
        assert!(self.renewals().iter().any(is_theirs), "Claude Code renewed, too");
    }
}

fn short_lived() -> AccountSpec {
    AccountSpec { token_seconds: Some(240), ..AccountSpec::oauth("a") }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_is_refused_at_once_and_one_renews_for_all() {
    Sharers::of(AccountSpec::oauth("a")).await.refused_at_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_so_short_that_every_use_is_due_log_nobody_out() {
    Sharers::of(short_lived()).await.always_due().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Claude Code as it is built for macOS: DUDUCLAW_TEST_MAC_CLAUDE names one"]
async fn in_the_keychain_everybody_is_refused_at_once_and_one_renews_for_all() {
    let sharers = Sharers::with(AccountSpec::oauth("a"), Some(Keychain::new())).await;
    sharers.refused_at_once().await;
    assert!(!sharers.file().exists(), "nobody went back to the file");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Claude Code as it is built for macOS: DUDUCLAW_TEST_MAC_CLAUDE names one"]
async fn in_the_keychain_tokens_so_short_that_every_use_is_due_log_nobody_out() {
    let sharers = Sharers::with(short_lived(), Some(Keychain::new())).await;
    sharers.always_due().await;
    assert!(!sharers.file().exists(), "nobody went back to the file");
}
