//! What the reports of attempts teach: which outcome concerns which hold.
//!
//! Never here: how a hold behaves. Each has a file of its own.

use std::time::Duration;

use super::erroring::Failure;
use super::report::Report;
use super::{Health, UsagePoll};
use crate::clock::{Deadline, Timestamp};
use crate::id::{LeaseId, ModelScope};
use crate::outcome::{Answered, CallKind, Cause, Close, Ended, Outcome};

/// What of an attempt the rules look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) lease: LeaseId,
    pub(super) call: CallKind,
    pub(super) scope: ModelScope,
    pub(super) sent_at: Timestamp,
    pub(super) answered_at: Timestamp,
}

impl Health {
    /// Figures first, so that a refusal knows them; what they end last, so that a refusal's own figures end nothing.
    pub(super) fn answered(&mut self, answered: &Answered, report: &mut Report<'_>) {
        if !self.is_current(answered.generation, report) {
            return;
        }
        report.on(&answered.evidence);
        let ignored = sabotaged!(RelayedQuotaIgnored) && answered.outcome == Outcome::Relayed;
        if !answered.quota.is_empty() && !ignored {
            self.quota.apply(&answered.quota, answered.answered_at, report.now);
        }
        let answered_at = clamped(answered.answered_at, report.now);
        let Answered { lease, call, scope, sent_at, .. } = *answered;
        self.learn(&answered.outcome, &Attempt { lease, call, scope, sent_at, answered_at }, report);
        self.limits.observed(&self.quota, &self.settings, report);
    }

    pub(super) fn ended(&mut self, ended: &Ended, report: &mut Report<'_>) {
        if !self.is_current(ended.generation, report) {
            return;
        }
        let Ended { lease, call, scope, sent_at, .. } = *ended;
        let attempt = Attempt { lease, call, scope, sent_at, answered_at: report.now };
        match &ended.close {
            Close::Broken => self.broke_off(&Outcome::Unreachable { connecting: false }, &attempt, report),
            Close::ErrorEvent(Outcome::Served) | Close::Complete | Close::Stalled | Close::ClientGone => {}
            Close::ErrorEvent(outcome) => self.broke_off(outcome, &attempt, report),
        }
    }

    fn broke_off(&mut self, outcome: &Outcome, attempt: &Attempt, report: &mut Report<'_>) {
        if is_failure(outcome) {
            self.erroring.broke_off(attempt.lease, report.now);
        }
        self.learn(outcome, attempt, report);
    }

    pub(super) fn usage_polled(&mut self, poll: &UsagePoll, report: &mut Report<'_>) {
        if self.is_current(poll.generation, report) {
            self.quota.apply_usage(&poll.windows, poll.answered_at, report.now);
            self.limits.observed(&self.quota, &self.settings, report);
        }
    }

    /// What an outcome teaches. A call beside inference teaches only what it says of the credential.
    fn learn(&mut self, outcome: &Outcome, attempt: &Attempt, report: &mut Report<'_>) {
        match outcome {
            Outcome::Unauthorized => self.auth.refused(Cause::InvalidToken, attempt.sent_at, report),
            Outcome::OrgRefused => self.auth.refused(Cause::OrgDisabled, attempt.sent_at, report),
            Outcome::Relayed if sabotaged!(ClientErrorCounts) => self.fail(Cause::ServerError, None, attempt, report),
            Outcome::Relayed | Outcome::Abandoned => {}
            Outcome::Served
            | Outcome::Quota(_)
            | Outcome::Throttled { .. }
            | Outcome::BalanceEmpty
            | Outcome::ServerFault { .. }
            | Outcome::Unreachable { .. }
            | Outcome::HeadTimeout { .. }
            | Outcome::Blank => self.learn_by_inference(outcome, attempt, report),
        }
    }

    fn learn_by_inference(&mut self, outcome: &Outcome, attempt: &Attempt, report: &mut Report<'_>) {
        if attempt.call == CallKind::Side && !sabotaged!(SideCallCounts) {
            return;
        }
        match outcome {
            Outcome::Served => self.served(attempt, report),
            Outcome::Quota(refusal) => self.limits.refused(refusal, attempt, &self.settings, report),
            Outcome::Throttled { wait } => self.limits.throttled(*wait, attempt, report),
            Outcome::BalanceEmpty => self.spend.balance_empty(attempt.sent_at, report),
            Outcome::ServerFault { cause, wait } => self.fail(*cause, *wait, attempt, report),
            Outcome::Unreachable { connecting } => self.unreachable(*connecting, attempt, report),
            Outcome::HeadTimeout { streaming: true } => self.fail(Cause::Timeout, None, attempt, report),
            Outcome::Blank => self.fail(Cause::Blank, None, attempt, report),
            Outcome::HeadTimeout { streaming: false }
            | Outcome::Unauthorized
            | Outcome::OrgRefused
            | Outcome::Relayed
            | Outcome::Abandoned => {}
        }
    }

    /// A request was served: the account, its credential and the way to it were good when it was sent.
    fn served(&mut self, attempt: &Attempt, report: &mut Report<'_>) {
        self.limits.served(attempt.scope, attempt.sent_at, report);
        self.erroring.served(attempt.lease, attempt.sent_at, report);
        self.auth.served(attempt.sent_at, report);
        self.spend.served(attempt.sent_at, report);
        if !sabotaged!(NeverVerified) {
            self.credential.unverified = false;
        }
    }

    fn fail(&mut self, cause: Cause, wait: Option<Duration>, attempt: &Attempt, report: &mut Report<'_>) {
        let until = wait.map(|wait| Deadline::after(attempt.answered_at, wait));
        self.erroring.failed(Failure { cause, connecting: false, until, sent_at: attempt.sent_at }, report);
    }

    fn unreachable(&mut self, connecting: bool, attempt: &Attempt, report: &mut Report<'_>) {
        let failure = Failure { cause: Cause::Network, connecting, until: None, sent_at: attempt.sent_at };
        self.erroring.failed(failure, report);
    }
}

/// Whether an outcome is a failure of the provider or the way to it.
fn is_failure(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::ServerFault { .. }
        | Outcome::Unreachable { .. }
        | Outcome::HeadTimeout { streaming: true }
        | Outcome::Blank => true,
        Outcome::Served
        | Outcome::Quota(_)
        | Outcome::Throttled { .. }
        | Outcome::Unauthorized
        | Outcome::OrgRefused
        | Outcome::BalanceEmpty
        | Outcome::HeadTimeout { streaming: false }
        | Outcome::Relayed
        | Outcome::Abandoned => false,
    }
}

/// A report cannot come from later than now.
fn clamped(at: Timestamp, now: Timestamp) -> Timestamp {
    if at.boot > now.boot { now } else { at }
}
