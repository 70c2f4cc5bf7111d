//! The shell around one account's health: takes events from the inbox, applies them, performs the effects.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::account::cell::{AccountCell, Taken};
use crate::account::health::{Effect, Snapshot};
use crate::clock::{Deadline, SharedClock};
use crate::event::Event;
use crate::failover::FailoverHandle;
use crate::inbox::Front;
use crate::journal::Journal;
use crate::ports::{ActorKind, Heartbeat, SharedSink, Table};
use crate::timer::Alarm;

/// How long a change of health may wait to be written down, so that a busy account writes once for many.
const KEEP_WITHIN: Duration = Duration::from_millis(250);

/// What an account is told.
#[derive(Debug)]
pub enum Msg {
    /// There is something in the inbox.
    Look,
    /// A deadline may have come.
    Tick,
    /// The time to write its health down has come.
    Keep,
    /// Someone waits until all that was told before is taken in and to be written down.
    Settle(oneshot::Sender<()>),
}

/// What it is made of.
#[derive(Clone)]
pub struct Args {
    /// Its lasting part.
    pub cell: Arc<AccountCell>,
    /// Whom to tell of its standing.
    pub failover: FailoverHandle,
    /// Where its health is kept.
    pub journal: Journal,
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
pub struct AccountActor;

/// Its state.
pub struct State {
    args: Args,
    alarm: Alarm,
    keeping: Alarm,
}

impl Actor for AccountActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, me: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let alarm = Alarm::new(SharedClock::clone(&args.clock), args.tasks.clone());
        let keeping = Alarm::new(SharedClock::clone(&args.clock), args.tasks.clone());
        let mut state = State { args, alarm, keeping };
        state.publish();
        state.keep_soon(&me);
        Ok(state)
    }

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Look => {}
            Msg::Tick => {
                state.alarm.rang();
                state.tick();
            }
            Msg::Keep => {
                state.keeping.rang();
                state.keep();
            }
            Msg::Settle(reply) => {
                state.drain(&me);
                state.keep();
                let _ = reply.send(());
            }
        }
        state.drain(&me);
        state.set_alarm(&me);
        state.args.heartbeat.beat(ActorKind::Account);
        Ok(())
    }

    /// What was told until now counts, and is written down at once: nobody will be there to do it later.
    async fn post_stop(&self, me: ActorRef<Msg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.drain(&me);
        state.keep();
        Ok(())
    }
}

impl State {
    /// Admission is told once for all that was waiting, whether or not it changed anything: it waits to hear that its
    /// own provisional view of the evidence may end.
    fn drain(&mut self, me: &ActorRef<Msg>) {
        let mut applied = false;
        loop {
            match self.args.cell.take_in(self.args.clock.now()) {
                Taken::In => applied = true,
                Taken::SetAside(seq) => {
                    tracing::error!(account = %self.args.cell.entry(), seq = seq.0, "evidence that cannot be applied was set aside");
                }
                Taken::Nothing => break,
            }
        }
        if applied {
            self.publish();
        }
        self.perform(me);
    }

    fn tick(&mut self) {
        self.args.cell.tick(self.args.clock.now());
        self.publish();
    }

    /// Performs what is to be done about applied events; also what a predecessor died before doing.
    fn perform(&mut self, me: &ActorRef<Msg>) {
        loop {
            match self.args.cell.effects.front() {
                Front::Item(seq, effect) => {
                    self.perform_one(effect, me);
                    self.args.cell.effects.done(seq);
                }
                Front::SetAside(_) => {
                    tracing::error!(account = %self.args.cell.entry(), "what was to be done about an event cannot be done");
                }
                Front::Empty => break,
            }
        }
    }

    fn perform_one(&mut self, effect: Effect, me: &ActorRef<Msg>) {
        match effect {
            Effect::Publish => {}
            Effect::Persist => self.keep_soon(me),
            Effect::Emit { kind, severity, evidence } => self.args.events.emit(Event {
                seq: 0,
                ts: self.args.clock.now(),
                kind,
                severity,
                account: Some(self.args.cell.entry()),
                evidence,
            }),
        }
    }

    fn publish(&self) {
        self.args.failover.learn(self.args.cell.publish(self.args.clock.now()));
    }

    fn keep_soon(&mut self, me: &ActorRef<Msg>) {
        if self.keeping.is_set() {
            return;
        }
        let at = Deadline::after(self.args.clock.now(), KEEP_WITHIN);
        self.keeping.set(Some(at), me, || Msg::Keep);
    }

    fn keep(&self) {
        let health = self.args.cell.committed().health;
        match serde_json::to_vec(&Snapshot::take(&health, self.args.clock.now())) {
            Ok(value) => self.args.journal.remember(Table::Health, self.args.cell.key(), Snapshot::VERSION, value),
            Err(error) => tracing::error!(%error, "an account's health cannot be written down"),
        }
    }

    fn set_alarm(&mut self, me: &ActorRef<Msg>) {
        let next = self.args.cell.next_deadline(self.args.clock.now());
        self.alarm.set(next, me, || Msg::Tick);
    }
}
