//! The Messages API of Anthropic: what its answers mean, and how to speak like it.
//!
//! - [`classify`]: status, headers and first event become an [`Outcome`](crate::outcome::Outcome).
//! - [`quota`]: the `anthropic-ratelimit-unified-*` headers, read and written.
//! - [`error`]: the protocol's error types, and what an error body says.
//! - [`body`]: error bodies and stream frames of our own.
//! - [`event`]: which event of a stream is which.
//! - [`usage`]: the tokens that pass by.
//! - [`usage_page`]: how full a login's windows are, by its own page.

pub mod body;
pub mod classify;
pub mod error;
pub mod event;
pub mod quota;
pub mod usage;
pub mod usage_page;
