//! The fleet as a whole: its actors, and what everybody holds to speak to them.
//!
//! ```text
//! Root ──┬─ Journal             the store on its own thread
//!        ├─ Accounts ── Account*   supervisor only
//!        ├─ FailoverManager     sibling of the accounts: its panic cannot take them down
//!        └─ ActivityFeed        numbers events and hands them on
//! ```
//!
//! What must outlive an actor is made here and lent to each incarnation: inboxes, the accounts' committed health, the
//! book of leases, dirty records. So a death costs a moment, never a fact.

pub mod actor;
mod comeback;
pub mod steps;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ractor::{Actor, ActorRef};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::account::cell::{AccountCell, Cells};
use crate::account::fact::Fact;
use crate::account::health::{Health, HealthEvent, Questions, Settings, Snapshot};
use crate::account::supervisor::Directory;
use crate::activity::{self, Feed, Watchman};
use crate::clock::{SharedClock, Timestamp};
use crate::failover::book::LeaseBook;
use crate::failover::{self, FailoverHandle};
use crate::id::{AccountId, CredentialKind, EntryId, EvidenceSeq, IdentityKey};
use crate::inbox::Reader;
use crate::journal::{Dirty, Journal, Keep, OpenStore};
use crate::outcome::{Answered, Ended};
use crate::ports::{Heartbeat, Observer, Reports, StoreError, Table};
use crate::postman::{Courier, Outbox, Post};
use crate::roster::{AccountSpec, Roster, RotationSettings};
use crate::slot::{Delivery, Slot, Successor};
use crate::till::{Run, Till};
use actor::{Lasting, Msg, RootActor};

/// What the world gives the fleet.
pub struct Ports {
    /// Tells the time.
    pub clock: SharedClock,
    /// Opens the store.
    pub store: OpenStore,
    /// How long its rows are kept.
    pub keep: Keep,
    /// Sees every event.
    pub observers: Vec<Box<dyn Observer>>,
    /// Told by every actor that it lives.
    pub heartbeat: Arc<dyn Heartbeat>,
    /// Brings messages to their receivers.
    pub courier: Arc<dyn Courier>,
    /// Where tasks run.
    pub tasks: TaskTracker,
}

/// The running fleet.
#[derive(Clone)]
pub struct Fleet {
    lasting: Arc<Lasting>,
    root: ActorRef<Msg>,
    /// Admission.
    pub failover: FailoverHandle,
    /// What happens.
    pub feed: Feed,
    /// What is remembered.
    pub journal: Journal,
    /// Where attempts are paid for.
    pub till: Till,
}

/// Why the fleet could not start.
#[derive(Debug, thiserror::Error)]
#[error("the fleet could not start: {0}")]
pub struct StartError(String);

/// Why an account was not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undelivered {
    /// It is in no fleet of ours.
    #[error("the fleet does not have this account")]
    Unknown,
    /// It kills the account's actor again and again.
    #[error("the account cannot take it in; the log says why")]
    SetAside,
    /// Nobody is there to tell any more.
    #[error("the fleet has stopped")]
    Stopped,
}

/// How many incarnations of an account are waited for.
const DELIVER_TRIES: u32 = 5;

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}

impl Fleet {
    /// Starts the fleet of this roster, as it was remembered. The handle ends when the fleet has stopped, or when it
    /// died beyond mending.
    ///
    /// # Errors
    /// When an actor does not start.
    pub async fn start(ports: Ports, roster: Roster) -> Result<(Self, JoinHandle<()>), StartError> {
        let lasting = Lasting::new(ports, roster);
        let failed = |error: ractor::SpawnErr| StartError(error.to_string());
        let (root, ended) = RootActor::spawn(None, RootActor, Arc::clone(&lasting)).await.map_err(failed)?;
        let closing = Arc::clone(&lasting);
        let ended = lasting.ports.tasks.spawn(async move {
            let _ = ended.await;
            closing.close();
        });
        let fleet = Self {
            failover: lasting.failover_handle(),
            feed: lasting.feed(),
            journal: lasting.journal(),
            till: lasting.till(),
            lasting,
            root,
        };
        let roster = fleet.roster();
        fleet.reload(Roster::clone(&roster)).await?;
        let tasks = fleet.lasting.ports.tasks.clone();
        tasks.spawn(steps::watch(fleet.clone(), fleet.lasting.over.clone()));
        tasks.spawn(comeback::watch(fleet.clone(), fleet.lasting.over.clone()));
        Ok((fleet, ended))
    }

    /// The fleet as configured now.
    #[must_use]
    pub fn roster(&self) -> Arc<Roster> {
        self.lasting.roster.borrow().clone()
    }

