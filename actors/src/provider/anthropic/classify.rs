//! What one answer of the Messages API means.
//!
//! The rows are tried in this order (a test keeps the table true):
//!
//! | answer | outcome |
//! |---|---|
//! | 2xx with a good first event, or a body | `Served` |
//! | 2xx with nothing in it | `Blank` |
//! | 429 about the request: no window refused, the message names extra usage, long context, a plan or a model not available | `Relayed` |
//! | 429, only the scope's window refused, request in the scope | `Quota`, the scope alone |
//! | 429, only the scope's window refused, any other request | `Quota`, all of the account |
//! | 429, `5h`, `7d` or an unknown window refused | `Quota`, all of the account |
//! | 429, no window with a status, the aggregate `rejected` | `Quota`, all of the account |
//! | 429, anything else | `Throttled`, with the wait if stated |
//! | 401 | `Unauthorized` |
//! | 403 naming the organisation, OAuth or subscription access | `OrgRefused` |
//! | other 403 | `Relayed` |
//! | 400 or 402 naming an empty balance or a spend limit | `BalanceEmpty` |
//! | 529, or 5xx with an `overloaded_error` | `ServerFault`, overloaded |
//! | other 5xx | `ServerFault` |
//! | 400, 404, 413, 422, anything else | `Relayed` |
//!
//! An `error` event that comes first under a 2xx means what its type's status would, with the headers of the head. For a
//! call beside inference only 401, 403 and the quota headers count; where the client brought its own credential, only
//! the quota headers do. Never here: what one answer cannot tell, such as whether the same wait was stated before.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};

use super::error::{ErrorKind, OVERLOADED, ProviderError};
use super::event::EventKind;
use super::quota::{self, is_quota_header, quota_reading};
use crate::clock::{Deadline, Timestamp, Wall};
use crate::id::{ModelScope, Window};
use crate::outcome::{
    CallKind, Cause, Evidence, HoldScope, Outcome, QuotaReading, QuotaRefusal, QuotaStatus, WindowReading,
};
use crate::provider::wait;

mod evidence;

/// What was asked, as far as the meaning of the answer hangs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Inference or beside it.
    pub call: CallKind,
    /// The models it was for.
    pub scope: ModelScope,
    /// Whose credential it carried.
    pub credential: CredentialOwner,
}

/// Whose credential a request carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialOwner {
    /// One that we put in.
    Account,
    /// The client's own, passed through.
    Client,
}

/// What was seen of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// The first event of a stream that is not a ping.
    Event {
        /// Its `event` field, if it had one.
        name: Option<&'a str>,
        /// Its data.
        data: &'a [u8],
    },
    /// A body that is no stream, or its beginning; without its compression.
    Body(&'a [u8]),
    /// The body is over, and nothing was in it (or nothing but pings).
    Empty,
}

/// The head of an answer and what was seen of its body.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body.
    pub seen: Seen<'a>,
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// What the attempt came to.
    pub outcome: Outcome,
    /// The quota headers, whatever it came to.
    pub quota: QuotaReading,
    /// What decided.
    pub evidence: Evidence,
}

/// Tells what an answer means.
#[must_use]
pub fn classify(answer: Answer<'_>, asked: Asked, now: Timestamp) -> Classified {
    let quota = quota_reading(answer.headers, now);
    let (status, error) = meant(&answer);
    let reading = Reading { status, error: &error, headers: answer.headers, quota: &quota, asked, now };
    let outcome = match (asked.credential, status.is_success()) {
        (CredentialOwner::Client, _) => Outcome::Relayed,
        (CredentialOwner::Account, true) => reading.success(answer.seen),
        (CredentialOwner::Account, false) => reading.failure(),
    };
    let evidence = evidence::of(answer, &outcome, &quota);
    Classified { outcome, quota, evidence }
}

/// Tells what an `error` event after output means to the account: overload and rate limits what the same status would,
/// anything else nothing.
#[must_use]
pub fn error_event(data: &[u8], head: &HeaderMap, asked: Asked, now: Timestamp) -> Option<Outcome> {
    let error = ProviderError::read(data);
    let status = match error.known_kind()? {
        kind @ (ErrorKind::Overloaded | ErrorKind::RateLimit) => kind.status(),
        ErrorKind::InvalidRequest
        | ErrorKind::Authentication
        | ErrorKind::Billing
        | ErrorKind::Permission
        | ErrorKind::NotFound
        | ErrorKind::RequestTooLarge
        | ErrorKind::Api
        | ErrorKind::Timeout => return None,
    };
    let quota = quota_reading(head, now);
    let reading = Reading { status, error: &error, headers: head, quota: &quota, asked, now };
    let counts = asked.credential == CredentialOwner::Account;
    counts.then(|| reading.failure()).filter(|outcome| *outcome != Outcome::Relayed)
}

/// The headers of a head that [`error_event`] reads, copied: a head's own values share the buffer that it was read into,
/// which would stay in memory with them for as long as a stream lasts.
#[must_use]
pub fn error_event_headers(head: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in head.iter().filter(|(name, _)| is_quota_header(name) || wait::is_retry_after(name)) {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            kept.append(name.clone(), value);
        }
    }
    kept
}

