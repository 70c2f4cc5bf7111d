//! `[server]` and its tables.

use serde::Deserialize;

use super::{Key, OneOrMany, Seconds, Span};
use crate::config::document::At;
use crate::config::settings::QuotaHeaders;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawServer {
    pub(crate) bind: Key<OneOrMany>,
    pub(crate) default_provider: Key<String>,
    pub(crate) max_concurrent_requests: Key<u32>,
    pub(crate) shutdown_timeout_seconds: Key<Seconds>,
    pub(crate) sse_keepalive_seconds: Key<Seconds>,
    pub(crate) expose_accounts: Key<bool>,
    pub(crate) account_header: Key<String>,
    pub(crate) hosts: Key<Vec<String>>,
    pub(crate) quota_headers: Key<QuotaHeaders>,
    pub(crate) limits: Key<RawLimits>,
    pub(crate) timeouts: Key<RawTimeouts>,
    pub(crate) auth: Key<RawAuthGate>,
    pub(crate) admin: Key<RawAdmin>,
    pub(crate) pool: Key<RawPool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLimits {
    pub(crate) max_request_bytes: Key<u64>,
    pub(crate) max_request_header_bytes: Key<u64>,
    pub(crate) max_url_length: Key<u64>,
    pub(crate) max_buffered_bytes: Key<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTimeouts {
    pub(crate) upstream_connect: Key<Span>,
    pub(crate) upstream_ttfb: Key<Span>,
    pub(crate) upstream_ttfb_nonstream: Key<Span>,
    pub(crate) stream_idle: Key<Span>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawAuthGate {
    pub(crate) header: Key<String>,
    pub(crate) tokens_env: Key<String>,
    pub(crate) clients: Key<Vec<At<RawClient>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawClient {
    pub(crate) name: Key<String>,
    pub(crate) token_sha256: Key<String>,
    pub(crate) token_env: Key<String>,
    pub(crate) token_file: Key<String>,
    pub(crate) models: Key<Vec<String>>,
    pub(crate) providers: Key<Vec<String>>,
    pub(crate) max_concurrent_requests: Key<u32>,
    pub(crate) monthly_budget_usd: Key<f64>,
    pub(crate) monthly_requests: Key<u64>,
    pub(crate) passthrough: Key<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawAdmin {
    pub(crate) tokens_env: Key<String>,
    pub(crate) read_tokens_env: Key<String>,
    pub(crate) session_ttl_seconds: Key<Seconds>,
    pub(crate) bind: Key<OneOrMany>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPool {
    pub(crate) hard_threshold: Key<f64>,
    pub(crate) default_threshold: Key<f64>,
    pub(crate) default_threshold_5h: Key<f64>,
    pub(crate) default_threshold_7d: Key<f64>,
    pub(crate) default_threshold_fable: Key<f64>,
    pub(crate) default_max_utilization: Key<f64>,
    pub(crate) default_max_utilization_5h: Key<f64>,
    pub(crate) default_max_utilization_7d: Key<f64>,
    pub(crate) default_max_utilization_fable: Key<f64>,
    pub(crate) burn_rate_avoidance: Key<bool>,
    pub(crate) usage_refresh_seconds: Key<Seconds>,
    pub(crate) ramp_initial_concurrency: Key<u32>,
    pub(crate) hold_seconds: Key<Seconds>,
    pub(crate) reprobe_seconds: Key<Seconds>,
}
