//! shunt's configuration (`shunt.toml`) and its store of Claude accounts. Its store files have the shape of ours, so a
//! login stays linked to its file: whoever renews it, renews it there.

use std::path::{Path, PathBuf};

use toml::Value;

use super::{ImportError, Plan, Planned, PlannedSource, unreadable};
use crate::credentials::{existing_login, is_store_name};

/// Keys that mean the same here.
const SHARED: [&str; 10] = [
    "uuid",
    "priority",
    "disabled",
    "threshold",
    "threshold_5h",
    "threshold_7d",
    "threshold_fable",
    "max_utilization",
    "max_utilization_5h",
    "max_utilization_7d",
];
const CAP_FABLE: &str = "max_utilization_fable";
/// Keys of the pool, and what each is on an account that has none of its own.
const POOL: [(&str, &str); 8] = [
    ("default_threshold", "threshold"),
    ("default_threshold_5h", "threshold_5h"),
    ("default_threshold_7d", "threshold_7d"),
    ("default_threshold_fable", "threshold_fable"),
    ("default_max_utilization", "max_utilization"),
    ("default_max_utilization_5h", "max_utilization_5h"),
    ("default_max_utilization_7d", "max_utilization_7d"),
    ("default_max_utilization_fable", CAP_FABLE),
];

/// `path` is its configuration, or its folder.
pub(super) fn read(path: &Path) -> Result<Plan, ImportError> {
    let (config, store) = places(path)?;
    let table = match &config {
        Some(config) => parsed(config)?,
        None => toml::Table::new(),
    };
    let mut plan = Plan::default();
    let entries = entries(&table);
    let pool = table.get("server").and_then(|server| server.get("pool"));
    for entry in &entries {
        plan.accounts.push(planned(entry, pool, &store));
    }
    // Without a list its pool is the whole store.
    let named = |name: &str| entries.iter().any(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
    for name in stored(&store).map_err(unreadable(&store))?.iter().filter(|name| !named(name)) {
        let entry = Value::Table([("name".to_owned(), Value::String(name.clone()))].into_iter().collect());
        plan.accounts.push(planned(&entry, pool, &store));
    }
    if plan.accounts.iter().any(|account| matches!(account.source, PlannedSource::Stored(_))) {
        plan.notes.push(
            "logins stay linked to shunt's files, which it locks against itself alone: do not let both renew them"
                .into(),
        );
    }
    Ok(plan)
}

fn places(path: &Path) -> Result<(Option<PathBuf>, PathBuf), ImportError> {
    let meta = std::fs::metadata(path).map_err(unreadable(path))?;
    if meta.is_dir() {
        let config = path.join("shunt.toml");
        return Ok((config.exists().then_some(config), path.join("accounts/claude")));
    }
    let beside = path.parent().map(|folder| folder.join("accounts/claude")).filter(|folder| folder.is_dir());
    let usual = || directories::BaseDirs::new().map(|dirs| dirs.home_dir().join(".shunt/accounts/claude"));
    let store = std::env::var_os("SHUNT_CLAUDE_ACCOUNTS_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    Ok((Some(path.to_owned()), store.or(beside).or_else(usual).unwrap_or_default()))
}

fn parsed(path: &Path) -> Result<toml::Table, ImportError> {
    let shape = |why: &str| ImportError::Shape { path: path.to_owned(), program: "shunt", why: why.to_owned() };
    let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    if is_yaml {
        return Err(shape("YAML is not read here; give its folder (~/.shunt), or the same as TOML"));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable(path))?;
    text.parse().map_err(|_| shape("it is not valid TOML"))
}

/// All accounts of Claude providers, in both of its forms.
fn entries(table: &toml::Table) -> Vec<Value> {
    let is_claude = |auth: Option<&Value>| {
        let mode = auth.and_then(|auth| auth.as_str().or_else(|| auth.get("mode")?.as_str()));
        mode.is_some_and(|mode| mode == "claude_oauth")
    };
    let providers = table.get("providers").and_then(Value::as_table).into_iter().flat_map(toml::Table::values);
    let of_providers = providers.filter(|p| is_claude(p.get("auth"))).filter_map(|p| p.get("accounts")?.as_array());
    let upstreams = table.get("upstreams").and_then(Value::as_array).into_iter().flatten();
    let of_upstreams = upstreams.filter(|u| is_claude(u.get("auth"))).flat_map(|u| {
        let auth = u.get("auth");
        let one = auth.and_then(|auth| auth.get("account")).cloned();
        let all = auth.and_then(|auth| auth.get("accounts")?.as_array().cloned()).unwrap_or_default();
        one.into_iter().chain(all)
    });
    let mut found: Vec<Value> = Vec::new();
    for entry in of_providers.flatten().cloned().chain(of_upstreams) {
        let bare = entry.as_str().map(|name| Value::Table([("name".to_owned(), name.into())].into_iter().collect()));
        let entry = bare.unwrap_or(entry);
        if !found.iter().any(|known| known.get("name") == entry.get("name")) {
            found.push(entry);
        }
    }
    found
}

fn planned(entry: &Value, pool: Option<&Value>, store: &Path) -> Planned {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let name = text("name").unwrap_or("account").to_owned();
    let source = if let Some(file) = text("credentials") {
        PlannedSource::File(PathBuf::from(file))
    } else if let Some(variable) = text("token_env") {
        PlannedSource::Variable("token_env", variable.to_owned())
    } else {
        match existing_login(&store.join(format!("{name}.json"))) {
            Ok(fresh) if is_store_name(&name) => PlannedSource::Stored(Box::new(fresh)),
            Ok(_) => PlannedSource::None("its name is none that a stored account can have".into()),
            Err(why) => PlannedSource::None(why.to_string()),
        }
    };
    let own = SHARED.into_iter().chain([CAP_FABLE]).filter_map(|key| Some((key, value(entry.get(key)?)?)));
    let mut keys: Vec<_> = own.collect();
    for (theirs, ours) in POOL {
        let is_said =
            keys.iter().any(|(key, _)| *key == ours || (*key == "threshold" && ours.starts_with("threshold")))
                || keys.iter().any(|(key, _)| *key == "max_utilization" && ours.starts_with("max_utilization"));
        if let Some(value) = pool.and_then(|pool| value(pool.get(theirs)?)).filter(|_| !is_said) {
            keys.push((ours, value));
        }
    }
    Planned { was: name, name: String::new(), source, keys }
}

fn value(value: &Value) -> Option<toml_edit::Value> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Integer(number) => Some((*number).into()),
        Value::Float(number) => Some((*number).into()),
        Value::Boolean(flag) => Some((*flag).into()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

fn stored(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().to_str()?.strip_suffix(".json")?.to_owned();
        is_store_name(&name).then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}
