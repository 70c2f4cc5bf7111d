//! The gateway: one address for every AI client.
//!
//! A request comes in by the [`listener`], is admitted by the [`service`], and walks its chain of upstreams in the
//! [`exchange`], attempt by attempt. What the provider answers goes back by the [`relay`], byte for byte. Never here: a
//! decision about health, routing or retry; those are made in `duduclaw-actors`.

pub mod access;
pub mod answer;
pub mod arrival;
mod attempt;
mod bill;
pub mod body;
pub mod bounds;
mod chain;
pub mod control;
pub mod conversation;
pub mod count;
pub mod end;
pub mod error;
pub mod exchange;
pub mod fields;
mod final_answer;
pub mod headers;
pub mod hold;
mod inbound;
pub mod kind;
pub mod listener;
pub mod live;
pub mod meter;
mod outgoing;
mod over_budget;
pub mod path;
mod pool_quota;
mod pool_usage;
pub mod reading;
pub(crate) mod reason;
pub mod relay;
pub mod rename;
pub mod service;
mod spending;
pub mod splice;
pub mod ticket;
mod waiting;
pub mod watch;
