//! The vault: the present secret of every account, renewed before it ends.
//!
//! [`Vault::current`] is the way of every request: two atomic reads, no lock, no await. It begins a renewal in the
//! background when five minutes or less remain, and while the old token lives nobody waits for it. A request that finds
//! the token ended asks [`Vault::fresh`] and waits as its [`Patience`] allows; one whose token the provider refused asks
//! [`Vault::refresh_rejected`]. All of them share one renewal per account, which runs on the task tracker: a client that
//! hangs up cannot lose a token that can be had only once.
//!
//! Between processes the locks of `lock` see to it that one renews, and the others adopt what it wrote. The parts:
//! `book` (what is known and how it changes, pure), `slot` (one account's book, its snapshot and its source), `renewal`
//! (one exchange from lock to write-back), `watching` (changed files).
//!
//! Never here: whether an account should serve.

mod book;
mod news;
mod renewal;
mod slot;
mod view;
mod watching;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duduclaw_actors::clock::{SharedClock, sleep_until};
use duduclaw_actors::id::{AccountId, Generation};
use duduclaw_actors::outcome::Cause;
use futures_util::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::renewal::{Landing, Progress, Purpose};
use self::slot::Slot;
use super::exchange::{TokenEndpoint, TokenExchange};
use super::seal::Sealer;
use super::secret::Fingerprint;
use super::source::{Environment, SecretSource};
use super::trace::Trace;

pub use news::{CredentialEvents, CredentialNews};
pub use view::{CredentialStatus, Grant, Held, NotNow};

/// How long a request that could go elsewhere waits.
const SHORT: Duration = Duration::from_secs(2);
/// How long a request that could not go elsewhere waits.
const FULL: Duration = Duration::from_secs(60);

/// How often a renewal is tried again by one who finds the pause after the last try over.
const TRIES_AT_ONCE: u32 = 10;

/// How long a request is willing to wait for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Another account could serve it: two seconds at most, and none once the renewal has been blocked that long.
    Short,
    /// No other account could: a minute, and through failed tries.
    Full,
}

/// What the vault stands on.
pub struct VaultParts {
    /// The time.
    pub clock: SharedClock,
    /// Where renewals run; the program waits for it before it ends.
    pub tracker: TaskTracker,
    /// Ends the watching, and the waiting for others' locks; never an exchange that has begun.
    pub shutdown: CancellationToken,
    /// Who is told what happens.
    pub events: Arc<dyn CredentialEvents>,
    /// What asks token endpoints.
    pub exchange: TokenExchange,
    /// Where variables are read.
    pub environment: Environment,
    /// Opens and seals the values of stored accounts.
    pub sealer: Sealer,
}

/// An account and where its secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The account.
    pub account: AccountId,
    /// Where its secret is.
    pub source: SecretSource,
    /// Where it is renewed; none for what cannot be.
    pub endpoint: Option<TokenEndpoint>,
    /// The generation that is remembered of its credential.
    pub generation: Generation,
    /// What is remembered of the credential itself, so that another one in its place is known for one.
    pub trace: Option<Trace>,
    /// Why its secret could not be had, by what is remembered: that it can is news then.
    pub broken: Option<Cause>,
}

/// What became of a token that the provider refused.
#[derive(Clone, Debug)]
pub enum Rejection {
    /// It was renewed: try this one.
    Refreshed(Arc<Held>),
    /// Another one was there already: try this one.
    Adopted(Arc<Held>),
    /// There is no other, and none can be had.
    StillSame,
    /// The refresh grant is gone, too: a person must log in.
    GrantLost,
    /// Renewing failed for now.
    Failed,
    /// Renewing goes on, longer than the request wanted to wait.
    StillRenewing,
    /// The secret cannot be had any more.
    Broken(Cause),
}

/// The present secret of every account. Cheap to clone; all clones are one vault.
///
/// Its methods are called on the runtime that runs the tracker's tasks.
#[derive(Clone)]
pub struct Vault {
    world: Arc<VaultParts>,
    slots: Arc<ArcSwap<HashMap<AccountId, Arc<Slot>>>>,
    assigned: Arc<Notify>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("accounts", &self.slots.load().len()).finish_non_exhaustive()
    }
}

impl Vault {
    /// A vault without accounts.
    #[must_use]
    pub fn new(parts: VaultParts) -> Self {
        Self { world: Arc::new(parts), slots: Arc::default(), assigned: Arc::default() }
    }

    /// Makes these the vault's accounts and reads their secrets. An account whose source and endpoint are as before
    /// keeps everything; one that is not named is forgotten. Calls must not overlap.
    pub async fn assign(&self, accounts: Vec<Assignment>) {
        let before = self.slots.load_full();
        let slots: Vec<_> = accounts.into_iter().map(|to| Slot::assigned(to, &before)).collect();
        join_all(slots.iter().map(|slot| slot.load(&self.world))).await;
        // An account may be known by another name by now.
        join_all(slots.iter().map(|slot| slot.remember_again(&self.world))).await;
        self.slots.store(Arc::new(slots.into_iter().map(|slot| (slot.account(), slot)).collect()));
        self.assigned.notify_one();
    }

    /// The account's secret, to be used at once. Begins its renewal when little time is left.
    ///
    /// # Errors
    /// When there is none to be used now, and why.
    pub fn current(&self, account: AccountId) -> Result<Arc<Held>, NotNow> {
        self.slots.load().get(&account).map_or(Err(NotNow::Unknown), |slot| self.current_of(slot))
    }

