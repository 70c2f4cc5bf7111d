//! An account's health as admission sees it: a fact with a sequence number, published by the account alone.

use serde::{Deserialize, Serialize};

use crate::account::quota::Quota;
use crate::clock::{Deadline, Timestamp};
use crate::id::{AccountId, EvidenceSeq, Generation};
use crate::outcome::Cause;

/// What admission knows of one account.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Whose.
    pub account: AccountId,
    /// Grows with every publication.
    pub seq: u64,
    /// The last piece of evidence that is in it.
    pub applied: EvidenceSeq,
    /// The credential it speaks of.
    pub generation: Generation,
    /// Whether the credential can be used at all.
    pub credential: CredentialState,
    /// Whether the operator paused it.
    pub paused: Paused,
    /// Saved without a check; serves, last in its band.
    pub unverified: bool,
    /// An auth hold has ended undecided: one request at a time, last in its band.
    pub on_trial: bool,
    /// Holds on every request, one per kind at most.
    pub holds: Vec<Hold>,
    /// Hold on requests of the scope [`crate::id::ModelScope::Fable`] alone.
    pub fable_hold: Option<Hold>,
    /// A short wait that the provider asked for: not a hold; its bound conversations wait, others go elsewhere.
    pub breather: Option<Deadline>,
    /// Quota figures.
    pub quota: Quota,
}

/// Whether a credential can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialState {
    /// It can.
    Usable,
    /// The secret cannot be had.
    Broken(Cause),
    /// The refresh grant is gone; the access token serves until then.
    NeedsLogin {
        /// When the access token ends.
        access_until: Deadline,
    },
}

/// Whether the operator paused an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Paused {
    /// By hand; survives restart.
    Yes,
    /// No.
    #[default]
    No,
}

/// A reason not to use an account for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Which of the independent holds it is.
    pub kind: HoldKind,
    /// Why.
    pub cause: Cause,
    /// When it began.
    pub began: Timestamp,
    /// When it ends by itself.
    pub until: Deadline,
    /// Whether the end was stated by the provider or guessed by us.
    pub stated: Stated,
    /// Grows with each renewal: what a success sent before must not end.
    pub episode: u64,
}

/// The independent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldKind {
    /// Network, 5xx, overload, time-out, blank answer.
    Erroring,
    /// Quota or throttle.
    RateLimited,
    /// Our cap reached, or the provider's balance empty.
    BudgetExhausted,
    /// The credential is refused.
    AuthDead,
}

/// Whose word an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stated {
    /// The provider's.
    ByProvider,
    /// Our guess.
    Guessed,
}

/// The state that is shown: the gravest. Declared from least to gravest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing holds it (a scope hold alone leaves it healthy).
    #[default]
    Healthy,
    /// [`HoldKind::Erroring`].
    Erroring,
    /// [`HoldKind::RateLimited`].
    RateLimited,
    /// [`HoldKind::BudgetExhausted`].
    BudgetExhausted,
    /// [`HoldKind::AuthDead`].
    AuthDead,
    /// [`CredentialState::Broken`].
    Broken,
}

impl State {
    /// The name used in events, metrics and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Erroring => "erroring",
            Self::RateLimited => "rate_limited",
            Self::BudgetExhausted => "budget_exhausted",
            Self::AuthDead => "auth_dead",
            Self::Broken => "broken",
        }
    }
}

impl Standing {
    /// The gravest state at `now`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> State {
        if matches!(self.credential, CredentialState::Broken(_)) {
            return State::Broken;
        }
        let running = self.holds.iter().filter(|h| !h.until.is_due(now));
        running.map(|h| State::from(h.kind)).max().unwrap_or(State::Healthy)
    }

    /// Whether the account serves on trial: an auth hold has ended undecided, told or not told yet.
    #[must_use]
    pub fn is_on_trial(&self, now: Timestamp) -> bool {
        let ended = |hold: &Hold| hold.kind == HoldKind::AuthDead && hold.until.is_due(now);
        self.on_trial || self.holds.iter().any(ended)
    }

    /// Whether only a person (or a check that comes out well) brings it back: refused, broken, or logged out with its
    /// access token at an end. Being on trial is not out, and not back either.
    #[must_use]
    pub fn is_out_by_auth(&self, now: Timestamp) -> bool {
        let refused = self.holds.iter().any(|hold| hold.kind == HoldKind::AuthDead && !hold.until.is_due(now));
        match self.credential {
            CredentialState::Broken(_) => true,
            CredentialState::NeedsLogin { access_until } => refused || access_until.is_due(now),
            CredentialState::Usable => refused,
        }
    }
}

impl From<HoldKind> for State {
    fn from(kind: HoldKind) -> Self {
        match kind {
            HoldKind::Erroring => Self::Erroring,
            HoldKind::RateLimited => Self::RateLimited,
            HoldKind::BudgetExhausted => Self::BudgetExhausted,
            HoldKind::AuthDead => Self::AuthDead,
        }
    }
}
