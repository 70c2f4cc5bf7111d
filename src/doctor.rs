//! `doctor`: looks whether everything is as it should be, and says what to do where it is not.
//!
//! It changes nothing and is safe beside a running daemon: secrets are read and asked about, never renewed; no file is
//! written, no lock is kept. All looks go on at once, each within ten seconds. Each look has a file of its own and knows
//! nothing of the others; none of them prints.

mod accounts;
mod channels;
mod claude;
mod clock;
mod config;
mod finding;
mod keys;
mod service;
mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::clock::SharedClock;
use duduclaw_actors::ports::Table;
use tokio::time::timeout;

use crate::admin::{HealthView, PoolView};
use crate::app::Home;
use crate::config::locate::Named;
use crate::config::surroundings::Surroundings;
use crate::config::{Loaded, Ready};
use crate::credentials::{Environment, Sealer, Trace};
use crate::store::look;
use crate::upstream::client::Client;

pub use finding::{Finding, Group, Mark, Report};

/// How long one look may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Whether providers may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// They are.
    Asked,
    /// They are not.
    LeftAlone,
}

/// What is known of the home's daemon.
#[derive(Clone, Debug)]
pub enum Daemon {
    /// None runs.
    None,
    /// One runs, and does not answer; why.
    Silent(String),
    /// One runs, and says this of itself.
    Runs {
        /// Its health.
        health: Box<HealthView>,
        /// Its accounts.
        pool: Box<PoolView>,
    },
}

/// What is examined.
pub struct Doctor {
    /// The configuration, and what was said of it.
    pub loaded: Loaded,
    /// What the command line named.
    pub named: Named,
    /// The machine.
    pub machine: Arc<dyn Surroundings + Send + Sync>,
    /// Where variables are read.
    pub environment: Environment,
    /// Opens the values of stored accounts.
    pub sealer: Sealer,
    /// The way to the providers.
    pub client: Client,
    /// Tells the time.
    pub clock: SharedClock,
    /// The home's daemon.
    pub daemon: Daemon,
    /// What the store knows of credentials, by the names of the facts.
    pub remembered: BTreeMap<String, Trace>,
    /// Whether providers may be asked.
    pub network: Network,
}

/// What the store of a home knows of credentials; nothing if it cannot be looked into, which the store's own lines say.
#[must_use]
pub fn remembered(home: &Path) -> BTreeMap<String, Trace> {
    let facts = look(&Home::at(home).store_path()).ok().and_then(|mut store| store.load(Table::Facts).ok());
    let known = facts.unwrap_or_default().into_iter().filter(|fact| fact.version == Trace::VERSION);
    known.filter_map(|fact| Some((fact.key, serde_json::from_slice(&fact.value).ok()?))).collect()
}

impl Doctor {
    /// Looks at everything at once.
    pub async fn examine(self) -> Report {
        let doctor = Arc::new(self);
        let (asked, claude, service, store) = tokio::join!(
            accounts::look(&doctor),
            in_time(Group::Tools, "claude", claude::look(&doctor)),
            in_time(Group::Service, "service", service::look(&doctor)),
            in_time(Group::Store, "store", store::look(&doctor)),
        );
        let mut findings = config::look(&doctor);
        findings.extend(keys::look(&doctor));
        findings.extend(asked.findings);
        findings.extend(claude);
        findings.extend(service);
        findings.extend(store);
        findings.extend(clock::look(&asked.readings, doctor.network));
        findings.extend(channels::look(&doctor));
        Report { findings }
    }

    fn ready(&self) -> Option<&Ready> {
        self.loaded.ready.as_ref()
    }

    fn home(&self) -> PathBuf {
        self.loaded.home.clone()
    }
}

/// What was found within the time that a look has.
async fn in_time(group: Group, what: &str, look: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    timeout(WITHIN, look).await.unwrap_or_else(|_| {
        vec![
            Finding::warn(group, what, "no answer within 10 s").advised("see what holds the machine up, and try again"),
        ]
    })
}
