//! What requests see of a credential: a snapshot, read without a lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::clock::{Deadline, Timestamp, Wall};
use duduclaw_actors::id::{CredentialKind, Generation};
use duduclaw_actors::outcome::Cause;

use super::book::Saved;
use crate::credentials::identity::IdentityFacts;
use crate::credentials::secret::{Fingerprint, Secret};

/// A secret to be used now, and what belongs to it.
#[derive(Debug)]
pub struct Held {
    /// The access token or key.
    pub secret: Secret,
    /// What kind it is: how it is sent, and whether it can be renewed.
    pub kind: CredentialKind,
    /// Its generation, for the evidence that it brings.
    pub generation: Generation,
    /// When it ends, if its source says so. For a token that cannot be renewed this is information only.
    pub expires_at: Option<Wall>,
    /// Whose it is, as far as its source says.
    pub facts: IdentityFacts,
    pub(super) renew_before: Duration,
}

/// Why there is no secret to be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    /// The vault has no such account.
    #[error("the account is not known")]
    Unknown,
    /// The account's kind holds no secret here.
    #[error("the account holds no secret")]
    NoSecret,
    /// The secret cannot be had.
    #[error("the credential cannot be had: {}", .0.as_str())]
    Broken(Cause),
    /// The token has ended and is being renewed; `fresh` waits for it.
    #[error("the access token has ended and is being renewed")]
    Renewing,
    /// The token has ended, and renewing it failed; the next try is at this time.
    #[error("the access token has ended, and renewing it failed for now")]
    Postponed(Deadline),
    /// The token has ended and a person must log in.
    #[error("the access token has ended and the refresh grant is gone: log in again")]
    LoginNeeded,
}

/// What is known of an account's credential, without any secret; looking changes nothing and asks nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialStatus {
    /// What kind it is, if it can be had.
    pub kind: Option<CredentialKind>,
    /// Its generation, if it can be had.
    pub generation: Option<Generation>,
    /// What tells it from others, if it can be had.
    pub fingerprint: Option<Fingerprint>,
    /// When it ends, if known.
    pub expires_at: Option<Wall>,
    /// Why it cannot be had.
    pub broken: Option<Cause>,
    /// Whether it can be renewed.
    pub grant: Grant,
    /// Whether the newest pair is in its source, too.
    pub is_saved: bool,
    /// When a failed renewal is tried again.
    pub retry: Option<Deadline>,
}

/// Whether a credential can be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// It can.
    Alive,
    /// It could: a person must log in.
    Lost,
    /// Its kind cannot.
    None,
}

#[derive(Debug)]
pub(super) enum Holding {
    Secret(Arc<Held>),
    Broken(Cause),
    Nothing,
}

/// A snapshot of a book.
#[derive(Debug)]
pub(super) struct View {
    pub(super) holding: Holding,
    pub(super) grant: Grant,
    pub(super) retry: Option<Deadline>,
    pub(super) saved: Saved,
    /// The file of another program that the source is a copy of.
    pub(super) origin: Option<PathBuf>,
    /// The files whose change may change what it gives; none where it gives nothing.
    pub(super) files: Vec<PathBuf>,
}

impl Held {
    /// Whether the token has ended. One that cannot be renewed is never judged by its date: the provider will say.
    fn has_ended(&self, now: Timestamp) -> bool {
        self.ends_within(Duration::ZERO, now)
    }

    fn ends_within(&self, margin: Duration, now: Timestamp) -> bool {
        self.kind == CredentialKind::Oauth && self.expires_at.is_some_and(|end| end <= now.wall.plus(margin))
    }
}

impl NotNow {
    /// The same where nothing renews tokens.
    pub(super) fn for_good(self) -> Self {
        match self {
            Self::Renewing | Self::Postponed(_) => Self::LoginNeeded,
            Self::Unknown | Self::NoSecret | Self::Broken(_) | Self::LoginNeeded => self,
        }
    }
}

impl View {
    /// The secret, if it can be used at `now`.
    pub(super) fn current(&self, now: Timestamp) -> Result<Arc<Held>, NotNow> {
        match &self.holding {
            Holding::Broken(cause) => Err(NotNow::Broken(*cause)),
            Holding::Nothing => Err(NotNow::NoSecret),
            Holding::Secret(held) if !held.has_ended(now) => Ok(Arc::clone(held)),
            Holding::Secret(_) => Err(self.ended(now)),
        }
    }

    fn ended(&self, now: Timestamp) -> NotNow {
        match (self.grant, self.pause(now)) {
            (Grant::Lost | Grant::None, _) => NotNow::LoginNeeded,
            (Grant::Alive, Some(retry)) => NotNow::Postponed(retry),
            (Grant::Alive, None) => NotNow::Renewing,
        }
    }

    /// The running pause between tries.
    pub(super) fn pause(&self, now: Timestamp) -> Option<Deadline> {
        self.retry.filter(|retry| !retry.is_due(now))
    }

    /// Whether a renewal should begin at `now`.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.grant == Grant::Alive && self.pause(now).is_none() && self.needs_renewal(now)
    }

    /// Whether the token has ended or ends soon.
    pub(super) fn needs_renewal(&self, now: Timestamp) -> bool {
        matches!(&self.holding, Holding::Secret(held) if held.ends_within(held.renew_before, now))
    }

    /// The secret as it is, ended or not.
    pub(super) fn held(&self) -> Option<&Arc<Held>> {
        match &self.holding {
            Holding::Secret(held) => Some(held),
            Holding::Broken(_) | Holding::Nothing => None,
        }
    }

    pub(super) fn status(&self) -> CredentialStatus {
        let held = self.held();
        CredentialStatus {
            kind: held.map(|h| h.kind),
            generation: held.map(|h| h.generation),
            fingerprint: held.map(|h| h.secret.fingerprint()),
            expires_at: held.and_then(|h| h.expires_at),
            broken: match self.holding {
                Holding::Broken(cause) => Some(cause),
                Holding::Secret(_) | Holding::Nothing => None,
            },
            grant: self.grant,
            is_saved: self.saved == Saved::Yes,
            retry: self.retry,
        }
    }
}
