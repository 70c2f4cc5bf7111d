//! What clients may know of how much is left: of the pool and of each provider, without any account's name.
//!
//! - `GET /usage`: how the pool is, and what share of each window remains, as a mean over its accounts.
//! - `GET /api/oauth/usage`: the page on which Claude Code shows its own limits. It shows one account's figures, so it is
//!   told those of the account that requests go to as long as they can.
//!
//! Never here: who serves a request, and the operator's view.

use std::collections::{BTreeMap, HashMap};

use duduclaw_actors::account::quota::{KnownWindow, WindowState};
use duduclaw_actors::clock::{Timestamp, Wall};
use duduclaw_actors::failover::{AccountSnapshot, Band};
use duduclaw_actors::id::{AccountId, EvidenceSeq, ModelScope, Window};
use duduclaw_actors::outcome::WindowReading;
use duduclaw_actors::provider::anthropic::usage_page::OwnPage;
use duduclaw_actors::roster::{AccountSpec, Switch};
use duduclaw_actors::standing::{Paused, Standing};
use serde::Serialize;

use crate::config::settings::AuthMode;
use crate::gateway::live::Live;
use crate::gateway::service::Gateway;

/// The windows that are told, each by the name it has there.
const TOLD: [(Window, &str); 3] = [(Window::FiveHour, "5h"), (Window::Weekly, "7d"), (Window::WeeklyFable, "fable")];

/// How much is left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct UsageView {
    /// Of all accounts together.
    pub pool: PoolUsage,
    /// Of each provider's.
    pub providers: BTreeMap<String, PoolUsage>,
}

/// How much is left of one set of accounts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PoolUsage {
    /// How they are.
    pub status: PoolStatus,
    /// By window; those that were not observed are left out.
    pub windows: BTreeMap<&'static str, WindowUsage>,
}

/// How a set of accounts is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PoolStatus {
    /// Every account that is switched on serves.
    Ok,
    /// Some do.
    Degraded,
    /// None does, and at least one only for a cap on it.
    Capped,
    /// None does.
    Exhausted,
}

/// How much is left of one window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct WindowUsage {
    /// The mean share that remains.
    pub remaining: f64,
    /// When the first of them begins anew, epoch seconds.
    pub resets_at: Option<i64>,
}

/// One account as these views see it.
struct Seen<'a> {
    spec: &'a AccountSpec,
    standing: Standing,
    band: Option<Band>,
    fable_band: Option<Band>,
}

/// All accounts by id, at one moment.
struct Glance<'a> {
    accounts: HashMap<AccountId, Seen<'a>>,
    now: Timestamp,
}

/// What `GET /usage` answers.
pub(super) async fn usage(gateway: &Gateway, live: &Live) -> UsageView {
    let glance = Glance::take(gateway, live).await;
    let mut by_provider: BTreeMap<String, Vec<AccountId>> = BTreeMap::new();
    for element in live.topology.elements() {
        by_provider.entry(element.provider.to_string()).or_default().extend(&element.accounts);
    }
    by_provider.retain(|_, accounts| !accounts.is_empty());
    let all = by_provider.values().flatten().copied().collect();
    UsageView {
        pool: glance.usage_of(all),
        providers: by_provider.into_iter().map(|(name, accounts)| (name, glance.usage_of(accounts))).collect(),
    }
}

/// What `GET /api/oauth/usage` answers; `None` without a pool of Claude logins, whose clients have accounts of their own.
pub(super) async fn own_page(gateway: &Gateway, live: &Live) -> Option<OwnPage> {
    let pools = live.topology.elements().iter().filter(|element| element.auth == AuthMode::ClaudeOauth);
    let accounts: Vec<AccountId> = pools.flat_map(|element| element.accounts.iter().copied()).collect();
    if accounts.is_empty() {
        return None;
    }
    let glance = Glance::take(gateway, live).await;
    let shown = TOLD.iter().filter_map(|(window, _)| glance.decisive(&accounts, window));
    Some(OwnPage::of(&shown.collect::<Vec<_>>()))
}

