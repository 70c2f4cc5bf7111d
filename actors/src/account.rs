//! One account: its health, and the actor that alone owns it.

pub mod quota;
