//! The `duduclaw` program.

fn main() {}
