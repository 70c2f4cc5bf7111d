//! Where shunt's configuration and its store of Claude logins are. Never here: what is in them.

use std::path::{Path, PathBuf};

use crate::config::surroundings::{Surroundings, expand};
use crate::imports::places::{named_by, present, settings_folder};
use crate::imports::{ImportError, unreadable};

const PROGRAM: &str = "shunt";
const NAMES: [&str; 3] = ["shunt.toml", "shunt.yaml", "shunt.yml"];

/// What there is of it.
pub(super) struct Places {
    pub(super) config: Option<PathBuf>,
    pub(super) store: PathBuf,
}

/// What is meant by a file or a folder; without one, what shunt itself would find.
pub(super) fn places(named: Option<&Path>, machine: &dyn Surroundings) -> Result<Places, ImportError> {
    match named {
        None => usual(machine),
        Some(path) if std::fs::metadata(path).map_err(unreadable(path))?.is_dir() => in_folder(path, machine),
        Some(file) => {
            let variable = named_by(&["SHUNT_CLAUDE_ACCOUNTS_DIR"], machine);
            let beside = file.parent().map(|folder| folder.join("accounts/claude")).filter(|folder| folder.is_dir());
            let store = variable.or(beside).unwrap_or_else(|| usual_store(machine));
            Ok(Places { config: Some(file.to_owned()), store })
        }
    }
}

fn usual(machine: &dyn Surroundings) -> Result<Places, ImportError> {
    let (config, store) = (present(&usual_configs(machine)), usual_store(machine));
    if config.is_none() && !store.is_dir() {
        let looked = usual_configs(machine).into_iter().chain([store]).collect();
        return Err(ImportError::Nowhere { program: PROGRAM, looked });
    }
    Ok(Places { config, store })
}

/// A folder may hold either; what is not in it is where it usually is, but a store that was brought from elsewhere is not
/// joined with the configuration of this machine.
fn in_folder(folder: &Path, machine: &dyn Surroundings) -> Result<Places, ImportError> {
    let inside: Vec<_> = NAMES.iter().map(|name| folder.join(name)).collect();
    let stores = [folder.join("accounts/claude"), folder.join("claude")];
    let itself = folder.ends_with("claude").then(|| folder.to_owned());
    let store = stores.iter().find(|store| store.is_dir()).cloned().or(itself);
    match (present(&inside), store) {
        (Some(config), store) => {
            Ok(Places { config: Some(config), store: store.unwrap_or_else(|| usual_store(machine)) })
        }
        (None, Some(store)) => {
            let is_usual = store == usual_store(machine);
            let config = if is_usual { present(&usual_configs(machine)) } else { None };
            Ok(Places { config, store })
        }
        (None, None) => {
            Err(ImportError::Nowhere { program: PROGRAM, looked: inside.into_iter().chain(stores).collect() })
        }
    }
}

/// Where shunt looks for its configuration, in its order.
pub(super) fn usual_configs(machine: &dyn Surroundings) -> Vec<PathBuf> {
    let brew = match named_by(&["HOMEBREW_PREFIX"], machine) {
        Some(prefix) => vec![prefix],
        None => vec![PathBuf::from("/opt/homebrew"), PathBuf::from("/usr/local")],
    };
    let here = std::env::current_dir().unwrap_or_default();
    let folders =
        [here, settings_folder(machine).join("shunt")].into_iter().chain(brew.into_iter().map(|p| p.join("etc")));
    folders.flat_map(|folder| NAMES.map(|name| folder.join(name))).collect()
}

fn usual_store(machine: &dyn Surroundings) -> PathBuf {
    named_by(&["SHUNT_CLAUDE_ACCOUNTS_DIR"], machine).unwrap_or_else(|| expand("~/.shunt/accounts/claude", machine))
}
