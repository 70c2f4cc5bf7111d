//! What a person can do about a credential that is refused or cannot be had: log in again, or put another in its place.

use duduclaw_actors::id::CredentialKind;

use crate::admin::pool::PoolAccount;
use crate::config::topology::Entry;
use crate::credentials::SecretSource;

/// What to do, as part of a sentence.
pub(super) fn cure(entry: &Entry) -> String {
    let id = &entry.id;
    match (&entry.source, entry.kind) {
        (SecretSource::TokenEnv(name), _) => {
            format!("set ${name} to a new token of `claude setup-token`, and start the daemon again")
        }
        (SecretSource::ApiKeyEnv(name), _) => format!("set ${name} to another key, and start the daemon again"),
        (SecretSource::StoreFile(_), CredentialKind::ApiKey) => {
            format!("put another key in its place: duduclaw accounts replace {id}")
        }
        (SecretSource::StoreFile(_), CredentialKind::SetupToken) => {
            format!("put a new token of `claude setup-token` in its place: duduclaw accounts replace {id}")
        }
        (SecretSource::StoreFile(_) | SecretSource::CredentialsFile(_), _) => "log in again".to_owned(),
        (SecretSource::Keychain { .. } | SecretSource::None, _) => {
            "log in again with the program it belongs to".to_owned()
        }
    }
}

/// What is to be said after an account was cleared that is still out: what does end it.
pub(super) fn uncleared(account: &PoolAccount, entry: &Entry) -> Option<String> {
    let what = match (account.state.as_str(), account.cause.as_deref()) {
        ("auth_dead", cause) => {
            let cure = match cause {
                Some("org_disabled") => "the organisation's administrator, or an API key".to_owned(),
                Some(_) | None => cure(entry),
            };
            format!("{cure}; or its provider, once it knows the credential again: duduclaw accounts probe {}", entry.id)
        }
        ("broken", _) => "its secret, once it can be had: `duduclaw check` says what is wrong".to_owned(),
        ("erroring", _) => "its time, or a request that is served".to_owned(),
        _ if account.needs_login => cure(entry),
        _ => return None,
    };
    Some(format!("clearing does not end that; what does: {what}"))
}
