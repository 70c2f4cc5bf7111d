//! What each provider family's answers mean: pure functions over status, headers and bytes.
//!
//! Here a protocol's words become an [`Outcome`](crate::outcome::Outcome), a
//! [`QuotaReading`](crate::outcome::QuotaReading) and a [`Usage`](crate::outcome::Usage), and our own answers become that
//! protocol's words. Never here: what an account makes of it, or which account is asked next.

pub mod anthropic;
pub mod wait;
