//! shunt's state file: what it knew of quota, in its versions 2 and 3, brought to what we keep.
//!
//! A status of version 2 without a stamp gets that of its window's figures, else the moment of the import, and its reset
//! as its boundary; an unstamped aggregate is stamped so that it ends with the earliest known reset. Then, whatever the
//! version: what belongs to nothing is dropped, what is over is forgotten, what is unstamped is stamped, and stamps of
//! the future become the moment of the import. What shunt itself wrote in version 2 has no stamps at all: it was seen when
//! the file was written, at the latest. Pure: both moments are arguments, and the same ones give the same state.
//!
//! Never here: files, and whose accounts they are here.

use duduclaw_actors::account::quota::{Aggregate, Quota, WindowState, Windows};
use duduclaw_actors::clock::{Boot, Timestamp, Wall};
use duduclaw_actors::id::{Family, IdentityKey, Window};
use duduclaw_actors::outcome::QuotaStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// When a file was read, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moments {
    import: Wall,
    written: Wall,
}

impl Moments {
    /// A file that is written after it is read has a wrong clock.
    pub(crate) fn new(import: Wall, written: Option<Wall>) -> Self {
        Self { import, written: written.unwrap_or(import).min(import) }
    }
}

const WEEK: i64 = 604_800;

/// What was known of one account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Imported {
    pub(crate) key: ImportedKey,
    pub(crate) quota: Quota,
}

/// Who it was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImportedKey {
    pub(crate) family: String,
    pub(crate) identity: ImportedIdentity,
}

/// By what it was known there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ImportedIdentity {
    Verified { id: String },
    StoreEntry { name: String },
    UpstreamInline { upstream: String, name: String },
}

/// Why a file gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateError {
    #[error("it is not a state file of shunt")]
    Shape,
    #[error("it has version {0}, and versions 2 and 3 are read")]
    Version(i64),
}

/// What a file says, as of the moment of its import.
pub(crate) fn read(bytes: &[u8], at: Moments) -> Result<Vec<Imported>, StateError> {
    let root: Value = serde_json::from_slice(bytes).map_err(|_| StateError::Shape)?;
    let version = root.get("version").and_then(Value::as_i64).ok_or(StateError::Shape)?;
    if !matches!(version, 2 | 3) {
        return Err(StateError::Version(version));
    }
    let accounts = root.get("accounts").and_then(Value::as_array).ok_or(StateError::Shape)?;
    Ok(accounts.iter().filter_map(|account| imported(account, version, at)).collect())
}

/// An account that makes no sense is left out; so is one of which nothing is left.
fn imported(account: &Value, version: i64, at: Moments) -> Option<Imported> {
    let key = account.get("key")?;
    let family = key.get("store_family").and_then(Value::as_str).unwrap_or("claude").to_owned();
    let identity = serde_json::from_value(key.get("identity")?.clone()).ok()?;
    let mut stored = account.get("quota")?.as_object()?.clone();
    if version == 2 {
        migrate(&mut stored, at.written);
    }
    let quota = quota(&stored, at);
    (quota != Quota::default()).then_some(Imported { key: ImportedKey { family, identity }, quota })
}

/// Its names of windows.
const WINDOWS: [&str; 3] = ["5h", "7d", "7d_oi"];

/// Version 2 to 3.
fn migrate(quota: &mut Map<String, Value>, written: Wall) {
    let now = written.as_secs();
    for window in WINDOWS {
        let stamp = format!("observed_at_status_{window}");
        if text(quota, &format!("status_{window}")).is_some() && seconds(quota, &stamp).is_none() {
            let seen = seconds(quota, &format!("observed_at_{window}")).unwrap_or(now);
            quota.insert(stamp, seen.into());
            if let Some(reset) = seconds(quota, &format!("reset_{window}")) {
                quota.insert(format!("reset_at_status_{window}"), reset.into());
            }
        }
    }
    if text(quota, "status").is_some() && seconds(quota, "observed_at_status").is_none() {
        let earliest = WINDOWS.iter().filter_map(|window| seconds(quota, &format!("reset_{window}"))).min();
        let stamp = earliest.map_or(now, |reset| reset.saturating_sub(WEEK).min(now));
        quota.insert("observed_at_status".to_owned(), stamp.into());
    }
}

