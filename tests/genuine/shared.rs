//! One login, four programs: two daemons, one of them over a linked import in its sealed store, and two of the genuine
//! Claude Code that use the login themselves, without a gateway. Refresh tokens are good for one use, and nobody is ever
//! logged out.
//!
//! Claude Code knows one address for tokens: `HTTPS_PROXY` and `NODE_EXTRA_CA_CERTS` bring it to the simulator. No clock is
//! moved: either the provider ends the token between rounds, so that everybody is refused at once and renews, or its tokens
//! live for less than the five minutes in advance of which everybody renews, so that every use is one too many.

#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::time::Duration;

use duduclaw::sim::{AccountChange, AccountSpec, Endpoint};
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
    _daemon: tokio::process::Child,
}

impl Sharers {
    async fn of(login: AccountSpec) -> Self {
        let stage = Stage::of([login]).unconfigured().var("DUDUCLAW_SERVER__BIND", "127.0.0.1:0");
        let stage = stage
            .var("DUDUCLAW_LOG__FORMAT", "json")
            .var("DUDUCLAW_PROVIDERS__ANTHROPIC__BASE_URL", "{sim}")
            .var("DUDUCLAW_PROVIDERS__ANTHROPIC__TOKEN_URL", "{sim}/v1/oauth/token")
            .start()
            .await;
        // Long enough that everybody comes while one renews.
        stage.sim.set_token_delay(2500);
        let detour = Detour::to(&stage.sim.token_url(), stage.folder.path()).await;
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
            command.args(arguments).env("DUDUCLAW_HOME", &home);
            command
        };
        let imported =
            kin::run(ours(&["login", "claude", "--name", "linked", "--mode", "import"]), kin::PATIENCE).await;
        assert_eq!(imported.code, Some(0), "{imported:?}");
        let copy = std::fs::read_to_string(home.join("accounts/claude/linked.json")).unwrap();
        assert!(copy.contains("duduclaw-sealed") && !copy.contains("sk-ant-"), "{copy}");
        let story = Story::default();
        let (daemon, second) = spawned(ours(&["-v", "serve"]), &story).await;
        Self { stage, detour, second, _daemon: daemon }
    }

    fn file(&self) -> PathBuf {
        self.stage.folder.path().join(".claude/.credentials.json")
    }

    /// Claude Code with the login itself, and no gateway.
    async fn claude(&self, version: Version, round: usize) {
        let mut command = kin::program(&installed::claude(version), self.stage.folder.path());
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

    /// Nobody was ever refused a renewal, and the file that counts comes to have the pair that is good.
    async fn nobody_is_logged_out(&self, at_least: usize) {
        let landed = async {
            while !self.has_the_good_pair() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(kin::PATIENCE, landed).await.expect("a renewal under way is written down");
        let renewals: Vec<_> =
            self.stage.sim.log().into_iter().filter(|record| record.endpoint == Endpoint::Token).collect();
        let refused: Vec<_> =
            renewals.iter().filter(|record| record.status.is_some_and(|status| status != 200)).collect();
        assert!(refused.is_empty(), "{refused:?}");
        assert!(renewals.len() >= at_least, "{} renewals", renewals.len());
    }

    fn has_the_good_pair(&self) -> bool {
        let file: Value = serde_json::from_slice(&std::fs::read(self.file()).unwrap()).unwrap();
        let (held, good) = (&file["claudeAiOauth"], self.stage.sim.credentials("a").unwrap());
        held["refreshToken"].as_str() == good.refresh_token.as_deref() && held["accessToken"] == good.token.as_str()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_is_refused_at_once_and_one_renews_for_all() {
    let sharers = Sharers::of(AccountSpec::oauth("a")).await;
    for round in 0..ROUNDS {
        let ended = AccountChange { expire_tokens: true, ..AccountChange::default() };
        sharers.stage.sim.change("a", &ended).unwrap();
        sharers.round(round).await;
        sharers.nobody_is_logged_out(round + 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_so_short_that_every_use_is_due_log_nobody_out() {
    let sharers = Sharers::of(AccountSpec { token_seconds: Some(240), ..AccountSpec::oauth("a") }).await;
    for round in 0..ROUNDS {
        sharers.round(round).await;
        sharers.nobody_is_logged_out(1).await;
    }
}
