//! Granting: the lease is written into the book, and what it means for its conversation is settled.

use std::sync::Arc;

use super::Admission;
use crate::clock::Timestamp;
use crate::event::MoveReason;
use crate::failover::book::{Drew, Footing, Good, LeaseRecord, Slot};
use crate::failover::conversations::Home;
use crate::failover::demand::{Demand, Gate, Grant, Phase, Step};
use crate::failover::ledger::Order;
use crate::failover::plan::{Field, Pick};
use crate::failover::rank::Band;
use crate::failover::retry_budget::draws;
use crate::failover::view::Condition;
use crate::id::{AccountId, ConversationKey, EntryId, LeaseId};
use crate::outcome::CallKind;

impl Admission {
    pub(super) fn grant(&mut self, demand: &Demand, pick: Pick, now: Timestamp) -> Grant {
        let draws = draws(demand, Some(pick));
        let footing = self.footing(demand, pick, now);
        let alternatives = {
            let field = self.field(demand, &self.sight, now).expect("a granted demand has its upstream");
            field.alternatives(pick.account)
        };
        let moved_from = self.moved_from(demand, pick, footing);
        let lease = self.book.open(self.record(demand, pick, footing, draws, now));
        if let Some(ask) = &demand.ask {
            let (principal, counted) = (&*demand.principal, demand.spent.counted);
            self.book.ledger().reserve(lease, Order { account: pick.account, principal, ask, counted }, now.wall);
        }
        self.note_granted(demand, pick, lease, footing, draws, now);
        let entry = self.entry(pick.account).expect("a granted account is known");
        Grant { lease, account: pick.account, entry, alternatives, moved_from, gate: pick.gate }
    }

    pub(super) fn entry(&self, account: AccountId) -> Option<EntryId> {
        self.view(account).map(|view| view.spec.entry.clone())
    }

    fn record(&self, demand: &Demand, pick: Pick, footing: Footing, draws: bool, now: Timestamp) -> LeaseRecord {
        LeaseRecord {
            lease: LeaseId(0),
            epoch: self.epoch,
            account: pick.account,
            upstream: demand.upstream,
            scope: demand.scope,
            principal: Arc::clone(&demand.principal),
            conversation: self.conversation_of(demand),
            call: demand.call,
            gate: pick.gate,
            phase: Phase::Unsent,
            good: Good::NotYet,
            granted_at: now,
            footing,
            binds_thinking: demand.binds_thinking,
            drew: if draws { Drew::Yes } else { Drew::No },
            slot: if demand.call == CallKind::Side { Slot::Freed } else { Slot::Held },
        }
    }

    fn note_granted(
        &mut self,
        demand: &Demand,
        pick: Pick,
        lease: LeaseId,
        footing: Footing,
        draws: bool,
        now: Timestamp,
    ) {
        if demand.call == CallKind::Side {
            return;
        }
        self.grants += 1;
        let (stamp, rule) = (self.grants, self.ramp_rule());
        let slots = self.sight.tallies.get(pick.account.0 as usize).map_or(0, |tally| tally.slots);
        let upstream = demand.upstream;
        let binds = self.conversation_of(demand);
        if draws && let Some(pool) = self.pools.get(&upstream) {
            self.budgets.entry(Arc::clone(&pool.spec.provider)).or_default().draw(now);
        }
        let newly_bound = binds.is_some_and(|key| self.claim(key, demand, pick.account, lease, footing, now));
        let Some(view) = self.view_mut(pick.account) else { return };
        view.grants.granted(lease, stamp);
        if demand.step == Step::Next && pick.gate == Gate::Open {
            view.ramp.failover(lease, rule, slots);
        }
        if newly_bound {
            view.note_bound(now);
        }
    }

    /// Binds the conversation to the account, as far as this lease does. Whether it is a new binding.
    fn claim(
        &mut self,
        key: ConversationKey,
        demand: &Demand,
        account: AccountId,
        lease: LeaseId,
        footing: Footing,
        now: Timestamp,
    ) -> bool {
        let firm = matches!(self.conversations.home(key, demand.upstream, demand.scope), Some(Home::Firm(_)));
        let claims = match footing {
            Footing::Home => !firm,
            Footing::Move { .. } => true,
            Footing::Free | Footing::Detour { .. } | Footing::Return { .. } => false,
        };
        let binding = |all: &mut Self| {
            all.conversations.binding_mut(key, demand.upstream, demand.scope, now).claim(account, lease, now)
        };
        claims && binding(self)
    }

