//! The root of supervision: starts the five below it and starts each anew when it dies.

use std::sync::{Arc, Mutex};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::account::actor as account;
use crate::account::cell::Cells;
use crate::account::supervisor::{self, AccountSupervisor, Directory};
use crate::activity::{self, Feed, FeedActor};
use crate::clock::SharedClock;
use crate::efficiency::CacheWatch;
use crate::failover::actor::{self as failover, FailoverActor};
use crate::failover::book::LeaseBook;
use crate::failover::{ConversationRecord, FailoverHandle};
use crate::journal::{self, Dirty, Journal, JournalActor, Keep, OpenStore};
use crate::nursery::{Means, Nursery};
use crate::ports::{ActorKind, Heartbeat, Record, SharedSink, StoreError, Table};
use crate::postman::{self, Courier, Outbox, Post, PostmanActor};
use crate::roster::Roster;
use crate::slot::{Delivery, Slot};
use crate::till::{Run, Till};

/// What the root is told.
#[derive(Debug)]
pub enum Msg {
    /// Another roster stands in the lasting part.
    Reloaded(oneshot::Sender<()>),
    /// A dead child's wait is over; for admission with the conversations that were kept.
    Respawn(Child, Vec<ConversationRecord>),
}

/// The children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Child {
    /// Keeps the store.
    Journal,
    /// Numbers events.
    Feed,
    /// Admission.
    Failover,
    /// Supervises the accounts.
    Accounts,
    /// Carries messages.
    Postman,
}

impl Child {
    /// In the order in which they start: each needs those before it.
    const ALL: [Self; 5] = [Self::Feed, Self::Journal, Self::Failover, Self::Accounts, Self::Postman];

    fn kind(self) -> ActorKind {
        match self {
            Self::Journal => ActorKind::Journal,
            Self::Feed => ActorKind::ActivityFeed,
            Self::Failover => ActorKind::FailoverManager,
            Self::Accounts => ActorKind::AccountSupervisor,
            Self::Postman => ActorKind::Postman,
        }
    }
}

/// What outlives every actor.
pub struct Lasting {
    pub(super) ports: Shared,
    pub(super) failover: Arc<Slot<failover::Msg>>,
    pub(super) book: Arc<LeaseBook>,
    pub(super) caches: Arc<Mutex<CacheWatch>>,
    pub(super) run: Run,
    pub(super) feed: Slot<activity::Msg>,
    pub(super) feed_shared: Arc<activity::Shared>,
    pub(super) journal: Slot<journal::Msg>,
    pub(super) dirty: Arc<Dirty>,
    pub(super) accounts: Slot<supervisor::Msg>,
    pub(super) postman: Slot<postman::Msg>,
    pub(super) outbox: Arc<Mutex<Outbox>>,
    pub(super) directory: Arc<Directory>,
    pub(super) cells: Arc<Cells>,
    pub(super) roster: watch::Sender<Arc<Roster>>,
    pub(super) changed: watch::Sender<u64>,
    pub(super) over: CancellationToken,
}

/// The ports that every actor shares.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) clock: SharedClock,
    pub(super) store: OpenStore,
    pub(super) keep: Keep,
    pub(super) heartbeat: Arc<dyn Heartbeat>,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) tasks: TaskTracker,
}

impl Lasting {
    pub(super) fn failover_handle(&self) -> FailoverHandle {
        FailoverHandle::new(self.failover.handle())
    }

    pub(super) fn feed(&self) -> Feed {
        Feed::new(Arc::clone(&self.feed_shared), self.feed.handle())
    }

    pub(super) fn journal(&self) -> Journal {
        Journal::new(Arc::clone(&self.dirty), self.journal.handle())
    }

    pub(super) fn till(&self) -> Till {
        let (book, caches) = (Arc::clone(&self.book), Arc::clone(&self.caches));
        Till::new(book, self.journal(), self.events(), SharedClock::clone(&self.ports.clock), caches, self.run)
    }

    pub(super) fn post(&self) -> Post {
        Post::new(Arc::clone(&self.outbox), self.postman.handle())
    }

    /// Takes in outages that were kept and could not be read at the start.
    pub(super) fn join_outages(&self, kept: &[Record]) {
        self.feed_shared.join(kept);
        self.feed.handle().cast(activity::Msg::Look);
    }

    /// Goes on with numbers, outages and messages where the last run stopped.
    async fn begin(&self) {
        let journal = self.journal();
        let (facts, outages) = (journal.load(Table::Facts).await, journal.load(Table::Outages).await);
        let now = self.ports.clock.now();
        self.feed_shared.begin(facts, outages, now);
        self.feed.handle().cast(activity::Msg::Look);
        match journal.load(Table::Outbox).await {
            Ok(kept) => self.post().restore(&kept, now),
            Err(error) => tracing::error!(%error, "messages that were kept cannot be read"),
        }
    }

