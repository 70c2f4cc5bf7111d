//! `GET /admin/api/pool`: the fleet at one moment. Every key is always there, null where nothing is known; only
//! `headroom_secs` may be left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use duduclaw_actors::account::health::Health;
use duduclaw_actors::account::quota::KnownWindow;
use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::efficiency::{CacheScope, Share};
use duduclaw_actors::failover::AccountSnapshot;
use duduclaw_actors::failover::ledger::Spend;
use duduclaw_actors::id::{AccountId, EvidenceSeq, ModelScope, Window};
use duduclaw_actors::money::Micros;
use duduclaw_actors::outcome::QuotaStatus;
use duduclaw_actors::roster::{AccountSpec, Switch, TieOrder};
use duduclaw_actors::standing::{CredentialState, Hold, Paused, Standing, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::Count;
use super::desk::Desk;
use super::fault::Fault;
use super::store::StoreView;
use super::verb::{Call, Nothing};
use crate::config::topology::{Element, Entry};
use crate::credentials::Vault;
use crate::gateway::live::Live;

/// The whole fleet.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PoolView {
    /// Providers in declaration order.
    pub providers: Vec<PoolProvider>,
    /// What they are remembered by.
    pub store: StoreView,
    /// The share of the prompts of the last hour that the cache served, from 0 to 1; null over fewer than 20 requests.
    #[serde(default)]
    pub cache_efficiency: Option<f64>,
}

/// One provider.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PoolProvider {
    /// Its name.
    pub name: String,
    /// Its family.
    pub family: String,
    /// How accounts authenticate.
    pub auth: String,
    /// Its accounts.
    pub accounts: Vec<PoolAccount>,
    /// The same share of its own.
    #[serde(default)]
    pub cache_efficiency: Option<f64>,
}

/// One account.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PoolAccount {
    /// Its name.
    pub name: String,
    /// Other entries of the configuration that are this account, each as `provider/name`.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Those of them that are switched off.
    #[serde(default)]
    pub aliases_disabled: Vec<String>,
    /// The gravest state.
    pub state: String,
    /// Why.
    pub cause: Option<String>,
    /// Whether it serves requests of no model scope now.
    pub available: bool,
    /// Whether it is near its quota.
    pub near_quota: bool,
    /// Whether a cap binds requests of no model scope.
    pub capped: bool,
    /// Model scopes that a cap binds.
    pub capped_scopes: Vec<String>,
    /// Whether the operator paused it.
    pub paused: bool,
    /// Whether the configuration switched it off.
    pub disabled: bool,
    /// Whether a person must log in.
    pub needs_login: bool,
    /// Whether it was saved unchecked.
    pub unverified: bool,
    /// Whether its credential was refused, and it is tried with one request at a time.
    #[serde(default)]
    pub on_trial: bool,
    /// Whether its credential ends within a month and cannot be renewed.
    #[serde(default)]
    pub expiring: bool,
    /// Lower is preferred.
    pub priority: u32,
    /// Of the gravest timed hold; 0 without one.
    pub cooldown_secs_remaining: u64,
    /// Of holds on one model scope.
    pub scope_cooldowns: BTreeMap<String, u64>,
    /// Time to the threshold at the mean pace, minus time to the reset.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub headroom_secs: Option<f64>,
    /// Quota windows.
    pub windows: BTreeMap<String, WindowView>,
    /// Cap on `5h`.
    pub max_utilization_5h: Option<f64>,
    /// Cap on `7d`.
    pub max_utilization_7d: Option<f64>,
    /// Cap on `7d_oi`.
    pub max_utilization_fable: Option<f64>,
    /// Spend against the budget.
    pub spend: SpendView,
    /// The subscription's plan.
    pub plan: Option<String>,
    /// When the access token ends, epoch seconds.
    pub expires_at: Option<i64>,
    /// When the provider last said, asked about it, whether it knows the credential, epoch seconds.
    pub last_probe: Option<i64>,
    /// Attempts.
    pub requests: Count,
    /// From sending to the head.
    pub mean_latency_ms: Option<f64>,
    /// Requests in flight.
    pub in_flight: u32,
    /// Conversations bound to it.
    pub conversations: usize,
    /// The share of the prompts of the last hour that the cache served, from 0 to 1; null over fewer than 20 requests.
    #[serde(default)]
    pub cache_efficiency: Option<f64>,
}

/// One quota window.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowView {
    /// Share used.
    pub utilization: Option<f64>,
    /// When it begins anew, epoch seconds.
    pub reset: Option<i64>,
    /// What the provider said.
    pub status: Option<String>,
    /// The soft threshold.
    pub threshold: Option<f64>,
    /// The hard cap.
    pub max_utilization: Option<f64>,
}

