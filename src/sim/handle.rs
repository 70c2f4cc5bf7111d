//! Steering a running simulator from the same process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::SimError;
use super::account::{AccountSpec, Credentials};
use super::control::{AccountChange, AccountView};
use super::fault::{Endpoint, FaultRule};
use super::log::Record;
use super::quota::SimWindow;
use super::server::Shared;

/// Steers a running simulator; it stops when the handle is dropped.
pub struct SimHandle {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for SimHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimHandle").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl SimHandle {
    pub(super) fn new(address: SocketAddr, shared: Arc<Shared>) -> Self {
        Self { address, shared }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a client takes as base URL.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The token endpoint.
    #[must_use]
    pub fn token_url(&self) -> String {
        format!("{}/v1/oauth/token", self.base_url())
    }

    /// What a client needs to use an account.
    #[must_use]
    pub fn credentials(&self, account: &str) -> Option<Credentials> {
        self.accounts().into_iter().find(|view| view.name == account).map(|view| view.credentials)
    }

    /// All accounts as they stand.
    #[must_use]
    pub fn accounts(&self) -> Vec<AccountView> {
        self.shared.world().views(self.shared.clock.now())
    }

    /// One more account.
    ///
    /// # Errors
    /// If the name is taken or empty.
    pub fn add_account(&self, spec: AccountSpec) -> Result<(), SimError> {
        self.shared.world().add(spec, self.shared.clock.now()).map_err(SimError::Refused)
    }

    /// Changes an account: quota, expiry, revocation, login.
    ///
    /// # Errors
    /// If there is no such account or window.
    pub fn change(&self, account: &str, change: &AccountChange) -> Result<AccountView, SimError> {
        self.shared.world().change(account, change, self.shared.clock.now()).map_err(SimError::Refused)
    }

    /// Sets which share of an account's window is used.
    ///
    /// # Errors
    /// If there is no such account.
    pub fn set_used(&self, account: &str, window: SimWindow, share: f64) -> Result<AccountView, SimError> {
        let used = [(window.as_str().to_owned(), share)].into();
        self.change(account, &AccountChange { used, ..AccountChange::default() })
    }

    /// Lets something go wrong. A scripted header that HTTP does not allow is left out.
    pub fn fault(&self, rule: FaultRule) {
        self.shared.world().faults.add(rule);
    }

    /// Lets nothing more go wrong, for an account or at all.
    pub fn clear_faults(&self, account: Option<&str>) {
        self.shared.world().faults.clear(account);
    }

    /// Resets new connections as soon as they are made, or takes them again.
    pub fn refuse_connections(&self, refusal: Refusal) {
        self.shared.refusing.store(refusal == Refusal::Refusing, Ordering::SeqCst);
    }

    /// Milliseconds before each event of streams that begin from now on.
    pub fn set_pace(&self, millis: u64) {
        self.shared.world().config.pace_millis = millis;
    }

    /// Milliseconds that the token endpoint takes from now on.
    pub fn set_token_delay(&self, millis: u64) {
        self.shared.world().config.token_delay_millis = millis;
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// If the simulator was given a clock that it may not move.
    pub fn advance(&self, step: Duration) -> Result<(), SimError> {
        self.shared.clock.advance(step)
    }

    /// All requests so far, oldest first.
    #[must_use]
    pub fn log(&self) -> Vec<Record> {
        self.shared.world().log.since(0)
    }

    /// One request, by its number or the `request-id` of its answer.
    #[must_use]
    pub fn record(&self, id: &str) -> Option<Record> {
        self.shared.world().log.find(id).cloned()
    }

    /// The requests to one endpoint that bore this account's credential.
    #[must_use]
    pub fn hits(&self, account: &str, endpoint: Endpoint) -> Vec<Record> {
        let mut world = self.shared.world();
        let records = world.log.all().iter();
        let hits = records.filter(|record| record.account.as_deref() == Some(account) && record.endpoint == endpoint);
        hits.cloned().collect()
    }

    /// Waits until the log satisfies a condition, looking again after each change. The simulator stands still while
    /// the condition looks, so it must not ask the handle anything.
    pub async fn until(&self, condition: impl Fn(&[Record]) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while !condition(self.shared.world().log.all()) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Forgets the log; numbers go on.
    pub fn clear_log(&self) {
        self.shared.world().log.clear();
    }

    /// Everything as at the start, except the clock.
    pub fn reset(&self) {
        self.shared.world().reset(self.shared.clock.now());
    }

    /// Connections so far, and those open now.
    #[must_use]
    pub fn connections(&self) -> Connections {
        Connections {
            accepted: self.shared.connections.load(Ordering::SeqCst),
            open: self.shared.open_connections.load(Ordering::SeqCst),
        }
    }

    /// Stops, and waits until all connections are closed.
    pub async fn stop(self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

/// Whether new connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They are.
    Accepting,
    /// They are reset at once.
    Refusing,
}

/// How many connections there were and are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Since the start.
    pub accepted: u64,
    /// Now.
    pub open: u64,
}