    /// The conversation whose bindings count for this demand.
    pub(super) fn conversation_of(&self, demand: &Demand) -> Option<ConversationKey> {
        let pool = self.pools.get(&demand.upstream)?;
        self.bound_by(demand, pool).filter(|_| demand.call == CallKind::Inference)
    }

    /// What granting this account means for the conversation.
    fn footing(&self, demand: &Demand, pick: Pick, now: Timestamp) -> Footing {
        let Some(key) = self.conversation_of(demand) else { return Footing::Free };
        let Some(home) = self.conversations.home(key, demand.upstream, demand.scope) else { return Footing::Home };
        match home {
            Home::Anchor(_) => Footing::Home,
            Home::Tentative(account, _) if account == pick.account => Footing::Home,
            Home::Tentative(account, settled) => self.leave_tentative(demand, account, settled, now),
            Home::Firm(account) if account == pick.account => self.stay(key, demand, account),
            Home::Firm(account) => self.leave(key, demand, account, pick, now),
        }
    }

    fn stay(&self, key: ConversationKey, demand: &Demand, home: AccountId) -> Footing {
        let last = self.last_served(key, demand);
        last.filter(|last| *last != home).map_or(Footing::Home, |from| Footing::Return { from })
    }

    /// A request goes elsewhere while its conversation is being bound: only if the account is no longer usable are the
    /// others to follow it.
    fn leave_tentative(
        &self,
        demand: &Demand,
        account: AccountId,
        settled: Option<AccountId>,
        now: Timestamp,
    ) -> Footing {
        let usable = self.field(demand, &self.sight, now).is_some_and(|field| {
            let look = field.look(account).filter(|_| field.pool.has(account));
            look.is_some_and(|l| l.digest.condition == Condition::Open(Band::Usable))
        });
        match settled {
            _ if usable => Footing::Free,
            None => Footing::Home,
            Some(from) => {
                let why = self.field(demand, &self.sight, now).and_then(|field| hard_reason(&field, from));
                Footing::Move { from, why: why.unwrap_or(MoveReason::Detours) }
            }
        }
    }

    fn leave(&self, key: ConversationKey, demand: &Demand, home: AccountId, pick: Pick, now: Timestamp) -> Footing {
        let Some(field) = self.field(demand, &self.sight, now) else { return Footing::Free };
        if let Some(why) = hard_reason(&field, home) {
            return Footing::Move { from: home, why };
        }
        if is_better(&field, home, pick) {
            return Footing::Move { from: home, why: MoveReason::BetterGroup };
        }
        let episode = self.view(home).map_or(0, |view| view.trouble.episode);
        let binding = self.conversations.binding(key, demand.upstream, demand.scope);
        if binding.is_some_and(|b| b.is_last_detour(episode, now)) {
            return Footing::Move { from: home, why: MoveReason::Detours };
        }
        Footing::Detour { from: home, episode }
    }

    fn last_served(&self, key: ConversationKey, demand: &Demand) -> Option<AccountId> {
        self.conversations.binding(key, demand.upstream, demand.scope)?.last_served()
    }

    /// The account whose answer the conversation saw last, in whichever upstream, if this attempt goes to another.
    fn moved_from(&self, demand: &Demand, pick: Pick, footing: Footing) -> Option<EntryId> {
        if footing == Footing::Free && demand.call == CallKind::Side {
            return None;
        }
        let key = self.conversation_of(demand)?;
        let last = self.conversations.last_served(key, demand.scope).filter(|last| *last != pick.account)?;
        self.entry(last)
    }
}

fn hard_reason(field: &Field<'_>, account: AccountId) -> Option<MoveReason> {
    if !field.pool.has(account) {
        return Some(MoveReason::Removed);
    }
    let Some(look) = field.look(account) else { return Some(MoveReason::Removed) };
    look.digest.hard_reason(field.now)
}

/// Whether the account granted is of a better group than a home that could still be used.
fn is_better(field: &Field<'_>, home: AccountId, pick: Pick) -> bool {
    let rank = |id| field.glance(id).map(|look| look.brief.merits.group(field.pool.spec.strategy));
    let better = rank(pick.account).zip(rank(home)).is_some_and(|(new, old)| new < old);
    better && !field.has_tried(home) && pick.band == Band::Usable
}
