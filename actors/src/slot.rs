//! Where an actor is to be found, whichever incarnation of it lives just now.
//!
//! The supervisor holds the [`Slot`] and puts each new incarnation into it; everybody else holds a [`Handle`]. There
//! are no global names, so that fleets in one process never meet.

use ractor::{ActorId, ActorRef, Message};
use tokio::sync::watch;

/// The supervisor's end.
#[derive(Debug)]
pub struct Slot<M: Message> {
    current: watch::Sender<Place<M>>,
}

/// Everybody else's end.
#[derive(Debug)]
pub struct Handle<M: Message> {
    current: watch::Receiver<Place<M>>,
}

/// Who is there.
#[derive(Debug)]
enum Place<M: Message> {
    /// Nobody yet.
    Vacant,
    /// This incarnation; it may be dead by now.
    Taken(ActorRef<M>),
    /// Nobody, and nobody will come.
    Closed,
}

/// Whether a message found someone. Taken is not handled: an actor may die with messages in its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in a living actor's mailbox.
    Taken,
    /// No incarnation lives just now.
    NobodyThere,
}

/// Whether there is someone new to speak to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// Another incarnation is there.
    Came,
    /// Nobody will come any more.
    Never,
}

impl<M: Message> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { current: self.current.clone() }
    }
}

impl<M: Message> Default for Slot<M> {
    fn default() -> Self {
        Self { current: watch::Sender::new(Place::Vacant) }
    }
}

impl<M: Message> Slot<M> {
    /// A handle on whoever is in the slot, now and later.
    #[must_use]
    pub fn handle(&self) -> Handle<M> {
        Handle { current: self.current.subscribe() }
    }

    /// Puts a new incarnation in and tells it `first`.
    ///
    /// Until this moment others spoke to its dead predecessor, also while it was being made: `first` must make it look
    /// at whatever it may have missed.
    pub fn fill(&self, actor: ActorRef<M>, first: M) {
        self.current.send_replace(Place::Taken(actor.clone()));
        // If it died already, its successor will be told.
        let _ = actor.cast(first);
    }

    /// Says that nobody is there and nobody will be.
    pub fn close(&self) {
        self.current.send_replace(Place::Closed);
    }
}

impl<M: Message> Place<M> {
    fn actor(&self) -> Option<&ActorRef<M>> {
        match self {
            Self::Taken(actor) => Some(actor),
            Self::Vacant | Self::Closed => None,
        }
    }

    fn id(&self) -> Option<ActorId> {
        self.actor().map(|actor| actor.get_id())
    }
}

impl<M: Message> Handle<M> {
    /// Sends a message to the present incarnation.
    pub fn cast(&self, message: M) -> Delivery {
        let current = self.current.borrow().actor().cloned();
        let taken = current.is_some_and(|actor| actor.cast(message).is_ok());
        if taken { Delivery::Taken } else { Delivery::NobodyThere }
    }

    /// The number of the present incarnation, to tell a later one by.
    #[must_use]
    pub fn incarnation(&self) -> Option<ActorId> {
        self.current.borrow().id()
    }

    /// Waits until an incarnation other than `seen` is there, or it is certain that none will be.
    pub async fn next_incarnation(&self, seen: Option<ActorId>) -> Successor {
        let mut current = self.current.clone();
        let other = |place: &Place<M>| place.actor().is_some_and(|actor| Some(actor.get_id()) != seen);
        match current.wait_for(|place| matches!(place, Place::Closed) || other(place)).await {
            Ok(place) if place.actor().is_some() => Successor::Came,
            Ok(_) | Err(_) => Successor::Never,
        }
    }
}
