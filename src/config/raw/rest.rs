//! Everything beside the server and the fleet.

use duduclaw_actors::id::Family;
use serde::Deserialize;

use super::{Key, Span};
use crate::config::document::{At, Ordered};
use crate::config::settings::LogFormat;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBilling {
    pub(crate) timezone: Key<String>,
    pub(crate) cycle_day: Key<u32>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrice {
    pub(crate) family: Key<Family>,
    pub(crate) model: Key<String>,
    pub(crate) input: Key<f64>,
    pub(crate) output: Key<f64>,
    pub(crate) cache_read: Key<f64>,
    pub(crate) cache_write_5m: Key<f64>,
    pub(crate) cache_write_1h: Key<f64>,
    pub(crate) long_context: Key<Vec<At<RawStep>>>,
    #[cfg_attr(not(test), expect(dead_code, reason = "for whoever reads the list"))]
    pub(crate) source: Key<String>,
    #[cfg_attr(not(test), expect(dead_code, reason = "for whoever reads the list"))]
    pub(crate) date: Key<String>,
    #[expect(dead_code, reason = "for whoever reads the list")]
    pub(crate) note: Key<String>,
}

/// Other prices for long prompts.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawStep {
    pub(crate) above: Key<u64>,
    pub(crate) input: Key<f64>,
    pub(crate) output: Key<f64>,
    pub(crate) cache_read: Key<f64>,
    pub(crate) cache_write_5m: Key<f64>,
    pub(crate) cache_write_1h: Key<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRouter {
    pub(crate) high: Key<f64>,
    pub(crate) low: Key<f64>,
    pub(crate) local_fast: Key<RawLocalModel>,
    pub(crate) local_strong: Key<RawLocalModel>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLocalModel {
    pub(crate) provider: Key<String>,
    pub(crate) model: Key<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSecrets {
    pub(crate) seal: Key<bool>,
    pub(crate) key_file: Key<String>,
    pub(crate) accounts_dir: Key<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawStore {
    pub(crate) url: Key<String>,
    pub(crate) retention_days: Key<u32>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawDispatch {
    pub(crate) max_parallel: Key<u32>,
    pub(crate) timeout: Key<Span>,
    pub(crate) pass_env: Key<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRuntime {
    pub(crate) path: Key<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNotify {
    pub(crate) channel: Key<String>,
    pub(crate) target: Key<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawChannels {
    pub(crate) webhook: Key<Ordered<RawWebhook>>,
    pub(crate) telegram: Key<RawTelegram>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawWebhook {
    pub(crate) url_env: Key<String>,
    pub(crate) secret_env: Key<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTelegram {
    pub(crate) token_env: Key<String>,
    pub(crate) agent: Key<String>,
    pub(crate) allow: Key<Vec<i64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLog {
    pub(crate) level: Key<String>,
    pub(crate) format: Key<LogFormat>,
}
