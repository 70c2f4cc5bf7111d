//! A health as it is kept, and what becomes of it after a stop.
//!
//! Stated civil moments need nothing. Waits run on the steady clock, which begins anew with each start of the machine:
//! they are carried over to the new one, less the time that passed meanwhile.

use serde::{Deserialize, Serialize};

use super::{AccountKey, Health, Settings};
use crate::clock::{Boot, Deadline, Timestamp};
use crate::id::AccountId;

/// Both clocks agree on how much time passed, up to this many milliseconds, unless one was touched.
const AGREEMENT: i64 = 2_000;

/// A health with the moment at which it was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    version: u32,
    saved_at: Timestamp,
    health: Health,
}

/// Why a kept health cannot be used; the account starts cold.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It was kept by another version of the program.
    #[error("the kept health has version {found}, this program reads version {}", Snapshot::VERSION)]
    UnknownVersion {
        /// The version it has.
        found: u32,
    },
}

impl Snapshot {
    /// The version of its shape.
    pub const VERSION: u32 = 1;

    /// The health as it is now.
    #[must_use]
    pub fn take(health: &Health, now: Timestamp) -> Self {
        Self { version: Self::VERSION, saved_at: now, health: health.clone() }
    }

    /// The health after a stop: time that passed meanwhile counts. Apply [`super::HealthEvent::Ticked`] next, so that
    /// what ended in between is told.
    ///
    /// # Errors
    /// When it was kept by another version of the program.
    pub fn restore(self, account: AccountId, settings: Settings, now: Timestamp) -> Result<Health, RestoreError> {
        if self.version != Self::VERSION {
            return Err(RestoreError::UnknownVersion { found: self.version });
        }
        let mut health = self.health;
        health.account = AccountKey(account);
        health.settings = settings;
        health.restore(self.saved_at, now);
        Ok(health)
    }
}

impl Health {
    /// Carries a health that was kept at `saved_at` over to `now`, maybe on another run of the machine.
    pub fn restore(&mut self, saved_at: Timestamp, now: Timestamp) {
        let passed = Passage::between(saved_at, now);
        if passed.step.saturating_abs() > AGREEMENT {
            self.stepped(passed.step);
        }
        let until = |deadline| passed.deadline(deadline);
        let stamp = |at| passed.stamp(at, now);
        for hold in self.holds_mut().into_iter().flatten() {
            hold.until = until(hold.until);
            hold.began = stamp(hold.began);
        }
        self.limits.rebase(until, stamp);
        self.credential.rebase(until);
        self.auth.asking.rebase(until);
        self.auth.last_began = self.auth.last_began.map(stamp);
        self.erroring.last_began = self.erroring.last_began.map(stamp);
        self.erroring.strike = self.erroring.strike.map(stamp);
        self.erroring.forgiven = None;
        self.quota.expire(now);
    }
}

/// How the clocks of two moments relate.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// What is added to a reading of the old steady clock, in milliseconds.
    shift: i64,
    /// How far the civil clock was stepped in between.
    step: i64,
}

impl Passage {
    /// The machine was started anew if its steady clock went back, or if all of its present run fits between the two
    /// moments. Then only the civil clock knows how long it took; else the steady clock does, and a difference between
    /// the two is a step of the civil one.
    fn between(saved_at: Timestamp, now: Timestamp) -> Self {
        let civil = now.wall.0.saturating_sub(saved_at.wall.0);
        let steady = now.boot.0.saturating_sub(saved_at.boot.0);
        let restarted = steady < 0 || (civil.saturating_sub(steady) > AGREEMENT && civil >= now.boot.0);
        if !restarted {
            return Self { shift: 0, step: civil.saturating_sub(steady) };
        }
        let counted = if sabotaged!(RestartStopsClock) { 0 } else { civil.max(0) };
        Self { shift: steady.saturating_sub(counted), step: 0 }
    }

    fn deadline(self, deadline: Deadline) -> Deadline {
        match deadline {
            Deadline::Wall(at) => Deadline::Wall(at),
            Deadline::Boot(at) => Deadline::Boot(Boot(at.0.saturating_add(self.shift))),
        }
    }

    fn stamp(self, at: Timestamp, now: Timestamp) -> Timestamp {
        let boot = Boot(at.boot.0.saturating_add(self.shift)).min(now.boot);
        Timestamp { wall: at.wall.min(now.wall), boot }
    }
}
