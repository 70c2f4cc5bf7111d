//! Accounts one by one: a list of them, and what an operator does to one.

mod act;
mod list;

pub(super) use act::{clear, pause, resume};
pub(super) use list::list;
pub use list::{AccountAnswer, AccountsView, ListedAccount};
