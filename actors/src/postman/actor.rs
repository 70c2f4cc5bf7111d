//! The shell around the outbox: carries what is due, on tasks of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::task::TaskTracker;

use super::{Courier, Failed, Outbox, Parcel, lock};
use crate::clock::SharedClock;
use crate::event::{Event, EventKind, Severity};
use crate::journal::Journal;
use crate::outcome::Evidence;
use crate::ports::{ActorKind, Heartbeat, SharedSink, Table};
use crate::roster::Target;
use crate::timer::Alarm;

/// How long a message waits to be kept.
const KEPT_WITHIN: Duration = Duration::from_secs(30);

/// What it is told.
#[derive(Debug)]
pub enum Msg {
    /// There may be something to carry.
    Look,
    /// The time for a further try may have come.
    Tick,
    /// What a delivery came to.
    Came(String, Result<(), String>),
}

/// What it is made of.
pub struct Args {
    /// The messages; they outlive it.
    pub outbox: Arc<Mutex<Outbox>>,
    /// Brings them.
    pub courier: Arc<dyn Courier>,
    /// Where they are kept.
    pub journal: Journal,
    /// Where events go.
    pub events: SharedSink,
    /// Tells the time.
    pub clock: SharedClock,
    /// Where deliveries run.
    pub tasks: TaskTracker,
    /// Whom to tell that it lives.
    pub heartbeat: Arc<dyn Heartbeat>,
}

/// The actor.
#[derive(Debug)]
pub struct PostmanActor;

/// Its state.
pub struct State {
    args: Args,
    alarm: Alarm,
}

impl Actor for PostmanActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        lock(&args.outbox).recall(args.clock.now());
        let alarm = Alarm::new(SharedClock::clone(&args.clock), args.tasks.clone());
        Ok(State { args, alarm })
    }

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Look => {}
            Msg::Tick => state.alarm.rang(),
            Msg::Came(id, Ok(())) => state.delivered(&id),
            Msg::Came(id, Err(why)) => state.failed(&id, why),
        }
        state.carry(&me);
        state.args.heartbeat.beat(ActorKind::Postman);
        Ok(())
    }
}

impl State {
    fn carry(&mut self, me: &ActorRef<Msg>) {
        let now = self.args.clock.now();
        let due = lock(&self.args.outbox).take_due(now);
        for parcel in due {
            let delivery = deliver(self.args.journal.clone(), Arc::clone(&self.args.courier), parcel);
            let me = me.clone();
            self.args.tasks.spawn(async move {
                let (id, came) = delivery.await;
                let _ = me.cast(Msg::Came(id, came));
            });
        }
        let next = lock(&self.args.outbox).next_deadline(now);
        self.alarm.set(next, me, || Msg::Tick);
    }

    fn delivered(&self, id: &str) {
        let late = lock(&self.args.outbox).delivered(id);
        self.args.journal.forget(Table::Outbox, id.to_owned());
        if let Some(Parcel { target: Target { channel, name: target }, .. }) = late {
            self.emit(EventKind::MessageArrived { message_id: id.into(), channel, target }, Severity::Info);
        }
    }

    fn failed(&self, id: &str, why: String) {
        let outcome = lock(&self.args.outbox).failed(id, self.args.clock.now());
        match outcome {
            Failed::Again => tracing::warn!(id, why, "a message could not be delivered; it is tried again"),
            Failed::Gone => {}
            Failed::First(Target { channel, name: target }) => {
                self.emit(EventKind::MessageDelayed { message_id: id.into(), channel, target, why }, Severity::Warning);
            }
            Failed::GivenUp(parcel) => {
                self.args.journal.forget(Table::Outbox, id.to_owned());
                let Target { channel, name: target } = parcel.target;
                self.emit(EventKind::MessageLost { message_id: id.into(), channel, target, why }, Severity::Error);
            }
        }
    }

    fn emit(&self, kind: EventKind, severity: Severity) {
        let (ts, evidence) = (self.args.clock.now(), Evidence::default());
        self.args.events.emit(Event { seq: 0, ts, kind, severity, account: None, evidence });
    }
}

/// A message is kept before it is carried; but it may be the disk that is ill, and then it is carried all the same.
async fn deliver(journal: Journal, courier: Arc<dyn Courier>, parcel: Parcel) -> (String, Result<(), String>) {
    let id = parcel.id.clone();
    match tokio::time::timeout(KEPT_WITHIN, journal.flush()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(id, %error, "a message is sent that could not be kept"),
        Err(_) => tracing::warn!(id, "a message is sent that is not kept yet"),
    }
    (id, courier.deliver(parcel).await)
}
