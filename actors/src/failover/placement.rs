//! Where a new conversation goes: of the two accounts with the highest rendezvous weights, the one with less load.
//!
//! A weight hangs on the conversation and the account's identity alone. So an account that comes or goes changes nothing
//! for conversations that it is not among the two highest of.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::fault::{Rule, broken};
use crate::id::{AccountId, ConversationKey};

/// One account that a conversation may be placed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub(super) account: AccountId,
    pub(super) weight: u64,
}

/// The two highest weights of the best group seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placement {
    group: Option<u32>,
    first: Option<Site>,
    second: Option<Site>,
}

impl Placement {
    /// Whether a site of this group could still be chosen.
    pub(super) fn wants(&self, group: u32) -> bool {
        self.group.is_none_or(|best| group <= best)
    }

    pub(super) fn offer(&mut self, group: u32, site: Site) {
        if self.group.is_none_or(|best| group < best) {
            *self = Self { group: Some(group), first: None, second: None };
        }
        if self.first.is_none_or(|first| site.weight > first.weight) {
            self.second = self.first.replace(site);
        } else if self.second.is_none_or(|second| site.weight > second.weight) {
            self.second = Some(site);
        }
    }

    /// The one of the two with less load.
    pub(super) fn chosen(&self, load: impl Fn(AccountId) -> u32) -> Option<AccountId> {
        let first = self.first?.account;
        let second = self.second.map_or(first, |site| site.account);
        Some(if load(second) < load(first) { second } else { first })
    }
}

/// The weight of an account for a conversation.
pub(super) fn weight(conversation: ConversationKey, seed: u64, members: usize) -> u64 {
    let key = conversation.0.to_le_bytes();
    if broken(Rule::PlansAreEqual) {
        return std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), key);
    }
    let members = if broken(Rule::RendezvousPlaces) { members as u64 } else { 0 };
    xxh3_64_with_seed(&key, seed.wrapping_add(members))
}
