//! A gateway in front of a simulated provider, both on loopback, on one clock that the test may move.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duduclaw::admin::{PoolAccount, PoolView};
use duduclaw::app::{self, Configuration, Memory, Options, Role, Running};
use duduclaw::config::locate::Named;
use duduclaw::config::surroundings::Surroundings;
use duduclaw::credentials::{Environment, KeyPlaces, Place, Sealer, Sealing, is_sealed};
use duduclaw::gateway::listener::Address;
use duduclaw::sim::{AccountKind, AccountSpec, Endpoint, Record, Sim, SimConfig, SimHandle};
use duduclaw_actors::clock::{Clock, SystemClock};
use duduclaw_actors::event::Event;
use duduclaw_actors::ports::{Heartbeat, Observer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long anything may take before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A shell's command line at a terminal of its own, where there is a program that makes one.
pub fn at_terminal(line: &str) -> Option<tokio::process::Command> {
    let mut command = tokio::process::Command::new(which::which("script").ok()?);
    match cfg!(target_os = "macos") {
        true => command.args(["-q", "/dev/null", "sh", "-c", line]),
        false => command.args(["-qec", line, "/dev/null"]),
    };
    command.env_clear().env("TERM", "xterm");
    Some(command)
}

/// Every event, as the feed told it.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    /// All so far.
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    /// Those of one kind, by the name it has in JSON.
    pub fn of(&self, kind: &str) -> Vec<Value> {
        let all = self.all().into_iter().map(|event| serde_json::to_value(event).unwrap());
        all.filter(|event| event["kind"]["kind"] == kind).collect()
    }

    /// Waits until an event of this kind was told.
    pub async fn wait_for(&self, kind: &str) -> Value {
        eventually(|| self.of(kind).into_iter().next()).await
    }
}

impl Observer for Events {
    fn observe(&mut self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// A machine that has only what the test gives it.
#[derive(Clone, Default)]
pub struct TestMachine {
    vars: Vec<(String, String)>,
    home: PathBuf,
}

impl Surroundings for TestMachine {
    fn var(&self, name: &str) -> Option<OsString> {
        self.vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.into())
    }

    fn vars_beginning(&self, prefix: &str) -> Vec<String> {
        self.vars.iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with(prefix)).collect()
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn user_home(&self) -> Option<PathBuf> {
        Some(self.home.clone())
    }
}

/// How a world is to be.
pub struct WorldBuilder {
    kept: Kept,
    sim: SimConfig,
    server: String,
    tables: String,
    provider: String,
    accounts: Vec<(String, String)>,
    vars: Vec<(String, String)>,
    whole: Option<String>,
    stored: bool,
    hearts: Vec<Arc<dyn Heartbeat>>,
    memory: Memory,
}

/// A gateway, its provider, its home, its clock.
pub struct World {
    kept: Kept,
    /// The provider.
    pub sim: SimHandle,
    /// The gateway.
    pub running: Option<Running>,
    /// The clock of both.
    pub clock: Arc<SystemClock>,
    /// What happened.
    pub events: Events,
    /// Where the gateway is.
    pub url: String,
    /// A plain client.
    pub client: reqwest::Client,
    /// The home.
    pub home: tempfile::TempDir,
    vars: Vec<(String, String)>,
    hearts: Vec<Arc<dyn Heartbeat>>,
    memory: Memory,
}

impl World {
    /// A world whose provider has these accounts, each configured at the gateway in this order.
    pub fn with(accounts: impl IntoIterator<Item = AccountSpec>) -> WorldBuilder {
        let sim = SimConfig::with(accounts);
        WorldBuilder {
            sim,
            server: String::new(),
            tables: String::new(),
            provider: String::new(),
            accounts: Vec::new(),
            vars: Vec::new(),
            whole: None,
            stored: false,
            kept: Kept::InFiles,
            hearts: Vec::new(),
            memory: Memory::OfHome,
        }
    }

    /// A world with logins of these names.
    pub async fn logins(names: &[&str]) -> Self {
        Self::with(names.iter().map(|name| AccountSpec::oauth(name))).start().await
    }

    /// A request for a model, as Claude Code would ask, in this session.
    pub fn ask(&self, session: &str, prompt: &str, stream: bool) -> reqwest::RequestBuilder {
        let body = json!({
            "model": "claude-opus-5-5", "max_tokens": 256, "stream": stream,
            "messages": [{"role": "user", "content": prompt}],
        });
        let request = self.post("/v1/messages?beta=true").json(&body);
        if session.is_empty() { request } else { request.header("x-claude-code-session-id", session) }
    }

