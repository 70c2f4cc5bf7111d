//! Messages that are still to be delivered, and when each is tried next.
//!
//! A message is delivered at least once: it leaves the outbox when its receiver took it, or after three days. The
//! receiver tells doubles by the message's id.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::{Deadline, Timestamp, Wall};
use crate::roster::Target;

/// The wait after the first failure; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);
/// How long a message is tried.
const GIVE_UP: Duration = Duration::from_secs(3 * 24 * 3600);

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parcel {
    /// Its id, by which a receiver tells doubles.
    pub id: String,
    /// To whom.
    pub target: Target,
    /// What.
    pub body: Value,
    /// When it was written.
    pub created: Wall,
}

/// What became of a failed try.
#[derive(Clone, Debug, PartialEq)]
pub enum Failed {
    /// It failed for the first time, and is tried again.
    First(Target),
    /// It is tried again.
    Again,
    /// It was tried long enough.
    GivenUp(Parcel),
    /// It is not here any more.
    Gone,
}

/// The messages.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: BTreeMap<String, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    parcel: Parcel,
    failures: u32,
    since: Since,
    next: Next,
}

/// Since when a message waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Since {
    /// It was written in this run.
    Now,
    /// It did not arrive in an earlier run.
    Before,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Try(Deadline),
    OnItsWay,
}

impl Outbox {
    /// Takes a message in, to be delivered at once; one that is known already stays as it is.
    pub fn put(&mut self, parcel: Parcel, now: Timestamp) {
        self.take_in(parcel, Since::Now, now);
    }

    /// Takes a message in that an earlier run could not deliver.
    pub fn put_back(&mut self, parcel: Parcel, now: Timestamp) {
        self.take_in(parcel, Since::Before, now);
    }

    fn take_in(&mut self, parcel: Parcel, since: Since, now: Timestamp) {
        let next = Next::Try(Deadline::after(now, Duration::ZERO));
        self.waiting.entry(parcel.id.clone()).or_insert(Waiting { parcel, failures: 0, since, next });
    }

    /// Those whose time has come; they are on their way from now on.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<Parcel> {
        let due = |waiting: &&mut Waiting| matches!(waiting.next, Next::Try(at) if at.is_due(now));
        let taken = self.waiting.values_mut().filter(due).map(|waiting| {
            waiting.next = Next::OnItsWay;
            waiting.parcel.clone()
        });
        taken.collect()
    }

    /// Its receiver took it. One that had not arrived at once is given back.
    pub fn delivered(&mut self, id: &str) -> Option<Parcel> {
        let late = |waiting: &Waiting| waiting.failures > 0 || waiting.since == Since::Before;
        self.waiting.remove(id).filter(late).map(|waiting| waiting.parcel)
    }

    /// Its receiver did not take it.
    pub fn failed(&mut self, id: &str, now: Timestamp) -> Failed {
        let Some(waiting) = self.waiting.get_mut(id) else { return Failed::Gone };
        if now.wall.since(waiting.parcel.created) >= GIVE_UP {
            return self.waiting.remove(id).map_or(Failed::Gone, |waiting| Failed::GivenUp(waiting.parcel));
        }
        let wait = FIRST_WAIT.saturating_mul(1 << waiting.failures.min(16)).min(LONGEST_WAIT);
        waiting.failures += 1;
        waiting.next = Next::Try(Deadline::after(now, wait));
        if waiting.failures == 1 { Failed::First(waiting.parcel.target.clone()) } else { Failed::Again }
    }

    /// Whoever carried messages is gone: those on their way are tried again.
    pub fn recall(&mut self, now: Timestamp) {
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.next == Next::OnItsWay) {
            waiting.next = Next::Try(Deadline::after(now, Duration::ZERO));
        }
    }

    /// When the next one is due.
    #[must_use]
    pub fn next_deadline(&self, now: Timestamp) -> Option<Deadline> {
        let tries = self.waiting.values().filter_map(|waiting| match waiting.next {
            Next::Try(at) => Some(at),
            Next::OnItsWay => None,
        });
        tries.reduce(|one, other| one.sooner(other, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::at_millis(seconds * 1000)
    }

    fn parcel(id: &str) -> Parcel {
        let target = Target { channel: "webhook".into(), name: "ops".into() };
        Parcel { id: id.to_owned(), target, body: Value::Null, created: Wall::from_secs(0) }
    }

    fn ids(parcels: &[Parcel]) -> Vec<&str> {
        parcels.iter().map(|parcel| parcel.id.as_str()).collect()
    }

    #[test]
    fn a_message_is_carried_once_at_a_time_until_it_is_taken() {
        let mut outbox = Outbox::default();
        outbox.put(parcel("a"), at(0));
        assert_eq!(ids(&outbox.take_due(at(0))), ["a"]);
        outbox.put(parcel("a"), at(0));
        assert!(outbox.take_due(at(100)).is_empty(), "it is on its way");
        assert_eq!(outbox.delivered("a"), None, "it arrived at once");
        assert_eq!(outbox.next_deadline(at(100)), None);
    }

    #[test]
    fn a_message_that_is_not_taken_is_tried_after_growing_waits() {
        let mut outbox = Outbox::default();
        outbox.put(parcel("a"), at(0));
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert_eq!(ids(&outbox.take_due(now)), ["a"]);
            let first = waits.is_empty();
            assert_eq!(matches!(outbox.failed("a", now), Failed::First(_)), first, "the first failure is told");
            let next = outbox.next_deadline(now).unwrap();
            waits.push(next.remaining(now).as_secs());
            now = now.plus(next.remaining(now));
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
    }

    #[test]
    fn what_arrives_late_is_told_apart_also_over_a_restart() {
        let mut outbox = Outbox::default();
        outbox.put(parcel("a"), at(0));
        outbox.take_due(at(0));
        outbox.failed("a", at(0));
        assert_eq!(outbox.delivered("a"), Some(parcel("a")));
        assert_eq!(outbox.delivered("a"), None, "it is told once");
        outbox.put_back(parcel("b"), at(9));
        outbox.take_due(at(9));
        assert_eq!(outbox.delivered("b"), Some(parcel("b")));
    }

    #[test]
    fn after_three_days_a_message_is_given_up() {
        let mut outbox = Outbox::default();
        outbox.put(parcel("a"), at(0));
        outbox.take_due(at(0));
        let late = at(3 * 24 * 3600);
        assert_eq!(outbox.failed("a", late), Failed::GivenUp(parcel("a")));
        assert_eq!(outbox.failed("a", late), Failed::Gone);
    }

    #[test]
    fn what_was_on_its_way_with_somebody_who_died_is_carried_again() {
        let mut outbox = Outbox::default();
        outbox.put(parcel("a"), at(0));
        outbox.take_due(at(0));
        outbox.recall(at(1));
        assert_eq!(ids(&outbox.take_due(at(1))), ["a"]);
    }
}
