//! What is known of one account's credential, and how knowledge changes: a pure machine.
//!
//! Two things are kept apart: the newest pair we have, and the pair the source held when it was last looked at. While
//! the source still holds the pair that ours came from, ours is the newer; once it holds another, that one is, since
//! somebody put it there.
//!
//! **Generation** counts the values of the access token (or key). Evidence of an older generation says nothing about
//! the present token: a 401 on the token before a refresh must not condemn the one after. How a generation came about
//! is told beside it: [`CredentialNews::Renewed`] and [`CredentialNews::Adopted`] continue the same grant,
//! [`CredentialNews::Replaced`] is a new credential, which ends what was held against the old one.
//!
//! Never here: files, clocks, the network.

use std::time::Duration;

use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::id::Generation;
use duduclaw_actors::outcome::Cause;

use super::news::CredentialNews;
use super::view::{Grant, Held, Holding, View};
use crate::credentials::document::{Login, NewTokens, Pair, Proof};
use crate::credentials::error::SourceError;
use crate::credentials::kept::{Room, Seen};
use crate::credentials::secret::{Fingerprint, Secret};
use crate::credentials::source::{Reading, SourceStamp};
use crate::credentials::trace::Trace;

/// A token with less time left is renewed on use.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// All that is known of one account's credential.
#[derive(Debug, Default)]
pub(super) struct Book {
    login: Option<Login>,
    /// The pair that the source held when last looked at, from which `login` descends.
    basis: Option<Pair>,
    stamp: Option<SourceStamp>,
    generation: Generation,
    broken: Option<Cause>,
    /// Why it could not be had before the first look.
    was_broken: Option<Cause>,
    /// The refresh token that the provider will never take again.
    dead: Option<Fingerprint>,
    /// What is remembered of the credential before the first one that is read.
    before: Before,
    failures: u32,
    retry: Option<Deadline>,
    /// How long before its end the present token is renewed.
    renew_before: Option<Duration>,
    origin: Origin,
    /// Whether what is renewed can be written into the source.
    room: Option<Room>,
}

/// Where the present pair came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    ThisSource,
    /// From a source that the account no longer has.
    Elsewhere,
}

/// What a login is to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The same token.
    None,
    /// Another program's renewal of it.
    Renewal,
    /// Another credential.
    Replacement,
}

/// Whether the newest pair is where it came from, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    Yes,
    No,
}

/// What is remembered of the credential before the first one that is read.
#[derive(Debug, Default)]
enum Before {
    /// Nothing: the first one is taken for the one that is known.
    #[default]
    Unknown,
    /// This one.
    Known(Trace),
    /// What is remembered of it and of the account's health does not fit together: a stop came in between.
    Torn,
}

impl Book {
    /// A book that goes on from what is remembered of the account: the generation that its health knows, and the last
    /// credential.
    pub(super) fn after(generation: Generation, trace: Option<Trace>, broken: Option<Cause>) -> Self {
        let newest = trace.as_ref().map_or(generation, |trace| trace.generation.max(generation));
        let dead = trace.as_ref().and_then(|trace| trace.dead);
        let before = match trace {
            None => Before::Unknown,
            Some(trace) if trace.generation == generation => Before::Known(trace),
            Some(_) => Before::Torn,
        };
        Self { generation: newest, before, dead, was_broken: broken, ..Self::default() }
    }

    /// What is to be remembered of the present credential.
    pub(super) fn trace(&self) -> Option<Trace> {
        self.login.as_ref().map(|login| Trace::of(login, self.generation, self.dead))
    }

    /// The book of the same account at another source: what was known stays until that source says otherwise.
    pub(super) fn moved(&self) -> Self {
        Self { login: self.login.clone(), generation: self.generation, origin: Origin::Elsewhere, ..Self::default() }
    }

    /// Takes what the source gave.
    pub(super) fn take_reading(&mut self, reading: Result<Option<Reading>, SourceError>) -> Vec<CredentialNews> {
        match reading {
            Ok(Some(reading)) => self.take_login(reading),
            Ok(None) => Vec::new(),
            Err(error) => self.break_off(&error),
        }
    }

    fn take_login(&mut self, reading: Reading) -> Vec<CredentialNews> {
        self.stamp = reading.stamp;
        self.room = Some(reading.room);
        let healed = self.broken.take().or(self.was_broken.take()).is_some();
        let news = if self.basis == Some(reading.login.pair()) { None } else { self.adopt(reading.login) };
        let again = healed.then_some(CredentialNews::ReadAgain { generation: self.generation });
        again.into_iter().chain(news).collect()
    }

    /// Takes a pair that somebody else put into the source.
    fn adopt(&mut self, login: Login) -> Option<CredentialNews> {
        let change = self.change_to(&login);
        let proof = login.proof;
        if self.dead != login.pair().refresh {
            self.dead = None;
        }
        self.basis = Some(login.pair());
        self.login = Some(login);
        self.origin = Origin::ThisSource;
        self.before = Before::Unknown;
        self.settled();
        if change == Change::None {
            return None;
        }
        self.generation.0 += 1;
        let generation = self.generation;
        match change {
            Change::None | Change::Renewal => Some(CredentialNews::Adopted { generation }),
            Change::Replacement => {
                // Whoever renewed a login, its provider gives tokens of the same life; of another one nothing is known.
                self.renew_before = None;
                Some(match proof {
                    Proof::Found => CredentialNews::Replaced { generation },
                    Proof::Pending => CredentialNews::ReplacedUnverified { generation },
                })
            }
        }
    }

