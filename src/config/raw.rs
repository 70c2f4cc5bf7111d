//! The configuration as it is written: every key, none of its meaning.
//!
//! Each struct is one table; a key that is not here is an error. All is optional, so that one missing key hides no
//! other problem; what must be there is said by `check`. No defaults here either.

mod fleet;
mod rest;
mod server;
mod values;

use serde::Deserialize;

pub(crate) use fleet::{
    RawAccount, RawAuth, RawModel, RawProvider, RawRoute, RawRoutePrefix, RawScopeItem, RawUpstream,
};
pub(crate) use rest::{
    RawBilling, RawChannels, RawDispatch, RawLocalModel, RawLog, RawNotify, RawPrice, RawRouter, RawRuntime,
    RawSecrets, RawStep, RawStore, RawWebhook,
};
pub(crate) use server::{RawAdmin, RawAuthGate, RawClient, RawLimits, RawPool, RawServer, RawTimeouts};
pub(crate) use values::{OneOrMany, Seconds, Span};

use duduclaw_actors::roster::Strategy;

use crate::config::document::{At, Ordered};

/// A key that may be left out.
pub(crate) type Key<T> = Option<At<T>>;

/// The whole file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    pub(crate) server: Key<RawServer>,
    pub(crate) rotation: Key<RawRotation>,
    pub(crate) billing: Key<RawBilling>,
    pub(crate) providers: Key<Ordered<RawProvider>>,
    pub(crate) upstreams: Key<Vec<At<RawUpstream>>>,
    pub(crate) models: Key<Vec<At<RawModel>>>,
    pub(crate) routes: Key<Vec<At<RawRoute>>>,
    pub(crate) route_prefixes: Key<Vec<At<RawRoutePrefix>>>,
    pub(crate) prices: Key<Vec<At<RawPrice>>>,
    pub(crate) router: Key<RawRouter>,
    pub(crate) secrets: Key<RawSecrets>,
    pub(crate) store: Key<RawStore>,
    pub(crate) dispatch: Key<RawDispatch>,
    pub(crate) runtimes: Key<Ordered<RawRuntime>>,
    pub(crate) notify: Key<RawNotify>,
    pub(crate) channels: Key<RawChannels>,
    pub(crate) log: Key<RawLog>,
}

/// `[rotation]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRotation {
    pub(crate) strategy: Key<Strategy>,
    pub(crate) session_affinity: Key<bool>,
    pub(crate) cooldown_seconds: Key<Seconds>,
    pub(crate) health_interval_seconds: Key<Seconds>,
}
