//! What stands in the book about one lease.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::event::MoveReason;
use crate::failover::demand::{BindsThinking, Gate, Phase};
use crate::id::{AccountId, ConversationKey, LeaseId, ModelScope, Principal, UpstreamId};
use crate::outcome::CallKind;

/// One lease in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseRecord {
    /// Its number.
    pub lease: LeaseId,
    /// Which life of the admission machine granted it.
    pub epoch: u64,
    /// The account it spends.
    pub account: AccountId,
    /// Where.
    pub upstream: UpstreamId,
    /// For which models.
    pub scope: ModelScope,
    /// For whom.
    pub principal: Arc<Principal>,
    /// For which conversation, where bindings count.
    pub conversation: Option<ConversationKey>,
    /// Inference, or beside it.
    pub call: CallKind,
    /// What it goes through.
    pub gate: Gate,
    /// How far it has come.
    pub phase: Phase,
    /// Whether a good first event came.
    pub good: Good,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// What it means for its conversation.
    pub footing: Footing,
    /// Whether the model's reasoning is bound to its account.
    pub binds_thinking: BindsThinking,
    /// Whether it took from the retry budget.
    pub drew: Drew,
    /// Whether it holds a slot of its account's allowance.
    pub slot: Slot,
}

/// Whether an attempt was answered well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Good {
    /// 2xx with a good first event.
    Yes,
    /// Not so far.
    NotYet,
}

/// What a lease means for its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footing {
    /// It has none, or none that is bound.
    Free,
    /// It goes to the account that the conversation is bound to, or is being bound to.
    Home,
    /// It moves the conversation.
    Move {
        /// From here.
        from: AccountId,
        /// Why.
        why: MoveReason,
    },
    /// It goes elsewhere this once.
    Detour {
        /// From here.
        from: AccountId,
        /// The trouble of that account that it avoids.
        episode: u64,
    },
    /// It goes back after a detour.
    Return {
        /// The account that served meanwhile.
        from: AccountId,
    },
}

/// Whether a lease took from the retry budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drew {
    /// It did.
    Yes,
    /// It was free.
    No,
}

/// Whether a lease holds a slot of its account's allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// It does.
    Held,
    /// It is outside allowances, or was answered well.
    Freed,
}

/// How an answer comes: decides when the allowance's slot is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// As a stream: the slot is free with the first good event.
    Stream,
    /// At once: the slot is free when the body is over.
    Whole,
}
