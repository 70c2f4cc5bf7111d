//! One account in the vault: its book behind a lock, the snapshot that requests read, and the way to its source.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use duduclaw_actors::id::AccountId;
use tokio::sync::{MutexGuard, watch};

use super::book::{Book, Saved};
use super::news::CredentialNews;
use super::renewal::{self, Landing, Progress, Purpose};
use super::view::View;
use super::{Assignment, VaultParts};
use crate::credentials::document::{Document, NewTokens, Seals};
use crate::credentials::error::SourceError;
use crate::credentials::exchange::TokenEndpoint;
use crate::credentials::file;
use crate::credentials::kept::{self, NotWritten, Place, Seen};
use crate::credentials::lock::{LockAttempt, Step};
use crate::credentials::seal::{SealError, Sealer};
use crate::credentials::secret::Fingerprint;
use crate::credentials::source::{Copied, Opened, Reading, SecretSource, SourceStamp};
use crate::credentials::trace::Trace;

/// A file that another program may be writing, or that is being sealed with another key, is read this often before it
/// counts as broken.
const READS: usize = 4;
const BETWEEN_READS: Duration = Duration::from_millis(100);

pub(super) struct Slot {
    account: AccountId,
    source: SecretSource,
    endpoint: Option<TokenEndpoint>,
    book: tokio::sync::Mutex<Book>,
    view: ArcSwap<View>,
    flight: Mutex<Option<watch::Receiver<Progress>>>,
    /// What was last told to be remembered.
    told: Mutex<Option<Trace>>,
}

/// When to read the source again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    IfChanged,
    Always,
}

/// What writing a renewed pair back came to.
pub(super) enum Written {
    Done(SourceStamp),
    /// The file holds another pair by now: nothing was written.
    Overtaken(Reading),
}

