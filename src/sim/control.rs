//! The simulator's controls over HTTP, under `/_sim`: what [`SimHandle`](super::SimHandle) does in the same process.
//!
//! Never here: a control that the handle does not have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use duduclaw_actors::clock::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account::{Account, AccountSpec, Credentials};
use super::fault::FaultRule;
use super::log::Arrived;
use super::quota::{SimWindow, WindowState};
use super::server::Shared;
use super::world::World;

/// Changes to an account while the simulator runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountChange {
    /// Shares of windows that are used from now on.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub used: BTreeMap<String, f64>,
    /// Lets its access tokens expire.
    pub expire_tokens: bool,
    /// Takes all its tokens away.
    pub revoke: bool,
    /// Issues new tokens, as a login does.
    pub log_in: bool,
}

/// An account as it stands.
#[derive(Clone, Debug, Serialize)]
pub struct AccountView {
    /// Its name.
    pub name: String,
    /// What a client needs to use it.
    #[serde(flatten)]
    pub credentials: Credentials,
    /// Its quota windows.
    pub windows: Vec<WindowState>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockStep {
    advance_seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    pace_millis: Option<u64>,
    token_delay_millis: Option<u64>,
    refuse_connections: Option<bool>,
}

type Reply = Result<Value, (u16, String)>;

/// The answer to a request under `/_sim`; nothing for any other.
pub(super) fn answer(arrived: &Arrived, shared: &Arc<Shared>) -> Option<(u16, Bytes)> {
    let rest = arrived.route().strip_prefix("/_sim")?;
    let steps: Vec<&str> = rest.split('/').filter(|step| !step.is_empty()).collect();
    if let ("GET", ["log", id, part]) = (arrived.method.as_str(), &steps[..]) {
        return Some(body_of(shared, id, part));
    }
    Some(match controlled(arrived, &steps, shared) {
        Ok(value) => (200, Bytes::from(value.to_string())),
        Err((status, text)) => (status, Bytes::from(json!({"error": text}).to_string())),
    })
}

fn controlled(arrived: &Arrived, steps: &[&str], shared: &Arc<Shared>) -> Reply {
    let now = shared.clock.now();
    match (arrived.method.as_str(), steps) {
        ("GET", []) => Ok(json!({"now": now.wall.0, "controls": CONTROLS})),
        ("GET", ["accounts"]) => Ok(json!(shared.world().views(now))),
        ("POST", ["accounts"]) => add_account(shared, &read(arrived)?),
        ("POST", ["accounts", name]) => change_account(shared, name, &read(arrived)?),
        ("GET", ["faults"]) => Ok(json!(shared.world().faults.rules())),
        ("POST", ["faults"]) => add_fault(shared, read(arrived)?),
        ("DELETE", ["faults"]) => clear_faults(shared, None),
        ("DELETE", ["faults", account]) => clear_faults(shared, Some(account)),
        ("POST", ["clock"]) => advance(shared, &read(arrived)?),
        ("POST", ["settings"]) => settle(shared, &read(arrived)?),
        ("GET", ["log"]) => Ok(json!(shared.world().log.since(since(arrived)))),
        ("DELETE", ["log"]) => {
            shared.world().log.clear();
            Ok(json!({}))
        }
        ("POST", ["reset"]) => {
            shared.world().reset(now);
            Ok(json!({}))
        }
        _other => Err((404, format!("no such control; there are: {}", CONTROLS.join(", ")))),
    }
}

const CONTROLS: [&str; 12] = [
    "GET /_sim/accounts",
    "POST /_sim/accounts",
    "POST /_sim/accounts/NAME",
    "GET /_sim/faults",
    "POST /_sim/faults",
    "DELETE /_sim/faults[/ACCOUNT]",
    "POST /_sim/clock",
    "POST /_sim/settings",
    "GET /_sim/log[?since=ID]",
    "GET /_sim/log/ID/{request,response}",
    "DELETE /_sim/log",
    "POST /_sim/reset",
];

fn read<T: for<'de> Deserialize<'de>>(arrived: &Arrived) -> Result<T, (u16, String)> {
    serde_json::from_slice(&arrived.body).map_err(|error| (400, format!("cannot read the body: {error}")))
}

fn since(arrived: &Arrived) -> u64 {
    let query = arrived.path.split_once('?').map_or("", |(_, query)| query);
    let value = query.split('&').find_map(|pair| pair.strip_prefix("since="));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn body_of(shared: &Shared, id: &str, part: &str) -> (u16, Bytes) {
    let record = shared.world().log.find(id).cloned();
    let body = match (record, part) {
        (Some(record), "request") => record.request_body(),
        (Some(record), "response") => Some(record.response_body()),
        (Some(_) | None, _) => None,
    };
    body.map_or_else(|| (404, Bytes::from_static(b"{\"error\":\"no such body\"}")), |body| (200, body))
}

fn add_account(shared: &Shared, spec: &AccountSpec) -> Reply {
    let now = shared.clock.now();
    shared.world().add(spec.clone(), now).map_err(|text| (400, text))?;
    Ok(json!(shared.world().views(now)))
}

fn change_account(shared: &Shared, name: &str, change: &AccountChange) -> Reply {
    let now = shared.clock.now();
    shared.world().change(name, change, now).map_err(|text| (400, text)).map(|view| json!(view))
}

fn add_fault(shared: &Shared, rule: FaultRule) -> Reply {
    match rule.flaw() {
        Some(flaw) => Err((400, flaw)),
        None => {
            shared.world().faults.add(rule);
            Ok(json!({}))
        }
    }
}

fn clear_faults(shared: &Shared, account: Option<&str>) -> Reply {
    shared.world().faults.clear(account);
    Ok(json!({}))
}

fn advance(shared: &Shared, step: &ClockStep) -> Reply {
    match shared.clock.advance(Duration::from_secs(step.advance_seconds)) {
        Ok(()) => Ok(json!({"now": shared.clock.now().wall.0})),
        Err(error) => Err((409, error.to_string())),
    }
}

fn settle(shared: &Shared, settings: &Settings) -> Reply {
    let mut world = shared.world();
    let config = &mut world.config;
    config.pace_millis = settings.pace_millis.unwrap_or(config.pace_millis);
    config.token_delay_millis = settings.token_delay_millis.unwrap_or(config.token_delay_millis);
    if let Some(refusing) = settings.refuse_connections {
        shared.refusing.store(refusing, Ordering::SeqCst);
    }
    Ok(json!({}))
}

impl World {
    /// All accounts as they stand.
    pub(super) fn views(&mut self, now: Timestamp) -> Vec<AccountView> {
        self.accounts.iter_mut().map(|account| view(account, now)).collect()
    }

    /// Takes one more account in.
    pub(super) fn add(&mut self, spec: AccountSpec, now: Timestamp) -> Result<(), String> {
        if spec.name.is_empty() || self.accounts.iter().any(|account| account.spec.name == spec.name) {
            return Err(format!("an account needs a name of its own, and \"{}\" is none", spec.name));
        }
        self.accounts.push(Account::new(spec, now));
        Ok(())
    }

    /// Changes an account.
    pub(super) fn change(&mut self, name: &str, change: &AccountChange, now: Timestamp) -> Result<AccountView, String> {
        let shares = change.used.iter().map(|(window, share)| Ok((window_named(window)?, *share)));
        let shares: Vec<(SimWindow, f64)> = shares.collect::<Result<_, String>>()?;
        let account = self.accounts.iter_mut().find(|account| account.spec.name == name);
        let account = account.ok_or_else(|| format!("there is no account \"{name}\""))?;
        for (window, share) in shares {
            account.quota.set_share(window, share, now);
        }
        if change.expire_tokens {
            account.expire(now);
        }
        if change.revoke {
            account.revoke(now);
        }
        if change.log_in {
            account.log_in(now);
        }
        Ok(view(account, now))
    }
}

fn view(account: &mut Account, now: Timestamp) -> AccountView {
    AccountView {
        name: account.spec.name.clone(),
        credentials: account.credentials(),
        windows: account.quota.states(now),
    }
}

fn window_named(name: &str) -> Result<SimWindow, String> {
    let known = SimWindow::ALL.into_iter().find(|window| window.as_str() == name);
    known.ok_or_else(|| format!("there is no window \"{name}\"; there are 5h, 7d and 7d_oi"))
}
