//! The brain of duduclaw: every decision about health, admission and supervision.
//!
//! Pure machines decide: they take an event and `now`, and return effects as values. Thin ractor shells act. Nothing
//! here touches the world: no HTTP, no files, no environment, no terminal. See `docs/ARCHITECTURE.md`.

pub mod account;
pub mod activity;
pub mod billing;
pub mod clock;
pub mod efficiency;
pub mod event;
pub mod failover;
pub mod id;
pub mod inbox;
pub mod journal;
pub mod money;
mod nursery;
pub mod outcome;
pub mod ports;
pub mod postman;
pub mod price;
pub mod provider;
pub mod restart;
pub mod root;
pub mod roster;
pub mod rows;
pub mod slot;
pub mod standing;
pub mod till;
pub mod timer;