    /// The account's secret; if the token has ended, waits for its renewal as long as `patience` allows.
    ///
    /// # Errors
    /// When there is none to be used by then, and why.
    pub async fn fresh(&self, account: AccountId, patience: Patience) -> Result<Arc<Held>, NotNow> {
        let slot = self.slot(account).ok_or(NotNow::Unknown)?;
        let waited = timeout(patience.limit(), self.wait_for_token(&slot, patience)).await;
        waited.unwrap_or_else(|_| self.current_of(&slot))
    }

    /// What to do after the provider refused (401) the token of this fingerprint. If memory or the source holds another
    /// token by now, that one is given without asking the provider for one.
    pub async fn refresh_rejected(&self, account: AccountId, rejected: Fingerprint, patience: Patience) -> Rejection {
        let Some(slot) = self.slot(account) else { return Rejection::StillSame };
        let waited = timeout(patience.limit(), self.replace_rejected(&slot, rejected, patience)).await;
        waited.unwrap_or(Rejection::StillRenewing)
    }

    /// Looks whether sources changed, and reads those that did; writes what could not be written before.
    pub async fn reload_sources(&self) {
        let slots = self.slots.load_full();
        join_all(slots.values().map(|slot| slot.reload(&self.world))).await;
    }

    /// What is known of the account's credential; changes nothing and asks nobody.
    #[must_use]
    pub fn status(&self, account: AccountId) -> Option<CredentialStatus> {
        self.slots.load().get(&account).map(|slot| slot.view().status())
    }

    fn slot(&self, account: AccountId) -> Option<Arc<Slot>> {
        self.slots.load().get(&account).cloned()
    }

    fn current_of(&self, slot: &Arc<Slot>) -> Result<Arc<Held>, NotNow> {
        let now = self.world.clock.now();
        let view = slot.view();
        if slot.endpoint().is_none() {
            return view.current(now).map_err(NotNow::for_good);
        }
        if view.is_due(now) {
            slot.fly(&self.world, Purpose::Due);
        }
        view.current(now)
    }

    async fn wait_for_token(&self, slot: &Arc<Slot>, patience: Patience) -> Result<Arc<Held>, NotNow> {
        let mut at_once = 0;
        loop {
            match self.current_of(slot) {
                Err(NotNow::Renewing) => {
                    let flight = slot.fly(&self.world, Purpose::Due);
                    match self.landed(flight, patience).await {
                        None => return Err(NotNow::Renewing),
                        // A pause that is over by now is no pause; where there never is one, the program ends.
                        Some(Landing::Failed) if slot.view().pause(self.world.clock.now()).is_none() => {
                            at_once += 1;
                            if at_once > TRIES_AT_ONCE || self.world.shutdown.is_cancelled() {
                                return slot.view().current(self.world.clock.now());
                            }
                        }
                        Some(_) => {}
                    }
                }
                Err(NotNow::Postponed(retry)) if patience == Patience::Full => {
                    sleep_until(&*self.world.clock, retry).await;
                }
                other => return other,
            }
        }
    }

    async fn replace_rejected(&self, slot: &Arc<Slot>, rejected: Fingerprint, patience: Patience) -> Rejection {
        loop {
            if let Some(other) = self.other_than(slot, rejected) {
                return Rejection::Adopted(other);
            }
            let purpose = Purpose::Rejected(rejected);
            match self.landed(slot.fly(&self.world, purpose), patience).await {
                Some(Landing::Renewed) => {
                    return self.other_than(slot, rejected).map_or(Rejection::StillSame, Rejection::Refreshed);
                }
                // It was another's flight, whose question was whether the token ends soon.
                Some(Landing::Settled) => {}
                Some(Landing::GrantLost) => return Rejection::GrantLost,
                Some(Landing::NotRenewable) => return Rejection::StillSame,
                Some(Landing::Broken(cause)) => return Rejection::Broken(cause),
                Some(Landing::Failed) => return Rejection::Failed,
                None => return Rejection::StillRenewing,
            }
        }
    }

    fn other_than(&self, slot: &Slot, rejected: Fingerprint) -> Option<Arc<Held>> {
        let held = slot.view().current(self.world.clock.now()).ok()?;
        (held.secret.fingerprint() != rejected).then_some(held)
    }

    /// Waits for a renewal to come to something; `None` if it is blocked for longer than `patience` allows.
    async fn landed(&self, mut flight: watch::Receiver<Progress>, patience: Patience) -> Option<Landing> {
        loop {
            let progress = *flight.borrow_and_update();
            let blocked_for = match progress {
                Progress::Landed(landing) => return Some(landing),
                Progress::Blocked { since } => self.world.clock.now().since(since),
                Progress::Flying => Duration::ZERO,
            };
            let left = patience.limit().saturating_sub(blocked_for);
            if left.is_zero() {
                return None;
            }
            match timeout(left, flight.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_gone)) => return Some(Landing::Failed),
                Err(_late) => return None,
            }
        }
    }
}

impl Patience {
    fn limit(self) -> Duration {
        match self {
            Self::Short => SHORT,
            Self::Full => FULL,
        }
    }
}

#[cfg(test)]
mod tests;
