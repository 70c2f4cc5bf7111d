//! Everything that plays: the simulated provider, the gateway before it, their clock, and a home that goes away again.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use duduclaw_actors::clock::{Clock, SystemClock, Timestamp};
use duduclaw_actors::event::Event;
use duduclaw_actors::ports::Observer;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::app::{self, Configuration, Memory, Options, Role, Running};
use crate::config::locate::Named;
use crate::config::surroundings::Surroundings;
use crate::gateway::listener::Address;
use crate::sim::{AccountSpec, QuotaLimits, Sim, SimConfig, SimHandle, SimWindow};

/// The accounts.
pub(super) const ACCOUNTS: [&str; 3] = ["personal", "work", "team"];
/// What a five-hour window holds, in tokens: small, so that it fills while one watches.
pub(super) const WINDOW_TOKENS: u64 = 10_000;
/// Access tokens live shorter than a five-hour window, so that the demo sees one expire.
const TOKEN_SECONDS: u64 = 4 * 3600;

/// The whole system.
pub(super) struct Stage {
    pub(super) sim: SimHandle,
    pub(super) url: String,
    pub(super) feed: UnboundedReceiver<Event>,
    clock: Arc<SystemClock>,
    running: Running,
    home: TempDir,
}

impl Stage {
    /// Starts it.
    pub(super) async fn set() -> Result<Self> {
        let clock = Arc::new(SystemClock::default());
        let accounts = ACCOUNTS.map(account);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let sim = Sim::start(SimConfig::with(accounts), Arc::clone(&clock), any).await?;
        let home = tempfile::Builder::new().prefix("duduclaw-demo-").tempdir();
        let home = home.context("no temporary folder can be made for the demo")?;
        furnish(home.path(), &sim).with_context(|| format!("{} cannot be written", home.path().display()))?;
        let (tap, feed) = unbounded_channel();
        let named = Named { home: Some(home.path().to_owned()), config: None };
        let running = app::start(Options {
            configuration: Configuration::new(named, Arc::new(Nowhere(home.path().to_owned()))),
            clock: Arc::clone(&clock) as _,
            observers: vec![Box::new(Tap(tap))],
            role: Role::Companion,
            memory: Memory::OfThisRun,
            environment: Arc::new(|_| None),
        });
        let running = running.await?;
        let address = running.addresses.first().map(Address::to_string).unwrap_or_default();
        let url = if address.starts_with("http") { address } else { format!("http://{address}") };
        Ok(Self { sim, url, feed, clock, running, home })
    }

    /// The present moment of the simulated world.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets time pass for everybody.
    pub(super) fn advance(&self, step: Duration) {
        self.clock.advance(step);
    }

    /// How long until an account's five-hour window begins anew; nothing if it is not in use.
    pub(super) fn until_reset(&self, account: &str) -> Option<Duration> {
        let view = self.sim.accounts().into_iter().find(|view| view.name == account)?;
        let window = view.windows.into_iter().find(|state| state.window == SimWindow::FiveHours)?;
        let left = window.reset? - self.now().wall.as_secs();
        Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
    }

    /// Stops everything and takes the home away. The client must be gone, else its idle connections are waited for.
    pub(super) async fn strike(self) {
        self.running.stop().await;
        self.sim.stop().await;
        drop(self.home);
    }
}

fn account(name: &str) -> AccountSpec {
    let limits = QuotaLimits { five_hours: WINDOW_TOKENS, ..QuotaLimits::default() };
    AccountSpec { token_seconds: Some(TOKEN_SECONDS), ..AccountSpec::oauth(name).with_limits(limits) }
}

/// Writes the logins, as Claude Code keeps its own, and the configuration.
fn furnish(home: &Path, sim: &SimHandle) -> std::io::Result<()> {
    for view in sim.accounts() {
        let held = view.credentials;
        let login = json!({"claudeAiOauth": {
            "accessToken": held.token, "refreshToken": held.refresh_token, "expiresAt": held.expires_at,
            "scopes": ["user:inference"], "subscriptionType": "max",
        }});
        std::fs::write(home.join(format!("{}.json", view.name)), login.to_string())?;
    }
    std::fs::write(home.join("config.toml"), configuration(sim))
}

fn configuration(sim: &SimHandle) -> String {
    let head = format!(
        "[server.pool]\nhold_seconds = 600\n\n[providers.anthropic]\nkind = \"anthropic\"\nauth = \"claude_oauth\"\n\
         base_url = \"{}\"\ntoken_url = \"{}\"\n",
        sim.base_url(),
        sim.token_url()
    );
    let account = |name: &str| {
        format!("\n[[providers.anthropic.accounts]]\nname = \"{name}\"\ncredentials = \"~/{name}.json\"\n")
    };
    head + &ACCOUNTS.map(account).concat()
}

/// A machine without variables, so that nothing of the user's own is looked at.
struct Nowhere(PathBuf);

impl Surroundings for Nowhere {
    fn var(&self, _: &str) -> Option<OsString> {
        None
    }

    fn vars_beginning(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn user_home(&self) -> Option<PathBuf> {
        Some(self.0.clone())
    }
}

/// Listens to the feed.
struct Tap(UnboundedSender<Event>);

impl Observer for Tap {
    fn observe(&mut self, event: &Event) {
        // Nobody listens once the story is over.
        drop(self.0.send(event.clone()));
    }
}
