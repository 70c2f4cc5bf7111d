//! The simulator, the home, and the daemon in it.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duduclaw::sim::{AccountSpec, Sim, SimConfig, SimHandle};
use duduclaw_actors::clock::SystemClock;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Accounts that serve throughout.
pub(crate) const SERVING: [&str; 2] = ["serving", "steady"];
/// Accounts that operators pause and resume.
pub(crate) const TOGGLED: [&str; 4] = ["p0", "p1", "p2", "p3"];
/// An account that costs money, with a budget that it never reaches.
pub(crate) const METERED: &str = "metered";
const METERED_KEY: &str = "METERED_KEY";
/// An account whose balance is empty.
pub(crate) const POOR: &str = "poor";
/// An account whose credential is refused.
pub(crate) const DEAD: &str = "dead";

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything around the daemon.
pub(crate) struct Stage {
    pub(crate) sim: Arc<SimHandle>,
    pub(crate) client: reqwest::Client,
    pub(crate) home: tempfile::TempDir,
    pub(crate) url: String,
    gate: watch::Sender<bool>,
    opened: Mutex<(Option<Instant>, Duration)>,
}

/// A running daemon.
pub(crate) struct Daemon(Child);

impl Stage {
    pub(crate) async fn set() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let names = SERVING.iter().chain(&TOGGLED).chain(&[METERED, POOR, DEAD]);
        let clock = Arc::new(SystemClock::default());
        let spec = |name: &&str| if *name == METERED { AccountSpec::api_key(name) } else { AccountSpec::oauth(name) };
        let sim = SimConfig::with(names.map(spec));
        let sim = Sim::start(sim, clock, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self::around(Arc::new(sim))
    }

    /// The same provider's, in a home of its own.
    pub(crate) fn beside(&self) -> Self {
        Self::around(Arc::clone(&self.sim))
    }

    fn around(sim: Arc<SimHandle>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap();
        let stage = Self {
            sim,
            client,
            home,
            url: format!("http://127.0.0.1:{port}"),
            gate: watch::Sender::new(false),
            opened: Mutex::default(),
        };
        stage.furnish(port);
        stage
    }

    fn furnish(&self, port: u16) {
        let mut text = format!(
            "[server]\nbind = \"127.0.0.1:{port}\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{}\"\n\
             auth = \"claude_oauth\"\nstrategy = \"round_robin\"\ntoken_url = \"{}\"\n",
            self.sim.base_url(),
            self.sim.token_url()
        );
        for name in SERVING.iter().chain(&TOGGLED).chain(&[METERED, POOR, DEAD]) {
            text.push_str(&format!("[[providers.anthropic.accounts]]\nname = \"{name}\"\n"));
            if *name == METERED {
                text.push_str(&format!("api_key_env = \"{METERED_KEY}\"\nmonthly_budget_usd = 1000000\n"));
                continue;
            }
            let held = self.sim.credentials(name).unwrap();
            let path = self.home.path().join(format!("{name}.json"));
            let login = json!({"claudeAiOauth": {
                "accessToken": held.token, "refreshToken": held.refresh_token, "expiresAt": held.expires_at,
                "scopes": ["user:inference"], "subscriptionType": "max",
            }});
            std::fs::write(&path, login.to_string()).unwrap();
            text.push_str(&format!("credentials = \"{}\"\n", path.display()));
        }
        std::fs::write(self.home.path().join("config.toml"), text).unwrap();
    }

    /// Starts the daemon.
    pub(crate) fn spawn(&self) -> Daemon {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duduclaw"));
        let home = self.home.path();
        command.args(["serve", "-q"]).env_clear().env("DUDUCLAW_HOME", home).env("HOME", home).kill_on_drop(true);
        command.env(METERED_KEY, self.sim.credentials(METERED).unwrap().token);
        let log = std::fs::File::options().create(true).append(true).open(home.join("daemon.log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Daemon(command.spawn().unwrap())
    }

    /// Waits until it can serve.
    pub(crate) async fn until_ready(&self, daemon: &mut Daemon) {
        let began = Instant::now();
        loop {
            let ready = self.client.get(format!("{}/readyz", self.url)).send().await;
            if ready.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            let ended = daemon.0.try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "it does not get ready ({ended:?}): {}", self.log());
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// What the daemons said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("daemon.log")).unwrap_or_default()
    }

    /// The key to the control API.
    pub(crate) fn key(&self) -> String {
        std::fs::read_to_string(self.home.path().join("admin-token")).unwrap().trim().to_owned()
    }

    /// Lets clients and operators go on.
    pub(crate) fn open(&self) {
        self.opened.lock().unwrap().0 = Some(Instant::now());
        self.gate.send_replace(true);
    }

    /// Says that what is under way may break off from now on.
    pub(crate) fn close(&self) {
        self.gate.send_replace(false);
        let mut opened = self.opened.lock().unwrap();
        if let Some(since) = opened.0.take() {
            opened.1 += since.elapsed();
        }
    }

    /// How long clients and operators could work, in all.
    pub(crate) fn open_for(&self) -> Duration {
        self.opened.lock().unwrap().1
    }

    /// Waits until they may work.
    pub(crate) async fn may_work(&self) {
        let _ = self.gate.subscribe().wait_for(|open| *open).await;
    }

    /// Whether nothing may break off just now.
    pub(crate) fn is_open(&self) -> bool {
        *self.gate.borrow()
    }
}

impl Daemon {
    /// Kills it, and waits until it is gone.
    pub(crate) async fn kill(mut self) {
        self.0.start_kill().unwrap();
        self.0.wait().await.unwrap();
    }
}

/// The home's database.
pub(crate) fn database(home: &Path) -> std::path::PathBuf {
    home.join("state.db")
}
