//! What status pages show of admission.

use std::collections::HashMap;

use super::admission::Admission;
use super::book::Tally;
use super::conversations::Binding;
use super::demand::Via;
use super::rank::Band;
use super::view::{Condition, View};
use crate::clock::Timestamp;
use crate::id::{AccountId, ConversationKey, EntryId, ModelScope, UpstreamId};

/// Admission at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Every account of the roster.
    pub accounts: Vec<AccountSnapshot>,
    /// Conversations that are remembered.
    pub conversations: usize,
}

/// One account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSnapshot {
    /// Which.
    pub account: AccountId,
    /// Its entry.
    pub entry: EntryId,
    /// What is in flight.
    pub tally: Tally,
    /// Conversations bound to it.
    pub conversations: usize,
    /// Askers that wait for it.
    pub waiting: usize,
    /// Its band for requests that no model scope governs; none if it is not to be used.
    pub band: Option<Band>,
    /// Its band for requests in [`ModelScope::Fable`].
    pub fable_band: Option<Band>,
}

/// One conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationSnapshot {
    /// Its key.
    pub key: ConversationKey,
    /// When its last request was sent.
    pub used_at: Timestamp,
    /// Where it is at home.
    pub homes: Vec<HomeSnapshot>,
}

/// Where a conversation is at home, in one upstream for one model scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeSnapshot {
    /// The upstream.
    pub upstream: UpstreamId,
    /// The scope.
    pub scope: ModelScope,
    /// The account.
    pub account: AccountId,
}

impl Snapshot {
    /// Whether any account serves requests now.
    #[must_use]
    pub fn has_usable(&self) -> bool {
        self.accounts.iter().any(|account| account.band.is_some_and(Band::serves))
    }
}

fn home(binding: &Binding) -> Option<HomeSnapshot> {
    let account = binding.account()?;
    Some(HomeSnapshot { upstream: binding.upstream, scope: binding.scope, account })
}

impl Admission {
    /// What status pages show.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        let mut bound: HashMap<AccountId, usize> = HashMap::new();
        for (_, conversation) in self.conversations.iter() {
            let mut homes: Vec<_> = conversation.bindings.iter().filter_map(|b| b.account()).collect();
            homes.sort_unstable();
            homes.dedup();
            homes.into_iter().for_each(|account| *bound.entry(account).or_default() += 1);
        }
        let listed = self.views.each().filter(|view| view.listed == super::view::Listed::Yes);
        let accounts = listed.map(|view| self.account_snapshot(view, &bound, now)).collect();
        Snapshot { accounts, conversations: self.conversations.iter().count() }
    }

    /// The conversations that were used last, the latest first, at most so many; of one account, if one is named.
    #[must_use]
    pub fn latest_conversations(&self, most: usize, of: Option<AccountId>) -> Vec<ConversationSnapshot> {
        let all = self.conversations.latest().map(|(key, conversation)| ConversationSnapshot {
            key,
            used_at: conversation.used_at,
            homes: conversation.bindings.iter().filter_map(home).collect(),
        });
        let is_asked_for =
            |one: &ConversationSnapshot| of.is_none_or(|account| one.homes.iter().any(|home| home.account == account));
        all.filter(is_asked_for).take(most).collect()
    }

    fn account_snapshot(&self, view: &View, bound: &HashMap<AccountId, usize>, now: Timestamp) -> AccountSnapshot {
        let account = view.spec.id;
        AccountSnapshot {
            account,
            entry: view.spec.entry.clone(),
            tally: self.book.tally(account),
            conversations: bound.get(&account).copied().unwrap_or_default(),
            waiting: view.queue.len(),
            band: self.band(view, ModelScope::Base, now),
            fable_band: self.band(view, ModelScope::Fable, now),
        }
    }

    fn band(&self, view: &View, scope: ModelScope, now: Timestamp) -> Option<Band> {
        match view.digest(&self.settings, scope, Via::Job, now).condition {
            Condition::Removed(_) => None,
            Condition::Open(band) => Some(band),
            Condition::Breather(_) | Condition::Held(_) => Some(Band::Holding),
        }
    }
}
