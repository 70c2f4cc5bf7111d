//! `health`: whether the daemon can do its work, in a few figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::store::{StoreView, StoreWord};
use super::verb::{Call, Nothing};

/// The daemon's health.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthView {
    /// In a word.
    pub status: HealthWord,
    /// The version that runs.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Since when it serves, epoch seconds.
    pub started_at: i64,
    /// For how long, in seconds.
    pub uptime_secs: u64,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// The configuration file; null where what was found on the machine is used.
    pub config: Option<String>,
    /// Accounts of the fleet.
    pub accounts: usize,
    /// Accounts that can serve now.
    pub usable: usize,
    /// Requests in flight.
    pub in_flight: u32,
    /// Conversations that are remembered.
    pub conversations: usize,
    /// What everything is remembered by.
    pub store: StoreView,
}

/// The daemon's health in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthWord {
    /// Every account can serve.
    Ok,
    /// Some can, or all can and the store fails.
    Degraded,
    /// None can.
    Out,
    /// It stops, and takes no more requests.
    Draining,
}

/// The daemon's health now.
pub(super) async fn health(call: Call, _: Nothing) -> Result<HealthView, Fault> {
    let desk = &call.desk;
    let snapshot = desk.fleet.failover.snapshot().await.map_err(|error| Fault::unavailable(error.to_string()))?;
    let usable = snapshot.accounts.iter().filter(|account| account.band.is_some_and(|band| band.serves())).count();
    let now = desk.clock.now();
    let store = StoreView::at(&desk.fleet.journal, now);
    Ok(HealthView {
        status: match usable {
            _ if desk.draining.is_cancelled() => HealthWord::Draining,
            0 => HealthWord::Out,
            usable if usable == snapshot.accounts.len() && store.state != StoreWord::Failing => HealthWord::Ok,
            _ => HealthWord::Degraded,
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_at: desk.started.wall.as_secs(),
        uptime_secs: now.since(desk.started).as_secs(),
        addresses: desk.addresses.clone(),
        config: desk.keeper.file().map(|path| path.display().to_string()),
        accounts: snapshot.accounts.len(),
        usable,
        in_flight: snapshot.accounts.iter().map(|account| account.tally.in_flight).sum(),
        conversations: snapshot.conversations,
        store,
    })
}
