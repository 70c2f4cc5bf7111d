//! The way to a provider: the HTTP client and the reading of event streams.

pub mod client;
pub mod coding;
pub mod first_event;
pub mod question;
pub mod sse;
pub mod tee;
