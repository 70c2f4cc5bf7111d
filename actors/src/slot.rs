//! Where an actor is to be found, whichever incarnation of it lives just now.
//!
//! The supervisor holds the [`Slot`] and puts each new incarnation into it; everybody else holds a [`Handle`]. There
//! are no global names, so that fleets in one process never meet.

use ractor::{ActorRef, Message};
use tokio::sync::watch;

/// The supervisor's end.
#[derive(Debug)]
pub struct Slot<M: Message> {
    current: watch::Sender<Option<ActorRef<M>>>,
}

/// Everybody else's end.
#[derive(Debug)]
pub struct Handle<M: Message> {
    current: watch::Receiver<Option<ActorRef<M>>>,
}

/// Whether a message found someone. Taken is not handled: an actor may die with messages in its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in a living actor's mailbox.
    Taken,
    /// No incarnation lives just now.
    NobodyThere,
}

impl<M: Message> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { current: self.current.clone() }
    }
}

impl<M: Message> Default for Slot<M> {
    fn default() -> Self {
        Self { current: watch::Sender::new(None) }
    }
}

impl<M: Message> Slot<M> {
    /// A handle on whoever is in the slot, now and later.
    #[must_use]
    pub fn handle(&self) -> Handle<M> {
        Handle { current: self.current.subscribe() }
    }

    /// Puts a new incarnation in.
    pub fn fill(&self, actor: ActorRef<M>) {
        self.current.send_replace(Some(actor));
    }

    /// Says that nobody is there and nobody will be.
    pub fn empty(&self) {
        self.current.send_replace(None);
    }

    /// Whether this is the incarnation in the slot.
    #[must_use]
    pub fn holds(&self, id: ractor::ActorId) -> bool {
        self.current.borrow().as_ref().is_some_and(|actor| actor.get_id() == id)
    }
}

impl<M: Message> Handle<M> {
    /// Sends a message to the present incarnation.
    pub fn cast(&self, message: M) -> Delivery {
        let current = self.current.borrow().clone();
        let taken = current.is_some_and(|actor| actor.cast(message).is_ok());
        if taken { Delivery::Taken } else { Delivery::NobodyThere }
    }

    /// The number of the present incarnation, to tell a later one by.
    #[must_use]
    pub fn incarnation(&self) -> Option<ractor::ActorId> {
        self.current.borrow().as_ref().map(|actor| actor.get_id())
    }

    /// Waits until an incarnation other than `seen` is there; `false` when the slot is gone for good.
    pub async fn next_incarnation(&self, seen: Option<ractor::ActorId>) -> bool {
        let mut current = self.current.clone();
        let found = current.wait_for(|actor| actor.as_ref().is_some_and(|a| Some(a.get_id()) != seen)).await;
        found.is_ok()
    }
}
