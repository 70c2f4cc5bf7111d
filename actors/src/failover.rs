//! Admission: which account a request may use now, and the FailoverManager that owns the answer.

pub mod actor;
pub mod demand;

use tokio::sync::oneshot;

use crate::slot::{Delivery, Handle};
use crate::standing::Standing;
use actor::Msg;
use admission::Snapshot;
use book::LeaseGuard;
use demand::{Demand, Exhausted, Grant, NotBefore};
use explain::Ranked;

/// What a demand comes to. A granted lease is returned when its guard is dropped, wherever that happens.
#[derive(Debug)]
pub enum Leased {
    /// Go ahead.
    Granted(Grant, LeaseGuard),
    /// The conversation's account takes a breather.
    NotBefore(NotBefore),
    /// Nothing can serve.
    Exhausted(Exhausted),
}

/// The FailoverManager did not answer, nor did its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("admission is being started again")]
pub struct Unanswered;

/// The FailoverManager as everybody sees it.
#[derive(Clone, Debug)]
pub struct FailoverHandle {
    actor: Handle<Msg>,
}

impl FailoverHandle {
    /// The handle on whichever incarnation lives.
    #[must_use]
    pub fn new(actor: Handle<Msg>) -> Self {
        Self { actor }
    }

    /// Asks for a lease; once more if the FailoverManager died over it.
    ///
    /// # Errors
    /// When its successor did not answer either.
    pub async fn lease(&self, demand: Demand) -> Result<Leased, Unanswered> {
        self.ask(|reply| Msg::Lease(Box::new(demand.clone()), reply)).await
    }

    /// The whole order in which accounts would be tried.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn explain(&self, demand: Demand) -> Result<Vec<Ranked>, Unanswered> {
        self.ask(|reply| Msg::Explain(Box::new(demand.clone()), reply)).await
    }

    /// What is going on.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn snapshot(&self) -> Result<Snapshot, Unanswered> {
        self.ask(Msg::Snapshot).await
    }

    /// Tells an account's standing. A successor reads all standings by itself.
    pub fn learn(&self, standing: Standing) {
        self.actor.cast(Msg::Learn(Box::new(standing)));
    }

    async fn ask<T>(&self, message: impl Fn(oneshot::Sender<T>) -> Msg) -> Result<T, Unanswered> {
        for _ in 0..2 {
            let seen = self.actor.incarnation();
            let (reply, answer) = oneshot::channel();
            if self.actor.cast(message(reply)) == Delivery::Taken
                && let Ok(answer) = answer.await
            {
                return Ok(answer);
            }
            if !self.actor.next_incarnation(seen).await {
                return Err(Unanswered);
            }
        }
        Err(Unanswered)
    }
}
