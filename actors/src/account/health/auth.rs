//! `auth_dead` and what follows it: a credential that the provider refuses.
//!
//! Each refusal is a strike and doubles the hold. Requests that were under way when the hold began are part of the same
//! strike, and whoever asks during the hold adds none. When the hold has ended undecided the account is on trial: one
//! request at a time; served, it is healed; refused, that is the next strike.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::report::Report;
use super::slot::{self, Term};
use crate::clock::{Deadline, Timestamp};
use crate::event::{EndedBy, EventKind, Severity};
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
}

impl Auth {
    /// The credential was refused on live traffic.
    pub(super) fn refused(&mut self, cause: Cause, sent_at: Timestamp, report: &mut Report<'_>) {
        let counts = match (self.is_news(sent_at), self.hold.is_some()) {
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
        self.on_trial = false;
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

    /// A hold whose time is over leaves the account on trial.
    pub(super) fn lapse(&mut self, report: &mut Report<'_>) {
        if slot::lapse(&mut self.hold, HoldScope::Account, report) && !sabotaged!(NoTrial) {
            self.on_trial = true;
            report.say(EventKind::TrialBegan, Severity::Info);
        }
    }
}

fn length(strikes: u32) -> Duration {
    if sabotaged!(StrikesForgotten) {
        return FIRST;
    }
    super::doubled(FIRST, strikes, LONGEST)
}
