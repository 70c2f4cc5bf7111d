//! `rate_limited`: refusals by quota and throttles, account-wide or for one model scope, and the short breather that is
//! no hold.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Settings;
use super::evidence::Attempt;
use super::join::later;
use super::report::Report;
use super::slot::{self, Laid, Term};
use crate::account::quota::{self, Quota};
use crate::clock::{Deadline, Timestamp, Wall};
use crate::event::{EndedBy, EventKind, Severity};
use crate::id::{ModelScope, Window};
use crate::outcome::{Cause, HoldScope, QuotaRefusal};
use crate::standing::{Hold, HoldKind, Stated};

/// A stated throttle up to this long is waited out by its conversation; it holds nobody.
const LONGEST_BREATHER: Duration = Duration::from_secs(10);
/// What a throttle without a stated wait comes to, each time it comes again within a minute.
const LADDER: [Duration; 4] =
    [Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(30), Duration::from_secs(60)];
const AGAIN: Duration = Duration::from_secs(60);

/// Refusals by quota and throttles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Limits {
    pub(super) account: Limit,
    pub(super) fable: Limit,
    pub(super) breather: Option<Deadline>,
    ladder: Ladder,
}

/// A hold with the windows that refused; none for a throttle, or when only the aggregate refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Limit {
    pub(super) hold: Option<Hold>,
    pub(super) windows: Vec<Window>,
    /// When the last refusal was taken in: what an observation must be newer than.
    pub(super) refused_at: Wall,
}

/// Throttles without a stated wait, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ladder {
    /// The next rung.
    next: u8,
    /// Until when a further one counts as coming again.
    until: Option<Deadline>,
    began: Option<Timestamp>,
}

impl Limit {
    fn take_stricter(&mut self, other: &Self, now: Timestamp) {
        if later(&mut self.hold, other.hold, now) {
            self.windows.clone_from(&other.windows);
            self.refused_at = other.refused_at;
        }
    }
}

impl Limits {
    /// Takes over whatever is stricter in another's.
    pub(super) fn join(&mut self, other: &Self, now: Timestamp) {
        self.account.take_stricter(&other.account, now);
        self.fable.take_stricter(&other.fable, now);
        self.breather = match (self.breather, other.breather) {
            (Some(mine), Some(other)) => Some(mine.later(other, now)),
            (mine, other) => mine.or(other),
        };
    }

    /// A quota refusal.
    pub(super) fn refused(
        &mut self,
        refusal: &QuotaRefusal,
        attempt: &Attempt,
        settings: &Settings,
        report: &mut Report<'_>,
    ) {
        let scope = match refusal.scope {
            HoldScope::Model(ModelScope::Fable) if sabotaged!(ScopeRefusalHoldsAll) => HoldScope::Account,
            HoldScope::Model(ModelScope::Fable) => HoldScope::Model(ModelScope::Fable),
            HoldScope::Account | HoldScope::Model(ModelScope::Base) => HoldScope::Account,
        };
        let (until, stated) = end_of(refusal.until, settings.cooldown, report.now);
        let term = Term { kind: HoldKind::RateLimited, scope, cause: Cause::Quota, until, stated };
        self.limit(scope).refused(term, &refusal.windows, attempt, report);
    }

    /// A throttle: no window refused.
    pub(super) fn throttled(&mut self, wait: Option<Duration>, attempt: &Attempt, report: &mut Report<'_>) {
        match wait {
            Some(wait) if wait <= LONGEST_BREATHER && !sabotaged!(BreatherHolds) => self.breathe(wait, attempt, report),
            Some(wait) => {
                self.throttle(Deadline::after(attempt.answered_at, wait), Stated::ByProvider, attempt, report)
            }
            None => self.climb(attempt, report),
        }
    }

    fn breathe(&mut self, wait: Duration, attempt: &Attempt, report: &mut Report<'_>) {
        let asked = Deadline::after(attempt.answered_at, wait);
        let until = self.breather.map_or(asked, |running| running.later(asked, report.now));
        if !until.is_due(report.now) && self.breather != Some(until) {
            self.breather = Some(until);
            report.say(EventKind::BreatherTaken { until }, Severity::Info);
        }
    }

    /// Without a stated wait: 5 s, and longer when it comes again within a minute. What was under way when the last one
    /// came is the same one.
    fn climb(&mut self, attempt: &Attempt, report: &mut Report<'_>) {
        let known = self.ladder.until.is_some_and(|until| !until.is_due(report.now));
        let under_way = self.ladder.began.is_some_and(|began| !slot::is_after(attempt.sent_at, began));
        if known && under_way && !sabotaged!(ParallelClimbs) {
            return;
        }
        let rung = if known && !sabotaged!(LadderStuck) { usize::from(self.ladder.next) } else { 0 };
        let rung = rung.min(LADDER.len() - 1);
        let until = Deadline::after(report.now, LADDER[rung]);
        self.ladder = Ladder {
            next: u8::try_from(rung + 1).unwrap_or(u8::MAX),
            until: Some(Deadline::after(report.now, LADDER[rung] + AGAIN)),
            began: Some(report.now),
        };
        self.throttle(until, Stated::Guessed, attempt, report);
    }

