//! teamclaude's `teamclaude.json`: accounts with their tokens, `priority`, `switchThreshold`, `maxUsage`, `disabled`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ImportError, Plain, Plan, Planned, PlannedSource, unreadable, warn_of_copies};

/// The threshold of both programs where nothing is said.
const USUAL: f64 = 0.98;

/// Its names of windows, and ours.
const WINDOWS: [(&str, &str, &str); 3] = [
    ("unified5h", "threshold_5h", "max_utilization_5h"),
    ("unified7d", "threshold_7d", "max_utilization_7d"),
    ("unified7dFable", "threshold_fable", "max_utilization_fable"),
];

pub(super) fn read(path: &Path) -> Result<Plan, ImportError> {
    let bytes = std::fs::read(path).map_err(unreadable(path))?;
    let shape = |why: String| ImportError::Shape { path: path.to_owned(), program: "teamclaude", why };
    let config: Value = serde_json::from_slice(&bytes)
        .map_err(|error| shape(format!("it is not JSON at line {}, column {}", error.line(), error.column())))?;
    let accounts = config.get("accounts").and_then(Value::as_array);
    let accounts = accounts.ok_or_else(|| shape("it has no list of accounts".to_owned()))?;
    let any_priority = accounts.iter().any(|account| account.get("priority").is_some_and(|p| p.as_i64() != Some(0)));
    let fleet = config.get("switchThreshold").unwrap_or(&Value::Null);
    let mut plan = Plan::default();
    for account in accounts {
        plan.accounts.push(planned(account, fleet, any_priority));
    }
    warn_of_copies(&mut plan, "teamclaude");
    Ok(plan)
}

fn planned(account: &Value, fleet: &Value, any_priority: bool) -> Planned {
    let text = |key: &str| account.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let mut keys = Vec::new();
    if any_priority {
        let priority = account.get("priority").and_then(Value::as_i64).unwrap_or(0).clamp(0, i64::from(u32::MAX));
        keys.push(("priority", priority.into()));
    }
    thresholds(account.get("switchThreshold").unwrap_or(&Value::Null), fleet, &mut keys);
    caps(account.get("maxUsage").unwrap_or(&Value::Null), &mut keys);
    if account.get("disabled").and_then(Value::as_bool) == Some(true) {
        keys.push(("disabled", true.into()));
    }
    let is_elsewhere = text("upstream").is_some_and(|url| !url.contains("anthropic.com"));
    let source = if is_elsewhere {
        PlannedSource::None("it is of another provider (upstream); configure that as one of [providers]".into())
    } else if let Some(file) = text("importFrom") {
        PlannedSource::File(expanded(file))
    } else {
        match text("type").unwrap_or("oauth") {
            "oauth" | "apikey" => Plain {
                access: text("accessToken"),
                refresh: text("refreshToken"),
                key: text("apiKey"),
                expires_at: account.get("expiresAt").and_then(Value::as_i64),
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

fn expanded(path: &str) -> PathBuf {
    let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        (_, _) => PathBuf::from(path),
    }
}
