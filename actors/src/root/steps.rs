//! Notices when somebody set the civil clock: it moved against the steady one.
//!
//! Stated resets are civil moments and stay where they are; waits run on the steady clock and do not notice. Only stamps
//! that were written on the old civil time move with it, and that is told, so that a log can be understood.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::account::fact::Fact;
use crate::account::health::HealthEvent;
use crate::clock::{Deadline, Timestamp, sleep_until};
use crate::event::{Event, EventKind, Severity};
use crate::outcome::Evidence;
use crate::ports::EventSink;
use crate::root::Fleet;

/// Both clocks agree up to this: less is drift, and the reading of two clocks one after the other.
const AGREEMENT_MS: i64 = 2_000;
/// How often it is looked.
const LOOK: Duration = Duration::from_secs(15);

/// By how many milliseconds the civil clock was stepped between two moments; `None` if it was not.
#[must_use]
pub fn step_between(before: Timestamp, after: Timestamp) -> Option<i64> {
    let step = (after.wall.0 - before.wall.0) - (after.boot.0 - before.boot.0);
    (step.abs() > AGREEMENT_MS).then_some(step)
}

/// Looks until cancelled.
pub(super) async fn watch(fleet: Fleet, stop: CancellationToken) {
    let clock = fleet.clock();
    let mut last = clock.now();
    loop {
        let mut moved = clock.moved();
        tokio::select! {
            () = stop.cancelled() => return,
            _ = moved.changed() => {}
            () = sleep_until(&*clock, Deadline::after(last, LOOK)) => {}
        }
        let now = clock.now();
        if let Some(by_ms) = step_between(last, now) {
            tell(&fleet, by_ms, now);
        }
        last = now;
    }
}

fn tell(fleet: &Fleet, by_ms: i64, now: Timestamp) {
    let kind = EventKind::ClockStepped { by_ms };
    let evidence = Evidence::default();
    fleet.feed.emit(Event { seq: 0, ts: now, kind, severity: Severity::Warning, account: None, evidence });
    for account in fleet.roster().accounts.keys() {
        fleet.tell(*account, Fact::Told(HealthEvent::ClockStepped { by_ms }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Boot, Wall};

    fn at(wall: i64, boot: i64) -> Timestamp {
        Timestamp { wall: Wall(wall), boot: Boot(boot) }
    }

    #[test]
    fn time_that_passes_on_both_clocks_is_no_step() {
        assert_eq!(step_between(at(0, 0), at(3_600_000, 3_600_000)), None);
        assert_eq!(step_between(at(0, 0), at(16_999, 15_000)), None, "drift and the reading of two clocks");
    }

    #[test]
    fn a_clock_set_forth_or_back_is_a_step_of_that_size() {
        assert_eq!(step_between(at(0, 0), at(3_615_000, 15_000)), Some(3_600_000));
        assert_eq!(step_between(at(0, 0), at(-3_585_000, 15_000)), Some(-3_600_000));
    }
}
