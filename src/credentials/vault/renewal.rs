//! One renewal of one account, from the lock to the write-back.
//!
//! It looks at the source first, since another program may have renewed already; then takes the locks; looks again
//! under them; and only then spends the refresh token. The answer is written back before it is shown to requests, as
//! long as the file still holds the token that was spent; a write that fails is tried again while the new token serves
//! from memory.

use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::clock::Timestamp;
use duduclaw_actors::outcome::Cause;
use tokio::sync::watch;

use super::VaultParts;
use super::news::CredentialNews;
use super::slot::{Look, SaveError, Slot, blocking};
use super::view::{Grant, Holding};
use crate::credentials::document::NewTokens;
use crate::credentials::exchange::{self, Refusal};
use crate::credentials::kept::Room;
use crate::credentials::lock::{LockAttempt, RefreshLock, Step, TOUCH_EVERY};
use crate::credentials::secret::{Fingerprint, Secret};

/// How long a renewal waits for locks of others before it says so and lets the next use try again.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
const FIRST_NAP: Duration = Duration::from_millis(10);
const LONGEST_NAP: Duration = Duration::from_millis(200);
/// How many different refresh tokens one renewal spends when each turns out dead and replaced.
const TOKENS_SPENT: usize = 3;
/// When a failed write is tried again, before it is left to the next look at the sources.
const WRITE_AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_millis(600)];

/// Why to renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The token ends soon, or has ended.
    Due,
    /// The provider refused the token of this fingerprint.
    Rejected(Fingerprint),
}

/// How far a renewal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Flying,
    /// Another program holds a lock.
    Blocked {
        since: Timestamp,
    },
    Landed(Landing),
}

/// What a renewal came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Landing {
    /// There is a new token.
    Renewed,
    /// There was nothing to do, or another program had done it.
    Settled,
    /// The refresh token is dead.
    GrantLost,
    /// This kind of credential cannot be renewed.
    NotRenewable,
    /// The secret cannot be had.
    Broken(Cause),
    /// Not for now.
    Failed,
}

/// Renews the account and tells how it went through `progress`.
pub(super) async fn run(world: Arc<VaultParts>, slot: Arc<Slot>, purpose: Purpose, progress: watch::Sender<Progress>) {
    let renewal = Renewal { world: &world, slot: &slot, purpose, progress: &progress };
    let landing = renewal.run().await;
    renewal.land(landing);
}

struct Renewal<'a> {
    world: &'a VaultParts,
    slot: &'a Arc<Slot>,
    purpose: Purpose,
    progress: &'a watch::Sender<Progress>,
}

