//! What happens to credentials, for whoever decides what it means.

use duduclaw_actors::clock::{Deadline, Wall};
use duduclaw_actors::id::{AccountId, Generation};
use duduclaw_actors::outcome::Cause;

use crate::credentials::trace::Trace;

/// One thing that happened to an account's credential. No text in it holds any part of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialNews {
    /// We renewed the access token: the same grant goes on.
    Renewed {
        /// The new token's generation.
        generation: Generation,
        /// When it ends.
        expires_at: Wall,
    },
    /// Another program renewed it, and we use its token: the same grant goes on.
    Adopted {
        /// The new token's generation.
        generation: Generation,
    },
    /// Another credential took its place: a new login, another key, another account.
    Replaced {
        /// The new credential's generation.
        generation: Generation,
    },
    /// Another credential took its place, or is the first, and its check could not be completed when it was saved.
    ReplacedUnverified {
        /// The new credential's generation.
        generation: Generation,
    },
    /// The secret can no longer be had.
    Broke {
        /// Why, as a cause of state.
        cause: Cause,
        /// Why, for a person: names the file or variable and the place.
        detail: String,
    },
    /// The secret can be had again; if it is another one, that is told next.
    ReadAgain {
        /// The generation in use.
        generation: Generation,
    },
    /// The refresh grant is gone: a person must log in.
    GrantLost {
        /// Until when the present access token serves; now, if it was the one refused.
        access_until: Deadline,
    },
    /// A renewal failed for now.
    RefreshFailed {
        /// What happened.
        detail: String,
        /// When it is tried again on use.
        retry: Deadline,
    },
    /// A renewed pair could not be written back: it is used from memory, and writing is tried again.
    NotSaved {
        /// What happened.
        detail: String,
    },
    /// A pair that could not be written back is saved now.
    Saved,
}

/// Who is told. Called from tasks of the vault: must not block.
pub trait CredentialEvents: Send + Sync {
    /// Something happened to the account's credential.
    fn happened(&self, account: AccountId, news: CredentialNews);

    /// This is to be remembered of the account's credential.
    fn remember(&self, account: AccountId, trace: &Trace);

    /// What people call the account.
    fn name(&self, account: AccountId) -> String;
}
