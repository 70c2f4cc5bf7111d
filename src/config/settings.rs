//! The configuration, checked: every value has its meaning, every default is filled in.

mod fleet;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::billing::BillingCycle;
use duduclaw_actors::price::PriceList;
use duduclaw_actors::roster::{PoolSettings, RotationSettings, Target};
use http::HeaderName;
use serde::{Deserialize, Serialize};

pub use fleet::{AccountDefaults, AccountEntry, AuthMode, ModelEntry, Protocol, Route, Scope, Unit};

use super::bind::Bind;
use super::clients::Clients;
use super::operators::{Operator, Operators};
use super::referred::Referred;
use crate::credentials::Sealing;

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[server]`.
    pub server: Server,
    /// `[server.pool]`.
    pub pool: PoolSettings,
    /// What accounts without settings of their own get: those found in the store.
    pub account_defaults: AccountDefaults,
    /// How often a refreshable account's usage is asked for; `None` = never.
    pub usage_refresh: Option<Duration>,
    /// `[rotation]`.
    pub rotation: RotationSettings,
    /// Failover units in declaration order.
    pub units: Vec<Unit>,
    /// The unit for models that nothing names, by its place in `units`.
    pub default_unit: Option<usize>,
    /// `[[models]]`.
    pub models: Vec<ModelEntry>,
    /// `[[routes]]`.
    pub routes: Vec<Route>,
    /// `[[route_prefixes]]`.
    pub route_prefixes: Vec<Route>,
    /// `[billing]`: how months are counted.
    pub billing: BillingCycle,
    /// What models cost: `[[prices]]` over the list that comes with the program.
    pub prices: Arc<PriceList>,
    /// The account store's folder.
    pub accounts_dir: PathBuf,
    /// `[secrets]`.
    pub secrets: SecretsSettings,
    /// `[runtimes.claude] path`: the Claude Code to run instead of the one that is found.
    pub claude_path: Option<PathBuf>,
    /// `[store]`.
    pub store: StoreSettings,
    /// `[log]`.
    pub log: LogSettings,
    /// `[notify]`: who is told of what concerns no agent.
    pub notify: Option<Target>,
    /// `[channels.webhook.…]`.
    pub webhooks: Vec<Webhook>,
    /// What stood for something else in the file, and is not shown.
    pub referred: Referred,
}

/// `[channels.webhook.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its name.
    pub name: Arc<str>,
    /// The variable with its address.
    pub url_env: String,
    /// The variable with the key that messages to it are signed with.
    pub secret_env: Option<String>,
}

/// `[server]`.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it listens; at least one.
    pub binds: Vec<Bind>,
    /// Most requests at once; `None` = no bound.
    pub max_concurrent: Option<u32>,
    /// How long a stop waits for streams and jobs.
    pub shutdown_timeout: Duration,
    /// How long a silent stream waits for a ping of ours; `None` = for ever.
    pub sse_keepalive: Option<Duration>,
    /// The header that names the account on replies; `None` = accounts are not exposed.
    pub account_header: Option<HeaderName>,
    /// More Host names to answer to, in small letters.
    pub hosts: BTreeSet<String>,
    /// What quota headers on replies tell.
    pub quota_headers: QuotaHeaders,
    /// `[server.limits]`.
    pub limits: Limits,
    /// `[server.timeouts]`.
    pub timeouts: Timeouts,
    /// `[server.auth]`; `None` = open.
    pub auth: Option<Gate>,
    /// `[server.admin]`; `None` = on loopback, with the token of the home directory.
    pub admin: Option<AdminSettings>,
}

impl Server {
    /// The operator whose token this is, by the configuration.
    #[must_use]
    pub fn operator(&self, token: &[u8]) -> Option<&Operator> {
        self.admin.as_ref().and_then(|admin| admin.operators.authenticate(token))
    }
}

/// What quota headers on replies tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaHeaders {
    /// Those of the account that answered, as the provider sent them.
    Account,
    /// The state of the whole pool.
    Pool,
}

/// `[server.limits]`: bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one request's body.
    pub request: u64,
    /// Of one request's headers together.
    pub request_headers: u64,
    /// Of a request's URL.
    pub url: u64,
    /// Of all bodies held at once.
    pub buffered: u64,
}

/// `[server.timeouts]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect to an upstream.
    pub connect: Duration,
    /// Until a stream's head.
    pub ttfb: Duration,
    /// Until the head of an answer without stream.
    pub ttfb_nonstream: Duration,
    /// Between two bytes of a stream.
    pub stream_idle: Duration,
}

/// `[server.auth]`.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The extra header that may hold a client's token.
    pub header: HeaderName,
    /// Who may come in.
    pub clients: Clients,
}

/// `[server.admin]`.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// A listener of its own; empty = the gateway's.
    pub binds: Vec<Bind>,
    /// Who may use it, beside whoever has the home directory's token.
    pub operators: Operators,
    /// How long a browser's session lives.
    pub session_ttl: Duration,
}

/// `[secrets]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsSettings {
    /// Whether stored secrets are sealed when they are written.
    pub sealing: Sealing,
    /// The file with the key, if not the home's.
    pub key_file: Option<PathBuf>,
}

/// `[store]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Which one.
    pub url: StoreUrl,
    /// How many days rows of usage and events are kept.
    pub retention_days: u32,
}

impl StoreSettings {
    /// How long rows are kept.
    #[must_use]
    pub fn retention(&self) -> Duration {
        Duration::from_secs(u64::from(self.retention_days) * 24 * 3600)
    }
}

/// Which store.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A file in the home directory.
    Sqlite,
    /// A PostgreSQL server, by its URL, which may hold a password.
    Postgres(String),
}

impl std::fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "Sqlite",
            Self::Postgres(_) => "Postgres(…)",
        })
    }
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// A level, or directives such as `duduclaw=debug,hyper=warn`.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Pretty,
    /// For machines.
    Json,
    /// For the systemd journal; not built yet, and said so when it is asked for: the same as `Auto`.
    Journald,
}

#[cfg(test)]
pub(crate) mod testing {
    //! Settings for tests that need some.

    use super::Server;
    use crate::config::locate::Named;
    use crate::config::surroundings::fake::Fake;
    use crate::config::topology::{IdentityFacts, Ids, Lookups};

    /// `[server]` as it is without one.
    pub(crate) fn server() -> Server {
        let lookups = Lookups { names: &|_, _| Ok(Vec::new()), facts: &|_, _| IdentityFacts::default() };
        let loaded = crate::config::load(&Named::default(), &Fake::default(), lookups, &mut Ids::default());
        loaded.ready.expect("the defaults are good").settings.server.clone()
    }
}
