//! What every hold has in common: how one begins, grows, is renewed and ends.
//!
//! A running hold meets two kinds of news. Evidence of a request that was sent before the hold began belongs to the same
//! episode: it may lengthen the hold, nothing else. Evidence of one that was sent after it is a new refusal: the hold is
//! renewed and begins anew, so that no success that was sent before can end it. Neither ever shortens it.

use super::report::Report;
use crate::clock::{Deadline, Timestamp};
use crate::event::EndedBy;
use crate::outcome::{Cause, HoldScope};
use crate::standing::{Hold, HoldKind, Stated};

/// What a hold is laid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) kind: HoldKind,
    pub(super) scope: HoldScope,
    pub(super) cause: Cause,
    pub(super) until: Deadline,
    pub(super) stated: Stated,
}

/// What laying a hold came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Laid {
    /// There was none.
    Began,
    /// One ran, and began anew.
    Renewed,
    /// One ran, and is part of the same episode.
    Joined,
}

/// Whether a request was sent after a moment: only then does its answer say something new.
pub(super) fn is_after(sent_at: Timestamp, moment: Timestamp) -> bool {
    sent_at.boot > moment.boot
}

/// What evidence sent at this moment is to a hold that may be running.
pub(super) fn relation(slot: Option<&Hold>, sent_at: Timestamp) -> Laid {
    match slot {
        None => Laid::Began,
        Some(hold) if is_after(sent_at, hold.began) => Laid::Renewed,
        Some(_) => Laid::Joined,
    }
}

/// Lays a hold into its place.
pub(super) fn lay(slot: &mut Option<Hold>, term: Term, sent_at: Timestamp, report: &mut Report<'_>) -> Laid {
    let laid = relation(slot.as_ref(), sent_at);
    let before = *slot;
    let hold = match before {
        None => fresh(term, report),
        Some(running) if laid == Laid::Renewed => lengthen(Hold { began: report.now, ..running }, term, report.now),
        Some(running) => lengthen(running, term, report.now),
    };
    let hold = match laid {
        Laid::Renewed => Hold { episode: report.next_episode(), ..hold },
        Laid::Began | Laid::Joined => hold,
    };
    if before != Some(hold) {
        report.began(&hold, term.scope);
    }
    *slot = Some(hold);
    laid
}

fn fresh(term: Term, report: &mut Report<'_>) -> Hold {
    Hold {
        kind: term.kind,
        cause: term.cause,
        began: report.now,
        until: term.until,
        stated: term.stated,
        episode: report.next_episode(),
    }
}

fn lengthen(running: Hold, term: Term, now: Timestamp) -> Hold {
    if running.until.later(term.until, now) == running.until && !sabotaged!(HoldShortened) {
        return running;
    }
    Hold { cause: term.cause, until: term.until, stated: term.stated, ..running }
}

/// Ends a hold, if one runs.
pub(super) fn end(slot: &mut Option<Hold>, scope: HoldScope, by: EndedBy, report: &mut Report<'_>) {
    if let Some(hold) = slot.take() {
        report.ended(hold.kind, scope, by);
    }
}

/// Ends a hold if it began before this request was sent.
pub(super) fn end_if_older(slot: &mut Option<Hold>, scope: HoldScope, sent_at: Timestamp, report: &mut Report<'_>) {
    if slot.is_some_and(|hold| is_after(sent_at, hold.began) || sabotaged!(LateSuccessEnds)) {
        end(slot, scope, EndedBy::Served, report);
    }
}

/// Ends a hold whose time is over; says whether it did.
pub(super) fn lapse(slot: &mut Option<Hold>, scope: HoldScope, report: &mut Report<'_>) -> bool {
    let over = slot.is_some_and(|hold| hold.until.is_due(report.now)) && !sabotaged!(HoldsNeverEnd);
    if over {
        end(slot, scope, EndedBy::Time, report);
    }
    over
}
