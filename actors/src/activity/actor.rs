//! The feed's actor: takes events out of the inbox, one by one.
//!
//! Every request makes events, and nobody waits for them. So after it has found some the actor looks again a moment later
//! by itself, and a busy gateway wakes it now and then, not for each event.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::Shared;
use crate::inbox::{Front, Rest};
use crate::ports::{ActorKind, Heartbeat};

/// How long it lets events gather while they come.
const GATHER: Duration = Duration::from_millis(5);

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

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut Args) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Look => state.look(&me),
        }
        Ok(())
    }

    /// What has gathered when it stops is not lost.
    async fn post_stop(&self, _: ActorRef<Msg>, state: &mut Args) -> Result<(), ActorProcessingErr> {
        state.drain();
        Ok(())
    }
}

impl Args {
    fn look(&self, me: &ActorRef<Msg>) {
        if self.drain() == Found::Something || self.shared.inbox.rest() == Rest::No {
            me.send_after(GATHER, || Msg::Look);
        }
    }

    fn drain(&self) -> Found {
        let mut found = Found::Nothing;
        loop {
            match self.shared.inbox.front() {
                Front::Item(seq, event) => {
                    self.shared.publish(seq, event);
                    self.shared.inbox.done(seq);
                    self.heartbeat.beat(ActorKind::ActivityFeed);
                    found = Found::Something;
                }
                Front::SetAside(seq) => tracing::error!(seq = seq.0, "an event that cannot be published was set aside"),
                Front::Empty => return found,
            }
        }
    }
}

/// Whether there was anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Something,
    Nothing,
}
