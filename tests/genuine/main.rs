//! The genuine clients: Claude Code in two versions, the Anthropic Python SDK, curl and Schemathesis, each a process of
//! its own, in front of the built `duduclaw serve` and a simulated provider.
//!
//! `tests/run` installs the clients and runs these tests with all others; a plain `cargo test` leaves them out, since
//! it installs nothing. Each test has a gateway, a provider, a home and ports of its own. Nothing here needs a
//! credential, or a network beyond loopback.

#![expect(unreachable_pub, reason = "one binary: nothing of it can be reached from elsewhere")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod api;
mod claude;
mod curl;
mod detour;
mod installed;
mod kin;
mod sdk;
mod shared;
mod stage;
mod start;
mod story;
mod turns;
