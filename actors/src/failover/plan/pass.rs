//! One pass over the candidates, and what it comes to.

use super::{Choice, Field, Glance, Pick};
use crate::failover::demand::Gate;
use crate::failover::fault::{Rule, broken};
use crate::failover::placement::{Placement, Site, weight};
use crate::failover::rank::{Band, Key};
use crate::failover::view::Stance;
use crate::id::{AccountId, ConversationKey};
use crate::roster::Strategy;

/// What one pass over the candidates found.
#[derive(Default)]
pub(super) struct Pass {
    best: Option<(Key, Pick)>,
    probe: Option<(Key, AccountId)>,
    last_full: Option<(Key, AccountId)>,
    full: bool,
    breather: bool,
    placement: Placement,
    oldest: Option<(u64, usize, AccountId)>,
    usable: u32,
    usable_in_flight: u32,
    parent: Option<Pick>,
}

impl Pass {
    pub(super) fn see(&mut self, field: &Field<'_>, look: &Glance<'_>, declared: usize) {
        match look.stance {
            Stance::Removed => {}
            Stance::Breather if broken(Rule::BreatherSendsOthersAway) => {
                self.see_open(field, look, Band::Usable, declared);
            }
            Stance::Breather => self.breather = true,
            Stance::Held => self.see_held(field, look, declared),
            Stance::Open(band) if band != Band::Usable && broken(Rule::NearServes) => {}
            Stance::Open(band) => self.see_open(field, look, band, declared),
        }
    }

    fn see_held(&mut self, field: &Field<'_>, look: &Glance<'_>, declared: usize) {
        if !field.may_probe(look) {
            return;
        }
        let key = field.key(look, Band::Holding, declared);
        if self.probe.is_none_or(|(best, _)| key < best) {
            self.probe = Some((key, look.account));
        }
    }

    fn see_open(&mut self, field: &Field<'_>, look: &Glance<'_>, band: Band, declared: usize) {
        if band == Band::Usable {
            self.usable += 1;
            self.usable_in_flight = self.usable_in_flight.saturating_add(look.tally.in_flight);
        }
        if !field.admits(look) {
            self.see_full(field, look, field.key(look, band, declared));
            return;
        }
        if band == Band::Usable && field.chooses_first() {
            self.see_first_choice(field, look, declared);
            // Then one of these is chosen, and the common order decides nothing.
            if !look.brief.late && field.has_first_choice() {
                return;
            }
        }
        let key = field.key(look, band, declared);
        if self.best.is_none_or(|(best, _)| key < best) {
            self.best = Some((key, field.pick(look, band)));
        }
    }

    fn see_full(&mut self, field: &Field<'_>, look: &Glance<'_>, key: Key) {
        self.full = true;
        let has_place = field.view(look.account).is_some_and(|view| view.queue.has_room());
        if has_place && self.last_full.is_none_or(|(last, _)| key > last) {
            self.last_full = Some((key, look.account));
        }
    }

    fn see_first_choice(&mut self, field: &Field<'_>, look: &Glance<'_>, declared: usize) {
        if field.parent == Some(look.account) {
            self.parent = Some(field.pick(look, Band::Usable));
        }
        if look.brief.late {
            return;
        }
        match field.conversation {
            Some(conversation) => self.see_site(field, look, conversation),
            None => {
                let stamp = look.brief.granted;
                if self.oldest.is_none_or(|(oldest, at, _)| (stamp, declared) < (oldest, at)) {
                    self.oldest = Some((stamp, declared, look.account));
                }
            }
        }
    }

    fn see_site(&mut self, field: &Field<'_>, look: &Glance<'_>, conversation: ConversationKey) {
        let group = look.brief.merits.group(field.pool.spec.strategy);
        if !self.placement.wants(group) {
            return;
        }
        let weight = weight(conversation, look.brief.seed, field.pool.spec.accounts.len());
        self.placement.offer(group, Site { account: look.account, weight });
    }

    pub(super) fn conclude(self, field: &Field<'_>) -> Choice {
        if let Some(pick) = self.first_choice(field).or(self.best.map(|(_, pick)| pick)) {
            return Choice::Grant(pick);
        }
        if let Some((_, account)) = self.last_full {
            return Choice::Queue(account);
        }
        match self.probe {
            _ if self.full => Choice::Full,
            Some((_, account)) if !self.breather => {
                Choice::Grant(Pick { account, gate: Gate::Probe, band: Band::Holding })
            }
            Some(_) | None => Choice::Empty,
        }
    }

    fn first_choice(&self, field: &Field<'_>) -> Option<Pick> {
        if let Some(parent) = self.parent.filter(|p| self.bears_more(field, p.account)) {
            return Some(parent);
        }
        let open = |account| Pick { account, gate: Gate::Open, band: Band::Usable };
        match (field.pool.spec.strategy, field.conversation) {
            (Strategy::Failover, _) => None,
            (_, Some(_)) => self.placement.chosen(|account| field.load(account)).map(open),
            (Strategy::RoundRobin, None) => self.oldest.map(|(_, _, account)| open(account)),
            (Strategy::Priority | Strategy::LeastCost, None) => None,
        }
    }

    /// Whether a parent's account is not much busier than the usable ones are in the mean.
    fn bears_more(&self, field: &Field<'_>, parent: AccountId) -> bool {
        let busy = field.tallies.get(parent.0 as usize).map_or(0, |t| t.in_flight);
        u64::from(busy) * u64::from(self.usable) <= 2 * u64::from(self.usable_in_flight) + 2 * u64::from(self.usable)
    }
}
