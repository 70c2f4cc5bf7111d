//! What to write by hand where an account has no entry that could be changed.

use std::fmt::Write;

use duduclaw_actors::id::EntryId;

use super::Change;
use super::text::{Form, TextError};
use crate::config::topology::{Entry, Topology};
use crate::credentials::SecretSource;

/// What to do about a refusal; none where the refusal says it all.
#[must_use]
pub fn advice(topology: &Topology, why: &TextError, change: Change) -> Option<String> {
    match why {
        TextError::NoList(entry, form) => Some(list(topology, entry, *form, change)),
        TextError::LastOne(entry) => Some(format!("switch it off instead: duduclaw accounts disable {entry}")),
        TextError::Syntax | TextError::NoEntry(_) => None,
    }
}

/// All accounts of the provider, written out: once one has an entry, the others need theirs.
fn list(topology: &Topology, entry: &EntryId, form: Form, change: Change) -> String {
    if change == Change::Add {
        return with_new(topology, entry, form);
    }
    let own: Vec<_> = topology.entries().iter().filter(|other| other.id.provider == entry.provider).collect();
    if change == Change::Remove
        && let Some(path) = own.iter().find(|other| other.id == *entry).and_then(|entry| entry.source.path())
    {
        return format!("it stands in the account store; move {} out of it", path.display());
    }
    let mut text = "write the accounts of its provider out, all of them, and change this one there:".to_owned();
    match form {
        Form::Providers => own.iter().for_each(|other| providers(&mut text, other)),
        Form::Upstreams => upstreams(&mut text, &own, None),
    }
    text
}

/// All accounts of the provider, written out, and a new one.
fn with_new(topology: &Topology, entry: &EntryId, form: Form) -> String {
    let own: Vec<_> = topology.entries().iter().filter(|other| other.id.provider == entry.provider).collect();
    let mut text = "write the accounts of its provider out, with this one among them:".to_owned();
    match form {
        Form::Providers => {
            own.iter().for_each(|other| providers(&mut text, other));
            let _ = write!(text, "\n{}", entry_to_add(entry, form));
        }
        Form::Upstreams => upstreams(&mut text, &own, Some(&entry.name)),
    }
    text
}

/// What a new entry of an account of the store looks like.
#[must_use]
pub fn entry_to_add(entry: &EntryId, form: Form) -> String {
    let EntryId { provider, name } = entry;
    match form {
        Form::Providers => format!("[[providers.{provider}.accounts]]\nname = \"{name}\""),
        Form::Upstreams => format!("\"{name}\" among the accounts in `auth` of [[upstreams]] \"{provider}\""),
    }
}

fn providers(text: &mut String, entry: &Entry) {
    let (provider, name) = (&entry.id.provider, &entry.id.name);
    let _ = write!(text, "\n[[providers.{provider}.accounts]]\nname = \"{name}\"");
    if let Some((key, value)) = source(&entry.source) {
        let _ = write!(text, "\n{key} = {value:?}   # in place of the provider's own {key}");
    }
}

fn upstreams(text: &mut String, entries: &[&Entry], new: Option<&str>) {
    let account = |entry: &&Entry| match source(&entry.source) {
        Some((key, value)) => format!("{{ name = \"{}\", {key} = {value:?} }}", entry.id.name),
        None => format!("\"{}\"", entry.id.name),
    };
    let new = new.map(|name| format!("\"{name}\""));
    let accounts: Vec<_> = entries.iter().map(account).chain(new).collect();
    let _ = write!(text, "\nauth = {{ mode = \"…\", accounts = [{}] }}", accounts.join(", "));
}

/// The key that names a secret; the store's files go by the account's name.
fn source(source: &SecretSource) -> Option<(&'static str, String)> {
    match source {
        SecretSource::CredentialsFile(path) => Some(("credentials", path.display().to_string())),
        SecretSource::TokenEnv(name) => Some(("token_env", name.clone())),
        SecretSource::ApiKeyEnv(name) => Some(("api_key_env", name.clone())),
        SecretSource::StoreFile(_) | SecretSource::Keychain { .. } | SecretSource::None => None,
    }
}