    fn throttle(&mut self, until: Deadline, stated: Stated, attempt: &Attempt, report: &mut Report<'_>) {
        if until.is_due(report.now) {
            return;
        }
        let scope = HoldScope::Account;
        let term = Term { kind: HoldKind::RateLimited, scope, cause: Cause::Throttled, until, stated };
        self.account.refused(term, &[], attempt, report);
    }

    /// A request was served: outside a scope it speaks for the account alone, inside for both.
    pub(super) fn served(&mut self, scope: ModelScope, sent_at: Timestamp, report: &mut Report<'_>) {
        slot::end_if_older(&mut self.account.hold, HoldScope::Account, sent_at, report);
        if scope == ModelScope::Fable || sabotaged!(BaseSuccessEndsFable) {
            slot::end_if_older(&mut self.fable.hold, HoldScope::Model(ModelScope::Fable), sent_at, report);
        }
    }

    /// The figures changed: a hold whose windows are all below their thresholds again, newly observed, is over.
    pub(super) fn observed(&mut self, quota: &Quota, settings: &Settings, report: &mut Report<'_>) {
        for (limit, scope) in self.both() {
            if limit.hold.is_some() && limit.is_over_by(quota, settings, report.now) {
                slot::end(&mut limit.hold, scope, EndedBy::Observation, report);
            }
        }
    }

    /// The operator cleared the account.
    pub(super) fn clear(&mut self, report: &mut Report<'_>) {
        self.end_all(EndedBy::Clear, report);
        self.breather = None;
        self.ladder = Ladder::default();
    }

    pub(super) fn end_all(&mut self, by: EndedBy, report: &mut Report<'_>) {
        for (limit, scope) in self.both() {
            slot::end(&mut limit.hold, scope, by, report);
        }
    }

    pub(super) fn lapse(&mut self, report: &mut Report<'_>) {
        for (limit, scope) in self.both() {
            slot::lapse(&mut limit.hold, scope, report);
        }
        self.breather.take_if(|until| until.is_due(report.now));
    }

    /// The civil clock was stepped.
    pub(super) fn step(&mut self, by_ms: i64) {
        for (limit, _) in self.both() {
            limit.refused_at = quota::moved(limit.refused_at, by_ms);
        }
    }

    pub(super) fn rebase(&mut self, shift: impl Fn(Deadline) -> Deadline, stamp: impl Fn(Timestamp) -> Timestamp) {
        self.breather = self.breather.map(&shift);
        self.ladder.until = self.ladder.until.map(&shift);
        self.ladder.began = self.ladder.began.map(&stamp);
    }

    fn limit(&mut self, scope: HoldScope) -> &mut Limit {
        match scope {
            HoldScope::Model(ModelScope::Fable) => &mut self.fable,
            HoldScope::Account | HoldScope::Model(ModelScope::Base) => &mut self.account,
        }
    }

    fn both(&mut self) -> [(&mut Limit, HoldScope); 2] {
        let fable = HoldScope::Model(ModelScope::Fable);
        [(&mut self.account, HoldScope::Account), (&mut self.fable, fable)]
    }
}

impl Limit {
    /// Lays the hold. Of several refusals the one that ends last decides which windows an observation must show.
    fn refused(&mut self, term: Term, windows: &[Window], attempt: &Attempt, report: &mut Report<'_>) {
        let decides = self.hold.is_none_or(|hold| hold.until.later(term.until, report.now) != hold.until);
        match slot::lay(&mut self.hold, term, attempt.sent_at, report) {
            Laid::Began => self.windows = windows.to_vec(),
            Laid::Renewed | Laid::Joined if decides && windows.is_empty() => self.windows.clear(),
            Laid::Renewed | Laid::Joined if decides || !self.windows.is_empty() => self.join(windows),
            Laid::Renewed | Laid::Joined => {}
        }
        self.refused_at = report.now.wall;
    }

    fn join(&mut self, windows: &[Window]) {
        let new = windows.iter().filter(|window| !self.windows.contains(window)).cloned().collect::<Vec<_>>();
        self.windows.extend(new);
    }

    fn is_over_by(&self, quota: &Quota, settings: &Settings, now: Timestamp) -> bool {
        let since = if sabotaged!(OldObservationEnds) { Wall(i64::MIN) } else { self.refused_at };
        let mut recovered = self.windows.iter().map(|w| quota.recovered(w, &settings.thresholds, since, now));
        if sabotaged!(OneWindowIsEnough) {
            return recovered.any(|is| is);
        }
        (!self.windows.is_empty() || sabotaged!(ObservationEndsThrottle)) && recovered.all(|is| is)
    }
}

/// When a refusal ends: as stated, unless that is not ahead; else a guess.
fn end_of(stated: Option<Deadline>, guess: Duration, now: Timestamp) -> (Deadline, Stated) {
    match stated.filter(|until| !until.is_due(now)) {
        Some(until) if sabotaged!(StatedWaitClamped) => {
            (until.sooner(Deadline::after(now, Duration::from_secs(900)), now), Stated::ByProvider)
        }
        Some(until) => (until, Stated::ByProvider),
        None => (Deadline::after(now, guess), Stated::Guessed),
    }
}