    /// What it means that the source holds this login now.
    fn change_to(&self, login: &Login) -> Change {
        let known = match (self.trace(), &self.before) {
            (Some(trace), _) => trace,
            (None, Before::Known(trace)) => trace.clone(),
            (None, Before::Torn) => return Change::Replacement,
            (None, Before::Unknown) if login.proof == Proof::Pending => return Change::Replacement,
            (None, Before::Unknown) => return Change::None,
        };
        if known.is_of(login) {
            Change::None
        } else if self.origin == Origin::Elsewhere || known.is_replaced_by(login) {
            Change::Replacement
        } else {
            Change::Renewal
        }
    }

    fn break_off(&mut self, error: &SourceError) -> Vec<CredentialNews> {
        let cause = error.cause();
        self.stamp = None;
        if self.broken.replace(cause) == Some(cause) {
            return Vec::new();
        }
        vec![CredentialNews::Broke { cause, detail: error.to_string() }]
    }

    /// Takes a pair that we renewed ourselves.
    pub(super) fn take_renewal(&mut self, tokens: NewTokens, life: Duration) -> Option<CredentialNews> {
        let login = self.login.as_mut()?;
        let same_token = login.access.fingerprint() == tokens.access.fingerprint();
        login.access = tokens.access;
        login.refresh = Some(tokens.refresh);
        login.expires_at = Some(tokens.expires_at);
        // A provider that gives tokens shorter than twice our margin must not be asked on every use.
        self.renew_before = Some(RENEW_BEFORE.min(life / 2));
        self.dead = None;
        self.settled();
        if !same_token {
            self.generation.0 += 1;
        }
        Some(CredentialNews::Renewed { generation: self.generation, expires_at: tokens.expires_at })
    }

    /// Whether what is renewed can be written into the source.
    pub(super) fn room(&self) -> Room {
        self.room.unwrap_or(Room::Enough)
    }

    /// The newest pair is in the source now.
    pub(super) fn saved(&mut self, stamp: SourceStamp) {
        self.stamp = Some(stamp);
        self.basis = self.login.as_ref().map(Login::pair);
    }

    fn settled(&mut self) {
        self.failures = 0;
        self.retry = None;
    }

    /// The provider said that the refresh token is dead.
    pub(super) fn lose_grant(&mut self, rejected: Option<Fingerprint>, now: Timestamp) -> Option<CredentialNews> {
        let login = self.login.as_ref()?;
        self.dead = login.pair().refresh;
        let still_good = rejected != Some(login.access.fingerprint());
        let until = login.expires_at.filter(|_| still_good).unwrap_or(now.wall);
        self.settled();
        Some(CredentialNews::GrantLost { access_until: Deadline::Wall(until) })
    }

    /// A renewal failed for now; the next try waits longer each time, and at least as long as the provider asked.
    pub(super) fn postpone(&mut self, detail: String, stated: Option<Duration>, now: Timestamp) -> CredentialNews {
        let own = FIRST_WAIT.saturating_mul(1 << self.failures.min(10)).min(LONGEST_WAIT);
        self.failures = self.failures.saturating_add(1);
        let retry = Deadline::after(now, own.max(stated.unwrap_or_default()));
        self.retry = Some(retry);
        CredentialNews::RefreshFailed { detail, retry }
    }

    /// The newest login, unless its source is broken.
    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref().filter(|_| self.broken.is_none())
    }

    /// The refresh token to spend, unless there is none that could still work.
    pub(super) fn living_refresh(&self) -> Option<&Secret> {
        self.login()?.refresh.as_ref().filter(|token| self.dead != Some(token.fingerprint()))
    }

    /// The pair that the source held when last looked at.
    pub(super) fn basis(&self) -> Option<Pair> {
        self.basis
    }

    /// One of the source's files was written by us, with nothing new in it.
    pub(super) fn wrote(&mut self, written: &[Seen]) {
        self.stamp = self.stamp.take().map(|known| known.after(written));
    }

    /// The stamp of the source when last read.
    pub(super) fn stamp(&self) -> Option<&SourceStamp> {
        self.stamp.as_ref()
    }

    /// Whether the newest pair is in the source, too.
    pub(super) fn is_saved(&self) -> Saved {
        let ours = self.login.as_ref().map(Login::pair);
        if ours.is_none() || ours == self.basis { Saved::Yes } else { Saved::No }
    }

    /// The pair to be saved, as it would be written.
    pub(super) fn unsaved(&self) -> Option<NewTokens> {
        self.login().filter(|_| self.is_saved() == Saved::No)?.tokens()
    }

    /// What requests may see.
    pub(super) fn view(&self) -> View {
        View {
            holding: self.holding(),
            grant: self.grant(),
            retry: self.retry,
            saved: self.is_saved(),
            origin: self.stamp.as_ref().and_then(SourceStamp::origin).map(std::path::Path::to_owned),
            files: self.stamp.iter().flat_map(SourceStamp::files).map(std::path::Path::to_owned).collect(),
        }
    }

    fn holding(&self) -> Holding {
        match (self.broken, &self.login) {
            (Some(cause), _) => Holding::Broken(cause),
            (None, None) => Holding::Nothing,
            (None, Some(login)) => Holding::Secret(std::sync::Arc::new(Held {
                secret: login.access.clone(),
                kind: login.kind,
                generation: self.generation,
                expires_at: login.expires_at,
                facts: login.facts.clone(),
                renew_before: self.renew_before.unwrap_or(RENEW_BEFORE),
            })),
        }
    }

    fn grant(&self) -> Grant {
        match self.login.as_ref().and_then(|login| login.refresh.as_ref()) {
            None => Grant::None,
            Some(token) if self.dead == Some(token.fingerprint()) => Grant::Lost,
            Some(_) => Grant::Alive,
        }
    }
}

#[cfg(test)]
mod tests;
