//! What the brain needs of the world, as traits; the edges implement them, tests fake them.

use std::sync::Arc;

use crate::event::Event;
use crate::id::{AccountId, EvidenceSeq};
use crate::outcome::{Answered, Ended};
use crate::rows::{EventQuery, EventRow, Retention, SpentRow, UsageBy, UsageQuery, UsageReport, UsageRow, UsageSum};

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

/// What the fleet remembers: versioned records by key, of which the latest counts, and rows that never change.
///
/// Synchronous, called on the journal's own thread only. A record is opaque bytes with the version of its shape.
pub trait Store: Send {
    /// All records of a table.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError>;

    /// Keeps a batch as a whole or not at all. A row that is kept already is kept once, with its charges.
    ///
    /// # Errors
    /// When the batch could not be kept; then none of it is.
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// What was spent of every budget, in all months that are kept.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn spent(&mut self) -> Result<Vec<SpentRow>, StoreError>;

    /// Sums of the usage rows.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn usage(&mut self, ask: &UsageQuery) -> Result<Vec<UsageSum>, StoreError>;

    /// Sums of the usage rows, and the sum of them all, of one moment.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn report(&mut self, ask: &UsageQuery) -> Result<UsageReport, StoreError> {
        let sums = self.usage(ask)?;
        let all = self.usage(&UsageQuery { by: UsageBy::Total, ..ask.clone() })?;
        Ok(UsageReport { sums, total: all.into_iter().next().unwrap_or_default() })
    }

    /// Events that were kept.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn events(&mut self, ask: &EventQuery) -> Result<Vec<EventRow>, StoreError>;

    /// Drops some of the rows that are too old: so many as take no longer than a batch. What they added to spent
    /// budgets stays, for as long as a month may be asked for.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn prune(&mut self, keep: &Retention) -> Result<Pruned, StoreError>;
}

/// Whether everything too old is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pruned {
    /// It is.
    All,
    /// There may be more.
    Some,
}

/// A store that was opened.
pub struct Opened {
    /// The store.
    pub store: Box<dyn Store>,
    /// What was found in its place, could not be used, and was kept elsewhere: this store begins empty.
    pub set_aside: Option<SetAside>,
}

/// A store that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Where it lies now.
    pub kept_at: String,
    /// What is wrong with it.
    pub why: String,
}

impl<S: Store + 'static> From<S> for Opened {
    fn from(store: S) -> Self {
        Self { store: Box::new(store), set_aside: None }
    }
}

/// What is kept together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Records, the latest value wins; `None` removes a key.
    pub records: Vec<Write>,
    /// Usage rows.
    pub usage: Vec<UsageRow>,
    /// Events.
    pub events: Vec<EventRow>,
}

impl Batch {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.usage.is_empty() && self.events.is_empty()
    }
}

/// What kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Account health, by identity.
    Health,
    /// Conversations, by key.
    Conversations,
    /// Money set aside for attempts in flight, by request and attempt.
    Reservations,
    /// Outages that were told and are not over, by scope.
    Outages,
    /// Messages that are still to be delivered, by id.
    Outbox,
    /// Single values by name.
    Facts,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Health, Self::Conversations, Self::Reservations, Self::Outages, Self::Outbox, Self::Facts];

    /// The name in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Conversations => "conversations",
            Self::Reservations => "reservations",
            Self::Outages => "outages",
            Self::Outbox => "outbox",
            Self::Facts => "facts",
        }
    }
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
    /// Carries messages.
    Postman,
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
            Self::Postman => "postman",
        }
    }
}

/// Looks on as events are numbered: counts them, writes them out. Called on the feed's own task: must be quick.
pub trait Observer: Send {
    /// One event, with its number.
    fn observe(&mut self, event: &Event);
}
