//! What the brain needs of the world, as traits; the edges implement them, tests fake them.

use std::sync::Arc;

use crate::event::Event;
use crate::id::{AccountId, EvidenceSeq};
use crate::outcome::{Answered, Ended};

/// Where events go. Never blocks, never fails: an event that cannot be kept is still counted.
pub trait EventSink: Send + Sync {
    /// Takes one event; its `seq` is given here.
    fn emit(&self, event: Event);
}

/// A shared sink.
pub type SharedSink = Arc<dyn EventSink>;

/// What reports evidence to an account.
pub trait Reports: Send + Sync {
    /// Puts the head's evidence into the account's inbox and gives its number there.
    fn answered(&self, account: AccountId, answered: Arc<Answered>) -> EvidenceSeq;

    /// Puts the body's evidence into the account's inbox.
    fn ended(&self, account: AccountId, ended: Ended) -> EvidenceSeq;
}

/// What the fleet remembers: versioned records by key, synchronous, called on the journal's own thread only.
///
/// A record is opaque bytes with the version of its shape. Writes of one batch are kept together or not at all.
pub trait Store: Send {
    /// All records of a table.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError>;

    /// Writes a batch, latest value wins; `None` removes a key.
    ///
    /// # Errors
    /// When the batch could not be kept; then none of it is.
    fn write(&mut self, batch: &[Write]) -> Result<(), StoreError>;
}

/// What kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Account health, by identity.
    Health,
    /// Conversations, by key.
    Conversations,
}

/// One record as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: String,
    /// The version of its shape.
    pub version: u32,
    /// Its content, JSON.
    pub value: Vec<u8>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub table: Table,
    /// Which.
    pub key: String,
    /// What; `None` removes it.
    pub value: Option<(u32, Vec<u8>)>,
}

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read or written just now.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
}

/// Told by every actor after each message it has handled: a watchdog sees by it that the fleet is alive.
pub trait Heartbeat: Send + Sync {
    /// One message was handled.
    fn beat(&self, actor: ActorKind);
}

/// The kinds of actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActorKind {
    /// Keeps the store.
    Journal,
    /// Owns one account's health.
    Account,
    /// Starts the accounts' actors.
    AccountSupervisor,
    /// Owns admission.
    FailoverManager,
    /// Owns the feed of events.
    ActivityFeed,
}

impl ActorKind {
    /// The name used in events and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Account => "account",
            Self::AccountSupervisor => "account_supervisor",
            Self::FailoverManager => "failover_manager",
            Self::ActivityFeed => "activity_feed",
        }
    }
}

/// Looks on as events are numbered: counts them, writes them out. Called on the feed's own task: must be quick.
pub trait Observer: Send {
    /// One event, with its number.
    fn observe(&mut self, event: &Event);
}
