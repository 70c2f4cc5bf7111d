//! When a credential in doubt is asked about, and by whom.
//!
//! After a clear refusal the next question waits: one minute, doubled with each further refusal, at most half an hour. An
//! answer that says nothing is asked again soon and counts for nothing. A refusal on live traffic begins the waits anew.
//!
//! While somebody can be asked, an auth hold whose own time is over does not simply end: the next question decides.
//!
//! Never here: how one asks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::auth::Auth;
use super::event::Questions;
use super::report::Report;
use super::{Health, slot};
use crate::clock::{Deadline, Timestamp};
use crate::event::{EndedBy, EventKind, Severity};
use crate::outcome::HoldScope;
use crate::standing::Hold;

const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// How long after a question is due it is surely answered: two cycles, and the time that answers may take.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// When an account is to be asked about next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    /// Nothing is in doubt, or nobody can be asked.
    None,
    /// Then, about a credential that was refused.
    At(Deadline),
    /// With each round.
    EachRound,
}

/// Who asks about a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy {
    /// An operator. What is heard counts; the schedule goes on as it was.
    Operator,
    /// The account's schedule.
    Schedule {
        /// After how long it is asked again if nothing was learnt.
        again: Duration,
    },
}

/// The schedule of a refused credential.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Asking {
    /// Clear refusals since the last on live traffic, itself included.
    refusals: u32,
    /// When it is asked about next.
    next: Option<Deadline>,
}

impl Asking {
    /// The first refusal, or one on live traffic.
    pub(super) fn begin(&mut self, now: Timestamp) {
        *self = Self::default();
        self.refused(now);
    }

    /// A question was clearly refused.
    pub(super) fn refused(&mut self, now: Timestamp) {
        self.refusals = self.refusals.saturating_add(1);
        self.next = Some(Deadline::after(now, wait(self.refusals)));
    }

    /// Nothing was learnt.
    pub(super) fn again(&mut self, now: Timestamp, after: Duration) {
        self.next = Some(Deadline::after(now, after));
    }

    pub(super) fn rebase(&mut self, shift: impl Fn(Deadline) -> Deadline) {
        self.next = self.next.map(shift);
    }

    /// When the first question at or after this moment is due, should all before be refused at once.
    fn deciding(&self, from: Deadline, now: Timestamp) -> Deadline {
        let mut ahead = self.next.map_or(Duration::ZERO, |next| next.remaining(now));
        let mut refusals = self.refusals;
        while ahead < from.remaining(now) {
            refusals = refusals.saturating_add(1);
            ahead += wait(refusals);
        }
        Deadline::after(now, ahead)
    }
}

/// How long after so many refusals the next question waits.
fn wait(refusals: u32) -> Duration {
    super::doubled(FIRST, refusals, LONGEST)
}

impl Auth {
    /// A hold whose own time is over goes on until a question has decided; if nobody can be asked, or nobody does, the
    /// account is on trial.
    pub(super) fn lapse(&mut self, questions: Questions, report: &mut Report<'_>) {
        if let (Some(hold), false) = (self.ended(report.now), self.awaits) {
            let until = self.decided_by(hold, questions, report.now);
            if let Some(until) = until.filter(|until| !until.is_due(report.now)) {
                self.awaits = true;
                self.hold = Some(Hold { until, ..hold });
            }
        }
        if slot::lapse(&mut self.hold, HoldScope::Account, report) && !sabotaged!(NoTrial) {
            self.try_out(report);
        }
    }

    fn ended(&self, now: Timestamp) -> Option<Hold> {
        self.hold.filter(|hold| hold.until.is_due(now) && !sabotaged!(HoldsNeverEnd))
    }

    fn try_out(&mut self, report: &mut Report<'_>) {
        self.awaits = false;
        self.on_trial = true;
        report.say(EventKind::TrialBegan, Severity::Info);
    }

    /// By when a question has surely decided about a hold; none where nobody is asked.
    fn decided_by(&self, hold: Hold, questions: Questions, now: Timestamp) -> Option<Deadline> {
        let Questions::OfProvider { every } = questions else { return None };
        let answered = every.saturating_mul(2).saturating_add(ANSWERED_WITHIN);
        let ahead = self.asking.deciding(hold.until, now).remaining(now);
        Some(Deadline::after(now, ahead.saturating_add(answered)))
    }

    /// The hold as others are to see it: until a question has decided.
    pub(super) fn shown(&self, questions: Questions, now: Timestamp) -> Option<Hold> {
        let hold = self.hold?;
        let decided = self.decided_by(hold, questions, now).filter(|_| !self.awaits);
        Some(Hold { until: decided.unwrap_or(hold.until), ..hold })
    }

    /// A question of the schedule taught nothing: a hold whose own time is over ends with it.
    fn undecided(&mut self, again: Duration, report: &mut Report<'_>) {
        if self.awaits {
            slot::end(&mut self.hold, HoldScope::Account, EndedBy::Time, report);
            self.try_out(report);
        }
        if self.hold.is_some() {
            self.asking.again(report.now, again);
        }
    }

    /// A question was refused.
    pub(super) fn question_refused(&mut self, by: AskedBy, report: &mut Report<'_>) {
        match by {
            AskedBy::Schedule { .. } => self.asking.refused(report.now),
            AskedBy::Operator if self.asking.next.is_none() => self.asking.begin(report.now),
            AskedBy::Operator => {}
        }
    }
}

impl Health {
    /// When the account is to be asked about next.
    #[must_use]
    pub fn question(&self, now: Timestamp) -> Question {
        let each_round = self.credential.unverified || self.erroring.asks_connection();
        match self.settings.questions {
            Questions::Never => Question::None,
            Questions::OfProvider { .. } if self.auth.hold.is_some() => {
                Question::At(self.auth.asking.next.unwrap_or_else(|| Deadline::after(now, Duration::ZERO)))
            }
            Questions::OfProvider { .. } | Questions::OfCli if each_round => Question::EachRound,
            Questions::OfProvider { .. } | Questions::OfCli => Question::None,
        }
    }

    /// A question taught nothing.
    pub(super) fn learnt_nothing(&mut self, by: AskedBy, report: &mut Report<'_>) {
        if let AskedBy::Schedule { again } = by {
            self.auth.undecided(again, report);
        }
    }

    /// The account's own CLI says that it is logged in: a login is there. Nothing more is known of it.
    pub(super) fn cli_says_logged_in(&mut self, sent_at: Timestamp, report: &mut Report<'_>) {
        self.credential.unverified = false;
        self.erroring.connected(sent_at, report);
    }
}
