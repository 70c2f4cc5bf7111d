//! Other programs: where the command line tools of the families are found.
//!
//! Never here: what a run of one of them is for.

pub mod find;
