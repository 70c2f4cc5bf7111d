//! The feed's actor: takes events out of the inbox, one by one.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::task::TaskTracker;

use super::Shared;
use crate::clock::{Deadline, SharedClock};
use crate::inbox::{Front, Rest};
use crate::ports::{ActorKind, Heartbeat};
use crate::timer::Alarm;

/// What it is told.
#[derive(Debug)]
pub enum Msg {
    /// There is something in the inbox.
    Look,
    /// A login may have ended.
    Tick,
}

/// What it is made of.
pub struct Args {
    /// The part that outlives it.
    pub shared: Arc<Shared>,
    /// Tells the time.
    pub clock: SharedClock,
    /// Where its tasks run.
    pub tasks: TaskTracker,
    /// Whom to tell that it lives.
    pub heartbeat: Arc<dyn Heartbeat>,
}

/// Its state.
pub struct State {
    args: Args,
    alarm: Alarm,
}

/// The actor.
#[derive(Debug)]
pub struct FeedActor;

impl Actor for FeedActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let alarm = Alarm::new(SharedClock::clone(&args.clock), args.tasks.clone());
        Ok(State { args, alarm })
    }

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Look => state.args.drain(),
            Msg::Tick => {
                state.alarm.rang();
                state.args.look();
            }
        }
        state.alarm.set(state.args.next_deadline(), &me, || Msg::Tick);
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Msg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.args.drain();
        Ok(())
    }
}

impl Args {
    /// Nothing is published before it is known with which number to go on.
    fn drain(&self) {
        while self.shared.has_begun() {
            match self.shared.inbox.front() {
                Front::Item(seq, event) => {
                    self.shared.publish(seq, event, self.clock.now());
                    self.shared.inbox.done(seq);
                    self.heartbeat.beat(ActorKind::ActivityFeed);
                }
                Front::SetAside(seq) => tracing::error!(seq = seq.0, "an event that cannot be published was set aside"),
                Front::Empty if self.shared.inbox.rest() == Rest::Yes => return,
                Front::Empty => {}
            }
        }
    }

    fn look(&self) {
        if self.shared.has_begun() {
            self.shared.watchman.look(self.clock.now()).into_iter().for_each(|event| {
                self.shared.inbox.push(event);
            });
            self.drain();
        }
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.shared.watchman.next_deadline()
    }
}
