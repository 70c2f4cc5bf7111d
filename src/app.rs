//! The composition root: everything is made here, in order, and taken down in the reverse order.
//!
//! Starting: 1 configuration · 2 the home and its lock · 3 the sockets · 4 the fleet · 5 the secrets · 6 the gateway ·
//! 7 watching for changes. Until all of it stands, no connection is accepted: nothing half-started is left behind.
//!
//! Stopping: 1 no new connection · 2 idle connections close after a moment · 3 answers in flight have their time, then
//! end with an error event · 4 the fleet writes down what it knows · 5 the sockets and the lock go.

mod checks;
mod companion;
mod doors;
mod expiry;
mod home;
pub(crate) mod imported;
mod log;
mod news;
mod polling;
mod reload;
mod trial;
pub mod unit;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duduclaw_actors::clock::SharedClock;
use duduclaw_actors::event::{EventKind, Severity};
use duduclaw_actors::journal::{Keep, OpenStore};
use duduclaw_actors::outcome::Evidence;
use duduclaw_actors::ports::{ActorKind, Heartbeat, Observer};
use duduclaw_actors::root::{Fleet, Ports, StartError as FleetError};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::{Admin, Counts, Desk, FOLLOWERS, Logins};
use crate::channels::Channels;
use crate::config::Ready;
use crate::config::report::{self, Report};
use crate::config::settings::Settings;
use crate::credentials::{
    Checker, Environment, KeyPlaces, Keychain, Registrar, Sealer, TokenExchange, Vault, VaultParts,
};
use crate::gateway::arrival::Door;
use crate::gateway::body::Room;
use crate::gateway::bounds::{Bounds, saturated};
use crate::gateway::hold::Holds;
use crate::gateway::listener::{Accepting, Address, BindError, accept};
use crate::gateway::live::Live;
use crate::gateway::service::Gateway;
use crate::metrics::{Metrics, MetricsObserver};
use crate::upstream::client::Client;

pub use home::{DaemonRecord, Home, HomeError};
pub use news::NewsDesk;
pub use reload::{Configuration, Machine};
pub use trial::Trial;

use reload::{Reloader, ReloaderParts};

/// How long idle connections stay open while draining, so that no client's next request meets a closed door.
const IDLE_GRACE: Duration = Duration::from_secs(5);
/// How many may wait for an account when requests at once are not bounded.
const HELD_UNBOUNDED: usize = 4096;

/// By what a fleet remembers.
#[derive(Clone)]
pub enum Memory {
    /// The home's store. A companion has it while nobody else does.
    OfHome,
    /// For this run alone.
    OfThisRun,
    /// Another store.
    Of(OpenStore),
}

/// How to run.
pub struct Options {
    /// The configuration, and how to read it again.
    pub configuration: Configuration,
    /// Tells the time.
    pub clock: SharedClock,
    /// Who else sees every event.
    pub observers: Vec<Box<dyn Observer>>,
    /// Whether this is the home's one daemon, or a gateway for one run beside it.
    pub role: Role,
    /// By what it remembers.
    pub memory: Memory,
    /// Where variables are read.
    pub environment: Environment,
}

/// What part a process plays in its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The daemon: it holds the home's lock and listens where the configuration says.
    Daemon,
    /// A gateway for one run: a port of its own, no lock.
    Companion,
}

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is not good enough.
    #[error("{}", report::render(.0).trim_end())]
    Config(Box<Report>),
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// No socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// What a service manager handed over cannot be used.
    #[error("the sockets that the service manager handed over cannot be used: {0}")]
    Inherited(std::io::Error),
    /// No fleet.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// No HTTP client.
    #[error("the HTTP client cannot be made: {0}; see whether the system's certificates are installed")]
    Client(#[from] reqwest::Error),
    /// No watcher.
    #[error("a socket cannot say where it listens: {0}")]
    Socket(std::io::Error),
}

/// What runs.
pub struct Running {
    /// Where it listens.
    pub addresses: Vec<Address>,
    /// Where it takes commands.
    pub control: Vec<Address>,
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// What was said of the configuration.
    pub report: Report,
    reloader: Arc<Reloader>,
    fleet_ended: JoinHandle<()>,
    accepting: Accepting,
    acceptors: TaskTracker,
    background: CancellationToken,
    shutdown_timeout: Duration,
    _home: Option<home::Lock>,
}

/// Starts everything.
///
/// # Errors
/// When something of it cannot be had; then nothing is left running.
pub async fn start(options: Options) -> Result<Running, StartError> {
    start_watched(options, Vec::new()).await
}

