//! The built `duduclaw serve` as a process of its own, in front of a simulated provider.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use duduclaw::sim::{AccountKind, AccountSpec, Endpoint, Record, Sim, SimConfig, SimHandle};
use duduclaw_actors::clock::SystemClock;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::kin;
use crate::story::Story;

/// A gateway and its provider.
pub struct Stage {
    /// The provider.
    pub sim: SimHandle,
    /// What the gateway told.
    pub story: Story,
    /// Where the gateway is.
    pub url: String,
    /// Folders of their own for clients and gateway.
    pub folder: tempfile::TempDir,
    _daemon: Child,
}

/// How a stage is to be.
pub struct Plan {
    accounts: Vec<AccountSpec>,
    bind: &'static str,
    tables: String,
    vars: Vec<(String, String)>,
    configured: bool,
}

impl Stage {
    /// A pool of these accounts, tried in this order.
    pub fn of(accounts: impl IntoIterator<Item = AccountSpec>) -> Plan {
        Plan {
            accounts: accounts.into_iter().collect(),
            bind: "127.0.0.1:0",
            tables: String::new(),
            vars: Vec::new(),
            configured: true,
        }
    }

    /// A pool of logins.
    pub async fn logins(names: &[&str]) -> Self {
        Self::of(names.iter().map(|name| AccountSpec::oauth(name))).start().await
    }

    /// A new folder for a client.
    pub fn home(&self, name: &str) -> std::path::PathBuf {
        let home = self.folder.path().join(name);
        std::fs::create_dir_all(&home).unwrap();
        home
    }

    /// The requests for a model that reached the provider.
    pub fn messages(&self) -> Vec<Record> {
        self.sim.log().into_iter().filter(|record| record.endpoint == Endpoint::Messages).collect()
    }

    /// What `duduclaw env` says to a client of this gateway, in an environment that has these variables.
    pub async fn env(&self, vars: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut command = kin::program(Path::new(env!("CARGO_BIN_EXE_duduclaw")), self.folder.path());
        command.args(["env", "--json"]).env("DUDUCLAW_HOME", self.folder.path().join("duduclaw"));
        command.envs(vars.iter().copied());
        let finished = kin::run(command, kin::PATIENCE).await;
        let told: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&finished.out).unwrap();
        told.into_iter().map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned())).collect()
    }

    /// Waits until so many requests for a model were answered to their end.
    pub async fn answered(&self, count: usize) {
        let done = |record: &&Record| record.endpoint == Endpoint::Messages && record.ended_at.is_some();
        let reached = self.sim.until(|log| log.iter().filter(done).count() >= count);
        tokio::time::timeout(kin::PATIENCE, reached).await.expect("the client asks the model so often");
    }
}

impl Plan {
    /// Tables for the configuration.
    pub fn tables(mut self, text: &str) -> Self {
        self.tables.push_str(text);
        self.tables.push('\n');
        self
    }

    /// Where the gateway listens.
    pub fn bind(self, bind: &'static str) -> Self {
        Self { bind, ..self }
    }

    /// A variable of the gateway; `{sim}` stands for the provider's address.
    pub fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without a configuration: the gateway uses what it finds. Logins are written where Claude Code keeps its own.
    pub fn unconfigured(self) -> Self {
        Self { configured: false, ..self }
    }

    /// Starts both.
    pub async fn start(self) -> Stage {
        let config = SimConfig::with(self.accounts.clone());
        let sim = Sim::start(config, Arc::new(SystemClock::default()), "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let story = Story::default();
        let (daemon, url) = spawned(self.daemon(&sim, folder.path()), &story).await;
        Stage { sim, story, url, folder, _daemon: daemon }
    }

    fn daemon(&self, sim: &SimHandle, folder: &Path) -> Command {
        let home = folder.join("duduclaw");
        std::fs::create_dir_all(&home).unwrap();
        let mut command = kin::program(Path::new(env!("CARGO_BIN_EXE_duduclaw")), folder);
        command.args(["-v", "serve"]).env("DUDUCLAW_HOME", &home);
        for (name, value) in &self.vars {
            command.env(name, value.replace("{sim}", &sim.base_url()));
        }
        if self.configured {
            std::fs::write(home.join("config.toml"), self.text(sim, folder, &mut command)).unwrap();
        } else {
            self.leave_findable(sim, folder, &mut command);
        }
        command
    }

    fn text(&self, sim: &SimHandle, folder: &Path, command: &mut Command) -> String {
        let (url, token_url) = (sim.base_url(), sim.token_url());
        let mut text = format!(
            "[server]\nbind = \"{}\"\n{}\n[log]\nformat = \"json\"\n[rotation]\nstrategy = \"priority\"\n\
             [providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{url}\"\nauth = \"claude_oauth\"\n\
             token_url = \"{token_url}\"\n",
            self.bind, self.tables,
        );
        for (at, account) in self.accounts.iter().enumerate() {
            let held = sim.credentials(&account.name).unwrap();
            let variable = format!("SECRET_{at}");
            let source = match account.kind {
                AccountKind::Oauth => {
                    let file = folder.join(format!("{}.json", account.name));
                    write_login(sim, &account.name, &file);
                    format!("credentials = \"{}\"", file.display())
                }
                AccountKind::SetupToken => format!("token_env = \"{variable}\""),
                AccountKind::ApiKey => format!("api_key_env = \"{variable}\""),
            };
            command.env(variable, held.token);
            let name = &account.name;
            let priority = at + 1;
            text += &format!("[[providers.anthropic.accounts]]\nname = \"{name}\"\npriority = {priority}\n{source}\n");
        }
        text
    }

    fn leave_findable(&self, sim: &SimHandle, folder: &Path, command: &mut Command) {
        for account in &self.accounts {
            let held = sim.credentials(&account.name).unwrap();
            match account.kind {
                AccountKind::Oauth => {
                    std::fs::create_dir_all(folder.join(".claude")).unwrap();
                    write_login(sim, &account.name, &folder.join(".claude/.credentials.json"));
                }
                AccountKind::SetupToken => drop(command.env("CLAUDE_CODE_OAUTH_TOKEN", held.token)),
                AccountKind::ApiKey => drop(command.env("ANTHROPIC_API_KEY", held.token)),
            }
        }
    }
}

/// A daemon, and where it listens once it does.
pub async fn spawned(mut command: Command, story: &Story) -> (Child, String) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut daemon = command.spawn().unwrap();
    listen(&mut daemon, story);
    let line = story.says("duduclaw listens on ").await;
    (daemon, line.split_whitespace().last().unwrap_or_default().to_owned())
}

fn write_login(sim: &SimHandle, name: &str, file: &Path) {
    let held = sim.credentials(name).unwrap();
    let login = json!({"claudeAiOauth": {
        "accessToken": held.token, "refreshToken": held.refresh_token, "expiresAt": held.expires_at,
        "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
    }});
    std::fs::write(file, login.to_string()).unwrap();
}

/// Reads what the daemon writes; the task ends with it.
fn listen(daemon: &mut Child, story: &Story) {
    let mut lines = BufReader::new(daemon.stderr.take().unwrap()).lines();
    let story = story.clone();
    let reading = async move {
        while let Ok(Some(line)) = lines.next_line().await {
            story.add(line);
        }
    };
    #[expect(clippy::disallowed_methods, reason = "it ends with the daemon's output")]
    drop(tokio::spawn(reading));
}
