//! Which account each conversation is bound to.
//!
//! A binding belongs to a conversation, an upstream and a model scope. It is made when a lease is granted, tentatively;
//! the first good answer confirms or moves it, so that parallel first requests agree. A lease that is never sent takes
//! its tentative binding back. Conversations are remembered for an hour after their last use, at most 65,536.

mod binding;
pub mod record;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

pub(super) use binding::{Binding, Home};
use binding::{Confirmed, Undone};

use crate::clock::Timestamp;
use crate::id::{AccountId, ConversationKey, LeaseId, ModelScope, UpstreamId};

/// How long an unused conversation is remembered.
const LIFE: Duration = Duration::from_secs(3600);
/// How many are remembered.
const MOST: usize = 65_536;
/// The last use is written at most this often.
const WRITE_EVERY: Duration = Duration::from_secs(60);

/// All conversations that are remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversations {
    by_key: HashMap<ConversationKey, Conversation>,
    /// From the least recently used on.
    by_use: BTreeMap<u64, ConversationKey>,
    uses: u64,
}

/// One conversation.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    pub(super) bindings: Vec<Binding>,
    pub(super) used_at: Timestamp,
    written_at: Option<Timestamp>,
    used: u64,
}

/// Whether something is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dirty {
    Yes,
    No,
}

impl Conversations {
    /// All, the one that was used last first.
    pub(super) fn latest(&self) -> impl Iterator<Item = (ConversationKey, &Conversation)> {
        self.by_use.values().rev().filter_map(|key| Some((*key, self.by_key.get(key)?)))
    }

    /// Where a conversation is at home for this upstream and scope.
    pub(super) fn home(&self, key: ConversationKey, upstream: UpstreamId, scope: ModelScope) -> Option<Home> {
        let bindings = &self.by_key.get(&key)?.bindings;
        let here = || bindings.iter().filter(|b| b.upstream == upstream);
        if let Some(binding) = here().find(|b| b.scope == scope) {
            return binding.home();
        }
        here().find_map(Binding::account).map(Home::Anchor)
    }

    pub(super) fn binding(&self, key: ConversationKey, upstream: UpstreamId, scope: ModelScope) -> Option<&Binding> {
        let bindings = &self.by_key.get(&key)?.bindings;
        bindings.iter().find(|b| b.upstream == upstream && b.scope == scope)
    }

    /// The account whose answer the conversation saw last for models of this scope, in whichever upstream.
    pub(super) fn last_served(&self, key: ConversationKey, scope: ModelScope) -> Option<AccountId> {
        let bindings = self.by_key.get(&key)?.bindings.iter().filter(|binding| binding.scope == scope);
        let served = bindings.filter_map(Binding::served_last).max_by_key(|served| served.at.boot);
        served.map(|served| served.account)
    }

    /// The binding for this upstream and scope, made if it is not there.
    pub(super) fn binding_mut(
        &mut self,
        key: ConversationKey,
        upstream: UpstreamId,
        scope: ModelScope,
        now: Timestamp,
    ) -> &mut Binding {
        let conversation = match self.by_key.contains_key(&key) {
            true => self.by_key.get_mut(&key).expect("a key that is contained has its conversation"),
            false => self.insert(key, Vec::new(), now, None),
        };
        let bindings = &mut conversation.bindings;
        let at = bindings.iter().position(|b| b.upstream == upstream && b.scope == scope).unwrap_or_else(|| {
            bindings.push(Binding::new(upstream, scope));
            bindings.len() - 1
        });
        &mut bindings[at]
    }

    /// A request of the conversation was sent: it is the most recently used.
    pub(super) fn touch(&mut self, key: ConversationKey, now: Timestamp) -> Dirty {
        let Some(conversation) = self.by_key.get_mut(&key) else { return Dirty::No };
        self.by_use.remove(&conversation.used);
        self.uses += 1;
        conversation.used = self.uses;
        conversation.used_at = now;
        self.by_use.insert(self.uses, key);
        let due = conversation.written_at.is_some_and(|at| now.since(at) >= WRITE_EVERY);
        if due { Dirty::Yes } else { Dirty::No }
    }

    /// Takes back what an unsent lease had bound. The moment at which it was bound, if it is gone.
    pub(super) fn unsent(
        &mut self,
        key: ConversationKey,
        upstream: UpstreamId,
        scope: ModelScope,
        lease: LeaseId,
        account: AccountId,
    ) -> Option<Timestamp> {
        let conversation = self.by_key.get_mut(&key)?;
        let at = conversation.bindings.iter().position(|b| b.upstream == upstream && b.scope == scope)?;
        let undone = conversation.bindings[at].unsent(lease, account);
        let Undone::Gone(bound_at) = undone else { return None };
        if conversation.bindings[at].is_blank() {
            conversation.bindings.remove(at);
        }
        if conversation.bindings.is_empty() {
            let used = conversation.used;
            self.by_key.remove(&key);
            self.by_use.remove(&used);
        }
        Some(bound_at)
    }

    /// A good answer: confirms or moves a tentative binding.
    pub(super) fn served(
        &mut self,
        key: ConversationKey,
        upstream: UpstreamId,
        scope: ModelScope,
        lease: LeaseId,
        account: AccountId,
        now: Timestamp,
    ) -> Dirty {
        match self.binding_mut(key, upstream, scope, now).served(lease, account, now) {
            Confirmed::Changed => Dirty::Yes,
            Confirmed::Known => Dirty::No,
        }
    }

    pub(super) fn note_written(&mut self, key: ConversationKey, now: Timestamp) {
        if let Some(conversation) = self.by_key.get_mut(&key) {
            conversation.written_at = Some(now);
        }
    }

    /// Forgets what was not used for an hour, and the least recently used beyond the bound.
    pub(super) fn forget_old(&mut self, now: Timestamp) -> Vec<ConversationKey> {
        let mut gone = Vec::new();
        while let Some((&used, &key)) = self.by_use.first_key_value() {
            let old = self.by_key.get(&key).is_none_or(|c| now.since(c.used_at) >= LIFE);
            if !old && self.by_use.len() <= MOST {
                break;
            }
            self.by_use.remove(&used);
            self.by_key.remove(&key);
            gone.push(key);
        }
        gone
    }

    pub(super) fn get(&self, key: ConversationKey) -> Option<&Conversation> {
        self.by_key.get(&key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ConversationKey, &Conversation)> {
        self.by_key.iter().map(|(key, conversation)| (*key, conversation))
    }

    /// Takes in a conversation that was written before; one used later stands before one used earlier.
    pub(super) fn restore(&mut self, key: ConversationKey, bindings: Vec<Binding>, used_at: Timestamp, now: Timestamp) {
        if self.by_key.contains_key(&key) || bindings.is_empty() {
            return;
        }
        self.insert(key, bindings, used_at, Some(now));
    }

    fn insert(
        &mut self,
        key: ConversationKey,
        bindings: Vec<Binding>,
        used_at: Timestamp,
        written_at: Option<Timestamp>,
    ) -> &mut Conversation {
        self.uses += 1;
        self.by_use.insert(self.uses, key);
        let conversation = Conversation { bindings, used_at, written_at, used: self.uses };
        self.by_key.entry(key).insert_entry(conversation).into_mut()
    }
}
