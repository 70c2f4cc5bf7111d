//! What the fleet remembers.

pub mod memory;
