//! Waiting: askers that the last candidate paces, and who is planned anew when it refuses.

use super::{Admission, Effect};
use crate::clock::Timestamp;
use crate::failover::demand::{Decision, Demand, Gate, Ticket};
use crate::failover::plan::{Choice, Pick, Sight};
use crate::failover::queue::Waiter;
use crate::failover::view::Condition;
use crate::id::AccountId;

/// What becomes of the first in a queue.
enum Turn {
    Admit(Pick),
    /// Its patience is over: whatever the allowance says.
    Pace(Pick),
    /// The account serves it no more.
    PlanAnew,
    Wait,
}

impl Admission {
    /// An asker has gone: it waits no more.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.views.each_mut().for_each(|view| view.queue.cancel(ticket));
        self.note_empty_queues();
    }

    pub(super) fn enqueue(
        &mut self,
        account: AccountId,
        demand: &Demand,
        now: Timestamp,
        waiter: Option<(Ticket, Timestamp)>,
    ) -> Ticket {
        let (ticket, since) = waiter.unwrap_or_else(|| (self.next_ticket(), now));
        if let Some(view) = self.view_mut(account) {
            view.queue.push(Waiter { ticket, demand: demand.clone(), since });
            self.waiting.insert(account);
            self.book.set_awaited(true);
        }
        ticket
    }

    pub(super) fn pump_all(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.waiting.is_empty() {
            return;
        }
        for account in self.waiting.clone() {
            self.pump(account, now, effects);
        }
    }

    /// Admits those in an account's queue whose turn it is.
    pub(super) fn pump(&mut self, account: AccountId, now: Timestamp, effects: &mut Vec<Effect>) {
        while let Some(turn) = self.turn(account, now) {
            let pick = match turn {
                Turn::Wait => break,
                Turn::PlanAnew => None,
                Turn::Admit(pick) => Some(pick),
                Turn::Pace(pick) => {
                    self.note_paced(account, now);
                    Some(pick)
                }
            };
            let Some(waiter) = self.view_mut(account).and_then(|view| view.queue.pop()) else { break };
            match pick {
                Some(pick) => self.admit(&waiter, pick, now, effects),
                None => self.plan_waiter(&waiter, now, effects),
            }
        }
        self.note_empty_queues();
    }

    /// Everyone who waits for this account is planned anew.
    pub(super) fn plan_anew(&mut self, account: AccountId, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(view) = self.view_mut(account) else { return };
        for waiter in view.queue.flush() {
            self.plan_waiter(&waiter, now, effects);
        }
        self.note_empty_queues();
    }

    fn plan_waiter(&mut self, waiter: &Waiter, now: Timestamp, effects: &mut Vec<Effect>) {
        let decision = self.decide(&waiter.demand, now, Some((waiter.ticket, waiter.since)));
        match decision {
            Decision::Queued(_) => {}
            Decision::Granted(_) | Decision::NotBefore(_) | Decision::Exhausted(_) => {
                effects.push(Effect::Admit(waiter.ticket, decision));
            }
        }
    }

    fn admit(&mut self, waiter: &Waiter, pick: Pick, now: Timestamp, effects: &mut Vec<Effect>) {
        self.look_about(&waiter.demand, now);
        let grant = self.grant(&waiter.demand, pick, now);
        effects.push(Effect::Admit(waiter.ticket, Decision::Granted(grant)));
    }

    /// A place that has come free elsewhere is as good as one here: nobody who comes later is to have it.
    fn turn(&self, account: AccountId, now: Timestamp) -> Option<Turn> {
        let view = self.view(account)?;
        let head = view.queue.head()?;
        let mut sight = Sight::default();
        self.see(&head.demand, &mut sight, now);
        let field = self.field(&head.demand, &sight, now);
        let look = field.as_ref().filter(|f| f.pool.has(account)).and_then(|f| f.look(account));
        let (Some(field), Some(look)) = (field.as_ref(), look) else { return Some(Turn::PlanAnew) };
        let Condition::Open(band) = look.digest.condition else { return Some(Turn::PlanAnew) };
        let gate = if look.digest.on_trial { Gate::Trial } else { Gate::Open };
        let own = Pick { account, gate, band };
        let has_room = field.has_room(&look.glance);
        if let Choice::Grant(pick) = field.choose()
            && (pick.band <= band || !has_room)
        {
            return Some(Turn::Admit(pick));
        }
        if has_room {
            return Some(Turn::Admit(own));
        }
        let paced = view.queue.paced_at(now).is_some_and(|at| at.is_due(now));
        Some(if paced { Turn::Pace(own) } else { Turn::Wait })
    }

    fn note_paced(&mut self, account: AccountId, now: Timestamp) {
        if let Some(view) = self.view_mut(account) {
            view.queue.note_paced(now);
        }
    }

    fn note_empty_queues(&mut self) {
        let views = &self.views;
        let waits = |id: &AccountId| views.get(*id).is_some_and(|view| !view.queue.is_empty());
        let awaited = !self.waiting.is_empty();
        self.waiting.retain(waits);
        if awaited && self.waiting.is_empty() {
            self.book.set_awaited(false);
        }
    }

    fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }
}
