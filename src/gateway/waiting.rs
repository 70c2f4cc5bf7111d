//! A request that nobody can serve now waits for an account to return, if the configuration lets it.
//!
//! Never here: who may wait and for how long at a time; that is [`hold`](super::hold)'s.

use duduclaw_actors::clock::{Deadline, sleep_until};
use duduclaw_actors::event::{EventKind, Severity};
use duduclaw_actors::failover::demand::{Exhausted, Remedy, Spent};
use duduclaw_actors::outcome::CallKind;

use crate::gateway::exchange::Exchange;
use crate::gateway::final_answer::Verdicts;
use crate::gateway::hold::LastSlice;

impl Exchange {
    /// Waits, without a byte to the client, until an account may have returned. `false`: the answer is due now.
    pub(super) async fn wait_for_return(&mut self, verdicts: &Verdicts) -> bool {
        let hold = self.live.settings.pool.hold;
        let curable = |why: &Exhausted| matches!(why.remedy, Remedy::Wait { .. } | Remedy::BackOff { .. });
        if hold.is_zero() || self.inbound.call == CallKind::Side || !verdicts.iter().any(|(_, why)| curable(why)) {
            return false;
        }
        let now = self.gateway.clock.now();
        let (key, began) = (self.conversation.key, self.inbound.began);
        let Some(place) = self.gateway.holds.enter(key, &self.inbound.headers, hold, began, now) else { return false };
        let soonest = verdicts.iter().filter_map(|(_, why)| soonest_return(why)).reduce(|a, b| a.sooner(b, now));
        self.tell_wait(soonest);
        let returned = self.returns(place.slice_end, soonest).await;
        self.best.slice_over = !returned && place.last == LastSlice::No;
        if returned {
            self.left = None;
            self.spent = Spent { probe: self.spent.probe, ..Spent::default() };
        }
        returned
    }

    fn tell_wait(&mut self, until: Option<Deadline>) {
        if !std::mem::replace(&mut self.best.wait_told, true) {
            self.emit(EventKind::RequestHeld { until }, Severity::Info);
        }
    }

    pub(super) fn tell_release(&self) {
        if self.best.wait_told {
            self.emit(EventKind::RequestReleased, Severity::Info);
        }
    }

    /// Whether it is worth asking admission again before the deadline: an account's standing changed, or the soonest
    /// return has come.
    async fn returns(&self, deadline: Deadline, soonest: Option<Deadline>) -> bool {
        let mut changed = self.gateway.fleet.changed();
        changed.mark_unchanged();
        let clock = &*self.gateway.clock;
        let soonest = soonest.unwrap_or(deadline);
        tokio::select! {
            () = sleep_until(clock, deadline) => false,
            () = self.gateway.stop.cancelled() => false,
            () = sleep_until(clock, soonest) => !deadline.is_due(clock.now()),
            told = changed.changed() => told.is_ok(),
        }
    }
}

/// When an exhausted upstream may serve again, whoever says so.
pub(super) fn soonest_return(why: &Exhausted) -> Option<Deadline> {
    match why.remedy {
        Remedy::Wait { until, .. } => until,
        Remedy::BackOff { until } => Some(until),
        Remedy::Person | Remedy::Spent => None,
    }
}