/// Spend against the budget, in US dollars.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SpendView {
    /// Spent in the billing month that runs.
    pub month: Option<f64>,
    /// The cap.
    pub cap: Option<f64>,
    /// Set aside for requests in flight.
    pub reserved: Option<f64>,
}

impl From<Spend> for SpendView {
    fn from(spend: Spend) -> Self {
        let Spend { cap, spent, reserved } = spend;
        Self {
            month: Some(spent.money.dollars()),
            cap: cap.money.map(Micros::dollars),
            reserved: Some(reserved.money.dollars()),
        }
    }
}

/// The fleet now.
pub(super) async fn pool(call: Call, _: Nothing) -> Result<PoolView, Fault> {
    let look = Look::take(&call).await;
    let providers = call.live.topology.elements().iter().map(|element| PoolProvider {
        name: element.name.to_string(),
        family: element.family.as_str().to_owned(),
        auth: element.auth.as_str().to_owned(),
        accounts: element.accounts.iter().filter_map(|id| look.account(element, *id)).collect(),
        cache_efficiency: look.cached(&CacheScope::Provider(Arc::clone(&element.provider))),
    });
    Ok(PoolView {
        providers: providers.collect(),
        store: StoreView::at(&call.desk.fleet.journal, look.now),
        cache_efficiency: look.cached(&CacheScope::Fleet),
    })
}

/// A look at the fleet, at one moment.
pub(super) struct Look<'a> {
    desk: &'a Desk,
    live: &'a Live,
    seen: BTreeMap<AccountId, AccountSnapshot>,
    shares: Vec<Share>,
    now: Timestamp,
}

impl<'a> Look<'a> {
    pub(super) async fn take(call: &'a Call) -> Self {
        let Call { desk, live } = call;
        let snapshot = desk.fleet.failover.snapshot().await.map(|snapshot| snapshot.accounts).unwrap_or_default();
        let seen = snapshot.into_iter().map(|account| (account.account, account)).collect();
        Self { desk, live, seen, shares: desk.fleet.till.cache_shares(), now: desk.clock.now() }
    }

    /// How well the cache serves a part of the fleet.
    fn cached(&self, scope: &CacheScope) -> Option<f64> {
        self.shares.iter().find(|share| share.scope == *scope).map(|share| share.efficiency)
    }

    /// An account as it is shown in this element; none where this version cannot use it.
    pub(super) fn account(&self, element: &Element, id: AccountId) -> Option<PoolAccount> {
        let spec = self.live.topology.roster().accounts.get(&id)?;
        let health = self.desk.fleet.health(id)?;
        let spend = self.desk.fleet.till.account(id).map(SpendView::from).unwrap_or_default();
        let cached = self.cached(&CacheScope::Account(spec.entry.clone()));
        let seen = self.seen.get(&id);
        let about = About { spec, health: &health, seen, spend, cached, live: self.live, now: self.now };
        Some(about.view(&self.desk.vault, element, self.desk.counts.of(&spec.entry)))
    }
}

struct About<'a> {
    spec: &'a AccountSpec,
    health: &'a Health,
    seen: Option<&'a AccountSnapshot>,
    spend: SpendView,
    cached: Option<f64>,
    live: &'a Live,
    now: Timestamp,
}

impl PoolAccount {
    /// Its other names, for people.
    pub(crate) fn also(&self) -> String {
        let off = |alias: &String| self.aliases_disabled.contains(alias);
        let said = |alias: &String| if off(alias) { format!("{alias} (disabled)") } else { alias.clone() };
        self.aliases.iter().map(said).collect::<Vec<_>>().join(", ")
    }
}

