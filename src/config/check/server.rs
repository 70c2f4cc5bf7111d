//! `[server]`, `[server.pool]` and `[rotation]`.

use std::collections::BTreeSet;
use std::time::Duration;

use duduclaw_actors::roster::{Affinity, BurnRate, PoolSettings, RotationSettings, TieOrder, WindowCaps, WindowLimits};
use http::HeaderName;

use super::Checker;
use crate::config::bind::Bind;
use crate::config::document::At;
use crate::config::problem::shown;
use crate::config::raw::{OneOrMany, RawLimits, RawPool, RawRotation, RawServer, RawTimeouts, Seconds, Span};
use crate::config::settings::{AccountDefaults, Limits, QuotaHeaders, Server, Timeouts};

const DEFAULT_BIND: &str = "127.0.0.1:8787";
const DEFAULT_CONCURRENCY: u32 = 1024;
const SHORTEST_USAGE_REFRESH: Duration = Duration::from_secs(60);

impl Checker<'_> {
    pub(super) fn server(&mut self, raw: Option<&RawServer>) -> Server {
        let empty = RawServer::default();
        let raw = raw.unwrap_or(&empty);
        let binds = self.binds("server.bind", raw.bind.as_ref());
        let auth = raw.auth.as_ref().map(|gate| self.gate(gate));
        if auth.is_none() {
            self.refuse_open_binds(raw.bind.as_ref(), &binds);
        }
        Server {
            binds,
            max_concurrent: bound(raw.max_concurrent_requests.as_deref().copied().unwrap_or(DEFAULT_CONCURRENCY)),
            shutdown_timeout: seconds(raw.shutdown_timeout_seconds.as_ref(), 30),
            sse_keepalive: unless_zero(seconds(raw.sse_keepalive_seconds.as_ref(), 30)),
            account_header: self.account_header(raw),
            hosts: self.hosts(raw.hosts.as_ref()),
            quota_headers: raw.quota_headers.as_deref().copied().unwrap_or(QuotaHeaders::Account),
            limits: self.limits(raw.limits.as_deref()),
            timeouts: self.timeouts(raw.timeouts.as_deref()),
            admin: raw.admin.as_ref().map(|admin| self.admin(admin, auth.as_ref())),
            auth,
        }
    }

    pub(super) fn binds(&mut self, key: &str, raw: Option<&At<OneOrMany>>) -> Vec<Bind> {
        let Some(raw) = raw else { return Bind::parse(DEFAULT_BIND, self.surroundings).into_iter().collect() };
        let mut binds = Vec::new();
        for text in &raw.0 {
            match Bind::parse(text, self.surroundings) {
                Ok(bind) if binds.contains(&bind) => self.error(raw.mark, format!("{key} names {bind} twice")),
                Ok(bind) => binds.push(bind),
                Err(why) => self.error(raw.mark, format!("{key}: {why}")),
            }
        }
        if raw.0.is_empty() {
            self.error(raw.mark, format!("{key} is empty; name at least one address, or leave the key out"));
        }
        binds
    }

    fn refuse_open_binds(&mut self, raw: Option<&At<OneOrMany>>, binds: &[Bind]) {
        let Some(raw) = raw else { return };
        for bind in binds.iter().filter(|bind| !bind.is_loopback()) {
            let text = format!(
                "server.bind {bind} can be reached from other machines, and there is no [server.auth]: anyone could spend \
                 your accounts; add [server.auth] with clients, or bind 127.0.0.1"
            );
            self.error(raw.mark, text);
        }
    }

    pub(super) fn header(&mut self, key: &str, raw: Option<&At<String>>, default: &'static str) -> HeaderName {
        let fallback = HeaderName::from_static(default);
        let Some(raw) = raw else { return fallback };
        HeaderName::from_bytes(raw.as_bytes()).unwrap_or_else(|_| {
            self.error(raw.mark, format!("{key} {} is no header name; letters, digits and hyphens", shown(raw)));
            fallback
        })
    }

    fn account_header(&mut self, raw: &RawServer) -> Option<HeaderName> {
        let header = self.header("server.account_header", raw.account_header.as_ref(), "x-duduclaw-account");
        raw.expose_accounts.as_deref().copied().unwrap_or(true).then_some(header)
    }

    fn hosts(&mut self, raw: Option<&At<Vec<String>>>) -> BTreeSet<String> {
        let Some(raw) = raw else { return BTreeSet::new() };
        for host in raw.iter().filter(|host| host.trim().is_empty() || host.contains(['/', ' ', '@'])) {
            self.error(raw.mark, format!("server.hosts: {} is no host name; without scheme and path", shown(host)));
        }
        raw.iter().map(|host| host.trim().to_ascii_lowercase()).collect()
    }

    fn limits(&mut self, raw: Option<&RawLimits>) -> Limits {
        let empty = RawLimits::default();
        let raw = raw.unwrap_or(&empty);
        Limits {
            request: self.positive("server.limits.max_request_bytes", raw.max_request_bytes.as_ref(), 33_554_432),
            request_headers: self.positive(
                "server.limits.max_request_header_bytes",
                raw.max_request_header_bytes.as_ref(),
                65_536,
            ),
            url: self.positive("server.limits.max_url_length", raw.max_url_length.as_ref(), 8192),
            buffered: self.positive("server.limits.max_buffered_bytes", raw.max_buffered_bytes.as_ref(), 268_435_456),
        }
    }

    fn timeouts(&mut self, raw: Option<&RawTimeouts>) -> Timeouts {
        let empty = RawTimeouts::default();
        let raw = raw.unwrap_or(&empty);
        Timeouts {
            connect: self.span("server.timeouts.upstream_connect", raw.upstream_connect.as_ref(), 10),
            ttfb: self.span("server.timeouts.upstream_ttfb", raw.upstream_ttfb.as_ref(), 120),
            ttfb_nonstream: self.span(
                "server.timeouts.upstream_ttfb_nonstream",
                raw.upstream_ttfb_nonstream.as_ref(),
                600,
            ),
            stream_idle: self.span("server.timeouts.stream_idle", raw.stream_idle.as_ref(), 120),
        }
    }

    /// A time-out: zero would end everything at once.
    fn span(&mut self, key: &str, raw: Option<&At<Span>>, default: u64) -> Duration {
        let Some(raw) = raw else { return Duration::from_secs(default) };
        if raw.0.is_zero() {
            self.error(raw.mark, format!("{key} must be longer than nothing; the default is \"{default}s\""));
        }
        raw.0
    }

    pub(super) fn pool(&mut self, raw: Option<&RawPool>) -> (PoolSettings, AccountDefaults, Option<Duration>) {
        let order = if raw.is_some() { TieOrder::Headroom } else { TieOrder::WeeklyReset };
        let empty = RawPool::default();
        let raw = raw.unwrap_or(&empty);
        let default = PoolSettings::default();
        let hard = self.fraction("server.pool.hard_threshold", raw.hard_threshold.as_ref());
        let hard_threshold = hard.unwrap_or(default.hard_threshold);
        let avoid = raw.burn_rate_avoidance.as_deref().copied().unwrap_or(false);
        let pool = PoolSettings {
            order,
            hard_threshold,
            burn_rate: if avoid { BurnRate::Avoid } else { BurnRate::Ignore },
            ramp_initial: raw.ramp_initial_concurrency.as_deref().copied().unwrap_or(0),
            reprobe: seconds(raw.reprobe_seconds.as_ref(), 900),
            hold: seconds(raw.hold_seconds.as_ref(), 0),
        };
        let refresh = unless_zero(seconds(raw.usage_refresh_seconds.as_ref(), 0));
        (pool, self.account_defaults(raw, hard_threshold), refresh.map(|every| every.max(SHORTEST_USAGE_REFRESH)))
    }

    fn account_defaults(&mut self, raw: &RawPool, hard: f64) -> AccountDefaults {
        let soft = self.fraction("server.pool.default_threshold", raw.default_threshold.as_ref()).unwrap_or(hard);
        let mut soft_for = |key: &str, value: Option<&At<f64>>| self.fraction(key, value).unwrap_or(soft).min(hard);
        let thresholds = WindowLimits {
            five_hour: soft_for("server.pool.default_threshold_5h", raw.default_threshold_5h.as_ref()),
            weekly: soft_for("server.pool.default_threshold_7d", raw.default_threshold_7d.as_ref()),
            fable: soft_for("server.pool.default_threshold_fable", raw.default_threshold_fable.as_ref()),
        };
        let cap = self.fraction("server.pool.default_max_utilization", raw.default_max_utilization.as_ref());
        let mut cap_for = |key: &str, value: Option<&At<f64>>| self.fraction(key, value).or(cap);
        let caps = WindowCaps {
            five_hour: cap_for("server.pool.default_max_utilization_5h", raw.default_max_utilization_5h.as_ref()),
            weekly: cap_for("server.pool.default_max_utilization_7d", raw.default_max_utilization_7d.as_ref()),
            fable: cap_for("server.pool.default_max_utilization_fable", raw.default_max_utilization_fable.as_ref()),
        };
        AccountDefaults { thresholds, caps, hard_threshold: hard }
    }

    pub(super) fn rotation(&mut self, raw: Option<&RawRotation>, max_concurrent: Option<u32>) -> RotationSettings {
        let default = RotationSettings::default();
        let affine = raw.and_then(|r| r.session_affinity.as_deref().copied()).unwrap_or(true);
        let cooldown = raw.and_then(|r| r.cooldown_seconds.as_ref());
        if let Some(zero) = cooldown.filter(|cooldown| cooldown.0.is_zero()) {
            self.error(zero.mark, "rotation.cooldown_seconds must be at least 1");
        }
        RotationSettings {
            affinity: if affine { Affinity::Bind } else { Affinity::Free },
            cooldown: seconds(cooldown, default.cooldown.as_secs()),
            max_concurrent: max_concurrent.unwrap_or(u32::MAX),
            health_interval: self.health_interval(raw),
        }
    }

    fn health_interval(&mut self, raw: Option<&RawRotation>) -> Duration {
        let interval = raw.and_then(|r| r.health_interval_seconds.as_ref());
        if let Some(zero) = interval.filter(|interval| interval.0.is_zero()) {
            self.error(zero.mark, "rotation.health_interval_seconds must be at least 1");
        }
        seconds(interval, 60)
    }
}

pub(super) fn seconds(raw: Option<&At<Seconds>>, default: u64) -> Duration {
    raw.map_or(Duration::from_secs(default), |raw| raw.0)
}

fn unless_zero(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}

/// Zero = no bound.
pub(super) fn bound(number: u32) -> Option<u32> {
    (number > 0).then_some(number)
}
