//! duduclaw: one address for every AI client, many accounts behind it.
//!
//! This crate is the edges: everything that touches the world. What is decided about health, routing and retry is
//! decided in `duduclaw-actors`. The map is in `docs/ARCHITECTURE.md`.

pub mod admin;
pub mod amend;
pub mod app;
pub mod channels;
pub mod cli;
pub mod config;
pub mod credentials;
pub mod doctor;
pub mod gateway;
mod imports;
pub mod metrics;
pub mod process;
pub mod sim;
pub mod store;
pub mod upstream;