/// Why a pair could not be written back.
#[derive(Debug, thiserror::Error)]
pub(super) enum SaveError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Write(#[from] NotWritten),
    #[error("the source is no file")]
    NoFile,
    #[error("it cannot be sealed: {0}")]
    Seal(#[from] SealError),
}

impl Slot {
    /// The slot of an assignment: the old one if nothing changed, else a new one that continues its book.
    pub(super) fn assigned(to: Assignment, before: &HashMap<AccountId, Arc<Self>>) -> Arc<Self> {
        let old = before.get(&to.account);
        if let Some(same) = old.filter(|old| old.source == to.source && old.endpoint == to.endpoint) {
            return Arc::clone(same);
        }
        // A book in use by a renewal stays with that renewal; then the new slot reads afresh.
        let moved = old.and_then(|old| old.book.try_lock().ok().map(|book| book.moved()));
        let known = old.and_then(|old| old.view().held().map(|held| held.generation)).unwrap_or(to.generation);
        let book = moved.unwrap_or_else(|| Book::after(known.max(to.generation), to.trace, to.broken));
        Arc::new(Self {
            account: to.account,
            source: to.source,
            endpoint: to.endpoint,
            view: ArcSwap::from_pointee(book.view()),
            book: tokio::sync::Mutex::new(book),
            flight: Mutex::default(),
            told: Mutex::default(),
        })
    }

    pub(super) fn account(&self) -> AccountId {
        self.account
    }

    pub(super) fn endpoint(&self) -> Option<&TokenEndpoint> {
        self.endpoint.as_ref()
    }

    /// The files whose change may change what the source gives.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let known = self.view().files.clone();
        if known.is_empty() { self.source.files() } else { known }
    }

    /// The files whose locks keep others from renewing what is renewed here. A folder that is gone has no lock.
    pub(super) fn locked_paths(&self) -> Vec<PathBuf> {
        let is_lockable = |path: &PathBuf| path.parent().is_some_and(Path::is_dir);
        let own = self.source.path().map(Path::to_owned);
        own.into_iter().chain(self.view().origin.clone().filter(is_lockable)).collect()
    }

    /// What requests see.
    pub(super) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    pub(super) async fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().await
    }

    /// Shows requests what the book says now, then tells what happened, in that order.
    pub(super) fn publish(&self, world: &VaultParts, book: &Book, news: impl IntoIterator<Item = CredentialNews>) {
        self.view.store(Arc::new(book.view()));
        for piece in news {
            world.events.happened(self.account, piece);
        }
        if let Some(trace) = book.trace() {
            self.remember(world, trace);
        }
    }

    /// Tells again what is to be remembered of the credential.
    pub(super) async fn remember_again(&self, world: &VaultParts) {
        if let Some(trace) = self.book().await.trace() {
            world.events.remember(self.account, &trace);
        }
    }

    fn remember(&self, world: &VaultParts, trace: Trace) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() != Some(&trace) {
            world.events.remember(self.account, &trace);
            *told = Some(trace);
        }
    }

    /// Reads the source for the first time, or looks whether it changed.
    pub(super) async fn load(self: &Arc<Self>, world: &VaultParts) {
        self.reread(world, Look::IfChanged).await;
    }

    /// Looks whether the source changed, and writes what could not be written before.
    pub(super) async fn reload(self: &Arc<Self>, world: &VaultParts) {
        self.reread(world, Look::IfChanged).await;
        if self.view().saved == Saved::No {
            self.save_late(world).await;
        }
    }

    /// Reads the source and takes what it gives.
    pub(super) async fn reread(self: &Arc<Self>, world: &VaultParts, look: Look) {
        let mut book = self.book().await;
        let known = book.stamp().cloned();
        if look == Look::IfChanged && blocking(move || known.is_some_and(|known| known.holds())).await {
            return;
        }
        if look == Look::Always {
            kept::look_anew();
        }
        let reading = self.read_patiently(world).await;
        let copy = reading.as_ref().ok().and_then(Option::as_ref).map_or(Copied::Same, |reading| reading.copy);
        let news = book.take_reading(reading);
        self.publish(world, &book, news);
        if copy == Copied::Older
            && let Some(tokens) = book.login().and_then(|login| login.tokens())
        {
            let (slot, sealer) = (Arc::clone(self), world.sealer.clone());
            if let Some(stamp) = blocking(move || slot.copy_over(&tokens, &sealer, look)).await {
                book.wrote(&stamp);
            }
        }
    }

    /// Brings our copy of another program's login up to date. What fails leaves it as it was, for the next look.
    fn copy_over(&self, tokens: &NewTokens, sealer: &Sealer, look: Look) -> Option<Vec<Seen>> {
        let path = self.source.path()?;
        let _lock = match look {
            // Whoever looks so has the lock.
            Look::Always => None,
            Look::IfChanged => match LockAttempt::on(path).step() {
                Ok(Step::Locked(lock)) => Some(lock),
                Ok(Step::Blocked(..)) | Err(_) => return None,
            },
        };
        self.write_copy(path, tokens, sealer)
            .inspect_err(|error| tracing::warn!(%error, "the copy of a login could not be brought up to date"))
            .ok()
    }

    fn write_copy(&self, path: &Path, tokens: &NewTokens, sealer: &Sealer) -> Result<Vec<Seen>, SaveError> {
        let (bytes, _) = file::read(path)?;
        let document = Document::parse(path, &bytes)?;
        let bytes = self.source.with_seals(sealer, |seals| document.with_tokens(tokens, seals))?;
        Ok(kept::replace(path, &Place::File, &bytes)?)
    }

    async fn read_patiently(self: &Arc<Self>, world: &VaultParts) -> Result<Option<Reading>, SourceError> {
        let mut reading = self.read_once(world).await;
        for _ in 1..READS {
            match &reading {
                Err(error) if error.may_be_rekeyed() || self.is_shared() && error.may_be_half_written() => {
                    tokio::time::sleep(BETWEEN_READS).await;
                    reading = self.read_once(world).await;
                }
                Err(_) | Ok(_) => break,
            }
        }
        reading
    }

    /// Whether another program writes it, perhaps while we read.
    fn is_shared(&self) -> bool {
        self.source.is_foreign() || self.view().origin.is_some()
    }

    async fn read_once(self: &Arc<Self>, world: &VaultParts) -> Result<Option<Reading>, SourceError> {
        let (slot, environment, sealer) = (Arc::clone(self), Arc::clone(&world.environment), world.sealer.clone());
        blocking(move || slot.source.read(&environment, &sealer)).await
    }

    /// The renewal under way, or a new one.
    pub(super) fn fly(self: &Arc<Self>, world: &Arc<VaultParts>, purpose: Purpose) -> watch::Receiver<Progress> {
        let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = flight.as_ref().filter(|running| is_running(running)) {
            return running.clone();
        }
        let (progress, watched) = watch::channel(Progress::Flying);
        *flight = Some(watched.clone());
        world.tracker.spawn(renewal::run(Arc::clone(world), Arc::clone(self), purpose, progress));
        watched
    }

    /// Writes the book's newest pair into the file, if the file still holds what that pair descends from; else takes
    /// what the file holds. The caller holds the lock between processes.
    pub(super) async fn save(
        self: &Arc<Self>,
        world: &VaultParts,
        book: &mut Book,
    ) -> Result<Option<Vec<CredentialNews>>, SaveError> {
        let Some(tokens) = book.unsaved() else { return Ok(None) };
        let expected = book.basis().and_then(|pair| pair.refresh);
        let (slot, sealer) = (Arc::clone(self), world.sealer.clone());
        match blocking(move || slot.write_back(expected, &tokens, &sealer)).await {
            Ok(Written::Done(stamp)) => {
                book.saved(stamp);
                Ok(None)
            }
            Ok(Written::Overtaken(reading)) => Ok(Some(book.take_reading(Ok(Some(reading))))),
            // Someone logged out meanwhile: the login is not brought back.
            Err(SaveError::Source(error @ SourceError::Missing { .. })) => Ok(Some(book.take_reading(Err(error)))),
            Err(error) => Err(error),
        }
    }

    fn write_back(
        &self,
        expected: Option<Fingerprint>,
        tokens: &NewTokens,
        sealer: &Sealer,
    ) -> Result<Written, SaveError> {
        kept::look_anew();
        let Opened { path, place, document, reading } = self.source.open(sealer)?.ok_or(SaveError::NoFile)?;
        let Some(stamp) = reading.stamp.clone().filter(|_| reading.login.pair().refresh == expected) else {
            return Ok(Written::Overtaken(reading));
        };
        let own = self.source.path().filter(|own| **own != path);
        let bytes = match own {
            None => self.source.with_seals(sealer, |seals| document.with_tokens(tokens, seals))?,
            Some(_) => document.with_tokens(tokens, &Seals::FOREIGN)?,
        };
        let mut stamp = stamp.after(&kept::replace(&path, &place, &bytes)?);
        if let Some(own) = own {
            match self.write_copy(own, tokens, sealer) {
                Ok(written) => stamp = stamp.after(&written),
                Err(error) => tracing::warn!(%error, "the copy of a renewed login could not be written"),
            }
        }
        Ok(Written::Done(stamp))
    }

    /// Another try at writing, if no other process is at it.
    async fn save_late(self: &Arc<Self>, world: &VaultParts) {
        let paths = self.locked_paths();
        if paths.is_empty() {
            return;
        }
        let Ok(Step::Locked(_lock)) = blocking(move || LockAttempt::on_all(paths).step()).await else { return };
        let mut book = self.book().await;
        if let Ok(overtaken) = self.save(world, &mut book).await {
            self.publish(world, &book, overtaken.unwrap_or_else(|| vec![CredentialNews::Saved]));
        }
    }
}

fn is_running(flight: &watch::Receiver<Progress>) -> bool {
    let over = matches!(*flight.borrow(), Progress::Landed(_));
    // An error means that the task died without landing.
    !over && flight.has_changed().is_ok()
}

impl Progress {
    /// Whether the flight is over, and how.
    pub(super) fn landing(self) -> Option<Landing> {
        match self {
            Self::Landed(landing) => Some(landing),
            Self::Flying | Self::Blocked { .. } => None,
        }
    }
}

/// Runs file work off the async threads.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Only a runtime that is being torn down cancels blocking work, and then nobody waits for the answer.
        Err(_cancelled) => std::future::pending().await,
    }
}
