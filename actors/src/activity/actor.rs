//! The feed's actor: takes events out of the inbox, one by one.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::Shared;
use crate::inbox::{Front, Rest};
use crate::ports::{ActorKind, Heartbeat};

/// What it is told.
#[derive(Debug)]
pub enum Msg {
    /// There is something in the inbox.
    Look,
}

/// What it is made of.
pub struct Args {
    /// The part that outlives it.
    pub shared: Arc<Shared>,
    /// Whom to tell that it lives.
    pub heartbeat: Arc<dyn Heartbeat>,
}

/// The actor.
#[derive(Debug)]
pub struct FeedActor;

impl Actor for FeedActor {
    type Msg = Msg;
    type State = Args;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<Args, ActorProcessingErr> {
        Ok(args)
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, state: &mut Args) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Look => state.drain(),
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Msg>, state: &mut Args) -> Result<(), ActorProcessingErr> {
        state.drain();
        Ok(())
    }
}

impl Args {
    fn drain(&self) {
        loop {
            match self.shared.inbox.front() {
                Front::Item(seq, event) => {
                    self.shared.publish(seq, event);
                    self.shared.inbox.done(seq);
                    self.heartbeat.beat(ActorKind::ActivityFeed);
                }
                Front::SetAside(seq) => tracing::error!(seq = seq.0, "an event that cannot be published was set aside"),
                Front::Empty if self.shared.inbox.rest() == Rest::Yes => return,
                Front::Empty => {}
            }
        }
    }
}