    /// A bare POST.
    pub fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.post(format!("{}{path}", self.url)).header("anthropic-version", "2023-06-01")
    }

    /// Inference requests that reached the provider with this account's credential.
    pub fn hits(&self, account: &str) -> usize {
        self.messages().iter().filter(|record| record.account.as_deref() == Some(account)).count()
    }

    /// Inference requests that reached the provider.
    pub fn messages(&self) -> Vec<Record> {
        self.sim.log().into_iter().filter(|record| record.endpoint == Endpoint::Messages).collect()
    }

    /// Lets time pass for gateway and provider.
    pub fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// The present moment in epoch seconds.
    pub fn now(&self) -> i64 {
        self.clock.now().wall.as_secs()
    }

    /// The fleet, as the control API shows it.
    pub async fn pool(&self) -> PoolView {
        let key = std::fs::read_to_string(self.home.path().join("admin-token")).unwrap();
        let request = self.client.get(format!("{}/admin/api/pool", self.url)).bearer_auth(key.trim());
        request.send().await.unwrap().json().await.unwrap()
    }

    /// One account, as the control API shows it.
    pub async fn account(&self, name: &str) -> PoolAccount {
        let pool = self.pool().await;
        let mut accounts = pool.providers.into_iter().flat_map(|provider| provider.accounts);
        accounts.find(|account| account.name == name).unwrap_or_else(|| panic!("no account {name}"))
    }

    /// Waits until an account is in this state.
    pub async fn until_state(&self, name: &str, state: &str) -> PoolAccount {
        let started = std::time::Duration::ZERO;
        let mut waited = started;
        loop {
            let account = self.account(name).await;
            if account.state == state {
                return account;
            }
            assert!(waited < PATIENCE, "{name} is {} and not {state}", account.state);
            tokio::time::sleep(Duration::from_millis(10)).await;
            waited += Duration::from_millis(10);
        }
    }

    /// Stops the gateway in order and starts another in the same home; the events of both are kept.
    pub async fn restart(&mut self) {
        self.restart_after(|_| ()).await;
    }

    /// The same; this happens while no gateway runs.
    pub async fn restart_after(&mut self, meanwhile: impl FnOnce(&Self)) {
        // Idle connections would be waited for.
        self.client = plain_client();
        self.stop().await;
        meanwhile(self);
        let (running, url) =
            launch(self.home.path(), &self.vars, &self.hearts, &self.clock, &self.events, &self.memory).await;
        self.running = Some(running);
        self.url = url;
    }

    /// Sets a variable of the next gateway's environment.
    pub fn set_var(&mut self, name: &str, value: &str) {
        self.vars.retain(|(known, _)| known != name);
        self.vars.push((name.to_owned(), value.to_owned()));
    }

    /// Stops the gateway in order.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }
}

impl WorldBuilder {
    /// Lines for `[server]`.
    pub fn server(mut self, lines: &str) -> Self {
        self.server.push_str(lines);
        self.server.push('\n');
        self
    }

    /// Whole tables for the configuration.
    pub fn tables(mut self, text: &str) -> Self {
        self.tables.push_str(text);
        self.tables.push('\n');
        self
    }

    /// Lines for `[providers.anthropic]`.
    pub fn provider(mut self, lines: &str) -> Self {
        self.provider.push_str(lines);
        self.provider.push('\n');
        self
    }

    /// Lines for one account's table.
    pub fn account(mut self, name: &str, lines: &str) -> Self {
        self.accounts.push((name.to_owned(), lines.to_owned()));
        self
    }

    /// An environment variable of the gateway.
    pub fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The whole configuration, with `{sim}` for the simulator's address and `{creds}` for the folder with a
    /// `NAME.json` for each login. `[server] bind` must be `127.0.0.1:0`.
    pub fn config(mut self, text: &str) -> Self {
        self.whole = Some(text.to_owned());
        self
    }

    /// Every login is in the store too, by its name.
    pub fn stored(mut self) -> Self {
        self.stored = true;
        self
    }

    /// How logins are kept.
    pub fn kept(mut self, kept: Kept) -> Self {
        self.kept = kept;
        self
    }

    /// Someone who listens to the actors' hearts.
    pub fn heart(mut self, heart: Arc<dyn Heartbeat>) -> Self {
        self.hearts.push(heart);
        self
    }

