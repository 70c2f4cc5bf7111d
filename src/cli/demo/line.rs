//! One event as one line for a person, and nothing that is not in the event.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::event::{AttemptResult, EndedBy, Event, EventKind, FailoverReason, MoveReason, RequestClose};
use duduclaw_actors::id::EntryId;
use duduclaw_actors::outcome::{Cause, HoldScope};
use duduclaw_actors::standing::HoldKind;

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
        let account = name(event.account.as_ref());
        let of = |entry: &EntryId| entry.name.to_string();
        Some(match &event.kind {
            EventKind::StateChanged { .. } | EventKind::AttemptAnswered { .. } => return None,
            EventKind::HoldBegan { hold, scope, cause, until, .. } => {
                (Mark::Trouble, format!("{account} is out: {}.", began(*hold, *scope, *cause, *until, event.ts)))
            }
            EventKind::HoldEnded { hold, by, .. } => (Mark::Good, format!("{account}: {}.", ended(*hold, *by))),
            EventKind::BreatherTaken { until } => {
                (Mark::Note, format!("{account} asked for a moment: {}.", left(*until, event.ts)))
            }
            EventKind::TrialBegan => (Mark::Note, format!("{account} is on trial: one request at a time.")),
            EventKind::CredentialBroke { cause } => {
                (Mark::Trouble, format!("The credential of {account} cannot be had: {}.", cause.as_str()))
            }
            EventKind::CredentialRenewed => (Mark::Good, format!("{account} has a new credential.")),
            EventKind::LoginNeeded => (Mark::Trouble, format!("{account} needs a new login.")),
            EventKind::TokenRefreshed => (Mark::Good, format!("The access token of {account} was renewed.")),
            EventKind::TokenAdopted => (Mark::Good, format!("{account}: another program had renewed its token.")),
            EventKind::RefreshFailed { detail } => (Mark::Trouble, format!("{account} was not renewed: {detail}")),
            EventKind::Paused => (Mark::Note, format!("{account} was paused.")),
            EventKind::Resumed => (Mark::Note, format!("{account} was resumed.")),
            EventKind::Cleared => (Mark::Note, format!("{account} was cleared.")),
            EventKind::ConversationMoved { from, why, .. } => {
                (Mark::Moved, format!("A conversation moves from {} to {account}: {}.", of(from), moved(*why)))
            }
            EventKind::Detoured { from, .. } => {
                (Mark::Moved, format!("This request goes to {account}; its conversation stays with {}.", of(from)))
            }
            EventKind::Returned { from, .. } => {
                (Mark::Moved, format!("The conversation is back with {account}, after {}.", of(from)))
            }
            EventKind::FailedOver { from, why } => {
                (Mark::Trouble, format!("{} did not serve a request: {}.", of(from), failed(*why)))
            }
            EventKind::RequestEnded { status, attempts, close, .. } => {
                let request = event.evidence.request_id.as_deref().unwrap_or_default();
                over(*status, *attempts, *close, &self.answerer(request))
            }
            EventKind::RequestHeld { until } => {
                let wait = until.map_or_else(|| "nobody knows how long".to_owned(), |until| left(until, event.ts));
                (Mark::Note, format!("No account can serve. The client is kept waiting: {wait}."))
            }
            EventKind::RequestReleased => (Mark::Good, "The waiting client has its answer.".to_owned()),
            EventKind::PoolExhausted { .. } => {
                (Mark::Trouble, "A client was told that no account can serve.".to_owned())
            }
            EventKind::ClockStepped { by_ms } => (Mark::Note, format!("The clock was stepped by {by_ms} ms.")),
            EventKind::ConfigReloaded => (Mark::Note, "A new configuration is in force.".to_owned()),
            EventKind::ConfigRefused { .. } => (Mark::Trouble, "A new configuration was refused.".to_owned()),
            EventKind::ActorRestarted { actor } => (Mark::Trouble, format!("{actor} died and was started again.")),
            EventKind::Started { addresses } => {
                (Mark::Good, format!("The gateway serves at {}.", addresses.join(", ")))
            }
            EventKind::Draining => return None,
        })
    }
}

fn name(entry: Option<&EntryId>) -> String {
    entry.map_or_else(|| "an account".to_owned(), |entry| entry.name.to_string())
}

fn began(hold: HoldKind, scope: HoldScope, cause: Cause, until: Deadline, now: Timestamp) -> String {
    let models = match scope {
        HoldScope::Account => "",
        HoldScope::Model(_) => " for some models",
    };
    let why = match (hold, cause) {
        (HoldKind::RateLimited, Cause::Quota) => "its quota window is used up",
        (HoldKind::AuthDead, Cause::OrgDisabled) => "its organisation refuses access",
        (HoldKind::AuthDead, _) => "its credential is refused",
        (HoldKind::BudgetExhausted, _) => "its budget is spent",
        (HoldKind::Erroring, Cause::Overloaded) => "overloaded again and again",
        (HoldKind::Erroring, _) => "it keeps failing",
        (HoldKind::RateLimited, _) => "too many requests at once",
    };
    format!("{why}{models}, {}", left(until, now))
}

fn ended(hold: HoldKind, by: EndedBy) -> String {
    let what = match hold {
        HoldKind::Erroring => "its wait after errors",
        HoldKind::RateLimited => "its wait for quota",
        HoldKind::BudgetExhausted => "its wait for a budget",
        HoldKind::AuthDead => "its exclusion",
    };
    let why = match by {
        EndedBy::Time => "the time has come",
        EndedBy::Served => "it served again",
        EndedBy::Observation => "its windows have room again",
        EndedBy::Clear => "it was cleared",
        EndedBy::Credential => "it has a new credential",
        EndedBy::Probe => "a check says it is well",
        EndedBy::Budget => "there is budget again",
    };
    format!("{what} is over, {why}")
}

fn moved(why: MoveReason) -> &'static str {
    match why {
        MoveReason::Quota => "quota",
        MoveReason::Limit => "its limit",
        MoveReason::Auth => "access refused",
        MoveReason::Removed => "the account is not in use",
        MoveReason::LongHold => "out for long",
        MoveReason::Detours => "too many detours",
        MoveReason::BetterGroup => "a better account is back",
    }
}

fn failed(why: FailoverReason) -> &'static str {
    match why {
        FailoverReason::Quota => "its quota is used up",
        FailoverReason::RateLimit => "too many requests at once",
        FailoverReason::Auth => "access refused",
        FailoverReason::Balance => "its balance is empty",
        FailoverReason::ServerError => "overloaded or failing",
        FailoverReason::Transport => "no connection",
        FailoverReason::Timeout => "no answer in time",
        FailoverReason::Blank => "an empty answer",
        FailoverReason::Renewing => "its token is being renewed",
    }
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

fn left(until: Deadline, now: Timestamp) -> String {
    format!("{} to go", span(until.remaining(now)))
}

/// A span of time in the two units that matter, rounded to the nearest of the smaller.
pub(super) fn span(time: Duration) -> String {
    let seconds = (time.as_millis() + 500) / 1000;
    let minutes = (seconds + 30) / 60;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=3569 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests;