/// The same, with more who listen to the actors' hearts.
///
/// # Errors
/// When something of it cannot be had; then nothing is left running.
pub async fn start_watched(options: Options, hearts: Vec<Arc<dyn Heartbeat>>) -> Result<Running, StartError> {
    let Options { mut configuration, clock, observers, role, memory, environment } = options;
    let loaded = configuration.load();
    let machine = configuration.machine();
    let Some(Ready { settings, topology }) = loaded.ready.filter(|_| loaded.report.may_start()) else {
        return Err(StartError::Config(Box::new(loaded.report)));
    };
    let home = Home::open(&loaded.home)?;
    let lock = match role {
        Role::Daemon => Some(home.lock()?),
        Role::Companion => None,
    };
    let listeners = doors::open(&settings.server, &home, role, &environment).await?;
    let addresses = doors::addresses(&listeners, Door::serves_clients)?;
    let control = doors::addresses(&listeners, Door::serves_operators)?;

    let metrics = Arc::new(Metrics::default());
    let counts = Counts::default();
    let tasks = TaskTracker::new();
    let mut all_observers: Vec<Box<dyn Observer>> =
        vec![Box::new(MetricsObserver(Arc::clone(&metrics))), Box::new(counts.observer()), Box::new(log::EventLog)];
    let bell = expiry::Bell::default();
    all_observers.push(Box::new(bell.clone()));
    let doubts = checks::Bell::default();
    all_observers.push(Box::new(doubts.clone()));
    all_observers.extend(observers);
    let client = Client::new(settings.server.timeouts.connect)?;
    let channels = Channels::new(settings.webhooks.clone(), client.clone(), Arc::clone(&environment));
    let (store, handover) = companion::store(memory, role, &home, &clock);
    let ports = Ports {
        clock: Arc::clone(&clock),
        store,
        keep: Keep { rows: settings.store.retention(), ..Keep::default() },
        observers: all_observers,
        heartbeat: Arc::new(Hearts { metrics: Arc::clone(&metrics), others: hearts }),
        courier: Arc::clone(&channels) as _,
        tasks: tasks.clone(),
    };
    let (fleet, fleet_ended) = Fleet::start(ports, topology.roster().as_ref().clone()).await?;
    let background = CancellationToken::new();
    if let Some(handover) = handover {
        companion::give_way(&tasks, home.clone(), fleet.journal.clone(), handover, background.clone());
    }
    let sealer = sealer(&settings, &loaded.home, &environment);
    let registrar = Registrar { client: client.clone(), sealer: sealer.clone(), clock: Arc::clone(&clock) };
    let exchange = TokenExchange::new()?;
    let vault = Vault::new(VaultParts {
        clock: Arc::clone(&clock),
        tracker: tasks.clone(),
        shutdown: background.clone(),
        events: Arc::new(NewsDesk::new(fleet.clone())),
        exchange: exchange.clone(),
        environment: Arc::clone(&environment),
        sealer,
    });
    let traces = news::Traces::recall(&fleet).await;
    vault.assign(reload::assignments(&topology, &fleet, &traces, &environment)).await;
    imported::look(&fleet, &topology).await;
    let live = Arc::new(ArcSwap::from_pointee(Live::new(Arc::clone(&settings), topology)));
    let logins = Logins::new(exchange, Arc::clone(&environment));
    let parts = ReloaderParts {
        live: Arc::clone(&live),
        fleet: fleet.clone(),
        vault: vault.clone(),
        channels,
        environment,
        tasks: tasks.clone(),
    };
    let reloader = Arc::new(Reloader::new(configuration, loaded.report.source.clone(), parts));
    let draining = CancellationToken::new();
    let checker = Checker { vault: vault.clone(), client: client.clone(), clock: Arc::clone(&clock) };
    let desk = Desk {
        fleet: fleet.clone(),
        vault: vault.clone(),
        checker: checker.clone(),
        registrar,
        logins,
        counts,
        live: Arc::clone(&live),
        clock: Arc::clone(&clock),
        keeper: Arc::clone(&reloader) as _,
        tasks: tasks.clone(),
        draining: draining.clone(),
        followers: Arc::new(Semaphore::new(FOLLOWERS)),
        started: clock.now(),
        addresses: addresses.iter().map(ToString::to_string).collect(),
    };
    let gateway = Arc::new(Gateway {
        client,
        holds: Holds::new(settings.server.max_concurrent.map_or(HELD_UNBOUNDED, |most| (most as usize / 2).max(1))),
        room: Room::new(saturated(settings.server.limits.buffered)),
        bounds: Bounds::new(settings.server.max_concurrent),
        control: Box::new(Admin::new(&home.admin_token()?, desk)),
        live,
        fleet,
        vault,
        clock,
        tasks,
        draining,
        stop: CancellationToken::new(),
        metrics,
    });
    let accepting = Accepting {
        gateway: Arc::clone(&gateway),
        connections: TaskTracker::new(),
        stop_accepting: CancellationToken::new(),
        close_idle: CancellationToken::new(),
    };
    let acceptors = TaskTracker::new();
    for (listener, door) in listeners {
        acceptors.spawn(accept(listener, door, accepting.clone()));
    }
    if let Some(lock) = &lock {
        lock.announce(&addresses, &control);
    }
    gateway.vault.watch();
    watch::watch(Arc::clone(&reloader), background.clone());
    polling::poll(Arc::clone(&gateway), background.clone());
    checks::Checks { gateway: Arc::clone(&gateway), checker, machine, bell: doubts }.start(background.clone());
    gateway.tasks.spawn(expiry::watch(bell, gateway.fleet.clone(), gateway.vault.clone(), background.clone()));
    let shown = addresses.iter().map(ToString::to_string).collect();
    gateway.tell(EventKind::Started { addresses: shown }, Severity::Info, None, Evidence::default());
    Ok(Running {
        addresses,
        control,
        gateway,
        report: loaded.report,
        reloader,
        fleet_ended,
        accepting,
        acceptors,
        background,
        shutdown_timeout: settings.server.shutdown_timeout,
        _home: lock,
    })
}

