//! `erroring`: the network, the provider's own faults, overload, late heads, blank answers.
//!
//! One failure is a strike; a second within a minute, without a success between, begins a back-off; so does a wait that
//! the provider states. Once a back-off has begun, each failure of a request that was sent after it doubles it, until a
//! request that was sent after it is served.
//!
//! A stream counts as served when it begins. If it breaks soon after, it was no success: what it forgave counts again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::report::Report;
use super::slot::{self, Term};
use crate::clock::{Deadline, Timestamp};
use crate::event::EndedBy;
use crate::id::LeaseId;
use crate::outcome::{Cause, HoldScope};
use crate::standing::{Hold, HoldKind, Stated};

const FIRST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(15 * 60);
const STRIKE_LIFE: Duration = Duration::from_secs(60);

/// Failures of the provider or the way to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Erroring {
    pub(super) hold: Option<Hold>,
    /// The last failure that began no hold.
    pub(super) strike: Option<Timestamp>,
    /// Back-offs begun or renewed since the last served request.
    pub(super) failures: u32,
    /// Whether the back-off is due to the connection alone (DNS, connect, TLS): then a probe may end it.
    pub(super) connecting: bool,
    /// When the last back-off began; kept after its end, for what was under way then.
    pub(super) last_began: Option<Timestamp>,
    /// What the last success forgave. Leases do not outlive the process, so neither does this.
    #[serde(skip)]
    pub(super) forgiven: Option<Forgiven>,
}

/// What counted until a request was served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Forgiven {
    /// The request.
    by: LeaseId,
    /// When it was served.
    at: Timestamp,
    strike: Option<Timestamp>,
    failures: u32,
}

/// One failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    pub(super) connecting: bool,
    /// The end the provider stated.
    pub(super) until: Option<Deadline>,
    pub(super) sent_at: Timestamp,
}

impl Erroring {
    /// An attempt failed.
    pub(super) fn failed(&mut self, failure: Failure, report: &mut Report<'_>) {
        let stated = failure.until.filter(|until| !until.is_due(report.now));
        match stated {
            Some(until) => self.hold_until(until, Stated::ByProvider, failure, report),
            None if !self.is_news(failure.sent_at) && !sabotaged!(ParallelDoubles) => {}
            None if self.failures > 0 || self.strike.is_some() || sabotaged!(FirstFailureHolds) => {
                self.back_off(failure, report);
            }
            None => self.strike = Some(report.now),
        }
    }

    /// Whether a request was sent after the last back-off began.
    fn is_news(&self, sent_at: Timestamp) -> bool {
        self.last_began.is_none_or(|began| slot::is_after(sent_at, began))
    }

    fn back_off(&mut self, failure: Failure, report: &mut Report<'_>) {
        let longest = if sabotaged!(BackOffUnbounded) { Duration::MAX } else { LONGEST };
        let nth = if sabotaged!(NeverDoubles) { 1 } else { self.failures.saturating_add(1) };
        let until = Deadline::after(report.now, super::doubled(FIRST, nth, longest));
        self.hold_until(until, Stated::Guessed, failure, report);
    }

    fn hold_until(&mut self, until: Deadline, stated: Stated, failure: Failure, report: &mut Report<'_>) {
        let running = self.hold.is_some();
        let counts = self.is_news(failure.sent_at) || sabotaged!(ParallelDoubles);
        let term = Term { kind: HoldKind::Erroring, scope: HoldScope::Account, cause: failure.cause, until, stated };
        slot::lay(&mut self.hold, term, failure.sent_at, report);
        self.connecting = failure.connecting && (!running || self.connecting);
        self.strike = None;
        if counts {
            self.failures = self.failures.saturating_add(1);
        }
        self.last_began = self.hold.map(|hold| hold.began);
    }

    /// A request was served.
    pub(super) fn served(&mut self, lease: LeaseId, sent_at: Timestamp, report: &mut Report<'_>) {
        slot::end_if_older(&mut self.hold, HoldScope::Account, sent_at, report);
        let forgiven = Forgiven { by: lease, at: report.now, strike: self.strike, failures: self.failures };
        self.forgiven = Some(forgiven).filter(|forgiven| forgiven.strike.is_some() || forgiven.failures > 0);
        if !sabotaged!(SuccessKeepsStrike) {
            self.strike = None;
        }
        if self.is_news(sent_at) && !sabotaged!(DoublingKept) {
            self.failures = 0;
        }
    }

    /// What was answered by this request was not served to its end.
    pub(super) fn broke_off(&mut self, lease: LeaseId, now: Timestamp) {
        let soon = |at: Timestamp| now.since(at) <= STRIKE_LIFE;
        let Some(forgiven) = self.forgiven.take_if(|forgiven| forgiven.by == lease) else { return };
        if soon(forgiven.at) && !sabotaged!(BrokenForgives) {
            self.strike = self.strike.or(forgiven.strike.filter(|at| soon(*at)));
            self.failures = self.failures.max(forgiven.failures);
        }
    }

    /// A check of the credential got through: the connection stands again. The doubling stays.
    pub(super) fn connected(&mut self, sent_at: Timestamp, report: &mut Report<'_>) {
        if self.is_news(sent_at) && (self.connecting || sabotaged!(ProbeEndsAnyBackOff)) {
            slot::end(&mut self.hold, HoldScope::Account, EndedBy::Probe, report);
        }
    }

    /// Whether a check could end the back-off.
    pub(super) fn asks_connection(&self) -> bool {
        self.hold.is_some() && self.connecting
    }

    pub(super) fn lapse(&mut self, report: &mut Report<'_>) {
        slot::lapse(&mut self.hold, HoldScope::Account, report);
        let now = report.now;
        self.strike.take_if(|first| now.since(*first) > STRIKE_LIFE && !sabotaged!(StrikeNeverAges));
    }
}
