//! Settling: what the book reports of leases, applied to allowances, probes and conversations.

use super::{Admission, Effect};
use crate::clock::Timestamp;
use crate::event::{EventKind, Severity, ThinkingLoss};
use crate::failover::book::{Drew, Footing, Good, LeaseRecord, Report, ReportStep};
use crate::failover::conversations::Dirty;
use crate::failover::demand::{BindsThinking, Gate, Phase};
use crate::id::{AccountId, ConversationKey};
use crate::outcome::CallKind;

impl Admission {
    /// Applies what happened to leases since the last time, and admits waiters whose turn it is. To be called whenever
    /// the book wakes the machine, and before it is looked at; [`Self::lease`] and [`Self::tick`] begin with it.
    pub fn settle(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.read_book(now, &mut effects);
        self.tell_budgets(now, &mut effects);
        self.pump_all(now, &mut effects);
        effects
    }

    pub(super) fn read_book(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for report in self.book.take_reports() {
            self.apply(&report, now, effects);
        }
    }

    /// Forgets conversations that are old, or too many.
    pub(super) fn forget_old(&mut self, now: Timestamp) -> impl Iterator<Item = Effect> + use<> {
        self.conversations.forget_old(now).into_iter().map(Effect::Forget)
    }

    fn apply(&mut self, report: &Report, now: Timestamp, effects: &mut Vec<Effect>) {
        if report.record.call == CallKind::Side {
            return;
        }
        match report.step {
            ReportStep::Sent => self.sent(&report.record, now, effects),
            ReportStep::Answered => self.served(&report.record, now, effects),
            ReportStep::Ended if report.record.phase == Phase::Unsent => self.unsent(&report.record),
            ReportStep::Ended => self.ended(&report.record, now),
        }
    }

    fn sent(&mut self, record: &LeaseRecord, now: Timestamp, effects: &mut Vec<Effect>) {
        let rule = self.ramp_rule();
        let tally = self.book.tally(record.account);
        let others = (tally.in_flight - tally.unsent).saturating_sub(1);
        if let Some(view) = self.view_mut(record.account) {
            view.grants.sent(record.lease);
            view.ramp.sent(record.lease, rule, others, now);
        }
        if let Some(key) = record.conversation {
            self.conversation_sent(key, record, now, effects);
        }
    }

    fn conversation_sent(
        &mut self,
        key: ConversationKey,
        record: &LeaseRecord,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if record.footing != Footing::Free {
            let binding = self.conversations.binding_mut(key, record.upstream, record.scope, now);
            binding.sent(record.lease, record.account);
            if let Footing::Detour { episode, .. } = record.footing {
                binding.note_detour(episode, now);
            }
        }
        effects.extend(self.announcement(record));
        if self.conversations.touch(key, now) == Dirty::Yes {
            self.remember(key, now, effects);
        }
        effects.extend(self.forget_old(now));
    }

    /// The event of a move, a detour or a return.
    fn announcement(&self, record: &LeaseRecord) -> Option<Effect> {
        let thinking = match record.binds_thinking {
            BindsThinking::Yes => ThinkingLoss::Lost,
            BindsThinking::No => ThinkingLoss::None,
        };
        let from = |account: AccountId| self.entry(account);
        let kind = match record.footing {
            Footing::Free | Footing::Home => self.crossing(record, thinking)?,
            Footing::Move { from: account, why } => {
                EventKind::ConversationMoved { from: from(account)?, why, thinking }
            }
            Footing::Detour { from: account, .. } => EventKind::Detoured { from: from(account)?, thinking },
            Footing::Return { from: account } => EventKind::Returned { from: from(account)?, thinking },
        };
        Some(Effect::Emit { kind, account: self.entry(record.account)?, severity: Severity::Info })
    }

    /// A chain led the conversation to another upstream, or back: no binding moves, but another account answers.
    fn crossing(&self, record: &LeaseRecord, thinking: ThinkingLoss) -> Option<EventKind> {
        let key = record.conversation?;
        let last = self.conversations.last_served(key, record.scope).filter(|last| *last != record.account)?;
        let here = self.conversations.binding(key, record.upstream, record.scope)?;
        if here.last_served() == Some(last) {
            return None;
        }
        let from = self.entry(last)?;
        Some(match here.last_served() {
            Some(_) => EventKind::Returned { from, thinking },
            None => EventKind::Detoured { from, thinking },
        })
    }

    fn served(&mut self, record: &LeaseRecord, now: Timestamp, effects: &mut Vec<Effect>) {
        let rule = self.ramp_rule();
        if let Some(view) = self.view_mut(record.account) {
            view.ramp.served(rule);
        }
        let Some(key) = record.conversation else { return };
        let (upstream, scope) = (record.upstream, record.scope);
        if self.conversations.served(key, upstream, scope, record.lease, record.account, now) == Dirty::Yes {
            self.remember(key, now, effects);
        }
    }

    fn ended(&mut self, record: &LeaseRecord, now: Timestamp) {
        let Some(view) = self.view_mut(record.account) else { return };
        view.ramp.ended(now);
        if record.gate == Gate::Probe && record.good == Good::NotYet {
            view.probes.probe_refused(now);
        }
    }

    /// Nothing was sent: nothing of it remains.
    fn unsent(&mut self, record: &LeaseRecord) {
        if let Some(view) = self.view_mut(record.account) {
            view.grants.unsent(record.lease);
            view.ramp.unsent(record.lease);
        }
        if record.drew == Drew::Yes
            && let Some(pool) = self.pools.get(&record.upstream)
            && let Some(budget) = self.budgets.get_mut(&pool.spec.provider)
        {
            budget.give_back(record.granted_at);
        }
        let Some(key) = record.conversation else { return };
        let (upstream, scope) = (record.upstream, record.scope);
        let undone = self.conversations.unsent(key, upstream, scope, record.lease, record.account);
        if let Some((at, view)) = undone.zip(self.view_mut(record.account)) {
            view.note_unbound(at);
        }
    }

    fn remember(&mut self, key: ConversationKey, now: Timestamp, effects: &mut Vec<Effect>) {
        if let Some(record) = self.conversations.record(key, self) {
            self.conversations.note_written(key, now);
            effects.push(Effect::Remember(record));
        }
    }
}
