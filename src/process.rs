//! Other programs: where the command line tools of the families are found, and what they say of their own logins.
//!
//! Never here: what a run of one of them is for.

pub(crate) mod brief;
pub mod find;
pub mod status;
