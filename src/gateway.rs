//! The gateway: one address for every AI client.

pub mod fields;
pub mod headers;
pub mod path;
pub mod splice;
