//! The gateway: one address for every AI client.
