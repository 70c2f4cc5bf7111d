//! Simulated providers: the real protocols, quotas that really fill, faults on request; nobody's credential.
//!
//! [`Sim::start`] serves a simulated Anthropic on a loopback port, real enough that the genuine Claude Code and SDKs
//! work against it: Messages with streaming, thinking, tools and prompt cache, `count_tokens`, models, the token
//! endpoint and the usage API. The model follows directives in the prompt: `[[say: …]]`, `[[tool:NAME {…}]]`,
//! `[[agent: …]]`, `[[think]]` and more (the table is in `sim/script.rs`).
//!
//! It is steered by its [`SimHandle`], or by anyone who reaches the port, under `/_sim`, in JSON:
//!
//! | control | body | what it does |
//! |---|---|---|
//! | `GET /_sim/accounts` | | accounts with their tokens and windows |
//! | `POST /_sim/accounts` | an [`AccountSpec`] | one more account |
//! | `POST /_sim/accounts/NAME` | an [`AccountChange`], e.g. `{"used": {"5h": 1.0}}` | quota, expiry, revocation, login |
//! | `GET`, `POST /_sim/faults` | a [`FaultRule`], e.g. `{"account": "a", "times": 1, "faults": [{"fault": "529"}]}` | faults |
//! | `DELETE /_sim/faults`, `…/ACCOUNT` | | no more faults |
//! | `POST /_sim/clock` | `{"advance_seconds": 60}` | lets time pass |
//! | `POST /_sim/settings` | `{"pace_millis": 20, "token_delay_millis": 300, "refuse_connections": false}` | what is given |
//! | `GET /_sim/log`, `?since=ID` | | [`Record`]s |
//! | `GET /_sim/log/ID/request`, `…/response` | | by number or `request-id`: the bytes of a body as it was received or sent |
//! | `DELETE /_sim/log` | | an empty log |
//! | `POST /_sim/reset` | | everything as at the start |
//!
//! Never here: a rule of the gateway, or a way to a real provider.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::clock::{ManualClock, SharedClock, SystemClock, Timestamp};
use tokio::net::TcpListener;

mod account;
mod answer;
mod cache;
mod config;
mod control;
mod fault;
mod handle;
mod log;
mod playback;
mod prompt;
mod quota;
mod reply;
mod script;
mod server;
mod thinking;
mod world;

pub use account::{AccountKind, AccountSpec, Credentials, fingerprint};
pub use cache::InputUsage;
pub use config::SimConfig;
pub use control::{AccountChange, AccountView};
pub use fault::{Endpoint, Fault, FaultRule, Which};
pub use handle::{Connections, Refusal, SimHandle};
pub use log::{Ending, Record, digest};
pub use quota::{QuotaLimits, SimWindow, WindowState};

use server::Shared;
use world::World;

/// Why a simulator did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Anyone who reaches it can steer it.
    #[error("the simulator serves loopback addresses only, and {0} is none; use 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}; stop what listens there, or name another address with --bind")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The simulator runs on a clock that it may not move.
    #[error("this simulator's clock cannot be moved")]
    FixedClock,
    /// What was asked for makes no sense.
    #[error("{0}")]
    Refused(String),
}

/// A clock for a simulator, movable if it is one of ours.
#[derive(Clone)]
pub struct SimClock {
    shared: SharedClock,
    mover: Option<Arc<dyn Fn(Duration) + Send + Sync>>,
}

impl SimClock {
    fn now(&self) -> Timestamp {
        self.shared.now()
    }

    fn advance(&self, step: Duration) -> Result<(), SimError> {
        let mover = self.mover.as_ref().ok_or(SimError::FixedClock)?;
        mover(step);
        Ok(())
    }
}

impl From<SharedClock> for SimClock {
    fn from(shared: SharedClock) -> Self {
        Self { shared, mover: None }
    }
}

impl From<Arc<SystemClock>> for SimClock {
    fn from(clock: Arc<SystemClock>) -> Self {
        let moved = Arc::clone(&clock);
        Self { shared: clock, mover: Some(Arc::new(move |step| moved.advance(step))) }
    }
}

impl From<Arc<ManualClock>> for SimClock {
    fn from(clock: Arc<ManualClock>) -> Self {
        let moved = Arc::clone(&clock);
        Self { shared: clock, mover: Some(Arc::new(move |step| moved.advance(step))) }
    }
}

/// A simulated provider.
#[derive(Debug)]
pub struct Sim;

impl Sim {
    /// Serves a simulated provider on a loopback address; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address is not loopback, cannot be had, two accounts have one name, or a fault is no HTTP answer.
    pub async fn start(config: SimConfig, clock: impl Into<SimClock>, bind: SocketAddr) -> Result<SimHandle, SimError> {
        if !bind.ip().is_loopback() {
            return Err(SimError::NotLoopback(bind));
        }
        check(&config)?;
        let bound = |source| SimError::Bind { address: bind, source };
        let listener = TcpListener::bind(bind).await.map_err(bound)?;
        let address = listener.local_addr().map_err(bound)?;
        let clock = clock.into();
        let world = World::new(config, clock.now());
        let shared = Arc::new(Shared::new(world, clock));
        drop(shared.tasks.spawn(server::accept(listener, Arc::clone(&shared))));
        Ok(SimHandle::new(address, shared))
    }
}

fn check(config: &SimConfig) -> Result<(), SimError> {
    if let Some(flaw) = config.faults.iter().find_map(FaultRule::flaw) {
        return Err(SimError::Refused(flaw));
    }
    let mut names: Vec<&str> = config.accounts.iter().map(|account| account.name.as_str()).collect();
    names.sort_unstable();
    let doubled = names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    match doubled.or_else(|| names.first().copied().filter(|name| name.is_empty())) {
        Some(name) => Err(SimError::Refused(format!("an account needs a name of its own, and \"{name}\" is none"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
