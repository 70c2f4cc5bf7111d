//! teamclaude's `teamclaude.json`: accounts with their tokens, `priority`, `switchThreshold`, `maxUsage`, `disabled`.

use std::path::Path;

use serde_json::Value;

use super::places::{Usual, named_by, settings_folder};
use super::reading;
use super::{ImportError, Plain, Plan, Planned, PlannedSource, unreadable, warn_of_copies};
use crate::config::surroundings::{Surroundings, expand};

/// The threshold of both programs where nothing is said.
const USUAL: f64 = 0.98;

/// Its names of windows, and ours.
const WINDOWS: [(&str, &str, &str); 3] = [
    ("unified5h", "threshold_5h", "max_utilization_5h"),
    ("unified7d", "threshold_7d", "max_utilization_7d"),
    ("unified7dFable", "threshold_fable", "max_utilization_fable"),
];

/// Its name of its file.
const NAME: &str = "teamclaude.json";
/// Moments below it are seconds, as teamclaude reads them.
const FIRST_MILLIS: i64 = 1_000_000_000_000;

/// `named` is its configuration, or the folder with it.
pub(super) fn read(named: Option<&Path>, machine: &dyn Surroundings) -> Result<Plan, ImportError> {
    let usual = named_by(&["TEAMCLAUDE_CONFIG"], machine).unwrap_or_else(|| settings_folder(machine).join(NAME));
    let path = Usual { program: "teamclaude", names: &[NAME], files: vec![usual] }.find(named)?;
    let bytes = reading::whole(&path).map_err(unreadable(&path))?;
    let shape = |why: String| ImportError::Shape { path: path.clone(), program: "teamclaude", why };
    let config: Value = serde_json::from_slice(&bytes)
        .map_err(|error| shape(format!("it is not JSON at line {}, column {}", error.line(), error.column())))?;
    let accounts = config.get("accounts").and_then(Value::as_array);
    let accounts = accounts.ok_or_else(|| shape("it has no list of accounts".to_owned()))?;
    let fleet = config.get("switchThreshold").unwrap_or(&Value::Null);
    let ranks = ranks(accounts);
    let each = accounts.iter().zip(ranks).map(|(account, rank)| planned(account, rank, fleet, machine)).collect();
    let mut plan = Plan { from: vec![path.clone()], accounts: each, notes: Vec::new() };
    plan.notes.extend(accounts.iter().flat_map(left_behind));
    warn_of_copies(&mut plan, "teamclaude");
    Ok(plan)
}

/// Their priorities, where there are any. There the first may be below zero; here the least is zero, and order and
/// distances stay.
fn ranks(accounts: &[Value]) -> Vec<Option<i64>> {
    let said: Vec<i64> =
        accounts.iter().map(|account| account.get("priority").and_then(Value::as_i64).unwrap_or(0)).collect();
    let least = said.iter().copied().min().unwrap_or(0).min(0);
    let rank = |priority: &i64| priority.saturating_sub(least).min(i64::from(u32::MAX));
    let is_any = said.iter().any(|priority| *priority != 0);
    said.iter().map(|priority| is_any.then(|| rank(priority))).collect()
}

/// Settings of an account that have no counterpart here, and that its owner would miss.
fn left_behind(account: &Value) -> Vec<String> {
    let name = text(account, "name").unwrap_or("an account");
    let mut notes = Vec::new();
    if text(account, "routing").is_some() {
        notes.push(format!("{name} went through a proxy of its own there (routing); here it goes like all others"));
    }
    if account.get("maxSpend").is_some_and(|cap| !cap.is_null()) {
        notes.push(format!("{name} had a limit for extra usage there (maxSpend), which does not come over"));
    }
    notes
}

fn text<'a>(account: &'a Value, key: &str) -> Option<&'a str> {
    account.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

fn planned(account: &Value, rank: Option<i64>, fleet: &Value, machine: &dyn Surroundings) -> Planned {
    let text = |key: &str| text(account, key);
    let mut keys = Vec::new();
    if let Some(rank) = rank {
        keys.push(("priority", rank.into()));
    }
    thresholds(account.get("switchThreshold").unwrap_or(&Value::Null), fleet, &mut keys);
    caps(account.get("maxUsage").unwrap_or(&Value::Null), &mut keys);
    if account.get("disabled").and_then(Value::as_bool) == Some(true) {
        keys.push(("disabled", true.into()));
    }
    let is_elsewhere = text("upstream").is_some_and(|url| !url.contains("anthropic.com"));
    let source = if text("provider").is_some_and(|provider| provider == "codex") {
        PlannedSource::None("it is a login to ChatGPT; log in with `duduclaw login codex`".into())
    } else if is_elsewhere || text("provider").is_some_and(|provider| provider != "anthropic") {
        PlannedSource::None("it is of another provider; configure that as one of [providers]".into())
    } else if let Some(file) = text("importFrom") {
        PlannedSource::File(expand(file, machine))
    } else {
        match text("type").unwrap_or("oauth") {
            "oauth" | "apikey" => Plain {
                access: text("accessToken"),
                refresh: text("refreshToken"),
                key: text("apiKey"),
                expires_at: account.get("expiresAt").and_then(Value::as_i64).map(millis),
                uuid: text("accountUuid").map(str::to_owned),
                organization: text("orgUuid").map(str::to_owned),
            }
            .stored(),
            other => PlannedSource::None(format!("accounts of type {other:?} are not known here")),
        }
    };
    Planned { was: text("name").unwrap_or("account").to_owned(), name: String::new(), source, keys }
}

/// Per window: the account's own, its `default`, else the fleet's.
fn thresholds(own: &Value, fleet: &Value, keys: &mut Vec<(&'static str, toml_edit::Value)>) {
    let of = |window: &str| share(own, window).or_else(|| share(fleet, window)).unwrap_or(USUAL);
    let all = WINDOWS.map(|(theirs, ours, _)| (ours, of(theirs)));
    match all {
        [(_, a), (_, b), (_, c)] if a == b && b == c => {
            if a != USUAL {
                keys.push(("threshold", a.into()));
            }
        }
        each => keys.extend(each.into_iter().map(|(key, value)| (key, value.into()))),
    }
}

fn caps(own: &Value, keys: &mut Vec<(&'static str, toml_edit::Value)>) {
    if let Some(cap) = own.as_f64().filter(|cap| (0.0..=1.0).contains(cap)) {
        keys.push(("max_utilization", cap.into()));
    } else {
        let found = WINDOWS.iter().filter_map(|(theirs, _, ours)| Some((*ours, share(own, theirs)?.into())));
        keys.extend(found);
    }
}

/// A share of a window, given as one for all, or by window.
fn share(value: &Value, window: &str) -> Option<f64> {
    let table = value.as_object();
    let found = match table {
        Some(table) => table.get(window).or_else(|| table.get("default"))?.as_f64()?,
        None => value.as_f64()?,
    };
    (0.0..=1.0).contains(&found).then_some(found)
}

/// What it was handed as JSON it keeps as it was, and that may be in seconds.
fn millis(moment: i64) -> i64 {
    if moment < FIRST_MILLIS { moment.saturating_mul(1000) } else { moment }
}
