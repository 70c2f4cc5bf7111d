//! A conversation as it is kept across restarts: by stable names.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Binding, Conversations};
use crate::clock::{Boot, Timestamp, Wall};
use crate::id::{AccountId, ConversationKey, IdentityKey, ModelScope, UpstreamId};

/// A conversation with its confirmed bindings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationRecord {
    /// Which.
    pub key: ConversationKey,
    /// Where it is at home.
    pub bindings: Vec<BindingRecord>,
    /// When it was last used.
    pub used_at: Wall,
}

/// One binding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BindingRecord {
    /// The upstream's name.
    pub upstream: Arc<str>,
    /// For which models.
    pub scope: ModelScope,
    /// The account.
    pub identity: IdentityKey,
}

/// Names for what is known in memory, and back.
pub(in crate::failover) trait Names {
    fn upstream_name(&self, id: UpstreamId) -> Option<Arc<str>>;
    fn upstream_id(&self, name: &str) -> Option<UpstreamId>;
    fn identity(&self, id: AccountId) -> Option<IdentityKey>;
    fn account(&self, identity: &IdentityKey) -> Option<AccountId>;
}

impl Conversations {
    /// What is to be written of a conversation; none if nothing of it is confirmed.
    pub(in crate::failover) fn record(&self, key: ConversationKey, names: &impl Names) -> Option<ConversationRecord> {
        let conversation = self.get(key)?;
        let bindings: Vec<_> = conversation.bindings.iter().filter_map(|b| binding_record(b, names)).collect();
        (!bindings.is_empty()).then_some(ConversationRecord { key, bindings, used_at: conversation.used_at.wall })
    }

    /// Takes in what was written, least recently used first. Time that passed meanwhile counts; bindings to what is gone
    /// are dropped.
    pub(in crate::failover) fn restore_all(
        &mut self,
        mut records: Vec<ConversationRecord>,
        names: &impl Names,
        now: Timestamp,
    ) {
        records.sort_by_key(|r| r.used_at);
        for record in records {
            let used_at = moment(record.used_at, now);
            let bindings = record.bindings.iter().filter_map(|b| binding_of(b, used_at, names)).collect();
            self.restore(record.key, bindings, used_at, now);
        }
    }
}

fn binding_record(binding: &Binding, names: &impl Names) -> Option<BindingRecord> {
    let identity = names.identity(binding.confirmed()?)?;
    Some(BindingRecord { upstream: names.upstream_name(binding.upstream)?, scope: binding.scope, identity })
}

fn binding_of(record: &BindingRecord, used_at: Timestamp, names: &impl Names) -> Option<Binding> {
    let upstream = names.upstream_id(&record.upstream)?;
    Some(Binding::settled(upstream, record.scope, names.account(&record.identity)?, used_at))
}

/// A civil moment of the past on both clocks; one of the future counts as now.
fn moment(at: Wall, now: Timestamp) -> Timestamp {
    let age = i64::try_from(now.wall.since(at).as_millis()).unwrap_or(i64::MAX);
    Timestamp { wall: at.min(now.wall), boot: Boot(now.boot.0.saturating_sub(age)) }
}