    /// The root is gone, and nobody will come after it: whoever waits for an actor must not wait for ever.
    pub(super) fn close(&self) {
        self.failover.close();
        self.journal.close();
        self.accounts.close();
        self.postman.close();
        self.feed.close();
    }

    fn events(&self) -> SharedSink {
        Arc::new(self.feed())
    }
}

/// The actor.
#[derive(Debug)]
pub struct RootActor;

/// Its state.
pub struct State {
    lasting: Arc<Lasting>,
    children: Nursery<Child>,
}

impl Actor for RootActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Arc<Lasting>;

    async fn pre_start(&self, me: ActorRef<Msg>, lasting: Arc<Lasting>) -> Result<State, ActorProcessingErr> {
        let mut state = State { lasting, children: Nursery::default() };
        for child in Child::ALL {
            let kept = match child {
                Child::Failover => {
                    let roster = state.lasting.roster.borrow().clone();
                    state.open_till(&roster).await;
                    kept_conversations(state.lasting.journal().load(Table::Conversations).await)
                }
                Child::Journal | Child::Feed | Child::Accounts | Child::Postman => Vec::new(),
            };
            state.spawn(&me, child, kept).await?;
        }
        state.lasting.begin().await;
        Ok(state)
    }

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Reloaded(reply) => state.pass_on(reply),
            Msg::Respawn(child, kept) => {
                if let Err(error) = state.spawn(&me, child, kept).await {
                    state.mourn(&me, child, &error.to_string())?;
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let death = state.children.death(event);
        death.map_or(Ok(()), |(child, why)| state.mourn(&me, child, &why))
    }

    /// Accounts first, admission next, then what they left is written down, and the rest goes.
    async fn post_stop(&self, me: ActorRef<Msg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        for child in [Child::Accounts, Child::Failover] {
            state.stop(child).await;
        }
        if let Err(error) = state.flush(&me).await {
            tracing::error!(%error, "what was to be kept could not be written at the end");
        }
        state.stop(Child::Feed).await;
        me.stop_children_and_wait(None, None).await;
        Ok(())
    }
}

impl State {
    /// Admission begins with what was spent, or without it if the store cannot be read; then it comes later.
    async fn open_till(&self, roster: &Roster) {
        let till = self.lasting.till();
        if let Err(error) = till.open(roster).await {
            tracing::error!(%error, "what was spent cannot be read; budgets count from now on until it can");
            let (roster, over) = (self.lasting.roster.subscribe(), self.lasting.over.clone());
            self.lasting.ports.tasks.spawn(till.open_later(roster, over));
        }
    }

    /// The accounts first, so that admission finds their standing.
    fn pass_on(&self, reply: oneshot::Sender<()>) {
        let lasting = Arc::clone(&self.lasting);
        self.lasting.ports.tasks.spawn(async move {
            let (employed, done) = oneshot::channel();
            if lasting.accounts.handle().cast(supervisor::Msg::Employ(lasting.cells.all(), employed)) == Delivery::Taken
            {
                let _ = done.await;
            }
            let roster = lasting.roster.borrow().clone();
            lasting.failover.handle().cast(failover::Msg::Reload(roster));
            let _ = reply.send(());
        });
    }

    async fn stop(&self, child: Child) {
        if let Some(actor) = self.children.living(child) {
            // Whoever is dead already has stopped.
            let _ = actor.stop_and_wait(None, None).await;
        }
    }

    /// A journal that died just now has nobody left to start it again but us.
    async fn flush(&mut self, me: &ActorRef<Msg>) -> Result<(), StoreError> {
        if self.lasting.journal().flush().await.is_ok() {
            return Ok(());
        }
        let spawned = self.spawn(me, Child::Journal, Vec::new()).await;
        spawned.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        self.lasting.journal().flush().await
    }

    fn mourn(&mut self, me: &ActorRef<Msg>, child: Child, why: &str) -> Result<(), ActorProcessingErr> {
        let (me, journal) = (me.clone(), self.lasting.journal());
        let again = async move {
            let kept = match child {
                Child::Failover => kept_conversations(journal.load_patiently(Table::Conversations).await),
                Child::Journal | Child::Feed | Child::Accounts | Child::Postman => Vec::new(),
            };
            let _ = me.cast(Msg::Respawn(child, kept));
        };
        let ports = &self.lasting.ports;
        let means = Means { clock: &*ports.clock, events: &self.lasting.feed(), tasks: &ports.tasks };
        self.children.mourn(child, child.kind(), why, &means, again)
    }

    async fn spawn(
        &mut self,
        me: &ActorRef<Msg>,
        child: Child,
        kept: Vec<ConversationRecord>,
    ) -> Result<(), ActorProcessingErr> {
        let actor = match child {
            Child::Feed => self.spawn_feed(me).await?,
            Child::Journal => self.spawn_journal(me).await?,
            Child::Failover => self.spawn_failover(me, kept).await?,
            Child::Accounts => self.spawn_accounts(me).await?,
            Child::Postman => self.spawn_postman(me).await?,
        };
        self.children.born(child, actor);
        Ok(())
    }

