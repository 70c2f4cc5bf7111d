//! What one event came to, gathered while it is applied.

use super::Effect;
use crate::clock::Timestamp;
use crate::event::{EndedBy, EventKind, Severity};
use crate::outcome::{Evidence, HoldScope};
use crate::standing::{Hold, HoldKind};

/// The effects so far, the moment, and what to show as their ground.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) now: Timestamp,
    evidence: Evidence,
    episodes: &'a mut u64,
    effects: Vec<Effect>,
}

impl<'a> Report<'a> {
    pub(super) fn new(now: Timestamp, episodes: &'a mut u64) -> Self {
        Self { now, evidence: Evidence::default(), episodes, effects: Vec::new() }
    }

    /// From here on, what happens is shown with this as its ground.
    pub(super) fn on(&mut self, evidence: &Evidence) {
        self.evidence = evidence.clone();
    }

    pub(super) fn next_episode(&mut self) -> u64 {
        *self.episodes = self.episodes.saturating_add(1);
        *self.episodes
    }

    pub(super) fn say(&mut self, kind: EventKind, severity: Severity) {
        self.effects.push(Effect::Emit { kind, severity, evidence: self.evidence.clone() });
    }

    pub(super) fn began(&mut self, hold: &Hold, scope: HoldScope) {
        let Hold { kind, cause, until, stated, .. } = *hold;
        self.say(EventKind::HoldBegan { hold: kind, scope, cause, until, stated }, gravity(kind));
    }

    pub(super) fn ended(&mut self, hold: HoldKind, scope: HoldScope, by: EndedBy) {
        self.say(EventKind::HoldEnded { hold, scope, by }, Severity::Info);
    }

    pub(super) fn into_effects(self) -> Vec<Effect> {
        self.effects
    }
}

/// A person is needed for a refused credential; the rest ends by itself.
fn gravity(kind: HoldKind) -> Severity {
    match kind {
        HoldKind::AuthDead => Severity::Error,
        HoldKind::BudgetExhausted | HoldKind::RateLimited | HoldKind::Erroring => Severity::Warning,
    }
}
