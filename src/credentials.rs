//! Secrets: where they come from, how they are renewed, and the only place that holds them.
//!
//! A [`SecretSource`] says where an account's secret is: a file of another program, a file of our store, a variable. The
//! [`Vault`] keeps the present secret of every account, renews it before it ends, adopts what other programs renewed,
//! and tells what happened through [`CredentialEvents`]. What that means for an account's health is decided elsewhere.
//!
//! Never here: which account serves a request.

mod check;
mod document;
mod error;
mod exchange;
mod file;
mod identity;
mod jwt;
mod kept;
mod keychain;
mod lock;
mod login;
mod offer;
mod parcel;
mod registrar;
mod seal;
mod secret;
mod source;
mod store;
mod trace;
mod values;
mod vault;

pub use check::{Asked, Checked, Checker, Shown, Subject, Told, question};
pub use document::Proof;
pub(crate) use document::{Content, Document, Fresh, Origin};
pub use error::SourceError;
pub use exchange::{
    CLAUDE_CLIENT_ID, CLAUDE_SCOPES, CLAUDE_TOKEN_URL, CLAUDE_TOKEN_URL_VARIABLE, CODEX_TOKEN_URL_VARIABLE, Issuer,
    OWN_USER_AGENT, TokenEndpoint, TokenExchange, TokenUrl, UnsafeTokenUrl,
};
pub(crate) use file::open as open_file;
pub use identity::{IdentityFacts, UUID_LIKE, credential_kind, identity_facts, is_uuid};
pub(crate) use kept::{Place as KeptIn, looked_for, read as read_kept};
pub use keychain::{Keychain, KeychainError};
pub(crate) use login::{
    CODEX_PORTS, CallbackError, DeviceCode, Listening, LoginFailure, codex_redirect, random, redeem,
};
pub use login::{
    LoginAttempt, LoginCode, LoginKind, LoginSite, NoSite, PENDING_AT_ONCE, PENDING_FOR, PasteError, Pendings, TooMany,
};
pub use offer::{Offer, OfferError, OfferedKind};
pub use parcel::{
    BringError, Brought, ExportError, Fate, IfThere, ImportError, SHORTEST as SHORTEST_PASSPHRASE, export, import,
};
pub(crate) use registrar::existing_login;
pub use registrar::{Before, Destination, DestinationError, NotSaved, Registrar, Saved, Taken};
pub use seal::{
    FreePlace, Key, KeyError, KeyId, KeyPlace, KeyPlaces, OpenError, Place, RekeyError, Rekeyed, SealError, Sealer,
    Sealing, is_sealed, rekey,
};
pub use secret::{Fingerprint, MalformedSecret, Secret, SecretShape};
pub use source::{Credential, Environment, Renewal, SecretSource, process_environment};
pub use store::{StoredAccount, is_store_name, store_file, stored_accounts};
pub use trace::Trace;
pub use vault::{
    Assignment, CredentialEvents, CredentialNews, CredentialStatus, Grant, Held, NotNow, Patience, Rejection, Vault,
    VaultParts,
};

#[cfg(test)]
mod tests;