    /// Makes the accounts of this roster that are new, as they were remembered, so that they can be told what happens to
    /// them. No request is given to them before a reload.
    pub async fn introduce(&self, roster: &Roster) {
        let (remembered, now) = (self.remembered().await, self.lasting.ports.clock.now());
        for spec in roster.accounts.values().filter(|spec| self.lasting.cells.get(spec.id).is_none()) {
            self.employ(spec, &roster.rotation, &remembered, now);
        }
    }

    /// Who an account is, as far as known.
    #[must_use]
    pub fn identity(&self, account: AccountId) -> Option<IdentityKey> {
        self.lasting.cells.get(account).map(|cell| cell.committed().identity)
    }

    /// The entry that represents an account.
    #[must_use]
    pub fn entry(&self, account: AccountId) -> Option<EntryId> {
        self.lasting.cells.get(account).map(|cell| cell.entry())
    }

    /// Puts another roster in force: new accounts start as they were remembered, known ones keep everything.
    ///
    /// # Errors
    /// When the fleet is stopping.
    pub async fn reload(&self, roster: Roster) -> Result<(), StartError> {
        let remembered = self.remembered().await;
        let now = self.lasting.ports.clock.now();
        for spec in roster.accounts.values() {
            self.employ(spec, &roster.rotation, &remembered, now);
        }
        self.lasting.roster.send_replace(Arc::new(roster));
        let (reply, done) = oneshot::channel();
        let stopping = || StartError("the fleet is stopping".to_owned());
        self.root.cast(Msg::Reloaded(reply)).map_err(|_| stopping())?;
        done.await.map_err(|_| stopping())
    }

    /// Two identities turned out to be one: the state of `before` is joined into that of `now`.
    pub fn join(&self, before: AccountId, now: AccountId) {
        let (Some(old), false) = (self.health(before), before == now) else { return };
        if let Some(renamed) = self.lasting.book.ledger().join(before, now) {
            failover::actor::remember_name(&self.journal, &renamed);
        }
        self.tell(now, Fact::Joined(Arc::new(old)));
    }

    /// Tells the time.
    #[must_use]
    pub fn clock(&self) -> SharedClock {
        SharedClock::clone(&self.lasting.ports.clock)
    }

    /// Tells an account what happened to it.
    pub fn tell(&self, account: AccountId, fact: Fact) -> EvidenceSeq {
        let Some(cell) = self.lasting.cells.get(account) else { return EvidenceSeq(0) };
        let pushed = cell.inbox.push(fact);
        if pushed.reader == Reader::Call
            && let Some(actor) = self.lasting.directory.handle(account)
        {
            actor.cast(crate::account::actor::Msg::Look);
        }
        pushed.seq
    }

    /// Tells an account what happened to it, and waits until it has taken that in and it is to be written down: whoever
    /// looks from then on sees it, and a flush of the journal makes it last.
    ///
    /// # Errors
    /// When the account is not known, cannot take it in, or the fleet has stopped.
    pub async fn deliver(&self, account: AccountId, fact: Fact) -> Result<(), Undelivered> {
        let (Some(cell), Some(actor)) = (self.lasting.cells.get(account), self.lasting.directory.handle(account))
        else {
            return Err(Undelivered::Unknown);
        };
        let seq = self.tell(account, fact);
        for _ in 0..DELIVER_TRIES {
            let seen = actor.incarnation();
            let (reply, settled) = oneshot::channel();
            let sent = actor.cast(crate::account::actor::Msg::Settle(reply)) == Delivery::Taken;
            if sent && settled.await.is_ok() {
                let taken_in = cell.committed().applied >= seq;
                return if taken_in { Ok(()) } else { Err(Undelivered::SetAside) };
            }
            let successor = tokio::select! {
                next = actor.next_incarnation(seen) => next,
                () = self.lasting.over.cancelled() => Successor::Never,
            };
            if successor == Successor::Never {
                return Err(Undelivered::Stopped);
            }
        }
        Err(Undelivered::SetAside)
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lasting.ports.clock.now()
    }

    /// One account's health as last committed, for readers.
    #[must_use]
    pub fn health(&self, account: AccountId) -> Option<Health> {
        self.lasting.cells.get(account).map(|cell| cell.committed().health)
    }

