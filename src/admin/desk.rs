//! What the verbs work with.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use duduclaw_actors::clock::{SharedClock, Timestamp};
use duduclaw_actors::id::EntryId;
use duduclaw_actors::root::Fleet;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::counts::Counts;
use super::logins::Logins;
use crate::amend::{AmendError, Change, advice};
use crate::config::topology::Topology;
use crate::credentials::{Checker, Registrar, Vault};
use crate::gateway::live::Live;

/// The fleet and all around it.
pub struct Desk {
    /// The fleet.
    pub fleet: Fleet,
    /// What is known of its secrets.
    pub vault: Vault,
    /// Asks providers about credentials.
    pub checker: Checker,
    /// Saves credentials.
    pub registrar: Registrar,
    /// Logins under way.
    pub logins: Logins,
    /// What became of its attempts.
    pub counts: Counts,
    /// The configuration in force.
    pub live: Arc<ArcSwap<Live>>,
    /// Tells the time.
    pub clock: SharedClock,
    /// Reads and changes the configuration.
    pub keeper: Arc<dyn ConfigKeeper>,
    /// Where its tasks run.
    pub tasks: TaskTracker,
    /// Cancelled when no new work is taken on.
    pub draining: CancellationToken,
    /// Places for those who follow the events.
    pub followers: Arc<Semaphore>,
    /// Since when the daemon serves.
    pub started: Timestamp,
    /// Where it listens.
    pub addresses: Vec<String>,
}

/// What may be done to the configuration, once it is done.
pub type Keeping<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Reads and changes the configuration.
pub trait ConfigKeeper: Send + Sync {
    /// The file it comes from; none where it is what was found on the machine.
    fn file(&self) -> Option<PathBuf>;

    /// Reads it again and puts it in force.
    fn reload(&self) -> Keeping<'_, Result<Reloaded, Refused>>;

    /// Changes these entries in its file, and puts it in force.
    fn amend(&self, entries: Vec<EntryId>, change: Change) -> Keeping<'_, Result<Reloaded, AmendFault>>;
}

/// A configuration that was put in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What is to be said of it.
    pub warnings: Vec<String>,
    /// Parts that changed and act only after a restart.
    pub needs_restart: Vec<String>,
}

/// A configuration that was not put in force: the old one stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Why a change of the configuration does not act.
#[derive(Debug, thiserror::Error)]
pub enum AmendFault {
    /// There is no file.
    #[error("there is no configuration file at {}: the accounts are those found on this machine", path.display())]
    NoFile {
        /// Where it would be.
        path: PathBuf,
        /// What is used in its place, as its text.
        instead: String,
    },
    /// The file was not changed.
    #[error(transparent)]
    Amend(#[from] AmendError),
    /// It was, and is not in force.
    #[error("it is written down, and not in force: {0}")]
    NotInForce(Refused),
}

impl AmendFault {
    /// What to do about it, where the error does not say it all.
    #[must_use]
    pub fn hint(&self, topology: &Topology, change: Change) -> Option<String> {
        match self {
            Self::Amend(AmendError::Text(why)) => advice(topology, why, change),
            Self::NoFile { instead, .. } => Some(format!("write it there, then change it:\n{instead}")),
            Self::Amend(AmendError::File(_) | AmendError::Refused(_)) | Self::NotInForce(_) => None,
        }
    }
}
