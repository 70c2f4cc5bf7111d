//! shunt's configuration and its store of Claude accounts. Its store files have the shape of ours, so a login stays
//! linked to its file: whoever renews it, renews it there.

mod config;
mod places;

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{ImportError, Plan, Planned, PlannedSource, unreadable};
use crate::config::surroundings::{Surroundings, expand};
use crate::credentials::{existing_login, is_store_name};
use config::Pools;

/// Keys that mean the same here.
const SHARED: [&str; 11] = [
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
    "max_utilization_fable",
];
/// Keys of the pool, and what each is on an account that has none of its own.
const POOL: [(&str, &str); 8] = [
    ("default_threshold", "threshold"),
    ("default_threshold_5h", "threshold_5h"),
    ("default_threshold_7d", "threshold_7d"),
    ("default_threshold_fable", "threshold_fable"),
    ("default_max_utilization", "max_utilization"),
    ("default_max_utilization_5h", "max_utilization_5h"),
    ("default_max_utilization_7d", "max_utilization_7d"),
    ("default_max_utilization_fable", "max_utilization_fable"),
];
/// Keys of the pool that are the pool's here too.
const WHOLE: [&str; 4] = ["hard_threshold", "burn_rate_avoidance", "usage_refresh_seconds", "ramp_initial_concurrency"];

/// `named` is its configuration, or a folder with its files.
pub(super) fn read(named: Option<&Path>, machine: &dyn Surroundings) -> Result<Plan, ImportError> {
    let places = places::places(named, machine)?;
    let table = places.config.as_deref().map(config::parsed).transpose()?.unwrap_or_default();
    let stored = stored(&places.store).map_err(unreadable(&places.store))?;
    let (pools, pool) = (Pools::of(&table), pool(&table));
    let mut plan = Plan { from: places.config.into_iter().collect(), ..Plan::default() };
    if !stored.is_empty() {
        plan.from.push(places.store.clone());
    }
    plan.accounts = pools.listed.iter().map(|entry| planned(entry, pool, &places.store)).collect();
    for name in stored.into_iter().filter(|name| !pools.names(name)) {
        plan.accounts.push(unlisted(name, &pools, pool, &places.store, &mut plan.notes));
    }
    plan.notes.extend(of_the_pool(pool));
    if plan.accounts.iter().any(|account| matches!(account.source, PlannedSource::Stored(_))) {
        plan.notes.push(
            "logins stay linked to shunt's files, which it locks against itself alone: do not let both renew them"
                .into(),
        );
    }
    Ok(plan)
}

/// Where the configuration that shunt would find has its state written.
pub(crate) fn usual_state(machine: &dyn Surroundings) -> Result<PathBuf, ImportError> {
    let configs = places::usual_configs(machine);
    let Some(path) = super::places::present(&configs) else {
        return Err(ImportError::Nowhere { program: "shunt", looked: configs });
    };
    let table = config::parsed(&path)?;
    let state = pool(&table).and_then(|pool| pool.get("state_path")?.as_str().map(str::to_owned));
    match state.filter(|state| !state.trim().is_empty()) {
        Some(state) => Ok(expand(&state, machine)),
        None => {
            let why = "it has no state_path in [server.pool]: shunt kept no state".to_owned();
            Err(ImportError::Shape { path, program: "shunt", why })
        }
    }
}

fn pool(table: &Table) -> Option<&Table> {
    table.get("server")?.get("pool")?.as_table()
}

/// What the pool as a whole was told, and has to be told here as well.
fn of_the_pool(pool: Option<&Table>) -> Option<String> {
    let said = WHOLE.iter().filter_map(|key| Some(format!("{key} = {}", pool?.get(*key)?)));
    let said = said.collect::<Vec<_>>().join(", ");
    (!said.is_empty()).then(|| format!("[server.pool] says there {said}; write that into [server.pool] here"))
}

/// An account of the store that no list names: where lists are all there is, it served nowhere.
fn unlisted(name: String, pools: &Pools, pool: Option<&Table>, store: &Path, notes: &mut Vec<String>) -> Planned {
    let mut entry: Table = [("name".to_owned(), Value::String(name.clone()))].into_iter().collect();
    if pools.are_all_listed {
        entry.insert("disabled".to_owned(), true.into());
        notes.push(format!("{name} is in shunt's store and in none of its pools, so it comes switched off"));
    }
    planned(&entry, pool, store)
}

fn planned(entry: &Table, pool: Option<&Table>, store: &Path) -> Planned {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let name = text("name").unwrap_or("account").to_owned();
    let source = if let Some(file) = text("credentials") {
        PlannedSource::File(PathBuf::from(file))
    } else if let Some(variable) = text("token_env") {
        PlannedSource::Variable("token_env", variable.to_owned())
    } else {
        stored_login(&name, store)
    };
    let mut keys: Vec<_> = SHARED.into_iter().filter_map(|key| Some((key, value(entry.get(key)?)?))).collect();
    keys.extend(inherited(entry, pool));
    Planned { was: name, name: String::new(), source, keys }
}

/// A name with a path in it leads out of the store.
fn stored_login(name: &str, store: &Path) -> PlannedSource {
    if !is_store_name(name) {
        return PlannedSource::None("its name is none that a stored account can have".into());
    }
    match existing_login(&store.join(format!("{name}.json"))) {
        Ok(fresh) => PlannedSource::Stored(Box::new(fresh)),
        Err(why) => PlannedSource::None(why.to_string()),
    }
}

/// What the pool says of all accounts, as far as this one says nothing: its own value for every window comes before the
/// pool's for one.
fn inherited(entry: &Table, pool: Option<&Table>) -> Vec<(&'static str, toml_edit::Value)> {
    let says = |ours: &str| {
        let whole = if ours.starts_with("threshold") { "threshold" } else { "max_utilization" };
        entry.contains_key(ours) || entry.contains_key(whole)
    };
    let theirs = POOL.into_iter().filter(|(_, ours)| !says(ours));
    theirs.filter_map(|(theirs, ours)| Some((ours, value(pool?.get(theirs)?)?))).collect()
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
