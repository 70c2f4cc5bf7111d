//! `auth_dead` and what follows it: a credential that the provider refuses.
//!
//! Each refusal is a strike and doubles the hold. Requests that were under way when the hold began are part of the same
//! strike, and whoever asks during the hold adds none. When the hold's time is over, the next question about it decides
//! (`asking`). Undecided, the account is on trial: one request at a time; served, it is healed; refused, that is the next
//! strike.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::asking::{AskedBy, Asking};
use super::report::Report;
use super::slot::{self, Term};
use crate::clock::{Deadline, Timestamp};
use crate::event::EndedBy;
use crate::outcome::{Cause, HoldScope};
use crate::standing::{Hold, HoldKind, Stated};

const FIRST: Duration = Duration::from_secs(15 * 60);
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// Refusals of the present credential.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Auth {
    pub(super) hold: Option<Hold>,
    pub(super) on_trial: bool,
    pub(super) strikes: u32,
    /// When the last hold began; kept after its end, for what was under way then.
    pub(super) last_began: Option<Timestamp>,
    /// The hold's own time is over: the next question decides.
    #[serde(default)]
    pub(super) awaits: bool,
    /// When it is asked about.
    #[serde(default)]
    pub(super) asking: Asking,
}

/// Who asked, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) by: AskedBy,
    pub(super) sent_at: Timestamp,
}

impl Auth {
    /// The credential was refused on live traffic.
    pub(super) fn refused(&mut self, cause: Cause, sent_at: Timestamp, report: &mut Report<'_>) {
        if self.is_news(sent_at) {
            self.asking.begin(report.now);
        }
        self.hear_refusal(cause, sent_at, report);
    }

    /// A question about it was refused.
    pub(super) fn refused_when_asked(&mut self, cause: Cause, asked: Asked, report: &mut Report<'_>) {
        if self.is_news(asked.sent_at) {
            self.question_refused(asked.by, report);
        }
        self.hear_refusal(cause, asked.sent_at, report);
    }

    /// While a hold runs its own time, refusals add no strike.
    fn hear_refusal(&mut self, cause: Cause, sent_at: Timestamp, report: &mut Report<'_>) {
        let runs = self.hold.is_some() && !self.awaits;
        let counts = match (self.is_news(sent_at), runs) {
            (true, false) => true,
            (true, true) => sabotaged!(ProbeStrikes),
            (false, _) => sabotaged!(ParallelStrikes),
        };
        if counts {
            self.strike(cause, sent_at, report);
        }
    }

    fn strike(&mut self, cause: Cause, sent_at: Timestamp, report: &mut Report<'_>) {
        self.strikes = self.strikes.saturating_add(1);
        (self.on_trial, self.awaits) = (false, false);
        self.last_began = Some(report.now);
        let until = Deadline::after(report.now, length(self.strikes));
        let term = Term { kind: HoldKind::AuthDead, scope: HoldScope::Account, cause, until, stated: Stated::Guessed };
        slot::lay(&mut self.hold, term, sent_at, report);
    }

    /// The credential served a request.
    pub(super) fn served(&mut self, sent_at: Timestamp, report: &mut Report<'_>) {
        if sabotaged!(TrialNeverHeals) {
            return;
        }
        if self.is_news(sent_at) || sabotaged!(LateSuccessEnds) {
            self.heal(EndedBy::Served, report);
        }
    }

    /// Whether a request was sent after the last hold began.
    pub(super) fn is_news(&self, sent_at: Timestamp) -> bool {
        self.last_began.is_none_or(|began| slot::is_after(sent_at, began))
    }

    /// Nothing is held against the credential any more.
    pub(super) fn heal(&mut self, by: EndedBy, report: &mut Report<'_>) {
        slot::end(&mut self.hold, HoldScope::Account, by, report);
        *self = Self::default();
    }
}

fn length(strikes: u32) -> Duration {
    if sabotaged!(StrikesForgotten) {
        return FIRST;
    }
    super::doubled(FIRST, strikes, LONGEST)
}