    /// What the gateway remembers by, in place of its home's file.
    pub fn memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Starts both.
    pub async fn start(self) -> World {
        let clock = Arc::new(SystemClock::default());
        let loopback = "127.0.0.1:0".parse().unwrap();
        let sim = Sim::start(self.sim.clone(), Arc::clone(&clock), loopback).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let mut vars = self.vars.clone();
        for account in &self.sim.accounts {
            write_login(&sim, home.path(), &account.name, &mut vars);
            if self.stored {
                let store = home.path().join("accounts/claude");
                std::fs::create_dir_all(&store).unwrap();
                write_login(&sim, &store, &account.name, &mut Vec::new());
            }
        }
        if self.kept == Kept::Sealed {
            self.sim.accounts.iter().for_each(|account| put_in_store(&sim, home.path(), &account.name));
        }
        std::fs::write(home.path().join("config.toml"), self.text(&sim, home.path())).unwrap();
        let (events, hearts) = (Events::default(), self.hearts.clone());
        let (running, url) = launch(home.path(), &vars, &hearts, &clock, &events, &self.memory).await;
        let client = plain_client();
        World {
            kept: self.kept,
            sim,
            running: Some(running),
            clock,
            events,
            url,
            client,
            home,
            vars,
            hearts,
            memory: self.memory,
        }
    }

    fn text(&self, sim: &SimHandle, home: &Path) -> String {
        if let Some(whole) = &self.whole {
            return whole.replace("{sim}", &sim.base_url()).replace("{creds}", &home.display().to_string());
        }
        let mut text = format!(
            "[server]\nbind = \"127.0.0.1:0\"\n{}\n{}\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{}\"\n\
             auth = \"claude_oauth\"\ntoken_url = \"{}\"\n{}\n",
            self.server,
            self.tables,
            sim.base_url(),
            sim.token_url(),
            self.provider
        );
        for account in &self.sim.accounts {
            let source = match account.kind {
                AccountKind::Oauth if self.kept == Kept::Sealed => String::new(),
                AccountKind::Oauth => format!("credentials = \"{}/{}.json\"", home.display(), account.name),
                AccountKind::SetupToken => format!("token_env = \"{}\"", variable(&account.name)),
                AccountKind::ApiKey => format!("api_key_env = \"{}\"", variable(&account.name)),
            };
            let more: String =
                self.accounts.iter().filter(|(name, _)| *name == account.name).map(|(_, l)| format!("{l}\n")).collect();
            text.push_str(&format!(
                "[[providers.anthropic.accounts]]\nname = \"{}\"\n{source}\n{more}\n",
                account.name
            ));
        }
        text
    }
}

fn plain_client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().no_gzip().build().unwrap()
}

/// Starts a gateway in this home.
async fn launch(
    home: &Path,
    vars: &[(String, String)],
    hearts: &[Arc<dyn Heartbeat>],
    clock: &Arc<SystemClock>,
    events: &Events,
    memory: &Memory,
) -> (Running, String) {
    let vars = vars.to_vec();
    let machine = TestMachine { vars: vars.clone(), home: home.to_owned() };
    let environment: Environment =
        Arc::new(move |name| vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.into()));
    let options = Options {
        configuration: Configuration::new(Named { home: Some(home.to_owned()), config: None }, Arc::new(machine)),
        clock: Arc::clone(clock) as _,
        observers: vec![Box::new(events.clone())],
        role: Role::Daemon,
        memory: memory.clone(),
        environment,
    };
    let running = app::start_watched(options, hearts.to_vec()).await.unwrap_or_else(|error| panic!("{error}"));
    let Address::Tcp(address) = running.addresses[0].clone() else { panic!("a TCP address") };
    (running, format!("http://{address}"))
}

fn variable(name: &str) -> String {
    format!("SECRET_OF_{}", name.to_uppercase().replace('-', "_"))
}

fn write_login(sim: &SimHandle, home: &Path, name: &str, vars: &mut Vec<(String, String)>) {
    let held = sim.credentials(name).unwrap();
    if held.kind != AccountKind::Oauth {
        vars.push((variable(name), held.token));
        return;
    }
    let login = json!({"claudeAiOauth": {
        "accessToken": held.token, "refreshToken": held.refresh_token, "expiresAt": held.expires_at,
        "scopes": ["user:inference"], "subscriptionType": "max",
    }});
    std::fs::write(home.join(format!("{name}.json")), login.to_string()).unwrap();
}

/// Waits until something is there.
pub async fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(waited < PATIENCE, "it did not come about");
        tokio::time::sleep(Duration::from_millis(5)).await;
        waited += Duration::from_millis(5);
    }
}

