//! What becomes of the credential itself: renewed, broken, readable again, its refresh grant lost, checked.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::auth::Asked;
use super::report::Report;
use super::{Check, Health, Verdict};
use crate::clock::{Deadline, Timestamp, Wall};
use crate::event::{EndedBy, EventKind, Severity};
use crate::id::Generation;
use crate::outcome::Cause;
use crate::standing::CredentialState;

/// The credential in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Credential {
    pub(super) generation: Generation,
    pub(super) unverified: bool,
    broken: Option<Cause>,
    /// Set while the refresh grant is gone: when the access token ends.
    access_until: Option<Deadline>,
    /// The access token's end has passed, and was told.
    access_over: bool,
    /// When it ends for good; none where it is renewed or its end is not known.
    ends: Option<Wall>,
    /// Which warning of that end was told last.
    warned: Warned,
    /// When the provider last said, asked about it, whether it knows it.
    asked_at: Option<Wall>,
}

/// Which warning of a credential's end was told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Warned {
    /// None.
    #[default]
    Not,
    /// A month before.
    Month,
    /// A week before.
    Week,
}

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The warnings, and how long before the end each is told.
const WARNINGS: [(Warned, Duration); 2] =
    [(Warned::Month, DAY.saturating_mul(30)), (Warned::Week, DAY.saturating_mul(7))];

impl Credential {
    pub(super) fn state(&self) -> CredentialState {
        match (self.broken, self.access_until) {
            (Some(cause), _) => CredentialState::Broken(cause),
            (None, Some(access_until)) => CredentialState::NeedsLogin { access_until },
            (None, None) => CredentialState::Usable,
        }
    }

    pub(super) fn asked_at(&self) -> Option<Wall> {
        self.asked_at
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The secret cannot be had.
    pub(super) fn broke(&mut self, cause: Cause, report: &mut Report<'_>) {
        if self.broken.replace(cause) != Some(cause) {
            report.say(EventKind::CredentialBroke { cause }, Severity::Error);
        }
    }

    /// The access token is another; everything else stands, but what was refused of the old one counts no more.
    pub(super) fn refreshed(&mut self, generation: Generation, report: &mut Report<'_>) {
        if generation <= self.generation {
            return;
        }
        *self = Self { generation, unverified: self.unverified, ..Self::default() };
        report.say(EventKind::TokenRefreshed, Severity::Info);
    }

    /// The refresh grant is gone. The account serves until its access token ends.
    pub(super) fn grant_lost(&mut self, access_until: Deadline, report: &mut Report<'_>) {
        if self.access_until.is_none() {
            report.say(EventKind::LoginNeeded, Severity::Error);
        }
        self.access_until = Some(access_until);
        self.access_over = access_until.is_due(report.now);
    }

    pub(super) fn grant_regained(&mut self) {
        self.access_until = None;
        self.access_over = false;
    }

    /// It is known when it ends for good.
    pub(super) fn ends_at(&mut self, ends: Option<Wall>, report: &mut Report<'_>) {
        if self.ends != ends {
            (self.ends, self.warned) = (ends, Warned::Not);
        }
        self.warn(report);
    }

    pub(super) fn expires_soon(&self, now: Timestamp) -> bool {
        let [(_, month), _] = WARNINGS;
        self.ends.is_some_and(|ends| earlier(ends, month) <= now.wall)
    }

    /// When the access token ends, or a warning is due, until that has been told.
    pub(super) fn deadline(&self, now: Timestamp) -> Option<Deadline> {
        let access = self.access_until.filter(|_| !self.access_over);
        let warning = WARNINGS.into_iter().find(|(warning, _)| *warning > self.warned);
        let warning = self.ends.zip(warning).map(|(ends, (_, before))| Deadline::Wall(earlier(ends, before)));
        match (access, warning) {
            (Some(one), Some(other)) => Some(one.sooner(other, now)),
            (one, other) => one.or(other),
        }
    }

    pub(super) fn lapse(&mut self, report: &mut Report<'_>) {
        self.access_over |= self.access_until.is_some_and(|until| until.is_due(report.now));
        self.warn(report);
    }

    /// Of warnings that are due together the last is told.
    fn warn(&mut self, report: &mut Report<'_>) {
        let Some(ends) = self.ends else { return };
        let due = WARNINGS.into_iter().rfind(|(_, before)| earlier(ends, *before) <= report.now.wall);
        let Some((warning, _)) = due.filter(|(warning, _)| *warning > self.warned) else { return };
        self.warned = warning;
        let days = ends.since(report.now.wall).as_secs() / DAY.as_secs();
        report.say(EventKind::CredentialExpiring { ends: Deadline::Wall(ends), days }, Severity::Warning);
    }

    pub(super) fn rebase(&mut self, shift: impl Fn(Deadline) -> Deadline) {
        self.access_until = self.access_until.map(shift);
    }
}

fn earlier(at: Wall, by: Duration) -> Wall {
    Wall(at.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

impl Health {
    /// Whether evidence speaks of the credential in use. That of a newer one tells that it was renewed.
    pub(super) fn is_current(&mut self, generation: Generation, report: &mut Report<'_>) -> bool {
        self.renewed(generation, Check::Passed, report);
        generation == self.credential.generation || sabotaged!(OldGenerationCounts)
    }

    /// A new credential: nothing is held against it, and the figures may be another plan's. Spend stays.
    pub(super) fn renewed(&mut self, generation: Generation, check: Check, report: &mut Report<'_>) {
        if generation <= self.credential.generation {
            return;
        }
        let unverified = check == Check::Undecided;
        self.credential = Credential { generation, unverified, ..Credential::default() };
        report.say(EventKind::CredentialRenewed, Severity::Info);
        if !sabotaged!(RenewalKeepsAuth) {
            self.auth.heal(EndedBy::Credential, report);
        }
        if !sabotaged!(RenewalKeepsFigures) {
            self.quota.forget();
        }
        if sabotaged!(RenewalEndsQuotaHold) {
            self.limits.end_all(EndedBy::Credential, report);
        }
    }

    /// The source reads again; what it holds may be new.
    pub(super) fn read_again(&mut self, generation: Generation, report: &mut Report<'_>) {
        self.credential.broken = None;
        self.renewed(generation, Check::Passed, report);
    }

    /// A check of this very credential was answered. It speaks of the credential and the connection, of nothing else.
    pub(super) fn probed(&mut self, verdict: Verdict, generation: Generation, asked: Asked, report: &mut Report<'_>) {
        if !self.is_current(generation, report) {
            return;
        }
        match verdict {
            Verdict::Valid => self.found_valid(asked.sent_at, report),
            Verdict::InvalidToken => self.auth.refused_when_asked(Cause::InvalidToken, asked, report),
            Verdict::OrgRefused => self.auth.refused_when_asked(Cause::OrgDisabled, asked, report),
            Verdict::Undecided => return self.learnt_nothing(asked.by, report),
        }
        self.credential.asked_at = Some(report.now.wall);
    }

    fn found_valid(&mut self, sent_at: Timestamp, report: &mut Report<'_>) {
        report.say(EventKind::CredentialProved, Severity::Trace);
        if self.auth.is_news(sent_at) {
            self.auth.heal(EndedBy::Probe, report);
        }
        self.credential.unverified = false;
        self.erroring.connected(sent_at, report);
        if sabotaged!(ProbeEndsQuotaHold) {
            self.limits.end_all(EndedBy::Probe, report);
        }
    }
}