/// The status that an answer means and the error in it. A stream that begins with an unreadable error is the server's
/// fault; one that begins with an error of a type we do not know may well be the request's.
fn meant(answer: &Answer<'_>) -> (StatusCode, ProviderError) {
    let (name, data) = match answer.seen {
        Seen::Event { name, data } => (name, data),
        Seen::Body(body) => (None, body),
        Seen::Empty => (None, [].as_slice()),
    };
    if !answer.status.is_success() {
        return (answer.status, ProviderError::read(data));
    }
    if EventKind::of(name, data) != EventKind::Error {
        return (answer.status, ProviderError::default());
    }
    let error = ProviderError::read(data);
    let unreadable = if error.kind.is_some() { ErrorKind::InvalidRequest } else { ErrorKind::Api };
    (error.known_kind().unwrap_or(unreadable).status(), error)
}

/// One answer, ready to be judged.
struct Reading<'a> {
    status: StatusCode,
    error: &'a ProviderError,
    headers: &'a HeaderMap,
    quota: &'a QuotaReading,
    asked: Asked,
    now: Timestamp,
}

impl Reading<'_> {
    fn success(&self, seen: Seen<'_>) -> Outcome {
        let blank = match seen {
            Seen::Event { .. } => false,
            Seen::Body(body) => body.trim_ascii().is_empty(),
            Seen::Empty => true,
        };
        match self.asked.call {
            CallKind::Side => Outcome::Relayed,
            CallKind::Inference if blank => Outcome::Blank,
            CallKind::Inference => Outcome::Served,
        }
    }

    fn failure(&self) -> Outcome {
        match (self.status, self.asked.call) {
            (StatusCode::UNAUTHORIZED, _) => Outcome::Unauthorized,
            (StatusCode::FORBIDDEN, _) => self.forbidden(),
            (_, CallKind::Side) => Outcome::Relayed,
            (StatusCode::TOO_MANY_REQUESTS, CallKind::Inference) => self.too_many_requests(),
            (StatusCode::BAD_REQUEST | StatusCode::PAYMENT_REQUIRED, CallKind::Inference) => self.bad_request(),
            (status, CallKind::Inference) if status.is_server_error() => self.server_fault(),
            (_, CallKind::Inference) => Outcome::Relayed,
        }
    }

    fn forbidden(&self) -> Outcome {
        let beside = self.asked.call == CallKind::Side && self.error.is_about_scope();
        if self.error.is_the_organisations() && !beside { Outcome::OrgRefused } else { Outcome::Relayed }
    }

    fn bad_request(&self) -> Outcome {
        if self.error.is_about_money() { Outcome::BalanceEmpty } else { Outcome::Relayed }
    }

    fn server_fault(&self) -> Outcome {
        let overloaded = self.status == OVERLOADED || self.error.known_kind() == Some(ErrorKind::Overloaded);
        let cause = if overloaded { Cause::Overloaded } else { Cause::ServerError };
        Outcome::ServerFault { cause, wait: self.wait() }
    }

    fn too_many_requests(&self) -> Outcome {
        let refused: Vec<&WindowReading> = refused(self.quota).collect();
        if !refused.is_empty() {
            return Outcome::Quota(self.refused_by_windows(&refused));
        }
        if self.error.is_about_the_request() {
            return Outcome::Relayed;
        }
        if aggregate_refuses(self.quota) {
            return Outcome::Quota(self.refused_by_aggregate());
        }
        Outcome::Throttled { wait: self.wait() }
    }

    fn refused_by_windows(&self, refused: &[&WindowReading]) -> QuotaRefusal {
        let only_scope = refused.iter().all(|reading| reading.window == Window::WeeklyFable);
        let scope = match self.asked.scope {
            ModelScope::Fable if only_scope => HoldScope::Model(ModelScope::Fable),
            ModelScope::Fable | ModelScope::Base => HoldScope::Account,
        };
        let reset = refused.iter().filter_map(|reading| reading.reset).max().or_else(|| self.reset_for(refused));
        let windows = refused.iter().map(|reading| reading.window.clone()).collect();
        QuotaRefusal { scope, windows, until: self.later(reset, self.wait_deadline()) }
    }

    /// The aggregate reset, if the refused windows stated none and it is theirs: no other window is said to decide.
    fn reset_for(&self, refused: &[&WindowReading]) -> Option<Wall> {
        let claim = self.quota.representative.as_deref().map(quota::claimed_window);
        let theirs = claim.is_none_or(|decides| refused.iter().any(|reading| reading.window == decides));
        self.quota.reset.filter(|_| theirs)
    }

    fn refused_by_aggregate(&self) -> QuotaRefusal {
        let windows = self.quota.representative.as_deref().map(quota::claimed_window).into_iter().collect();
        let until = self.quota.reset.map(Deadline::Wall).or_else(|| self.wait_deadline());
        QuotaRefusal { scope: HoldScope::Account, windows, until }
    }

    fn wait(&self) -> Option<Duration> {
        wait::retry_after(self.headers, self.now)
    }

    fn wait_deadline(&self) -> Option<Deadline> {
        self.wait().map(|wait| Deadline::after(self.now, wait))
    }

    fn later(&self, reset: Option<Wall>, wait: Option<Deadline>) -> Option<Deadline> {
        match (reset.map(Deadline::Wall), wait) {
            (Some(reset), Some(wait)) => Some(reset.later(wait, self.now)),
            (one, other) => one.or(other),
        }
    }
}

/// The windows that refuse.
fn refused(quota: &QuotaReading) -> impl Iterator<Item = &WindowReading> {
    quota.windows.iter().filter(|reading| reading.status == Some(QuotaStatus::Rejected))
}

/// The aggregate counts only where no window has a status of its own.
fn aggregate_refuses(quota: &QuotaReading) -> bool {
    quota.status == Some(QuotaStatus::Rejected) && quota.windows.iter().all(|reading| reading.status.is_none())
}

#[cfg(test)]
mod tests;
