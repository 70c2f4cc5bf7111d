//! Who an account is: entries of one identity are one account, under one id that outlives reloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use duduclaw_actors::id::{AccountId, CredentialKind, EntryId, IdentityKey, UpstreamId};
use duduclaw_actors::roster::Switch;

use super::{Account, Entry, Lookups};
use crate::config::secret::SecretSource;
use crate::config::settings::{AccountEntry, AuthMode, Settings, Unit};

/// Gives ids: equal identities and equal unit names get equal ones for the process's life.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    accounts: BTreeMap<IdentityKey, AccountId>,
    next_account: u32,
    upstreams: BTreeMap<Arc<str>, UpstreamId>,
    /// Who each entry was when last looked at.
    last: BTreeMap<EntryId, IdentityKey>,
    revision: u64,
}

/// An account became better known: what is kept under the old identity belongs to the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rekeyed {
    /// Its id before.
    pub before: AccountId,
    /// Its id now: the same, unless the new identity had an account already, which then keeps the stricter of both.
    pub now: AccountId,
    /// Who it was.
    pub was: IdentityKey,
    /// Who it is.
    pub is: IdentityKey,
}

impl Ids {
    /// The id of a failover unit.
    pub fn upstream(&mut self, name: &Arc<str>) -> UpstreamId {
        let next = UpstreamId(u32::try_from(self.upstreams.len()).unwrap_or(u32::MAX));
        *self.upstreams.entry(name.clone()).or_insert(next)
    }

    /// The id of an identity.
    pub fn account(&mut self, identity: &IdentityKey) -> AccountId {
        if let Some(known) = self.accounts.get(identity) {
            return *known;
        }
        let id = AccountId(self.next_account);
        self.next_account += 1;
        self.accounts.insert(identity.clone(), id);
        id
    }

    pub(super) fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Follows entries whose identity became better known; `present` are all identities of the new fleet.
    fn rekey(&mut self, entry: &EntryId, is: &IdentityKey, present: &[IdentityKey]) -> Option<Rekeyed> {
        let was = self.last.insert(entry.clone(), is.clone())?;
        let before = *self.accounts.get(&was)?;
        if was == *is || present.contains(&was) || !is_better(is, &was) {
            return None;
        }
        self.accounts.entry(is.clone()).or_insert(before);
        self.accounts.remove(&was);
        Some(Rekeyed { before, now: self.account(is), was, is: is.clone() })
    }
}

/// Whether an identity says more of the same account.
fn is_better(is: &IdentityKey, was: &IdentityKey) -> bool {
    match (is, was) {
        (IdentityKey::Verified { .. }, IdentityKey::Stored { .. } | IdentityKey::Inline { .. }) => true,
        (
            IdentityKey::Verified { uuid: is, organization: Some(_), .. },
            IdentityKey::Verified { uuid: was, organization: None, .. },
        ) => is == was,
        (IdentityKey::Verified { .. } | IdentityKey::Stored { .. } | IdentityKey::Inline { .. }, _) => false,
    }
}

/// An entry with what its credential says; its account is found when all are known.
pub(super) fn known(entry: AccountEntry, element: usize, unit: &Unit, lookups: Lookups<'_>) -> Entry {
    let id = EntryId { provider: unit.name.clone(), name: entry.name };
    let facts = (lookups.facts)(&id, &entry.source);
    Entry {
        kind: kind(&entry.source, facts.kind, unit.auth),
        id,
        element,
        account: AccountId(u32::MAX),
        source: entry.source,
        uuid: entry.uuid.or(facts.uuid.filter(|uuid| !uuid.trim().is_empty())),
        organization: facts.organization.filter(|organization| !organization.trim().is_empty()),
        priority: entry.priority,
        switch: entry.switch,
        thresholds: entry.thresholds,
        caps: entry.caps,
        budget: entry.budget,
        place: entry.place,
    }
}

fn kind(source: &SecretSource, told: Option<CredentialKind>, auth: AuthMode) -> CredentialKind {
    match source {
        SecretSource::TokenEnv(_) => CredentialKind::SetupToken,
        SecretSource::ApiKeyEnv(_) => CredentialKind::ApiKey,
        SecretSource::Keychain { .. } => CredentialKind::Keychain,
        SecretSource::None => CredentialKind::None,
        SecretSource::StoreFile(_) if auth == AuthMode::ApiKey => CredentialKind::ApiKey,
        SecretSource::CredentialsFile(_) | SecretSource::StoreFile(_) => told.unwrap_or(CredentialKind::Oauth),
    }
}

/// Joins entries of one identity.
pub(super) fn join(
    mut entries: Vec<Entry>,
    settings: &Settings,
    ids: &mut Ids,
) -> (Vec<Entry>, BTreeMap<AccountId, Account>, Vec<Rekeyed>) {
    let identities: Vec<_> = entries.iter().map(|entry| identity(entry, &settings.units[entry.element])).collect();
    let pairs = entries.iter().zip(&identities);
    let rekeyed = pairs.filter_map(|(entry, is)| ids.rekey(&entry.id, is, &identities)).collect();
    let mut accounts: BTreeMap<AccountId, Account> = BTreeMap::new();
    for (index, identity) in identities.into_iter().enumerate() {
        let id = ids.account(&identity);
        entries[index].account = id;
        let fresh = || Account { id, identity, representative: index, entries: Vec::new() };
        accounts.entry(id).or_insert_with(fresh).entries.push(index);
    }
    for account in accounts.values_mut() {
        account.representative = representative(account, &entries);
    }
    (entries, accounts, rekeyed)
}

/// The enabled one of the lowest priority that was declared first.
fn representative(account: &Account, entries: &[Entry]) -> usize {
    let rank = |index: &&usize| (entries[**index].switch == Switch::Off, entries[**index].priority, **index);
    account.entries.iter().min_by_key(rank).copied().unwrap_or(account.representative)
}

fn identity(entry: &Entry, unit: &Unit) -> IdentityKey {
    let family = unit.family;
    if let Some(uuid) = &entry.uuid {
        return IdentityKey::Verified { family, uuid: uuid.clone(), organization: entry.organization.clone() };
    }
    match &entry.source {
        SecretSource::StoreFile(_) => IdentityKey::Stored { family, name: entry.id.name.to_string() },
        SecretSource::CredentialsFile(_)
        | SecretSource::TokenEnv(_)
        | SecretSource::ApiKeyEnv(_)
        | SecretSource::Keychain { .. }
        | SecretSource::None => {
            IdentityKey::Inline { upstream: entry.id.provider.to_string(), name: entry.id.name.to_string() }
        }
    }
}
