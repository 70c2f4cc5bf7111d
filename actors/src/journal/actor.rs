//! The journal's actor: decides when the store's thread writes and drops old rows, and starts that thread anew when it
//! died.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::thread::{self, Hand, Job};
use super::{Ask, Dirty, Fared, Keep, OpenStore, WRITE_WITHIN};
use crate::clock::{Deadline, SharedClock};
use crate::event::{Event, EventKind, Severity};
use crate::outcome::Evidence;
use crate::ports::{ActorKind, Heartbeat, Pruned, Record, SetAside, SharedSink, StoreError, Table};
use crate::timer::Alarm;

/// The longest wait before a store that fails is tried again.
const TRY_WITHIN: Duration = Duration::from_secs(5);
/// How long a stop waits for the store.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// When old rows are dropped first: a clock that is wrong at the start is soon put right, and what was dropped by it would
/// be gone for good.
const FIRST_PRUNE: Duration = Duration::from_secs(15 * 60);
/// How often they are dropped from then on.
const PRUNE_EVERY: Duration = Duration::from_secs(24 * 3600);

/// What it is told.
pub enum Msg {
    /// There is something to write.
    Dirty,
    /// The time to write has come.
    Tick,
    /// Write now, and say how it went.
    Flush(Option<oneshot::Sender<Result<(), StoreError>>>),
    /// Read a table.
    Load(Table, oneshot::Sender<Result<Vec<Record>, StoreError>>),
    /// Ask the store something.
    Ask(Ask),
    /// A write of the thread is over.
    Wrote(Result<(), String>),
    /// The thread found a store that cannot be used, and began a new one.
    SetAside(SetAside),
    /// Some rows that were too old are gone.
    Pruned(Result<Pruned, StoreError>),
}

impl std::fmt::Debug for Msg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Dirty => "Dirty",
            Self::Tick => "Tick",
            Self::Flush(_) => "Flush",
            Self::Load(..) => "Load",
            Self::Ask(_) => "Ask",
            Self::Wrote(_) => "Wrote",
            Self::SetAside(_) => "SetAside",
            Self::Pruned(_) => "Pruned",
        })
    }
}

/// What it is made of.
pub struct Args {
    /// What is to be written.
    pub dirty: Arc<Dirty>,
    /// Opens the store.
    pub open: OpenStore,
    /// How long rows are kept.
    pub keep: Keep,
    /// Where events go.
    pub events: SharedSink,
    /// Tells the time.
    pub clock: SharedClock,
    /// Where its tasks run.
    pub tasks: TaskTracker,
    /// Whom to tell that it lives.
    pub heartbeat: Arc<dyn Heartbeat>,
}

/// The actor.
#[derive(Debug)]
pub struct JournalActor;

/// Its state.
pub struct State {
    args: Args,
    /// The store's thread, until the end.
    thread: Option<Hand>,
    alarm: Alarm,
    /// How long to wait before the store is tried again.
    pause: Duration,
    /// When old rows are dropped next. No timer is set for it: an idle daemon has nothing to do.
    prune_at: Deadline,
}

impl Actor for JournalActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, me: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let tell = move |aside| {
            let _ = me.cast(Msg::SetAside(aside));
        };
        let thread = thread::start(Arc::clone(&args.open), Arc::clone(&args.dirty), tell)?;
        let alarm = Alarm::new(SharedClock::clone(&args.clock), args.tasks.clone());
        let prune_at = Deadline::after(args.clock.now(), FIRST_PRUNE);
        Ok(State { args, thread: Some(thread), alarm, pause: WRITE_WITHIN, prune_at })
    }

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Dirty => state.write_within(WRITE_WITHIN, &me),
            Msg::Tick => {
                state.alarm.rang();
                state.write(&me, None)?;
            }
            Msg::Flush(reply) => state.write(&me, reply)?,
            Msg::Load(table, reply) => state.order(Job::Load(table, reply))?,
            Msg::Ask(ask) => state.order(Job::Ask(ask))?,
            Msg::Wrote(Ok(())) => state.wrote(&me)?,
            Msg::Wrote(Err(why)) => state.failed(why, &me),
            Msg::SetAside(aside) => state.tell_of(aside),
            Msg::Pruned(pruned) => state.pruned(pruned, &me)?,
        }
        state.args.heartbeat.beat(ActorKind::Journal);
        Ok(())
    }

    /// The store is closed before the program ends. A disk that hangs is not waited for.
    async fn post_stop(&self, _: ActorRef<Msg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        if let Some(thread) = state.thread.take() {
            let _ = tokio::time::timeout(CLOSE_WITHIN, thread.close()).await;
        }
        Ok(())
    }
}

