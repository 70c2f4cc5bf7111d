//! The built program with a home of its own, in front of a simulator in the test's process.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duduclaw::sim::{AccountSpec, Sim, SimConfig, SimHandle};
use duduclaw_actors::clock::SystemClock;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::support::{PATIENCE, login};

/// A simulator and a home that is configured for it.
pub struct Setting {
    /// The provider.
    pub sim: SimHandle,
    /// The home.
    pub home: tempfile::TempDir,
}

/// A running daemon.
pub struct Daemon {
    /// The process.
    pub child: Child,
    /// Where it says it listens.
    pub addresses: Vec<String>,
    stderr: Arc<Mutex<String>>,
}

impl Setting {
    /// A home whose pool is these logins, with lines for `[server]`.
    pub async fn with(names: &[&str], server: &str) -> Self {
        let accounts = names.iter().map(|name| AccountSpec::oauth(name));
        let clock = Arc::new(SystemClock::default());
        let sim = Sim::start(SimConfig::with(accounts), clock, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let bind = if server.contains("bind =") { "" } else { "bind = \"127.0.0.1:0\"\n" };
        let mut text = format!(
            "[server]\n{bind}{server}\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{}\"\nauth = \"claude_oauth\"\n",
            sim.base_url()
        );
        for name in names {
            let path = home.path().join(format!("{name}.json"));
            std::fs::write(&path, login(&sim, name).to_string()).unwrap();
            text.push_str(&format!(
                "[[providers.anthropic.accounts]]\nname = \"{name}\"\ncredentials = \"{}\"\n",
                path.display()
            ));
        }
        std::fs::write(home.path().join("config.toml"), text).unwrap();
        Self { sim, home }
    }

    /// The program with this home, and nothing of the test's own environment that it could heed.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare(self.home.path());
        command.args(arguments);
        command
    }

    /// A daemon that listens.
    pub async fn serve(&self) -> Daemon {
        Daemon::of(self.command(&["serve"])).await
    }

    /// What a run of the program that ends by itself says: its exit code, standard output and standard error.
    pub async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        run(self.command(arguments)).await
    }
}

/// The program with a home, in an empty environment.
pub fn bare(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duduclaw"));
    command.env_clear().env("DUDUCLAW_HOME", home).env("HOME", home).env("PATH", "/usr/bin:/bin").kill_on_drop(true);
    command
}

/// Runs to the end.
pub async fn run(mut command: Command) -> (i32, String, String) {
    let ended = tokio::time::timeout(PATIENCE, command.stdin(Stdio::null()).output()).await;
    let output = ended.expect("it ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

impl Daemon {
    /// Starts this command and waits until it listens.
    pub async fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let stderr = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&stderr);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut seen = seen.lock().unwrap();
                seen.push_str(&line);
                seen.push('\n');
            }
        });
        let mut daemon = Self { child, addresses: Vec::new(), stderr };
        daemon.until("duduclaw listens on").await;
        daemon.addresses = addresses(&daemon.said());
        daemon
    }

    /// All that it wrote to standard error.
    pub fn said(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until it said this.
    pub async fn until(&mut self, text: &str) {
        let mut waited = Duration::ZERO;
        while !self.said().contains(text) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && waited < PATIENCE, "{text:?} was not said ({ended:?}): {}", self.said());
            tokio::time::sleep(Duration::from_millis(5)).await;
            waited += Duration::from_millis(5);
        }
    }

    /// Its first address, without a scheme.
    pub fn address(&self) -> &str {
        self.addresses[0].trim_start_matches("http://")
    }

    /// Its first address.
    pub fn url(&self) -> &str {
        &self.addresses[0]
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> Option<i32> {
        tokio::time::timeout(PATIENCE * 2, self.child.wait()).await.expect("it ends").unwrap().code()
    }

    /// Stops it in order.
    pub async fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.ended().await
    }
}

fn addresses(said: &str) -> Vec<String> {
    let lines = said.lines().filter_map(|line| line.strip_prefix("duduclaw listens on "));
    lines.map(str::to_owned).collect()
}

/// A port that is free at this moment.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A request for a model to a daemon.
pub fn ask(client: &reqwest::Client, url: &str, prompt: &str, stream: bool) -> reqwest::RequestBuilder {
    let body = serde_json::json!({
        "model": "claude-opus-5-5", "max_tokens": 4096, "stream": stream,
        "messages": [{"role": "user", "content": prompt}],
    });
    client.post(format!("{url}/v1/messages?beta=true")).header("anthropic-version", "2023-06-01").json(&body)
}

/// A client that heeds no proxy of the test's environment.
pub fn client() -> reqwest::Client {
    // Whoever is first in this process; every test may be.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}