    /// Changes whenever an account may have become usable.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.lasting.changed.subscribe()
    }

    /// The leases in flight.
    #[must_use]
    pub fn book(&self) -> &Arc<LeaseBook> {
        &self.lasting.book
    }

    /// Writes down what is dirty and stops every actor.
    pub async fn stop(&self) {
        self.lasting.over.cancel();
        self.root.stop(None);
    }

    /// The root actor, for tests that kill its children.
    #[must_use]
    pub fn root(&self) -> &ActorRef<Msg> {
        &self.root
    }

    fn employ(&self, spec: &AccountSpec, rotation: &RotationSettings, remembered: &Remembered, now: Timestamp) {
        let settings = settings_of(spec, rotation);
        if let Some(cell) = self.lasting.cells.get(spec.id) {
            if let Some(was) = cell.rename(spec.identity.clone(), spec.entry.clone()) {
                self.journal.forget(Table::Health, was);
                self.keep_now(spec.id);
            }
            self.tell(spec.id, Fact::Told(HealthEvent::SettingsChanged(settings)));
            return;
        }
        let key = spec.identity.to_string();
        let known = match remembered {
            Ok(records) => records.get(&key).and_then(|snapshot| restored(snapshot, spec, settings, now)),
            Err(_) => {
                self.journal.begins_without(key);
                None
            }
        };
        let health = known.unwrap_or_else(|| Health::new(spec.id, settings));
        self.lasting.cells.insert(AccountCell::new(spec.id, spec.identity.clone(), spec.entry.clone(), health));
    }

    /// Known by another name it is to be written down anew. An account that is dead just now does so when it is back.
    fn keep_now(&self, account: AccountId) {
        if let Some(actor) = self.lasting.directory.handle(account) {
            actor.cast(crate::account::actor::Msg::Keep);
        }
    }

    async fn remembered(&self) -> Remembered {
        let records = self.journal.load(Table::Health).await.inspect_err(|error| {
            tracing::error!(%error, "what was remembered of the accounts cannot be read; they start cold until it can");
        });
        Ok(records?.into_iter().map(|record| (record.key, record.value)).collect())
    }
}

/// What was kept of accounts, by identity.
type Remembered = Result<BTreeMap<String, Vec<u8>>, StoreError>;

/// What the rules of an account's health need to know of the configuration.
fn settings_of(spec: &AccountSpec, rotation: &RotationSettings) -> Settings {
    let questions = match spec.kind {
        CredentialKind::Oauth | CredentialKind::SetupToken | CredentialKind::ApiKey => {
            Questions::OfProvider { every: rotation.health_interval }
        }
        CredentialKind::Keychain => Questions::OfCli,
        CredentialKind::None => Questions::Never,
    };
    Settings { thresholds: spec.thresholds, cooldown: rotation.cooldown, questions }
}

fn restored(snapshot: &[u8], spec: &AccountSpec, settings: Settings, now: Timestamp) -> Option<Health> {
    let read = serde_json::from_slice::<Snapshot>(snapshot).map_err(|error| error.to_string());
    let health = read.and_then(|read| read.restore(spec.id, settings, now).map_err(|error| error.to_string()));
    health
        .inspect_err(|why| tracing::warn!(account = %spec.entry, %why, "what was kept cannot be used; it starts cold"))
        .ok()
}

impl Reports for Fleet {
    fn answered(&self, account: AccountId, answered: Arc<Answered>) -> EvidenceSeq {
        self.tell(account, Fact::Answered(answered))
    }

    fn ended(&self, account: AccountId, ended: Ended) -> EvidenceSeq {
        self.tell(account, Fact::Ended(Arc::new(ended)))
    }
}

impl Lasting {
    fn new(ports: Ports, roster: Roster) -> Arc<Self> {
        let Ports { clock, store, keep, observers, heartbeat, courier, tasks } = ports;
        let failover = Arc::new(Slot::<failover::actor::Msg>::default());
        let wake = failover.handle();
        let book = LeaseBook::new(move || {
            wake.cast(failover::actor::Msg::Settle);
        });
        let (dirty, journal) = (Arc::new(Dirty::default()), Slot::default());
        let (outbox, postman) = (Arc::new(Mutex::new(Outbox::default())), Slot::default());
        let cells = Arc::new(Cells::default());
        let roster = watch::Sender::new(Arc::new(roster));
        let written = Journal::new(Arc::clone(&dirty), journal.handle());
        let post = Post::new(Arc::clone(&outbox), postman.handle());
        let watchman = Watchman::new(roster.subscribe(), Arc::clone(&cells), written.clone(), post);
        Arc::new(Self {
            ports: actor::Shared { clock, store, keep, heartbeat, courier, tasks },
            failover,
            book,
            caches: Arc::default(),
            run: Run(fastrand::u64(..)),
            feed: Slot::default(),
            feed_shared: activity::Shared::new(observers, written, watchman),
            journal,
            dirty,
            accounts: Slot::default(),
            postman,
            outbox,
            directory: Arc::new(Directory::default()),
            cells,
            roster,
            changed: watch::Sender::new(0),
            over: CancellationToken::new(),
        })
    }
}

#[cfg(test)]
mod tests;