impl About<'_> {
    fn view(&self, vault: &Vault, element: &Element, requests: Count) -> PoolAccount {
        let standing = self.health.standing(0, EvidenceSeq(0), self.now);
        let state = standing.state(self.now);
        let gravest = gravest(&standing, state, self.now);
        let credential = vault.status(self.spec.id);
        let capped = |scope| standing.quota.capped(scope, &self.spec.caps, self.now).is_some();
        let paused = standing.paused == Paused::Yes;
        let disabled = self.spec.switch == Switch::Off;
        let shown = self.live.topology.shown_in(element, self.spec.id);
        PoolAccount {
            name: shown.map_or(&self.spec.entry.name, |entry| &entry.id.name).to_string(),
            aliases: shown.map_or_else(Vec::new, |entry| names(self.live.topology.aliases(entry))),
            aliases_disabled: shown.map_or_else(Vec::new, |entry| {
                names(self.live.topology.aliases(entry).filter(|alias| alias.switch == Switch::Off))
            }),
            state: state.as_str().to_owned(),
            cause: cause(&standing, gravest),
            available: self.seen.is_some_and(|seen| seen.band.is_some_and(|band| band.serves())),
            near_quota: self.near(&standing, ModelScope::Base),
            capped: capped(ModelScope::Base),
            capped_scopes: if capped(ModelScope::Fable) && !capped(ModelScope::Base) {
                vec!["fable".to_owned()]
            } else {
                Vec::new()
            },
            paused,
            disabled,
            needs_login: matches!(standing.credential, CredentialState::NeedsLogin { .. }),
            unverified: standing.unverified,
            on_trial: standing.is_on_trial(self.now),
            expiring: self.health.expires_soon(self.now),
            priority: self.spec.priority,
            cooldown_secs_remaining: gravest.map_or(0, |hold| self.seconds(hold.until)),
            scope_cooldowns: self.scope_cooldowns(&standing),
            headroom_secs: self.headroom(&standing),
            windows: self.windows(&standing),
            max_utilization_5h: self.spec.caps.five_hour,
            max_utilization_7d: self.spec.caps.weekly,
            max_utilization_fable: self.spec.caps.fable,
            spend: self.spend,
            plan: None,
            expires_at: credential.and_then(|credential| credential.expires_at).map(|at| at.as_secs()),
            last_probe: self.health.asked_at().map(|at| at.as_secs()),
            mean_latency_ms: (requests.attempted > 0).then(|| requests.head_ms as f64 / requests.attempted as f64),
            requests,
            in_flight: self.seen.map_or(0, |seen| seen.tally.in_flight),
            conversations: self.seen.map_or(0, |seen| seen.conversations),
            cache_efficiency: self.cached,
        }
    }

    fn near(&self, standing: &Standing, scope: ModelScope) -> bool {
        let burn = self.live.settings.pool.burn_rate;
        standing.quota.near(scope, &self.spec.thresholds, burn, self.now).is_some()
    }

    fn headroom(&self, standing: &Standing) -> Option<f64> {
        if self.live.settings.pool.order != TieOrder::Headroom {
            return None;
        }
        let headroom = standing.quota.headroom(ModelScope::Base, &self.spec.thresholds, self.now);
        headroom.is_finite().then_some(headroom)
    }

    fn scope_cooldowns(&self, standing: &Standing) -> BTreeMap<String, u64> {
        let running = standing.fable_hold.filter(|hold| !hold.until.is_due(self.now));
        running.map(|hold| ("fable".to_owned(), self.seconds(hold.until))).into_iter().collect()
    }

    fn windows(&self, standing: &Standing) -> BTreeMap<String, WindowView> {
        let mut quota = standing.quota.clone();
        quota.expire(self.now);
        let view = |(window, state): (Window, &duduclaw_actors::account::quota::WindowState)| {
            let known = KnownWindow::of(&window);
            let view = WindowView {
                utilization: state.utilization,
                reset: state.reset.map(|at| at.as_secs()),
                status: state.status.as_ref().map(status),
                threshold: known.map(|known| known.limit(&self.spec.thresholds)),
                max_utilization: known.and_then(|known| known.cap(&self.spec.caps)),
            };
            (window.name().to_owned(), view)
        };
        quota.windows.iter().map(view).collect()
    }

    fn seconds(&self, until: Deadline) -> u64 {
        until.remaining(self.now).as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
    }
}

/// Names of entries, each as `provider/name`.
pub(super) fn names<'e>(entries: impl Iterator<Item = &'e Entry>) -> Vec<String> {
    entries.map(|entry| entry.id.to_string()).collect()
}

fn gravest(standing: &Standing, state: State, now: Timestamp) -> Option<Hold> {
    let running = standing.holds.iter().filter(|hold| !hold.until.is_due(now));
    running.copied().max_by_key(|hold| State::from(hold.kind)).filter(|hold| State::from(hold.kind) <= state)
}

fn cause(standing: &Standing, gravest: Option<Hold>) -> Option<String> {
    match standing.credential {
        CredentialState::Broken(cause) => Some(cause.as_str().to_owned()),
        CredentialState::Usable | CredentialState::NeedsLogin { .. } => {
            gravest.map(|hold| hold.cause.as_str().to_owned())
        }
    }
}

fn status(status: &QuotaStatus) -> String {
    match status {
        QuotaStatus::Allowed => "allowed".to_owned(),
        QuotaStatus::Warning => "allowed_warning".to_owned(),
        QuotaStatus::Rejected => "rejected".to_owned(),
        QuotaStatus::Unknown(word) => word.clone(),
    }
}
