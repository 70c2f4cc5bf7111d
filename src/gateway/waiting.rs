//! A request that nobody can serve now waits for an account to return, if the configuration lets it.
//!
//! Where every account is out, any change of an account's standing is worth another look. Where one is open to others and
//! only this request has used up its tries, such a look would be an attempt on it: then time alone lets the request go
//! on, and what it sends from then on draws on the retry budget.
//!
//! Never here: who may wait and for how long at a time; that is [`hold`](super::hold)'s.

use duduclaw_actors::clock::{Deadline, Timestamp, sleep_until};
use duduclaw_actors::event::{EventKind, Severity};
use duduclaw_actors::failover::demand::{Exhausted, Once, Remedy, Spent, Step};
use duduclaw_actors::outcome::CallKind;

use crate::gateway::exchange::Exchange;
use crate::gateway::final_answer::Verdicts;
use crate::gateway::hold::{LastSlice, rest};

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// An account's return: whatever changes may be it.
    Return {
        /// The soonest return, if it is known.
        until: Option<Deadline>,
        /// When an account may be asked before.
        probe: Option<Deadline>,
    },
    /// That moment, and nothing else.
    Rest(Deadline),
}

impl Wait {
    /// What would help, if waiting does. `rests` is how often the request has rested already.
    fn of(verdicts: &Verdicts, rests: u32, now: Timestamp) -> Option<Self> {
        let remedies = || verdicts.iter().map(|(_, why)| why.remedy);
        let returns = remedies().filter_map(returns_at).reduce(|a, b| a.sooner(b, now));
        if remedies().any(|remedy| matches!(remedy, Remedy::Spent { .. })) {
            let rest = Deadline::after(now, rest(rests));
            return Some(Self::Rest(returns.map_or(rest, |at| at.sooner(rest, now))));
        }
        let curable = remedies().any(|remedy| matches!(remedy, Remedy::Wait { .. } | Remedy::BackOff { .. }));
        let probe = verdicts.iter().filter_map(|(_, why)| why.probe).reduce(|a, b| a.sooner(b, now));
        curable.then_some(Self::Return { until: returns, probe })
    }

    /// What the feed is told.
    fn until(self) -> Option<Deadline> {
        match self {
            Self::Return { until, .. } => until,
            Self::Rest(until) => Some(until),
        }
    }

    /// When to look again, whatever happens.
    fn looks_at(self, now: Timestamp) -> Option<Deadline> {
        match self {
            Self::Return { until: Some(until), probe: Some(probe) } => Some(until.sooner(probe, now)),
            Self::Return { until, probe } => until.or(probe),
            Self::Rest(until) => Some(until),
        }
    }
}

impl Exchange {
    /// Waits, without a byte to the client, until it is worth asking admission again. `false`: the answer is due now.
    pub(super) async fn wait_for_return(&mut self, verdicts: &Verdicts) -> bool {
        let hold = self.live.settings.pool.hold;
        if hold.is_zero() || self.inbound.call == CallKind::Side {
            return false;
        }
        let now = self.gateway.clock.now();
        let Some(wait) = Wait::of(verdicts, self.rests, now) else { return false };
        let (key, began) = (self.conversation.key, self.inbound.began);
        let Some(place) = self.gateway.holds.enter(key, &self.inbound.headers, hold, began, now) else { return false };
        self.tell_wait(wait.until());
        let goes_on = self.waits(wait, place.slice_end).await;
        self.best.slice_over = !goes_on && place.last == LastSlice::No;
        if goes_on {
            self.begin_anew(wait);
        }
        goes_on
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

    /// Whether what is waited for came before the deadline.
    async fn waits(&self, wait: Wait, deadline: Deadline) -> bool {
        let mut changed = self.gateway.fleet.changed();
        changed.mark_unchanged();
        let clock = &*self.gateway.clock;
        let looks_at = wait.looks_at(clock.now()).unwrap_or(deadline);
        tokio::select! {
            () = sleep_until(clock, deadline) => false,
            () = self.gateway.stop.cancelled() => false,
            () = sleep_until(clock, looks_at) => !deadline.is_due(clock.now()),
            told = changed.changed(), if matches!(wait, Wait::Return { .. }) => told.is_ok(),
        }
    }

    /// All accounts may be tried again, and one of those that are out may be probed.
    fn begin_anew(&mut self, waited: Wait) {
        self.left = None;
        self.left_out.clear();
        self.spent = Spent { free_move: Once::Used, counted: self.spent.counted, ..Spent::default() };
        match waited {
            Wait::Return { .. } => self.step = Step::Returned,
            Wait::Rest(_) => {
                self.step = Step::Rested;
                self.rests = self.rests.saturating_add(1);
            }
        }
    }
}

/// When an exhausted upstream may serve again, whoever says so.
pub(super) fn soonest_return(why: &Exhausted) -> Option<Deadline> {
    match why.remedy {
        Remedy::Wait { .. } | Remedy::BackOff { .. } => returns_at(why.remedy),
        Remedy::Budget(_) | Remedy::Person | Remedy::Spent { .. } => None,
    }
}

/// The soonest return of an account that is out.
fn returns_at(remedy: Remedy) -> Option<Deadline> {
    match remedy {
        Remedy::Wait { until, .. } => until,
        Remedy::BackOff { until } => Some(until),
        Remedy::Spent { returns } => returns,
        Remedy::Budget(_) | Remedy::Person => None,
    }
}
