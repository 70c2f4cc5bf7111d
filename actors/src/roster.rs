//! The fleet as configured: what the brain needs to know of the configuration, checked and resolved.
//!
//! The edge builds a [`Roster`] from the configuration and the account store; a reload is a new roster. Identities are
//! already joined: each account stands here once, with the settings of the entry that represents it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::billing::BillingCycle;
use crate::id::{AccountId, CredentialKind, EntryId, Family, IdentityKey, UpstreamId};
use crate::money::Micros;

/// The whole fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roster {
    /// Grows with every reload.
    pub revision: u64,
    /// Failover units, in declaration order.
    pub upstreams: Vec<UpstreamSpec>,
    /// Accounts, one per identity.
    pub accounts: BTreeMap<AccountId, AccountSpec>,
    /// `[server.pool]`.
    pub pool: PoolSettings,
    /// `[rotation]`.
    pub rotation: RotationSettings,
    /// `[notify]`: who is told of what concerns no agent.
    pub notify: Option<Target>,
    /// `[billing]`.
    pub billing: BillingCycle,
    /// What clients may spend, by name; those without a cap are left out.
    pub clients: BTreeMap<Arc<str>, Cap>,
}

/// Somebody who is told of outages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// By which channel: `webhook`.
    pub channel: Arc<str>,
    /// Whom in it.
    pub name: Arc<str>,
}

impl Roster {
    /// The failover unit of this id.
    #[must_use]
    pub fn upstream(&self, id: UpstreamId) -> Option<&UpstreamSpec> {
        self.upstreams.iter().find(|u| u.id == id)
    }
}

/// One failover unit: a provider with a scope of accounts.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamSpec {
    /// Its id in memory; equal names keep equal ids across reloads.
    pub id: UpstreamId,
    /// Its name; in configuration by providers, the provider's.
    pub name: Arc<str>,
    /// The provider's name: the retry budget and error texts go by it.
    pub provider: Arc<str>,
    /// Which family it belongs to.
    pub family: Family,
    /// How its first choice is made.
    pub strategy: Strategy,
    /// Its accounts in declaration order, aliases joined.
    pub accounts: Vec<AccountId>,
}

/// One account's settings: those of the entry that represents its identity.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSpec {
    /// Its id in memory.
    pub id: AccountId,
    /// Who it is.
    pub identity: IdentityKey,
    /// The representing entry.
    pub entry: EntryId,
    /// Its family.
    pub family: Family,
    /// What kind of secret it holds.
    pub kind: CredentialKind,
    /// Lower is preferred; 100 unless set.
    pub priority: u32,
    /// Whether configuration switched it off.
    pub switch: Switch,
    /// Soft thresholds per window, resolved, never above `hard_threshold`.
    pub thresholds: WindowLimits,
    /// Hard caps per window, resolved.
    pub caps: WindowCaps,
    /// What may be spent on it in a month.
    pub budget: Cap,
    /// Most requests at once, for local servers; `None` = no bound.
    pub max_concurrent: Option<u32>,
}

/// Whether using an account costs money by the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metered {
    /// It does: a key, or whatever secret is not ours to know.
    Yes,
    /// It does not: a subscription, or a machine of one's own.
    No,
}

impl AccountSpec {
    /// Whether using it costs money by the token.
    #[must_use]
    pub fn metered(&self) -> Metered {
        match (self.family, self.kind) {
            (Family::Local, _) => Metered::No,
            (_, CredentialKind::Oauth | CredentialKind::SetupToken | CredentialKind::Keychain) => Metered::No,
            (_, CredentialKind::ApiKey | CredentialKind::None) => Metered::Yes,
        }
    }
}

/// What may be spent in one month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap {
    /// `monthly_budget_usd`.
    pub money: Option<Micros>,
    /// `monthly_requests`.
    pub requests: Option<u64>,
}

impl Cap {
    /// Whether it is one at all.
    #[must_use]
    pub fn binds(self) -> bool {
        self.money.is_some() || self.requests.is_some()
    }
}

/// Whether an entry is switched on in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// In use.
    On,
    /// `disabled = true`.
    Off,
}

/// One fraction per known window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowLimits {
    /// For `5h`.
    pub five_hour: f64,
    /// For `7d`.
    pub weekly: f64,
    /// For `7d_oi`.
    pub fable: f64,
}

impl WindowLimits {
    /// The same fraction for every window.
    #[must_use]
    pub fn all(fraction: f64) -> Self {
        Self { five_hour: fraction, weekly: fraction, fable: fraction }
    }
}

/// At most one cap per known window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowCaps {
    /// For `5h`.
    pub five_hour: Option<f64>,
    /// For `7d`.
    pub weekly: Option<f64>,
    /// For `7d_oi`.
    pub fable: Option<f64>,
}

/// How an upstream chooses first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The bound account, else the placed one; without a session, whose grant is oldest.
    #[default]
    RoundRobin,
    /// The lowest priority number.
    Priority,
    /// Local, then subscriptions, then keys; most remaining first.
    LeastCost,
    /// The first takes everything while usable.
    Failover,
}

impl Strategy {
    /// Its name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::Priority => "priority",
            Self::LeastCost => "least_cost",
            Self::Failover => "failover",
        }
    }
}

/// `[server.pool]`, resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolSettings {
    /// How ties among usable accounts are broken: by headroom when the table is present, else by weekly reset.
    pub order: TieOrder,
    /// At or above it an account sorts last.
    pub hard_threshold: f64,
    /// Whether an account that will not last until its reset counts as near its quota.
    pub burn_rate: BurnRate,
    /// First allowance of a cold account; 0 = no ramp.
    pub ramp_initial: u32,
    /// A near Codex account unobserved for this long goes first among near ones, once.
    pub reprobe: Duration,
    /// How long clients are kept waiting instead of a final 429; zero = off.
    pub hold: Duration,
}

/// What breaks ties in a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieOrder {
    /// The largest headroom first.
    Headroom,
    /// The soonest weekly reset first, unknown before all.
    WeeklyReset,
}

/// `burn_rate_avoidance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurnRate {
    /// Negative headroom counts as near.
    Avoid,
    /// It does not.
    Ignore,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            order: TieOrder::WeeklyReset,
            hard_threshold: 0.98,
            burn_rate: BurnRate::Ignore,
            ramp_initial: 0,
            reprobe: Duration::from_secs(900),
            hold: Duration::ZERO,
        }
    }
}

/// `[rotation]`, resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotationSettings {
    /// Whether conversations are bound to accounts.
    pub affinity: Affinity,
    /// How long a quota refusal holds when nothing was stated.
    pub cooldown: Duration,
    /// `[server] max_concurrent_requests`: what a ramp grows to.
    pub max_concurrent: u32,
    /// How often credentials in doubt are asked about, where nothing else says when.
    pub health_interval: Duration,
}

/// `session_affinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// A conversation stays on its account.
    Bind,
    /// Every request is placed anew.
    Free,
}

impl Default for RotationSettings {
    fn default() -> Self {
        Self {
            affinity: Affinity::Bind,
            cooldown: Duration::from_secs(120),
            max_concurrent: 1024,
            health_interval: Duration::from_secs(60),
        }
    }
}