impl State {
    fn write_within(&mut self, wait: Duration, me: &ActorRef<Msg>) {
        if !self.alarm.is_set() {
            let at = Deadline::after(self.args.clock.now(), wait);
            self.alarm.set(Some(at), me, || Msg::Tick);
        }
    }

    fn order(&self, job: Job) -> Result<(), StoreError> {
        let ordered = self.thread.as_ref().is_some_and(|thread| thread.order(job));
        if ordered { Ok(()) } else { Err(StoreError::Unavailable("its thread died".to_owned())) }
    }

    fn write(
        &mut self,
        me: &ActorRef<Msg>,
        asked: Option<oneshot::Sender<Result<(), StoreError>>>,
    ) -> Result<(), ActorProcessingErr> {
        let (reply, answer) = oneshot::channel();
        self.order(Job::Write(reply))?;
        let (me, dirty, clock) = (me.clone(), Arc::clone(&self.args.dirty), SharedClock::clone(&self.args.clock));
        dirty.vitals.began(clock.now());
        self.args.tasks.spawn(async move {
            let result = answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable("its thread died".to_owned())));
            dirty.vitals.ended(clock.now());
            let said = result.as_ref().copied().map_err(ToString::to_string);
            if let Some(asked) = asked {
                let _ = asked.send(result);
            }
            let _ = me.cast(Msg::Wrote(said));
        });
        Ok(())
    }

    fn wrote(&mut self, me: &ActorRef<Msg>) -> Result<(), StoreError> {
        let now = self.args.clock.now();
        self.pause = WRITE_WITHIN;
        if let Some(since) = self.args.dirty.vitals.works() {
            let failed_ms = u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
            self.tell(EventKind::StoreHealed { failed_ms }, Severity::Info);
        }
        if self.prune_at.is_due(now) {
            self.prune_at = Deadline::after(now, PRUNE_EVERY);
            self.prune(me)?;
        }
        Ok(())
    }

    fn failed(&mut self, why: String, me: &ActorRef<Msg>) {
        if self.args.dirty.vitals.fails(self.args.clock.now(), &why) {
            self.tell(EventKind::StoreFailing { why }, Severity::Error);
        } else {
            tracing::debug!(why, "the store still fails");
        }
        self.write_within(self.pause, me);
        self.pause = (self.pause * 2).min(TRY_WITHIN);
    }

    fn tell_of(&self, SetAside { kept_at, why }: SetAside) {
        self.tell(EventKind::StoreSetAside { kept_at, why }, Severity::Error);
    }

    fn tell(&self, kind: EventKind, severity: Severity) {
        let (ts, evidence) = (self.args.clock.now(), Evidence::default());
        self.args.events.emit(Event { seq: 0, ts, kind, severity, account: None, evidence });
    }

    /// Drops some old rows; what is to be written meanwhile comes between one step and the next.
    fn prune(&self, me: &ActorRef<Msg>) -> Result<(), StoreError> {
        let (keep, me) = (self.args.keep.at(self.args.clock.now()), me.clone());
        self.order(Job::Ask(Box::new(move |store| {
            let pruned = store.and_then(|store| store.prune(&keep));
            let fared = if pruned.is_ok() { Fared::Well } else { Fared::Ill };
            let _ = me.cast(Msg::Pruned(pruned));
            fared
        })))
    }

    fn pruned(&self, pruned: Result<Pruned, StoreError>, me: &ActorRef<Msg>) -> Result<(), StoreError> {
        match pruned {
            Ok(Pruned::Some) => self.prune(me),
            Ok(Pruned::All) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "old rows could not be dropped; that is tried again tomorrow");
                Ok(())
            }
        }
    }
}
