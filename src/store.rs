//! What the fleet remembers: a database file in the home directory, or one in memory.
//!
//! Never here: rules about what is kept, and when it is written; that is the journal's.

mod aside;
mod file;
mod look;
mod memory;
mod sqlite;

pub use aside::aside;
pub use file::{Handover, StoreFile};
pub use look::{LookError, examine, look};
pub use memory::in_memory;