/// Seals stored secrets with the key that this machine, the environment, the configuration or the home has.
#[must_use]
pub fn sealer(settings: &Settings, home: &Path, environment: &Environment) -> Sealer {
    let named = |variable: &str| environment(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let places = KeyPlaces {
        credentials: named("CREDENTIALS_DIRECTORY"),
        variable: named("DUDUCLAW_KEY_FILE"),
        configured: settings.secrets.key_file.clone(),
        keychain: Keychain::of_this_machine().cloned(),
        home: Some(home.to_owned()),
        accounts: Some(settings.accounts_dir.clone()),
    };
    Sealer::new(settings.secrets.sealing, places)
}

/// Everybody who listens to the actors' hearts.
struct Hearts {
    metrics: Arc<Metrics>,
    others: Vec<Arc<dyn Heartbeat>>,
}

impl Heartbeat for Hearts {
    fn beat(&self, actor: ActorKind) {
        self.metrics.beat(actor);
        self.others.iter().for_each(|other| other.beat(actor));
    }
}

impl Running {
    /// Reads the configuration again and puts it in force if it is good.
    pub async fn reload(&self) {
        // What is refused was said.
        let _ = self.reloader.reload().await;
    }

    /// Waits until the fleet dies of itself, which only a fault of ours brings about.
    pub async fn failed(&mut self) {
        let _ = (&mut self.fleet_ended).await;
    }

    /// Whether all connections closed in this time. A stop that is asked for again has no more.
    async fn gone_within(&self, time: Duration) -> bool {
        tokio::select! {
            () = self.accepting.connections.wait() => true,
            () = tokio::time::sleep(time) => false,
            () = self.gateway.stop.cancelled() => false,
        }
    }

    /// Stops everything in order. Ends when all is down.
    pub async fn stop(self) {
        let gateway = &self.gateway;
        gateway.draining.cancel();
        gateway.tell(EventKind::Draining, Severity::Info, None, Evidence::default());
        self.accepting.stop_accepting.cancel();
        self.acceptors.close();
        self.acceptors.wait().await;
        self.accepting.connections.close();
        let grace = IDLE_GRACE.min(self.shutdown_timeout);
        if !self.gone_within(grace).await {
            self.accepting.close_idle.cancel();
            if !self.gone_within(self.shutdown_timeout.saturating_sub(grace)).await {
                gateway.stop.cancel();
                let _ = tokio::time::timeout(IDLE_GRACE, self.accepting.connections.wait()).await;
            }
        }
        self.background.cancel();
        gateway.fleet.stop().await;
        let _ = tokio::time::timeout(IDLE_GRACE, self.fleet_ended).await;
        gateway.tasks.close();
        let _ = tokio::time::timeout(IDLE_GRACE, gateway.tasks.wait()).await;
    }
}