    async fn spawn_feed(&self, me: &ActorRef<Msg>) -> Result<ActorCell, ActorProcessingErr> {
        let args = activity::Args {
            shared: Arc::clone(&self.lasting.feed_shared),
            clock: SharedClock::clone(&self.lasting.ports.clock),
            tasks: self.lasting.ports.tasks.clone(),
            heartbeat: Arc::clone(&self.lasting.ports.heartbeat),
        };
        let (actor, _) = FeedActor::spawn_linked(None, FeedActor, args, me.get_cell()).await?;
        let cell = actor.get_cell();
        self.lasting.feed.fill(actor, activity::Msg::Look);
        Ok(cell)
    }

    async fn spawn_postman(&self, me: &ActorRef<Msg>) -> Result<ActorCell, ActorProcessingErr> {
        let ports = self.lasting.ports.clone();
        let args = postman::Args {
            outbox: Arc::clone(&self.lasting.outbox),
            courier: ports.courier,
            journal: self.lasting.journal(),
            events: self.lasting.events(),
            clock: ports.clock,
            tasks: ports.tasks,
            heartbeat: ports.heartbeat,
        };
        let (actor, _) = PostmanActor::spawn_linked(None, PostmanActor, args, me.get_cell()).await?;
        let cell = actor.get_cell();
        self.lasting.postman.fill(actor, postman::Msg::Look);
        Ok(cell)
    }

    async fn spawn_journal(&self, me: &ActorRef<Msg>) -> Result<ActorCell, ActorProcessingErr> {
        let ports = self.lasting.ports.clone();
        let args = journal::Args {
            dirty: Arc::clone(&self.lasting.dirty),
            open: ports.store,
            keep: ports.keep,
            events: self.lasting.events(),
            clock: ports.clock,
            tasks: ports.tasks,
            heartbeat: ports.heartbeat,
        };
        let (actor, _) = JournalActor::spawn_linked(None, JournalActor, args, me.get_cell()).await?;
        let cell = actor.get_cell();
        self.lasting.journal.fill(actor, journal::Msg::Dirty);
        Ok(cell)
    }

    async fn spawn_failover(
        &self,
        me: &ActorRef<Msg>,
        conversations: Vec<ConversationRecord>,
    ) -> Result<ActorCell, ActorProcessingErr> {
        let ports = self.lasting.ports.clone();
        let args = failover::Args {
            roster: self.lasting.roster.subscribe(),
            book: Arc::clone(&self.lasting.book),
            cells: Arc::clone(&self.lasting.cells),
            directory: Arc::clone(&self.lasting.directory),
            conversations,
            journal: self.lasting.journal(),
            events: self.lasting.events(),
            clock: ports.clock,
            tasks: ports.tasks,
            heartbeat: ports.heartbeat,
            changed: self.lasting.changed.clone(),
        };
        let (actor, _) = FailoverActor::spawn_linked(None, FailoverActor, args, me.get_cell()).await?;
        let cell = actor.get_cell();
        // The roster, a standing or the end of a lease may have been told to its predecessor while it was made.
        let roster = self.lasting.roster.borrow().clone();
        self.lasting.failover.fill(actor, failover::Msg::Reload(roster));
        self.lasting.failover.handle().cast(failover::Msg::Settle);
        Ok(cell)
    }

    async fn spawn_accounts(&self, me: &ActorRef<Msg>) -> Result<ActorCell, ActorProcessingErr> {
        let args = supervisor::Args {
            template: template(&self.lasting),
            directory: Arc::clone(&self.lasting.directory),
            cells: Arc::clone(&self.lasting.cells),
            heartbeat: Arc::clone(&self.lasting.ports.heartbeat),
        };
        let (actor, _) = AccountSupervisor::spawn_linked(None, AccountSupervisor, args, me.get_cell()).await?;
        let cell = actor.get_cell();
        let (reply, _) = oneshot::channel();
        self.lasting.accounts.fill(actor, supervisor::Msg::Employ(self.lasting.cells.all(), reply));
        Ok(cell)
    }
}

fn kept_conversations(loaded: Result<Vec<Record>, StoreError>) -> Vec<ConversationRecord> {
    let records = loaded.inspect_err(|error| {
        tracing::warn!(%error, "conversations could not be read; they are placed anew");
    });
    failover::conversations(&records.unwrap_or_default())
}

fn template(lasting: &Lasting) -> supervisor::AccountTemplate {
    let ports = lasting.ports.clone();
    let (failover, journal, events) = (lasting.failover_handle(), lasting.journal(), lasting.events());
    Arc::new(move |cell| account::Args {
        cell,
        failover: failover.clone(),
        journal: journal.clone(),
        events: Arc::clone(&events),
        clock: SharedClock::clone(&ports.clock),
        tasks: ports.tasks.clone(),
        heartbeat: Arc::clone(&ports.heartbeat),
    })
}
