//! What the events add up to.

use std::collections::BTreeMap;

use duduclaw_actors::event::{AttemptResult, Event, EventKind, RequestClose};
use serde::Serialize;

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    /// Requests that are over.
    pub(super) requests: u32,
    /// Attempts on accounts that were answered.
    pub(super) attempts: u32,
    /// Requests that were wholly answered.
    pub(super) served: u32,
    /// Answers that broke off after they had begun.
    pub(super) cut: u32,
    /// Requests that ended with an error status for their client.
    pub(super) errors: u32,
    /// Conversations that moved.
    pub(super) moved: u32,
    /// Clients that were kept waiting.
    pub(super) held: u32,
    /// Access tokens that were renewed.
    pub(super) refreshed: u32,
    /// Good answers by account.
    pub(super) accounts: BTreeMap<String, u32>,
}

impl Tally {
    /// Counts one event.
    pub(super) fn count(&mut self, event: &Event) {
        let account = || event.account.as_ref().map(|entry| entry.name.to_string()).unwrap_or_default();
        if let EventKind::AttemptAnswered { outcome, .. } = &event.kind {
            self.attempts += 1;
            if *outcome == AttemptResult::Served {
                *self.accounts.entry(account()).or_default() += 1;
            }
        }
        if let EventKind::RequestEnded { status, close, .. } = &event.kind {
            self.close(*status, *close);
        }
        self.moved += u32::from(matches!(event.kind, EventKind::ConversationMoved { .. }));
        self.held += u32::from(matches!(event.kind, EventKind::RequestHeld { .. }));
        self.refreshed += u32::from(matches!(event.kind, EventKind::TokenRefreshed));
    }

    fn close(&mut self, status: u16, close: RequestClose) {
        self.requests += 1;
        match (status, close) {
            (200..=299, RequestClose::Complete) => self.served += 1,
            (200..=299, RequestClose::Cut) => self.cut += 1,
            (_, RequestClose::ClientGone) => {}
            (_, RequestClose::Complete | RequestClose::Cut) => self.errors += 1,
        }
    }
}