impl World {
    /// Where the gateway is, without a scheme.
    pub fn address(&self) -> std::net::SocketAddr {
        self.url.trim_start_matches("http://").parse().unwrap()
    }

    /// Sends these bytes on a connection of their own and reads until the gateway closes it. The request must ask for
    /// that, or be one that the gateway does not bear.
    pub async fn raw(&self, request: impl AsRef<[u8]>) -> String {
        let mut connection = self.connect().await;
        connection.write_all(request.as_ref()).await.unwrap();
        read_all(&mut connection).await
    }

    /// A bare connection.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }

    /// What a `GET` with these header lines is answered, as status.
    pub async fn status_of(&self, target: &str, lines: &str) -> u16 {
        status(&self.raw(format!("GET {target} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n")).await)
    }

    /// Changes the text of the configuration file.
    pub fn rewrite(&self, change: impl FnOnce(String) -> String) {
        let path = self.home.path().join("config.toml");
        std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// Reads the configuration again, as on SIGHUP.
    pub async fn reload(&self) {
        self.running.as_ref().unwrap().reload().await;
    }

    /// Writes down what an account's login is now at the provider.
    pub fn write_login(&self, name: &str, path: &Path) {
        std::fs::write(path, login(&self.sim, name).to_string()).unwrap();
    }
}

/// How logins are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In files of another program.
    InFiles,
    /// In our own store, sealed.
    Sealed,
}

/// Where an access or refresh token stands in a login, and by what it is sealed.
const TOKENS: [&str; 2] = ["accessToken", "refreshToken"];

/// The login of a stored account with each token changed.
fn with_tokens(
    home: &Path,
    name: &str,
    mut login: Value,
    change: impl Fn(&Sealer, &str, Place<'_>) -> String,
) -> Value {
    let sealer = Sealer::new(Sealing::On, KeyPlaces::in_home(home.to_owned()));
    for token in TOKENS {
        let (account, field) = (format!("claude/{name}"), format!("claudeAiOauth.{token}"));
        let text = login["claudeAiOauth"][token].as_str().unwrap();
        login["claudeAiOauth"][token] = change(&sealer, text, Place { account: &account, field: &field }).into();
    }
    login
}

fn put_in_store(sim: &SimHandle, home: &Path, name: &str) {
    let seal = |sealer: &Sealer, text: &str, place: Place<'_>| sealer.seal(text, place).unwrap();
    let sealed = with_tokens(home, name, login(sim, name), seal);
    std::fs::create_dir_all(home.join("accounts/claude")).unwrap();
    std::fs::write(home.join(format!("accounts/claude/{name}.json")), sealed.to_string()).unwrap();
}

impl World {
    /// The file that an account's login is in.
    pub fn login_file(&self, name: &str) -> PathBuf {
        match self.kept {
            Kept::InFiles => self.home.path().join(format!("{name}.json")),
            Kept::Sealed => self.home.path().join(format!("accounts/claude/{name}.json")),
        }
    }

    /// What is in it, opened.
    pub fn login_on_disk(&self, name: &str) -> Value {
        let written = serde_json::from_slice(&std::fs::read(self.login_file(name)).unwrap()).unwrap();
        match self.kept {
            Kept::InFiles => written,
            Kept::Sealed => {
                let open = |sealer: &Sealer, text: &str, place: Place<'_>| {
                    assert!(is_sealed(text), "{name} is sealed in the store");
                    sealer.open(text, place).unwrap().to_string()
                };
                with_tokens(self.home.path(), name, written, open)
            }
        }
    }
}

/// Everything until the other side closes.
pub async fn read_all(connection: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut bytes)).await;
    // A connection that was reset has said all it has to say.
    let _ = read.expect("the gateway keeps the connection open");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until this text was seen.
pub async fn read_until(connection: &mut (impl AsyncRead + Unpin), text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let mut piece = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, connection.read(&mut piece)).await;
        let length = read.unwrap_or_else(|_| panic!("{text:?} does not come, only {seen:?}")).unwrap();
        assert_ne!(length, 0, "{text:?} did not come, only {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    seen
}

/// The status of a raw answer.
pub fn status(answer: &str) -> u16 {
    answer
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("no status: {answer:?}"))
}

/// A login as Claude Code keeps its own.
pub fn login(sim: &SimHandle, name: &str) -> Value {
    let held = sim.credentials(name).unwrap();
    json!({"claudeAiOauth": {
        "accessToken": held.token, "refreshToken": held.refresh_token, "expiresAt": held.expires_at,
        "scopes": ["user:inference"], "subscriptionType": "max",
    }})
}
