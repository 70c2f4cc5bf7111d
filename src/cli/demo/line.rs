//! One event as one line for a person, and nothing that is not in the event.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use duduclaw_actors::clock::Timestamp;
use duduclaw_actors::event::{AttemptResult, Event, EventKind, RequestClose};
use duduclaw_actors::id::EntryId;

/// A line of the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Since the start of the story, by its own clock.
    pub(super) at: Duration,
    pub(super) mark: Mark,
    pub(super) text: String,
}

/// What kind of news it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Good,
    Moved,
    Trouble,
    Note,
}

/// Turns events into lines. Plain answers are gathered into one line until something else happens.
#[derive(Debug, Default)]
pub(super) struct Teller {
    began: Option<Timestamp>,
    last: Duration,
    /// Who answered a request.
    by: HashMap<String, String>,
    plain: BTreeMap<String, u32>,
}

impl Teller {
    /// The lines that this event calls for.
    pub(super) fn tell(&mut self, event: &Event) -> Vec<Line> {
        let began = *self.began.get_or_insert(event.ts);
        self.last = event.ts.since(began);
        if self.gathers(event) {
            return Vec::new();
        }
        let Some((mark, text)) = self.words(event) else { return Vec::new() };
        let line = Line { at: self.last, mark, text };
        self.flush().into_iter().chain([line]).collect()
    }

    /// The line of what was gathered.
    pub(super) fn flush(&mut self) -> Option<Line> {
        let gathered = std::mem::take(&mut self.plain);
        let total: u32 = gathered.values().sum();
        let each: Vec<String> = gathered.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let text = match (total, gathered.keys().next()) {
            (0, _) | (_, None) => return None,
            (1, Some(name)) => format!("A request was answered by {name}."),
            (total, Some(_)) => format!("{total} requests were answered: {}.", each.join(", ")),
        };
        Some(Line { at: self.last, mark: Mark::Good, text })
    }

    fn gathers(&mut self, event: &Event) -> bool {
        let request = event.evidence.request_id.clone().unwrap_or_default();
        if let EventKind::AttemptAnswered { outcome: AttemptResult::Served, .. } = event.kind {
            self.by.insert(request, name(event.account.as_ref()));
            return true;
        }
        if let EventKind::RequestEnded { status: 200, attempts: 1, close: RequestClose::Complete, .. } = event.kind {
            *self.plain.entry(self.answerer(&request)).or_default() += 1;
            return true;
        }
        false
    }

    fn answerer(&self, request: &str) -> String {
        self.by.get(request).cloned().unwrap_or_else(|| "an account".to_owned())
    }

    fn words(&self, event: &Event) -> Option<(Mark, String)> {
        if let EventKind::RequestEnded { status, attempts, close, .. } = event.kind {
            let request = event.evidence.request_id.as_deref().unwrap_or_default();
            return Some(over(status, attempts, close, &self.answerer(request)));
        }
        mark(&event.kind).map(|mark| (mark, event.summary()))
    }
}

/// How an event is marked; none for what the story leaves out.
fn mark(kind: &EventKind) -> Option<Mark> {
    Some(match kind {
        EventKind::StateChanged { .. }
        | EventKind::AttemptAnswered { .. }
        | EventKind::AttemptSettled { .. }
        | EventKind::CredentialProved
        | EventKind::CacheEfficiencyLow { .. }
        | EventKind::Draining => return None,
        EventKind::HoldBegan { .. }
        | EventKind::CredentialBroke { .. }
        | EventKind::LoginNeeded
        | EventKind::RefreshFailed { .. }
        | EventKind::CredentialExpiring { .. }
        | EventKind::FailedOver { .. }
        | EventKind::PoolExhausted { .. }
        | EventKind::BudgetRefused { .. }
        | EventKind::ConfigRefused { .. }
        | EventKind::ActorRestarted { .. }
        | EventKind::OutageBegan { .. }
        | EventKind::MessageDelayed { .. }
        | EventKind::MessageLost { .. }
        | EventKind::StoreSetAside { .. }
        | EventKind::StoreFailing { .. } => Mark::Trouble,
        EventKind::HoldEnded { .. }
        | EventKind::CredentialRenewed
        | EventKind::TokenRefreshed
        | EventKind::TokenAdopted
        | EventKind::RequestEnded { .. }
        | EventKind::RequestReleased
        | EventKind::OutageEnded { .. }
        | EventKind::MessageArrived { .. }
        | EventKind::StoreHealed { .. }
        | EventKind::Started { .. } => Mark::Good,
        EventKind::ConversationMoved { .. }
        | EventKind::Detoured { .. }
        | EventKind::Returned { .. }
        | EventKind::ModelSubstituted { .. } => Mark::Moved,
        EventKind::BreatherTaken { .. }
        | EventKind::TrialBegan
        | EventKind::Paused
        | EventKind::Resumed
        | EventKind::Cleared
        | EventKind::RequestHeld { .. }
        | EventKind::ClockStepped { .. }
        | EventKind::ConfigReloaded => Mark::Note,
    })
}

fn name(entry: Option<&EntryId>) -> String {
    entry.map_or_else(|| "an account".to_owned(), |entry| entry.name.to_string())
}

fn over(status: u16, attempts: u32, close: RequestClose, by: &str) -> (Mark, String) {
    match (close, status) {
        (RequestClose::Complete, 200..=299) => {
            (Mark::Good, format!("The client got its answer ({status}) from {by}, at attempt {attempts}."))
        }
        (RequestClose::Complete, _) => (Mark::Trouble, format!("The client got an error: {status}.")),
        (RequestClose::Cut, _) => (Mark::Trouble, format!("An answer of {by} broke off after it had begun.")),
        (RequestClose::ClientGone, _) => (Mark::Note, "A client hung up.".to_owned()),
    }
}

#[cfg(test)]
mod tests;