/// What every import does.
fn quota(stored: &Map<String, Value>, moments: Moments) -> Quota {
    let Moments { import, written } = moments;
    let windows = WINDOWS.map(|window| (Window::from_name(window), state(stored, window, moments)));
    let windows: std::collections::BTreeMap<Window, WindowState> = windows.into_iter().collect();
    let stamped = stamp(stored, "observed_at_status", import);
    let aggregate = text(stored, "status")
        .map(|status| Aggregate { status: word(status), observed_at: stamped.unwrap_or(written) });
    let mut quota = Quota { windows: Windows::from(windows), aggregate };
    let before = quota.windows.clone();
    quota.expire(Timestamp { wall: import, boot: Boot(0) });
    if stamped.is_none() && quota.windows != before {
        // Without a stamp of its own it ends with any window.
        quota.aggregate = None;
    }
    quota
}

fn word(status: String) -> QuotaStatus {
    match status.as_str() {
        "allowed" => QuotaStatus::Allowed,
        "allowed_warning" => QuotaStatus::Warning,
        "rejected" => QuotaStatus::Rejected,
        _ => QuotaStatus::Unknown(status),
    }
}

/// One window. A stamp without what it is the stamp of is nothing.
fn state(stored: &Map<String, Value>, window: &str, moments: Moments) -> WindowState {
    let Moments { import, written } = moments;
    let utilization = stored.get(&format!("utilization_{window}")).and_then(Value::as_f64);
    let utilization = utilization.filter(|share| share.is_finite() && *share >= 0.0);
    let status = text(stored, &format!("status_{window}"));
    let of_figures = stamp(stored, &format!("observed_at_{window}"), import).unwrap_or(written);
    let of_status = stamp(stored, &format!("observed_at_status_{window}"), import).unwrap_or(written);
    let boundary = seconds(stored, &format!("reset_at_status_{window}")).map(at);
    WindowState {
        utilization,
        reset: seconds(stored, &format!("reset_{window}")).map(at),
        observed_at: utilization.map(|_| of_figures),
        status: status.clone().map(word),
        status_observed_at: status.as_ref().map(|_| of_status),
        status_boundary: status.and(boundary),
    }
}

fn stamp(stored: &Map<String, Value>, key: &str, import: Wall) -> Option<Wall> {
    seconds(stored, key).map(|seconds| at(seconds).min(import))
}

fn at(seconds: i64) -> Wall {
    Wall(seconds.saturating_mul(1000))
}

#[expect(clippy::cast_possible_truncation, reason = "a cast from f64 saturates, and no time of interest is that far")]
fn seconds(stored: &Map<String, Value>, key: &str) -> Option<i64> {
    let value = stored.get(key)?;
    value.as_i64().or_else(|| value.as_f64().filter(|seconds| seconds.is_finite()).map(|seconds| seconds as i64))
}

fn text(stored: &Map<String, Value>, key: &str) -> Option<String> {
    stored.get(key)?.as_str().map(str::to_owned)
}

impl ImportedKey {
    /// The name of an account that was configured there and not known by its owner. A pool may be called otherwise here.
    pub(crate) fn inline_name(&self, family: Family) -> Option<&str> {
        match &self.identity {
            ImportedIdentity::UpstreamInline { name, .. } if self.is_family(family) => Some(name),
            ImportedIdentity::UpstreamInline { .. }
            | ImportedIdentity::Verified { .. }
            | ImportedIdentity::StoreEntry { .. } => None,
        }
    }

    fn is_family(&self, family: Family) -> bool {
        self.family == family.as_str() || (self.family == "chatgpt" && family == Family::Codex)
    }

    /// Whether an account of ours is that one.
    pub(crate) fn is_of(
        &self,
        identity: &IdentityKey,
        family: Family,
        entry: (&str, &str),
        stored: Option<&str>,
    ) -> bool {
        if !self.is_family(family) {
            return false;
        }
        match &self.identity {
            ImportedIdentity::Verified { id } => matches!(identity, IdentityKey::Verified { uuid, .. } if uuid == id),
            ImportedIdentity::StoreEntry { name } => stored == Some(name),
            ImportedIdentity::UpstreamInline { upstream, name } => entry == (upstream, name),
        }
    }
}

impl std::fmt::Display for ImportedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.identity {
            ImportedIdentity::Verified { id } => write!(f, "{} account {id}", self.family),
            ImportedIdentity::StoreEntry { name } => write!(f, "{} store entry {name}", self.family),
            ImportedIdentity::UpstreamInline { upstream, name } => write!(f, "{} {upstream}/{name}", self.family),
        }
    }
}

#[cfg(test)]
mod tests;
