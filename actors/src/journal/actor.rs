//! The journal's actor: decides when the store's thread writes, and starts that thread anew when it died.

use std::sync::{Arc, mpsc};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::thread::{self, Job};
use super::{Ask, Dirty, OpenStore, WRITE_WITHIN};
use crate::clock::{Deadline, SharedClock};
use crate::ports::{ActorKind, Heartbeat, Record, StoreError, Table};
use crate::timer::Alarm;

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
        })
    }
}

/// What it is made of.
pub struct Args {
    /// What is to be written.
    pub dirty: Arc<Dirty>,
    /// Opens the store.
    pub open: OpenStore,
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
    jobs: mpsc::Sender<Job>,
    alarm: Alarm,
}

impl Actor for JournalActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let jobs = thread::start(Arc::clone(&args.open), Arc::clone(&args.dirty))?;
        let alarm = Alarm::new(SharedClock::clone(&args.clock), args.tasks.clone());
        Ok(State { args, jobs, alarm })
    }

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Dirty => state.write_soon(&me),
            Msg::Tick => {
                state.alarm.rang();
                state.write(&me, None)?;
            }
            Msg::Flush(reply) => state.write(&me, reply)?,
            Msg::Load(table, reply) => state.order(Job::Load(table, reply))?,
            Msg::Ask(ask) => state.order(Job::Ask(ask))?,
            Msg::Wrote(Ok(())) => {}
            Msg::Wrote(Err(why)) => {
                tracing::error!(%why, "the store could not be written; what was to be kept stays in memory");
                state.write_soon(&me);
            }
        }
        state.args.heartbeat.beat(ActorKind::Journal);
        Ok(())
    }
}

impl State {
    fn write_soon(&mut self, me: &ActorRef<Msg>) {
        let at = Deadline::after(self.args.clock.now(), WRITE_WITHIN);
        self.alarm.set(Some(at), me, || Msg::Tick);
    }

    fn order(&self, job: Job) -> Result<(), StoreError> {
        self.jobs.send(job).map_err(|_| StoreError::Unavailable("its thread died".to_owned()))
    }

    fn write(
        &mut self,
        me: &ActorRef<Msg>,
        asked: Option<oneshot::Sender<Result<(), StoreError>>>,
    ) -> Result<(), ActorProcessingErr> {
        let (reply, answer) = oneshot::channel();
        self.order(Job::Write(reply))?;
        let me = me.clone();
        self.args.tasks.spawn(async move {
            let result = answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable("its thread died".to_owned())));
            let said = result.as_ref().copied().map_err(ToString::to_string);
            if let Some(asked) = asked {
                let _ = asked.send(result);
            }
            let _ = me.cast(Msg::Wrote(said));
        });
        Ok(())
    }
}
