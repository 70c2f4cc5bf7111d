//! Admission: which account a request may use now.
//!
//! [`Admission`] is the pure machine: it knows the roster, what each account last said of its health, the conversations
//! and the allowances, and turns a [`demand::Demand`] into a lease. The leases in flight stand in a [`LeaseBook`] that
//! outlives it, with the [`ledger`] of what was spent and what is set aside, so that a restarted machine finds them again.
//!
//! The FailoverManager is the actor around it; everybody else holds a [`FailoverHandle`].
//!
//! Never here: sending, waiting, reading a clock, a credential.

pub mod actor;
pub mod admission;
mod allowance;
pub mod asker;
pub mod book;
pub mod conversations;
pub mod demand;
mod exhausted;
pub mod explain;
mod fault;
mod judgement;
pub mod ledger;
mod placement;
mod plan;
mod probe;
mod provisional;
mod queue;
mod rank;
mod retry_budget;
pub mod snapshot;
mod view;
mod views;

pub use admission::{Admission, Effect};
pub use book::{Flow, LeaseBook, LeaseGuard, LeaseRecord, Tally};
pub use conversations::record::{BindingRecord, ConversationRecord};
pub use explain::{Place, Ranked};
pub use rank::Band;
pub use snapshot::{AccountSnapshot, ConversationSnapshot, HomeSnapshot, Snapshot};

use self::demand::{Demand, Exhausted, Grant, NotBefore};
use crate::failover::actor::Msg;
use crate::failover::asker::Asker;
use crate::id::AccountId;
use crate::slot::{Delivery, Handle, Successor};
use crate::standing::Standing;

#[cfg(test)]
mod tests;

/// How many incarnations a question may kill before it is given up.
const DEADLY: u32 = 2;

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

    /// Asks for a lease; its successor if the FailoverManager dies meanwhile.
    ///
    /// # Errors
    /// When it dies over this very demand again and again, or the fleet has stopped.
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

    /// The conversations that were used last, the latest first: at most so many, and of one account, if one is named.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn conversations(
        &self,
        most: usize,
        of: Option<AccountId>,
    ) -> Result<Vec<ConversationSnapshot>, Unanswered> {
        self.ask(|reply| Msg::Conversations(most, of, reply)).await
    }

    /// Takes in conversations that were kept; those that are known already stay as they are.
    pub(crate) fn recall(&self, conversations: Vec<ConversationRecord>) {
        self.actor.cast(Msg::Recall(conversations));
    }

    /// Tells an account's standing. A successor reads all standings by itself.
    pub fn learn(&self, standing: Standing) {
        self.actor.cast(Msg::Learn(Box::new(standing)));
    }

    /// Asks again when the FailoverManager dies, however often, unless it dies over this very question.
    async fn ask<T>(&self, message: impl Fn(Asker<T>) -> Msg) -> Result<T, Unanswered> {
        let mut deadly = 0;
        while deadly < DEADLY {
            let seen = self.actor.incarnation();
            let (asker, answer, fate) = Asker::new();
            if self.actor.cast(message(asker)) == Delivery::Taken
                && let Ok(answer) = answer.await
            {
                return Ok(answer);
            }
            deadly += u32::from(fate.was_deadly());
            if self.actor.next_incarnation(seen).await == Successor::Never {
                return Err(Unanswered);
            }
        }
        Err(Unanswered)
    }
}
