//! The fleet as the gateway sees it: elements (failover units), entries (configured accounts), accounts (identities).
//!
//! Built from checked [`Settings`] and what the store knows; a reload builds a new one, in which equal identities and
//! equal unit names keep their ids. Nothing in it changes afterwards.

mod identity;
mod resolve;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use duduclaw_actors::id::{AccountId, CredentialKind, EntryId, Family, IdentityKey, UpstreamId};
use duduclaw_actors::roster::{AccountSpec, Roster, Strategy, Switch, UpstreamSpec, WindowCaps, WindowLimits};
use reqwest::Url;

pub use identity::{Ids, Rekeyed};
pub use resolve::{Binding, Chain, NoRoute, Step};

use super::origin::BaseUrl;
use super::problem::{Place, Problem, Severity};
use super::secret::{SecretSource, store_file};
use super::settings::{AccountEntry, AuthMode, Protocol, Scope, Settings, Unit};
use resolve::Routes;

/// What only the account store knows; it lives elsewhere.
#[derive(Clone, Copy)]
pub struct Lookups<'a> {
    /// The names of all valid accounts in the store's folder for a family, in name order. A folder that is not there is
    /// empty; one that cannot be read is an error.
    pub names: &'a dyn Fn(Family, &Path) -> io::Result<Vec<String>>,
    /// What a credential says of its owner.
    pub facts: &'a dyn Fn(&EntryId, &SecretSource) -> IdentityFacts,
}

/// What a credential says of its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityFacts {
    /// The provider's id of the account.
    pub uuid: Option<String>,
    /// The organisation's id.
    pub organization: Option<String>,
    /// What kind of secret it is, where the source alone does not tell: a login that can be refreshed, or not.
    pub kind: Option<CredentialKind>,
}

/// The whole fleet.
#[derive(Clone, Debug)]
pub struct Topology {
    elements: Vec<Element>,
    entries: Vec<Entry>,
    accounts: BTreeMap<AccountId, Account>,
    routes: Routes,
    roster: Arc<Roster>,
    /// Accounts whose identity became better known with this topology.
    pub rekeyed: Vec<Rekeyed>,
}

/// One failover unit.
#[derive(Clone, Debug)]
pub struct Element {
    /// Its id in memory.
    pub id: UpstreamId,
    /// Its name.
    pub name: Arc<str>,
    /// The provider it belongs to.
    pub provider: Arc<str>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Which family it belongs to.
    pub family: Family,
    /// Where it is.
    pub base_url: BaseUrl,
    /// Whose credential is sent.
    pub auth: AuthMode,
    /// How its first choice is made.
    pub strategy: Strategy,
    /// The token endpoint, if not the provider's.
    pub token_url: Option<Url>,
    /// The login page, if not the provider's.
    pub authorize_url: Option<Url>,
    /// The user agent of our own calls, if not ours.
    pub user_agent: Option<http::HeaderValue>,
    /// Its accounts in declaration order, aliases joined.
    pub accounts: Vec<AccountId>,
    /// Whether this version can use it.
    pub usable: Usable,
}

/// Whether this version can use an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usable {
    /// It can.
    Yes,
    /// It parses, and is left aside.
    NotBuilt,
}

/// One configured account.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// The element it stands in, by its place among them.
    pub element: usize,
    /// The account it belongs to.
    pub account: AccountId,
    /// Where its secret is.
    pub source: SecretSource,
    /// What kind of secret that is.
    pub kind: CredentialKind,
    /// The provider's id of the account: configured, else what the credential says.
    pub uuid: Option<String>,
    /// The organisation's id, if the credential says it.
    pub organization: Option<String>,
    /// Lower is preferred.
    pub priority: u32,
    /// Whether it is on.
    pub switch: Switch,
    /// Soft thresholds.
    pub thresholds: WindowLimits,
    /// Hard caps.
    pub caps: WindowCaps,
    /// Where it is declared.
    pub place: Place,
}

/// One identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id in memory.
    pub id: AccountId,
    /// Who it is.
    pub identity: IdentityKey,
    /// The entry whose settings and secret count, by its place among the entries.
    pub representative: usize,
    /// All its entries, in declaration order.
    pub entries: Vec<usize>,
}

impl Topology {
    /// The fleet of these settings. Problems here concern the store, never the configuration's form.
    #[must_use]
    pub fn build(settings: &Settings, lookups: Lookups<'_>, ids: &mut Ids) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut entries = Vec::new();
        for (element, unit) in settings.units.iter().enumerate() {
            let listed = listed(unit, settings, lookups, &mut problems);
            entries.extend(listed.into_iter().map(|entry| identity::known(entry, element, unit, lookups)));
        }
        let (entries, accounts, rekeyed) = identity::join(entries, settings, ids);
        let elements: Vec<_> = settings.units.iter().enumerate().map(|unit| element(unit, &entries, ids)).collect();
        let roster = Arc::new(roster(settings, &elements, &entries, &accounts, ids.next_revision()));
        let routes = Routes::new(settings);
        (Self { elements, entries, accounts, routes, roster, rekeyed }, problems)
    }

    /// What the brain needs to know.
    #[must_use]
    pub fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    /// All elements, in declaration order.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The element of this id.
    #[must_use]
    pub fn element(&self, id: UpstreamId) -> Option<&Element> {
        self.elements.iter().find(|element| element.id == id)
    }

    /// All entries, in declaration order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this name.
    #[must_use]
    pub fn entry(&self, id: &EntryId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// All accounts.
    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values()
    }

    /// The account of this id.
    #[must_use]
    pub fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(&id)
    }

    /// The entry that represents this account.
    #[must_use]
    pub fn representative(&self, id: AccountId) -> Option<&Entry> {
        self.accounts.get(&id).map(|account| &self.entries[account.representative])
    }
}

/// The accounts of a unit: as written, or all of the store.
fn listed(unit: &Unit, settings: &Settings, lookups: Lookups<'_>, problems: &mut Vec<Problem>) -> Vec<AccountEntry> {
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
        place: unit.place.clone(),
    }
}

fn element((index, unit): (usize, &Unit), entries: &[Entry], ids: &mut Ids) -> Element {
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

fn roster(
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
    }
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
        max_concurrent: unit.max_concurrent,
    }
}

#[cfg(test)]
mod tests;