impl<'a> Glance<'a> {
    async fn take(gateway: &Gateway, live: &'a Live) -> Self {
        let now = gateway.clock.now();
        let snapshot = gateway.fleet.failover.snapshot().await.map(|all| all.accounts).unwrap_or_default();
        let bands: HashMap<AccountId, AccountSnapshot> =
            snapshot.into_iter().map(|seen| (seen.account, seen)).collect();
        let seen = |spec: &'a AccountSpec| {
            let mut standing = gateway.fleet.health(spec.id)?.standing(0, EvidenceSeq(0), now);
            standing.quota.expire(now);
            let bands = bands.get(&spec.id);
            let seen = Seen {
                spec,
                standing,
                band: bands.and_then(|seen| seen.band),
                fable_band: bands.and_then(|seen| seen.fable_band),
            };
            Some((spec.id, seen))
        };
        Self { accounts: live.topology.roster().accounts.values().filter_map(seen).collect(), now }
    }

    /// The accounts of these that are switched on, each once.
    fn enabled(&self, mut accounts: Vec<AccountId>) -> Vec<&Seen<'a>> {
        accounts.sort_unstable();
        accounts.dedup();
        let seen = accounts.iter().filter_map(|account| self.accounts.get(account));
        seen.filter(|seen| seen.spec.switch == Switch::On).collect()
    }

    fn usage_of(&self, accounts: Vec<AccountId>) -> PoolUsage {
        let enabled = self.enabled(accounts);
        let windows = TOLD.iter().filter_map(|(window, name)| Some((*name, remaining(&enabled, window)?)));
        PoolUsage { status: self.status(&enabled), windows: windows.collect() }
    }

    fn status(&self, enabled: &[&Seen<'_>]) -> PoolStatus {
        let serving = enabled.iter().filter(|seen| seen.serves(ModelScope::Base)).count();
        let capped = |seen: &&&Seen<'_>| {
            let caps = &seen.spec.caps;
            seen.standing.paused == Paused::No && seen.standing.quota.capped(ModelScope::Base, caps, self.now).is_some()
        };
        match serving {
            0 if enabled.iter().any(|seen| capped(&seen)) => PoolStatus::Capped,
            0 => PoolStatus::Exhausted,
            some if some == enabled.len() => PoolStatus::Ok,
            _ => PoolStatus::Degraded,
        }
    }

    /// The window of the account that is used up last of those that requests go to first.
    fn decisive(&self, accounts: &[AccountId], window: &Window) -> Option<WindowReading> {
        let scope = if *window == Window::WeeklyFable { ModelScope::Fable } else { ModelScope::Base };
        let mut observed = self.enabled(accounts.to_vec());
        observed.retain(|seen| seen.utilization(window).is_some());
        if observed.iter().any(|seen| seen.serves(scope)) {
            observed.retain(|seen| seen.serves(scope));
        }
        let first = observed.iter().map(|seen| seen.spec.priority).min()?;
        let tier = observed.into_iter().filter(|seen| seen.spec.priority == first);
        let used = |seen: &&Seen<'_>| seen.utilization(window).unwrap_or_default();
        let fullest = tier.max_by(|a, b| used(a).total_cmp(&used(b)))?;
        let reset = fullest.window(window).and_then(|state| state.reset);
        Some(WindowReading { window: window.clone(), utilization: fullest.utilization(window), reset, status: None })
    }
}

impl Seen<'_> {
    fn serves(&self, scope: ModelScope) -> bool {
        let band = match scope {
            ModelScope::Base => self.band,
            ModelScope::Fable => self.fable_band,
        };
        band.is_some_and(Band::serves)
    }

    fn window(&self, wanted: &Window) -> Option<&WindowState> {
        self.standing.quota.windows.iter().find(|(window, _)| window == wanted).map(|(_, state)| state)
    }

    fn utilization(&self, window: &Window) -> Option<f64> {
        self.window(window)?.utilization.filter(|used| used.is_finite())
    }
}

fn remaining(enabled: &[&Seen<'_>], window: &Window) -> Option<WindowUsage> {
    debug_assert!(KnownWindow::of(window).is_some(), "only known windows are told");
    let used: Vec<f64> = enabled.iter().filter_map(|seen| seen.utilization(window)).collect();
    if used.is_empty() {
        return None;
    }
    let mean = used.iter().map(|used| 1.0 - used.clamp(0.0, 1.0)).sum::<f64>() / used.len() as f64;
    let observed = enabled.iter().filter(|seen| seen.utilization(window).is_some());
    let resets = observed.filter_map(|seen| seen.window(window)?.reset);
    let remaining = (mean * 10_000.0).round() / 10_000.0;
    Some(WindowUsage { remaining, resets_at: resets.min().map(Wall::as_secs) })
}
