//! The names of one account: which entry stands for it, and which others mean the same account.
//!
//! An account that several scopes name alike, by the same secret, has one name there and no alias.

use duduclaw_actors::id::AccountId;
use duduclaw_actors::roster::Switch;

use super::{Element, Entry, Topology};

impl Topology {
    /// The entry by which an account is shown in an element: the one that stands for it, else the first of those here.
    #[must_use]
    pub fn shown_in(&self, element: &Element, account: AccountId) -> Option<&Entry> {
        let own = || self.of_account(account).filter(|entry| *entry.id.provider == *element.name);
        let stands = self.representative(account);
        let here = own().find(|entry| stands.is_some_and(|stands| stands.id == entry.id));
        here.or_else(|| own().min_by_key(|entry| (entry.switch == Switch::Off, entry.priority)))
    }

    /// The other names of this entry's account, in the order of the configuration.
    pub fn aliases<'t>(&'t self, of: &'t Entry) -> impl Iterator<Item = &'t Entry> {
        let is_another = |entry: &&Entry| entry.id.name != of.id.name || entry.source != of.source;
        self.of_account(of.account).filter(move |entry| entry.id != of.id).filter(is_another)
    }

    /// The entry that stands for the account, where this one does not, and goes by another name.
    #[must_use]
    pub fn stood_for_by(&self, entry: &Entry) -> Option<&Entry> {
        let stands = self.representative(entry.account)?;
        self.aliases(entry).any(|alias| alias.id == stands.id).then_some(stands)
    }

    fn of_account(&self, account: AccountId) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.account == account)
    }
}
