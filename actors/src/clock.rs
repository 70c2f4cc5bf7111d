//! Time as a value: what a moment is, when a deadline is due, and the only place that reads a clock.
//!
//! A [`Timestamp`] carries two readings of one moment. `wall` is the civil clock, which people and providers speak and
//! which may be set back or forth. `boot` counts steadily from the machine's start, suspend included. A reset that a
//! provider states is a wall moment and never shifts; a wait ("in 30 s") runs on the boot clock, so that neither a
//! stepped wall clock nor a night's sleep can stretch or shorten it.
//!
//! Never here: a rule about accounts. Rules take `now` as an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// A moment on the civil clock, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wall(pub i64);

/// A moment on the clock that counts from the machine's start, suspend included, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Boot(pub i64);

/// One moment, read on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timestamp {
    /// The civil clock's reading.
    pub wall: Wall,
    /// The steady clock's reading.
    pub boot: Boot,
}

/// When something ends, on the clock that it was stated on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Deadline {
    /// An absolute civil moment, as providers state resets.
    Wall(Wall),
    /// A wait that runs on the steady clock.
    Boot(Boot),
}

impl Wall {
    /// The moment `seconds` after the Unix epoch; out of range saturates.
    #[must_use]
    pub fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This moment moved forward by `wait`.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(millis(wait)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        between(earlier.0, self.0)
    }
}

impl Boot {
    /// This moment moved forward by `wait`.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(millis(wait)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        between(earlier.0, self.0)
    }
}

impl Timestamp {
    /// A moment read at the same number of milliseconds on both clocks; for tests and simulations.
    #[must_use]
    pub fn at_millis(millis: i64) -> Self {
        Self { wall: Wall(millis), boot: Boot(millis) }
    }

    /// Both readings moved forward by `wait`.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self { wall: self.wall.plus(wait), boot: self.boot.plus(wait) }
    }

    /// The steady time that passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.boot.since(earlier.boot)
    }
}

impl Deadline {
    /// The end of a wait of this length that begins at `now`.
    #[must_use]
    pub fn after(now: Timestamp, wait: Duration) -> Self {
        Self::Boot(now.boot.plus(wait))
    }

    /// Whether the moment has come.
    #[must_use]
    pub fn is_due(self, now: Timestamp) -> bool {
        match self {
            Self::Wall(at) => at <= now.wall,
            Self::Boot(at) => at <= now.boot,
        }
    }

    /// How long until the moment comes; zero once it has.
    #[must_use]
    pub fn remaining(self, now: Timestamp) -> Duration {
        match self {
            Self::Wall(at) => at.since(now.wall),
            Self::Boot(at) => at.since(now.boot),
        }
    }

    /// The civil moment at which it comes, if neither clock is touched until then.
    #[must_use]
    pub fn as_wall(self, now: Timestamp) -> Wall {
        match self {
            Self::Wall(at) => at,
            Self::Boot(at) => Wall(now.wall.0.saturating_add(at.0.saturating_sub(now.boot.0))),
        }
    }

    /// Whichever of the two comes later, judged at `now`.
    #[must_use]
    pub fn later(self, other: Self, now: Timestamp) -> Self {
        if other.as_wall(now) > self.as_wall(now) { other } else { self }
    }

    /// Whichever of the two comes sooner, judged at `now`.
    #[must_use]
    pub fn sooner(self, other: Self, now: Timestamp) -> Self {
        if other.as_wall(now) < self.as_wall(now) { other } else { self }
    }
}

fn millis(wait: Duration) -> i64 {
    i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)
}

fn between(earlier: i64, later: i64) -> Duration {
    Duration::from_millis(u64::try_from(later.saturating_sub(earlier)).unwrap_or(0))
}

/// What tells the time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;

    /// Changes whenever the clock was moved by hand, so that sleepers look again. The machine's own clock never says so.
    fn moved(&self) -> watch::Receiver<u64>;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock, plus an offset that a simulation may move.
#[derive(Debug)]
pub struct SystemClock {
    offset: AtomicI64,
    moved: watch::Sender<u64>,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { offset: AtomicI64::new(0), moved: watch::Sender::new(0) }
    }
}

impl SystemClock {
    /// Moves both readings forward by `step`, as if that time had passed.
    pub fn advance(&self, step: Duration) {
        self.offset.fetch_add(millis(step), Ordering::SeqCst);
        self.moved.send_modify(|n| *n += 1);
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let offset = self.offset.load(Ordering::SeqCst);
        Timestamp { wall: Wall(read_wall().saturating_add(offset)), boot: Boot(read_boot().saturating_add(offset)) }
    }

    fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the civil clock")]
fn read_wall() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: rustix::time::ClockId = rustix::time::ClockId::Boottime;

/// On macOS the monotonic clock goes on while the machine sleeps (its manual, `clock_gettime(3)`).
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

fn read_boot() -> i64 {
    let spec = rustix::time::clock_gettime(STEADY);
    spec.tv_sec.saturating_mul(1000).saturating_add(spec.tv_nsec / 1_000_000)
}

/// An instant for measuring how long something takes or lasts within this process; never for a rule about accounts.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the runtime's clock")]
pub fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// A clock that stands still until it is moved; for tests of rules in time.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicI64,
    boot: AtomicI64,
    moved: watch::Sender<u64>,
}

impl ManualClock {
    /// A clock that shows this moment.
    #[must_use]
    pub fn at(start: Timestamp) -> Self {
        Self { wall: AtomicI64::new(start.wall.0), boot: AtomicI64::new(start.boot.0), moved: watch::Sender::new(0) }
    }

    /// Lets `step` pass on both clocks.
    pub fn advance(&self, step: Duration) {
        self.boot.fetch_add(millis(step), Ordering::SeqCst);
        self.step_wall(millis(step));
    }

    /// Sets the civil clock forth (or, negative, back) by this many milliseconds; the steady clock does not notice.
    pub fn step_wall(&self, by: i64) {
        self.wall.fetch_add(by, Ordering::SeqCst);
        self.moved.send_modify(|n| *n += 1);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp { wall: Wall(self.wall.load(Ordering::SeqCst)), boot: Boot(self.boot.load(Ordering::SeqCst)) }
    }

    fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }
}

/// The longest single sleep: a slow tick that heals whatever the timer did not count, such as suspend.
const SLOW_TICK: Duration = Duration::from_secs(15);

/// Sleeps until `deadline` is due on `clock`, waking early to look again when the clock is moved and on a slow tick.
pub async fn sleep_until(clock: &dyn Clock, deadline: Deadline) {
    let mut moved = clock.moved();
    loop {
        let now = clock.now();
        if deadline.is_due(now) {
            return;
        }
        let nap = deadline.remaining(now).min(SLOW_TICK);
        let _ = tokio::time::timeout(nap, moved.changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stated_reset_does_not_move_with_a_stepped_wall_clock() {
        let clock = ManualClock::at(Timestamp::at_millis(1_000_000));
        let stated = Deadline::Wall(Wall(1_060_000));
        let wait = Deadline::after(clock.now(), Duration::from_secs(60));
        clock.step_wall(3_600_000);
        assert!(stated.is_due(clock.now()), "the civil moment has come");
        assert!(!wait.is_due(clock.now()), "a wait does not end because someone set the clock");
        assert_eq!(wait.remaining(clock.now()), Duration::from_secs(60));
    }

    #[test]
    fn a_wait_is_shown_as_a_civil_moment_of_the_present_clock() {
        let clock = ManualClock::at(Timestamp { wall: Wall(5_000), boot: Boot(1_000) });
        let wait = Deadline::after(clock.now(), Duration::from_secs(2));
        assert_eq!(wait.as_wall(clock.now()), Wall(7_000));
        clock.step_wall(10_000);
        assert_eq!(wait.as_wall(clock.now()), Wall(17_000));
    }

    #[test]
    fn the_later_of_two_bases_is_found() {
        let now = Timestamp { wall: Wall(1_000_000), boot: Boot(50) };
        let stated = Deadline::Wall(Wall(1_010_000));
        let wait = Deadline::after(now, Duration::from_secs(20));
        assert_eq!(stated.later(wait, now), wait);
        assert_eq!(stated.sooner(wait, now), stated);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeper_wakes_when_the_clock_is_moved() {
        let clock = Arc::new(ManualClock::at(Timestamp::at_millis(0)));
        let shared = Arc::clone(&clock);
        let deadline = Deadline::after(clock.now(), Duration::from_secs(3600));
        let mut sleeper = Box::pin(sleep_until(&*shared, deadline));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut sleeper).await.is_err());
        clock.advance(Duration::from_secs(3600));
        tokio::time::timeout(Duration::from_secs(1), sleeper).await.expect("the sleeper looks again");
    }
}
