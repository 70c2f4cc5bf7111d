//! Saving a credential in the account store: judged by its form, asked about at its provider, sealed, written.
//!
//! What the provider refuses is not saved. What could not be asked about is saved as unverified, and asked about again
//! by whoever runs the fleet. Never here: whether the account is in a pool, and what that makes of it.

mod destination;
mod filing;

use std::path::{Path, PathBuf};

use duduclaw_actors::account::health::Verdict;
use duduclaw_actors::clock::{SharedClock, Timestamp};
use duduclaw_actors::id::CredentialKind;

use super::check::{Asked, Shown, question};
use super::document::{Content, Fresh, Origin, Proof};
use super::error::SourceError;
use super::offer::{self, Offer, OfferError};
use super::seal::{SealError, Sealer};
use super::source::SecretSource;
use super::store::{is_store_name, store_file};
use crate::upstream::client::Client;

pub use destination::{Destination, DestinationError};

/// What saves credentials.
#[derive(Clone)]
pub struct Registrar {
    /// The way to the providers.
    pub client: Client,
    /// Seals what is written.
    pub sealer: Sealer,
    /// Tells the time.
    pub clock: SharedClock,
}

/// What to do where an account of this name is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Leave it, unless its credential cannot be had any more.
    Keep,
    /// Put the new one in its place, whoever that is.
    Replace,
    /// It must be there, and goes on with another secret: it stays who it is.
    Renew,
}

/// What was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Its file.
    pub path: PathBuf,
    /// What kind it is.
    pub kind: CredentialKind,
    /// Whether the provider knows it.
    pub proof: Proof,
    /// What the provider answered, if it did.
    pub status: Option<u16>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// The provider's id of the account, if it is known.
    pub uuid: Option<String>,
    /// Whether another credential was in its place.
    pub before: Before,
}

/// What was in the place of what was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// An account of this name, of this kind as far as its file tells.
    Account(Option<CredentialKind>),
}

/// Why nothing was saved.
#[derive(Debug, thiserror::Error)]
pub enum NotSaved {
    /// No account can be called so.
    #[error("an account's name may hold only small letters a–z, digits and hyphens; nothing was saved")]
    Name,
    /// What was offered cannot be it.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// There is one of this name.
    #[error("there is an account {name:?} in the store; --replace puts this one in its place")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is none of this name.
    #[error("there is no account {name:?} in the store; `duduclaw accounts add {name}` adds it")]
    Missing {
        /// The name.
        name: String,
    },
    /// The provider refuses it.
    #[error(
        "the provider refuses this credential (401); nothing was saved; check that all of it was pasted, or log in again"
    )]
    Refused,
    /// The organisation refuses it.
    #[error(
        "the organisation refuses this credential (403); nothing was saved; use an API key, or ask the organisation's \
         administrator to allow it"
    )]
    OrgRefused,
    /// It cannot be sealed.
    #[error("it cannot be sealed, so nothing was saved: {0}")]
    Seal(#[from] SealError),
    /// What stands in its place cannot be read, and is not overwritten.
    #[error("{0}; nothing was saved")]
    Blocked(SourceError),
    /// It cannot be written.
    #[error("{} cannot be written, so nothing was saved: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another program is at it.
    #[error("another program is changing {}; try again", .0.display())]
    Busy(PathBuf),
}

impl Registrar {
    /// Saves what somebody offers.
    ///
    /// # Errors
    /// When it is not saved, and why.
    pub async fn take(&self, to: &Destination, name: &str, offer: &Offer, taken: Taken) -> Result<Saved, NotSaved> {
        let fresh = offer::judge(offer, to.taker())?;
        self.save(to, name, fresh, taken).await
    }

    /// Asks about a credential and saves it.
    pub(crate) async fn save(
        &self,
        to: &Destination,
        name: &str,
        mut fresh: Fresh,
        taken: Taken,
    ) -> Result<Saved, NotSaved> {
        let path = self.path(to, name)?;
        filing::look(&path, name, taken, &self.sealer).await?;
        let asked_at = self.clock.now();
        let (verdict, status) = self.ask(to, &fresh, asked_at).await;
        fresh.proof = match verdict {
            Verdict::Valid => Proof::Found,
            Verdict::Undecided => Proof::Pending,
            Verdict::InvalidToken => return Err(NotSaved::Refused),
            Verdict::OrgRefused => return Err(NotSaved::OrgRefused),
        };
        let (proof, kind) = (fresh.proof, fresh.content.kind());
        let filed = filing::file(path.clone(), name.to_owned(), fresh, taken, self.sealer.clone()).await?;
        Ok(Saved { path, kind, proof, status, asked_at, uuid: filed.uuid, before: filed.before })
    }

    fn path(&self, to: &Destination, name: &str) -> Result<PathBuf, NotSaved> {
        if !is_store_name(name) || name.starts_with("sk-") {
            return Err(NotSaved::Name);
        }
        Ok(store_file(&to.accounts_dir, to.family, name))
    }

    /// A token that has ended says nothing about its login: it is not asked about, and renewed on its first use.
    async fn ask(&self, to: &Destination, fresh: &Fresh, now: Timestamp) -> (Verdict, Option<u16>) {
        if let Content::Login { expires_at, .. } = &fresh.content
            && offer::has_ended(*expires_at, now.wall)
        {
            return (Verdict::Undecided, None);
        }
        let at = Asked { base_url: &to.base_url, user_agent: to.user_agent.as_ref(), protocol: to.protocol };
        let (kind, secret) = (fresh.content.kind(), fresh.content.secret());
        let told = question(&self.client, at, Shown { kind, secret, account: fresh.facts.uuid.as_deref() }).await;
        (told.verdict, told.reply.map(|reply| reply.status.as_u16()))
    }
}

/// The login of another program, as an account of ours that stays linked to it. A token that cannot be renewed is copied.
///
/// # Errors
/// When there is none, or it makes no sense.
pub(crate) fn existing_login(path: &Path) -> Result<Fresh, SourceError> {
    let source = SecretSource::CredentialsFile(path.to_owned());
    let missing = || SourceError::Missing { path: path.to_owned() };
    let opened = source.open(&Sealer::none())?.ok_or_else(missing)?;
    let login = opened.reading.login;
    let (facts, renews) = (login.facts.clone(), login.refresh.is_some());
    let content = opened.document.content(login).ok_or_else(missing)?;
    let fresh = Fresh { content, facts, proof: Proof::Found, origin: Origin::Own };
    Ok(if renews { fresh.linked_to(path.to_owned()) } else { fresh })
}

impl Fresh {
    /// The same as a copy of what this file holds.
    pub(crate) fn linked_to(self, file: PathBuf) -> Self {
        Self { origin: Origin::Linked(file), ..self }
    }
}
