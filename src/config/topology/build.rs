//! From checked settings to elements and the brain's roster.

use std::collections::BTreeMap;
use std::sync::Arc;

use duduclaw_actors::id::{AccountId, CredentialKind};
use duduclaw_actors::roster::{AccountSpec, Cap, Roster, Strategy, Switch, UpstreamSpec};

use super::{Account, Element, Entry, Ids, Lookups, Usable};
use crate::config::problem::{Problem, Severity};
use crate::config::secret::{SecretSource, store_file};
use crate::config::settings::{AccountEntry, AuthMode, Protocol, Scope, Settings, Unit};

/// The accounts of a unit: as written, or all of the store.
pub(super) fn listed(
    unit: &Unit,
    settings: &Settings,
    lookups: Lookups<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<AccountEntry> {
    if let Scope::Listed(entries) = &unit.scope {
        return entries.clone();
    }
    if usable(unit) == Usable::NotBuilt {
        return Vec::new();
    }
    match (lookups.names)(unit.family, &settings.accounts_dir) {
        Ok(names) => names.iter().map(|name| stored(unit, settings, name)).collect(),
        Err(error) => {
            let folder = settings.accounts_dir.join(unit.family.as_str());
            let text = format!("the account store {} cannot be read: {error}", folder.display());
            problems.push(Problem { severity: Severity::Warning, place: unit.place.clone(), text });
            Vec::new()
        }
    }
}

fn stored(unit: &Unit, settings: &Settings, name: &str) -> AccountEntry {
    AccountEntry {
        name: name.into(),
        source: SecretSource::StoreFile(store_file(&settings.accounts_dir, unit.family, name)),
        uuid: None,
        priority: 100,
        switch: Switch::On,
        thresholds: settings.account_defaults.thresholds,
        caps: settings.account_defaults.caps,
        budget: Cap::default(),
        place: unit.place.clone(),
    }
}

pub(super) fn element((index, unit): (usize, &Unit), entries: &[Entry], ids: &mut Ids) -> Element {
    let own: Vec<_> = entries.iter().filter(|entry| entry.element == index).collect();
    Element {
        id: ids.upstream(&unit.name),
        name: unit.name.clone(),
        provider: unit.provider.clone(),
        protocol: unit.protocol,
        family: unit.family,
        base_url: unit.base_url.clone(),
        auth: unit.auth,
        strategy: unit.strategy.unwrap_or_else(|| suggested(&own)),
        token_url: unit.token_url.clone(),
        authorize_url: unit.authorize_url.clone(),
        user_agent: unit.user_agent.clone(),
        accounts: in_scope(&own, entries),
        usable: usable(unit),
    }
}

/// A pool that mixes subscriptions and metered keys spends the subscriptions first.
fn suggested(entries: &[&Entry]) -> Strategy {
    let has = |wanted: &[CredentialKind]| entries.iter().any(|entry| wanted.contains(&entry.kind));
    let mixed = has(&[CredentialKind::ApiKey])
        && has(&[CredentialKind::Oauth, CredentialKind::SetupToken, CredentialKind::Keychain]);
    if mixed { Strategy::LeastCost } else { Strategy::RoundRobin }
}

/// An account that is switched off in this element alone is not in its scope; one that is off everywhere stays, as off.
fn in_scope(own: &[&Entry], all: &[Entry]) -> Vec<AccountId> {
    let mut accounts = Vec::new();
    for entry in own {
        let on_here = own.iter().any(|e| e.account == entry.account && e.switch == Switch::On);
        let on_elsewhere = all.iter().any(|e| e.account == entry.account && e.switch == Switch::On);
        if (on_here || !on_elsewhere) && !accounts.contains(&entry.account) {
            accounts.push(entry.account);
        }
    }
    accounts
}

fn usable(unit: &Unit) -> Usable {
    match (unit.protocol, unit.auth) {
        (Protocol::Anthropic, AuthMode::KimiOauth) => Usable::NotBuilt,
        (Protocol::Anthropic, _) => Usable::Yes,
        (Protocol::Responses | Protocol::Chat | Protocol::Gemini, _) => Usable::NotBuilt,
    }
}

pub(super) fn roster(
    settings: &Settings,
    elements: &[Element],
    entries: &[Entry],
    accounts: &BTreeMap<AccountId, Account>,
    revision: u64,
) -> Roster {
    let served: Vec<_> = elements.iter().filter(|element| element.usable == Usable::Yes).collect();
    let listed = |id: &AccountId| served.iter().any(|element| element.accounts.contains(id));
    let specs = accounts.values().filter(|account| listed(&account.id));
    Roster {
        revision,
        upstreams: served.iter().map(|element| upstream_spec(element)).collect(),
        accounts: specs.map(|account| (account.id, account_spec(settings, entries, account))).collect(),
        pool: settings.pool,
        rotation: settings.rotation,
        notify: settings.notify.clone(),
        billing: settings.billing,
        clients: client_caps(settings),
    }
}

fn client_caps(settings: &Settings) -> BTreeMap<Arc<str>, Cap> {
    let clients = settings.server.auth.iter().flat_map(|gate| gate.clients.iter());
    clients.filter(|client| client.cap.binds()).map(|client| (Arc::clone(&client.name), client.cap)).collect()
}

fn upstream_spec(element: &Element) -> UpstreamSpec {
    UpstreamSpec {
        id: element.id,
        name: element.name.clone(),
        provider: element.provider.clone(),
        family: element.family,
        strategy: element.strategy,
        accounts: element.accounts.clone(),
    }
}

fn account_spec(settings: &Settings, entries: &[Entry], account: &Account) -> AccountSpec {
    let entry = &entries[account.representative];
    let unit = &settings.units[entry.element];
    AccountSpec {
        id: account.id,
        identity: account.identity.clone(),
        entry: entry.id.clone(),
        family: unit.family,
        kind: entry.kind,
        priority: entry.priority,
        switch: entry.switch,
        thresholds: entry.thresholds,
        caps: entry.caps,
        budget: entry.budget,
        max_concurrent: unit.max_concurrent,
    }
}
