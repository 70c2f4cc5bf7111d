//! Two accounts turn out to be one: the stricter of both states is kept.
//!
//! Each hold keeps the later end, strikes and doublings the higher count, a window the newer figure, or, of figures of one
//! moment, the fuller. What speaks of the credential stays that of the account that goes on.

use super::{Health, Paused};
use crate::account::quota::{Quota, WindowState};
use crate::clock::Timestamp;
use crate::standing::Hold;

impl Health {
    /// Takes over whatever is stricter in another's state.
    pub(super) fn join(&mut self, other: &Self, now: Timestamp) {
        if later(&mut self.auth.hold, other.auth.hold, now) {
            self.auth.awaits = other.auth.awaits;
            self.auth.asking = other.auth.asking.clone();
        }
        later(&mut self.erroring.hold, other.erroring.hold, now);
        later(&mut self.spend.budget, other.spend.budget, now);
        later(&mut self.spend.balance, other.spend.balance, now);
        self.limits.join(&other.limits, now);
        self.auth.strikes = self.auth.strikes.max(other.auth.strikes);
        self.auth.on_trial |= other.auth.on_trial;
        self.erroring.failures = self.erroring.failures.max(other.erroring.failures);
        if other.paused == Paused::Yes {
            self.paused = Paused::Yes;
        }
        join_quota(&mut self.quota, &other.quota);
    }
}

/// The hold that ends later.
pub(super) fn later(mine: &mut Option<Hold>, other: Option<Hold>, now: Timestamp) -> bool {
    let takes = match (&*mine, other) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(mine), Some(other)) => other.until.as_wall(now) > mine.until.as_wall(now),
    };
    if takes {
        *mine = other;
    }
    takes
}

fn join_quota(mine: &mut Quota, other: &Quota) {
    for (window, theirs) in other.windows.iter() {
        let ours = mine.windows.get(&window).cloned().unwrap_or_default();
        *mine.windows.place(&window) = stricter(ours, theirs);
    }
    match (&mine.aggregate, &other.aggregate) {
        (None, Some(theirs)) => mine.aggregate = Some(theirs.clone()),
        (Some(ours), Some(theirs)) if theirs.observed_at > ours.observed_at => mine.aggregate = Some(theirs.clone()),
        (Some(_) | None, _) => {}
    }
}

fn stricter(mut ours: WindowState, theirs: &WindowState) -> WindowState {
    let newer = theirs.observed_at > ours.observed_at;
    let fuller = theirs.observed_at == ours.observed_at && theirs.utilization > ours.utilization;
    if newer || fuller {
        ours.utilization = theirs.utilization;
        ours.observed_at = theirs.observed_at;
        ours.reset = theirs.reset.or(ours.reset);
    }
    if theirs.status_observed_at > ours.status_observed_at {
        ours.status = theirs.status.clone();
        ours.status_observed_at = theirs.status_observed_at;
        ours.status_boundary = theirs.status_boundary;
    }
    ours
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::account::health::{HealthEvent, Settings};
    use crate::clock::Wall;
    use crate::id::{AccountId, EvidenceSeq, Window};
    use crate::outcome::{QuotaReading, WindowReading};
    use crate::standing::State;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::at_millis(seconds * 1000)
    }

    fn health() -> Health {
        Health::new(AccountId(1), Settings::default())
    }

    fn used(share: f64, seen: i64) -> Quota {
        let mut quota = Quota::default();
        let window = WindowReading {
            window: Window::FiveHour,
            utilization: Some(share),
            reset: Some(Wall::from_secs(18_000)),
            status: None,
        };
        quota.apply(&QuotaReading { windows: vec![window], ..QuotaReading::default() }, at(seen), at(seen));
        quota
    }

    #[test]
    fn a_hold_of_either_goes_on_and_the_pause_too() {
        let mut other = health();
        other.apply(
            HealthEvent::BudgetReached { cycle_ends: crate::clock::Deadline::after(at(0), Duration::from_secs(60)) },
            at(0),
        );
        other.apply(HealthEvent::Paused, at(0));
        let mut mine = health();
        mine.apply(HealthEvent::Joined(&other), at(1));
        let standing = mine.standing(1, EvidenceSeq(0), at(1));
        assert_eq!(standing.state(at(1)), State::BudgetExhausted);
        assert_eq!(standing.paused, Paused::Yes);
    }

    #[test]
    fn a_longer_hold_is_never_shortened() {
        let hold = |seconds| {
            let mut health = health();
            let cycle_ends = crate::clock::Deadline::after(at(0), Duration::from_secs(seconds));
            health.apply(HealthEvent::BudgetReached { cycle_ends }, at(0));
            health
        };
        let mut long = hold(600);
        long.apply(HealthEvent::Joined(&hold(60)), at(1));
        let until = long.standing(1, EvidenceSeq(0), at(1)).holds[0].until;
        assert_eq!(until.remaining(at(0)), Duration::from_secs(600));
    }

    #[test]
    fn the_newer_figure_counts_and_of_one_moment_the_fuller() {
        let joined = |mine: Quota, other: Quota| {
            let (mut one, mut two) = (health(), health());
            (one.quota, two.quota) = (mine, other);
            one.apply(HealthEvent::Joined(&two), at(100));
            one.quota.windows.get(&Window::FiveHour).and_then(|state| state.utilization)
        };
        assert_eq!(joined(used(0.9, 10), used(0.2, 20)), Some(0.2));
        assert_eq!(joined(used(0.2, 20), used(0.9, 10)), Some(0.2));
        assert_eq!(joined(used(0.2, 20), used(0.9, 20)), Some(0.9));
        assert_eq!(joined(Quota::default(), used(0.9, 20)), Some(0.9));
    }
}