impl Renewal<'_> {
    async fn run(&self) -> Landing {
        if let Some(landing) = self.look(Look::IfChanged).await {
            return landing;
        }
        match self.lock().await {
            Err(landing) => landing,
            Ok(lock) => tokio::select! {
                landing = self.renew(&lock) => landing,
                never = keep_alive(&lock) => match never {},
            },
        }
    }

    /// Tells the waiting, once: what follows is nobody's wait.
    fn land(&self, landing: Landing) {
        self.progress.send_if_modified(|progress| {
            let first = progress.landing().is_none();
            if first {
                *progress = Progress::Landed(landing);
            }
            first
        });
    }

    /// Reads the source, and says how the renewal ends if nothing is left to do.
    async fn look(&self, look: Look) -> Option<Landing> {
        self.slot.reread(self.world, look).await;
        let now = self.world.clock.now();
        let view = self.slot.view();
        let held = match &view.holding {
            Holding::Broken(cause) => return Some(Landing::Broken(*cause)),
            Holding::Nothing => return Some(Landing::NotRenewable),
            Holding::Secret(held) => held,
        };
        let wanted = match self.purpose {
            Purpose::Due => view.needs_renewal(now),
            Purpose::Rejected(token) => held.secret.fingerprint() == token || view.current(now).is_err(),
        };
        if !wanted {
            return Some(Landing::Settled);
        }
        match view.grant {
            Grant::Lost => Some(Landing::GrantLost),
            Grant::None => Some(Landing::NotRenewable),
            Grant::Alive if self.slot.endpoint().is_none() => Some(Landing::NotRenewable),
            Grant::Alive => view.pause(now).map(|_| Landing::Failed),
        }
    }

    /// Takes the locks. Waits for others by looking again and again, so that what they write is seen at once and a
    /// holder that never lets go stops nobody for good.
    async fn lock(&self) -> Result<RefreshLock, Landing> {
        let paths = self.slot.locked_paths();
        let shown = paths.first().map(|path| path.display().to_string()).ok_or(Landing::NotRenewable)?;
        let mut attempt = LockAttempt::on_all(paths);
        let (mut nap, mut waited) = (FIRST_NAP, Duration::ZERO);
        let since = self.world.clock.now();
        loop {
            let holder = match blocking(move || attempt.step()).await {
                Ok(Step::Locked(lock)) => return Ok(lock),
                Ok(Step::Blocked(back, holder)) => {
                    attempt = back;
                    holder
                }
                Err(error) => {
                    return Err(self.postpone(format!("{shown} cannot be locked: {error}"), None).await);
                }
            };
            if waited >= LOCK_PATIENCE {
                return Err(self.postpone(format!("waited {} s: {holder}", LOCK_PATIENCE.as_secs()), None).await);
            }
            self.progress.send_replace(Progress::Blocked { since });
            self.rest(nap).await?;
            waited += nap;
            nap = (nap * 2).min(LONGEST_NAP);
            if let Some(landing) = self.look(Look::IfChanged).await {
                return Err(landing);
            }
        }
    }

    async fn rest(&self, nap: Duration) -> Result<(), Landing> {
        tokio::select! {
            () = tokio::time::sleep(nap) => Ok(()),
            () = self.world.shutdown.cancelled() => Err(Landing::Failed),
        }
    }

    async fn renew(&self, lock: &RefreshLock) -> Landing {
        self.progress.send_replace(Progress::Flying);
        for _ in 0..TOKENS_SPENT {
            if let Some(landing) = self.look(Look::Always).await {
                return landing;
            }
            if !lock.is_whole() {
                return self.postpone("another program took the lock over".to_owned(), None).await;
            }
            if let Some(landing) = self.spend().await {
                return landing;
            }
        }
        self.postpone("the login changed again and again".to_owned(), None).await
    }

    /// Spends the refresh token; `None` if it was dead and another has taken its place. One whose successor could not be
    /// written is left to the program whose login it is, which would be logged out.
    async fn spend(&self) -> Option<Landing> {
        if self.slot.book().await.room() == Room::TooLittle {
            let detail =
                "Claude Code's login is too long to be written to the keychain unseen: run `claude`, which renews it";
            return Some(self.postpone(detail.to_owned(), None).await);
        }
        let token = self.slot.book().await.living_refresh().cloned();
        let (Some(token), Some(endpoint)) = (token, self.slot.endpoint()) else { return Some(Landing::NotRenewable) };
        // The life of a token is counted from before it was asked for: a process that was stopped must not believe its
        // token to be younger than it is.
        let asked = self.world.clock.now();
        match self.world.exchange.refresh(endpoint, &token).await {
            Ok(grant) => Some(self.keep(token, grant, asked).await),
            Err(Refusal::GrantDead { code }) => self.lose(&token, code).await,
            Err(Refusal::NotNow { detail, wait }) => Some(self.postpone(detail, wait).await),
        }
    }

    async fn keep(&self, spent: Secret, grant: exchange::Grant, asked: Timestamp) -> Landing {
        let refresh = grant.refresh.unwrap_or(spent);
        // What was given just now has not ended: a token that says so means that our clock is ahead.
        let expires_at = grant.ends.filter(|ends| *ends > asked.wall).unwrap_or(asked.wall.plus(grant.life));
        let life = expires_at.since(asked.wall);
        let tokens = NewTokens { access: grant.access, refresh, expires_at };
        let mut book = self.slot.book().await;
        let renewed = book.take_renewal(tokens, life);
        let saved = self.slot.save(self.world, &mut book).await;
        let (landing, news) = match &saved {
            Ok(Some(overtaken)) => (Landing::Settled, overtaken.clone()),
            Ok(None) | Err(_) => (Landing::Renewed, renewed.into_iter().collect()),
        };
        self.slot.publish(self.world, &book, news);
        drop(book);
        self.land(landing);
        if let Err(error) = saved {
            self.save_again(error).await;
        }
        landing
    }

    /// Tries to write a few times more, with the locks still held: whoever reads the file finds a spent token in it.
    async fn save_again(&self, mut error: SaveError) {
        for wait in WRITE_AGAIN_AFTER {
            tokio::time::sleep(wait).await;
            let mut book = self.slot.book().await;
            match self.slot.save(self.world, &mut book).await {
                Ok(overtaken) => return self.slot.publish(self.world, &book, overtaken.unwrap_or_default()),
                Err(again) => error = again,
            }
        }
        let detail = format!("the renewed login serves from memory: {error}");
        tracing::warn!(account = self.name(), %detail, "a renewed login could not be saved");
        let book = self.slot.book().await;
        self.slot.publish(self.world, &book, [CredentialNews::NotSaved { detail }]);
    }

    /// The provider will never take the token again, unless the source holds another by now.
    async fn lose(&self, spent: &Secret, code: &'static str) -> Option<Landing> {
        self.slot.reread(self.world, Look::Always).await;
        let mut book = self.slot.book().await;
        if book.living_refresh().map(Secret::fingerprint) != Some(spent.fingerprint()) {
            return None;
        }
        tracing::warn!(account = self.name(), code, token = %spent.fingerprint(), "the refresh grant is gone");
        let rejected = match self.purpose {
            Purpose::Due => None,
            Purpose::Rejected(token) => Some(token),
        };
        let news = book.lose_grant(rejected, self.world.clock.now());
        self.slot.publish(self.world, &book, news);
        Some(Landing::GrantLost)
    }

    fn name(&self) -> String {
        self.world.events.name(self.slot.account())
    }

    async fn postpone(&self, detail: String, stated: Option<Duration>) -> Landing {
        tracing::info!(account = self.name(), %detail, "a renewal failed for now");
        let mut book = self.slot.book().await;
        let news = book.postpone(detail, stated, self.world.clock.now());
        self.slot.publish(self.world, &book, [news]);
        Landing::Failed
    }
}

/// Touches the lock folders for as long as it is polled.
async fn keep_alive(lock: &RefreshLock) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(TOUCH_EVERY).await;
        lock.touch();
    }
}
