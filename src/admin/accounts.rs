//! Accounts one by one: a list of them, and what an operator does to one.

mod act;
pub(super) mod add;
mod amend;
mod cure;
mod list;
mod probe;
pub(super) mod saved;

pub(super) use act::{clear, pause, resume};
pub(super) use add::{add, replace};
pub use amend::RemovedAnswer;
pub(super) use amend::{disable, enable, priority, remove};
pub(super) use list::list;
pub use list::{AccountAnswer, AccountsView, ListedAccount};
pub(super) use probe::probe;
pub use probe::{ProbeAnswer, ProbeVerdict};
pub use saved::{SavedAnswer, SavedCheck, strategy_notes};
