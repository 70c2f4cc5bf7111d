//! The fleet as the gateway sees it: elements (failover units), entries (configured accounts), accounts (identities).
//!
//! Built from checked [`Settings`] and what the store knows; a reload builds a new one, in which equal identities and
//! equal unit names keep their ids. Nothing in it changes afterwards.

mod aliases;
mod build;
mod identity;
mod names;
mod resolve;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use duduclaw_actors::id::{AccountId, CredentialKind, EntryId, Family, IdentityKey, UpstreamId};
use duduclaw_actors::roster::{Cap, Roster, Strategy, Switch, WindowCaps, WindowLimits};
use reqwest::Url;

pub use identity::{Ids, Rekeyed};
pub use names::{NameError, printable};
pub use resolve::{Binding, Chain, NoRoute, Step};

use super::origin::BaseUrl;
use super::problem::{Place, Problem};
use super::secret::SecretSource;
use super::settings::{AuthMode, Protocol, Settings};
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
    /// What may be spent on it in a month.
    pub budget: Cap,
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
            let listed = build::listed(unit, settings, lookups, &mut problems);
            entries.extend(listed.into_iter().map(|entry| identity::known(entry, element, unit, lookups)));
        }
        let (entries, accounts, rekeyed) = identity::join(entries, settings, ids);
        let elements: Vec<_> =
            settings.units.iter().enumerate().map(|unit| build::element(unit, &entries, ids)).collect();
        let roster = Arc::new(build::roster(settings, &elements, &entries, &accounts, ids.next_revision()));
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

#[cfg(test)]
mod tests;
