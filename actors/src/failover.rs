//! Admission: which account a request may use now.
//!
//! [`Admission`] is the pure machine: it knows the roster, what each account last said of its health, the conversations
//! and the allowances, and turns a [`demand::Demand`] into a lease. The leases in flight stand in a [`LeaseBook`] that
//! outlives it, so that a restarted machine finds them again.
//!
//! Never here: sending, waiting, reading a clock, a credential.

pub mod admission;
mod allowance;
pub mod book;
pub mod conversations;
pub mod demand;
mod exhausted;
pub mod explain;
mod fault;
mod judgement;
mod placement;
mod plan;
mod probe;
mod provisional;
mod queue;
mod rank;
mod retry_budget;
pub mod snapshot;
mod view;

pub use admission::{Admission, Effect};
pub use book::{Flow, LeaseBook, LeaseGuard, LeaseRecord, Tally};
pub use conversations::record::{BindingRecord, ConversationRecord};
pub use explain::{Place, Ranked};
pub use rank::Band;
pub use snapshot::{AccountSnapshot, Snapshot};

#[cfg(test)]
mod tests;
