//! What an attempt on an account came to, in words that no protocol owns.
//!
//! `provider/` turns status, headers and first event into an [`Outcome`]; `account/` turns it into health; `failover/`
//! into the next step. An attempt reports twice: [`Answered`] when head and first event are classified, [`Ended`] when
//! the body is over.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Deadline, Timestamp, Wall};
use crate::id::{Generation, LeaseId, ModelScope, Window};

/// Why an account is (or was) held, or a run failed on it. One list for the whole product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A quota window refused.
    Quota,
    /// Too many requests at once, by the provider's word; no window refused.
    Throttled,
    /// The provider is overloaded (529, or an overload event).
    Overloaded,
    /// Another 5xx.
    ServerError,
    /// No connection: DNS, connect, TLS, or a reset before the head.
    Network,
    /// No head in time.
    Timeout,
    /// A good status with nothing in it.
    Blank,
    /// The credential is refused.
    InvalidToken,
    /// The organisation switched this kind of access off.
    OrgDisabled,
    /// The provider says that the balance is empty or a spend limit is reached.
    Balance,
    /// Our own cap on spend is reached.
    Budget,
    /// The stored secret cannot be opened with our key.
    Undecryptable,
    /// The secret's source cannot be read or makes no sense.
    Unreadable,
    /// The secret's source is empty.
    Empty,
}

impl Cause {
    /// The name used in events, metrics and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Throttled => "throttled",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Blank => "blank",
            Self::InvalidToken => "invalid_token",
            Self::OrgDisabled => "org_disabled",
            Self::Balance => "balance",
            Self::Budget => "budget",
            Self::Undecryptable => "undecryptable",
            Self::Unreadable => "unreadable",
            Self::Empty => "empty",
        }
    }
}

/// Which requests a quota refusal concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldScope {
    /// All of the account's.
    Account,
    /// Only those in this model scope.
    Model(ModelScope),
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A 2xx whose first event is good.
    Served,
    /// A quota window refused (429, or an in-stream error that means it).
    Quota(QuotaRefusal),
    /// A 429 with no refused window.
    Throttled {
        /// The wait the provider stated, if it stated a credible one.
        wait: Option<Duration>,
    },
    /// A 401.
    Unauthorized,
    /// A 403 by which the organisation refuses this kind of access.
    OrgRefused,
    /// A 400 or 402 that names an empty balance or a spend limit.
    BalanceEmpty,
    /// A 5xx, or an in-stream error that means one.
    ServerFault {
        /// Overloaded, or any other.
        cause: Cause,
        /// The wait the provider stated, if it stated a credible one.
        wait: Option<Duration>,
    },
    /// No answer: DNS, connect, TLS, or a reset before the head.
    Unreachable {
        /// Whether the connection itself failed (DNS, connect, TLS), as opposed to a reset after it stood.
        connecting: bool,
    },
    /// No head in time.
    HeadTimeout {
        /// Whether the client asked for a stream: only then may the request be sent elsewhere.
        streaming: bool,
    },
    /// A 2xx with an empty answer.
    Blank,
    /// Anything that is the request's own affair (400, 404, 413, 422, other 403, a 429 about the request …): relayed,
    /// and the account learns nothing.
    Relayed,
    /// The client went away, or the attempt was given up by us: the account learns nothing.
    Abandoned,
}

/// A refusal by quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaRefusal {
    /// Whom it concerns.
    pub scope: HoldScope,
    /// The windows that refused; empty when only the aggregate status did.
    pub windows: Vec<Window>,
    /// When the provider says it ends: the latest reset of the refused windows, or `retry-after` if later. `None` when
    /// nothing credible was stated.
    pub until: Option<Deadline>,
}

/// One window as an answer showed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowReading {
    /// Which.
    pub window: Window,
    /// Share used, 0 to 1 (may exceed 1).
    pub utilization: Option<f64>,
    /// When it begins anew.
    pub reset: Option<Wall>,
    /// What the provider said of it.
    pub status: Option<QuotaStatus>,
}

/// What the provider said of a window, or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaStatus {
    /// `allowed`.
    Allowed,
    /// `allowed_warning`.
    Warning,
    /// `rejected`.
    Rejected,
    /// A word we do not know; it refuses nothing.
    Unknown(String),
}

/// All quota headers of one answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaReading {
    /// The windows that were named.
    pub windows: Vec<WindowReading>,
    /// The aggregate status.
    pub status: Option<QuotaStatus>,
    /// The aggregate reset.
    pub reset: Option<Wall>,
    /// The claim that the aggregate names as decisive, raw (`five_hour`, `seven_day` …).
    pub representative: Option<String>,
}

impl QuotaReading {
    /// Whether the answer carried no quota header at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.status.is_none() && self.reset.is_none()
    }
}

/// What kind of call it was: only messages teach everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// An inference call.
    Inference,
    /// `count_tokens`, models, passthrough: quota headers, 401 and 403 count; nothing else touches health.
    Side,
}

/// The first report of an attempt: its head and first event are classified.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The lease it spent.
    pub lease: LeaseId,
    /// Inference or beside it.
    pub call: CallKind,
    /// The models it was for.
    pub scope: ModelScope,
    /// The credential it was sent with.
    pub generation: Generation,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// When it was answered.
    pub answered_at: Timestamp,
    /// What it came to.
    pub outcome: Outcome,
    /// The quota headers it carried.
    pub quota: QuotaReading,
    /// What to show for it.
    pub evidence: Evidence,
}

/// What an event shows as its ground: never a header's value, never a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The HTTP status, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The names of the headers that decided.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub headers: Vec<String>,
    /// The provider's request id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_request_id: Option<String>,
    /// Our request id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The second report of an attempt: its body is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The lease it spent.
    pub lease: LeaseId,
    /// Inference or beside it.
    pub call: CallKind,
    /// The models it was for.
    pub scope: ModelScope,
    /// The credential it was sent with.
    pub generation: Generation,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// How the body ended.
    pub close: Close,
    /// The tokens it used, as far as seen.
    pub usage: Usage,
}

/// How a body ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Close {
    /// Wholly.
    Complete,
    /// The connection broke after the head: counts as [`Cause::Network`].
    Broken,
    /// An error event after output that means what a status would (overload, rate limit).
    ErrorEvent(Outcome),
    /// Nothing came for the idle time, and the client was told: the account learns nothing.
    Stalled,
    /// The client went away.
    ClientGone,
}

/// Tokens of one attempt, in five buckets. Cumulative figures of a stream replace, never add; an absent one keeps the
/// earlier value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that no cache served.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input that the cache served.
    pub cache_read: u64,
    /// Input written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: u64,
}

impl Usage {
    /// All of the input: fresh, read from the cache, written to it.
    #[must_use]
    pub fn prompt(&self) -> u64 {
        let parts = [self.cache_read, self.cache_write_5m, self.cache_write_1h];
        parts.iter().fold(self.input, |sum, part| sum.saturating_add(*part))
    }

    /// The share of the input that the cache served, from 0 to 1; none without input.
    #[must_use]
    pub fn cache_efficiency(&self) -> Option<f64> {
        (self.prompt() > 0).then(|| self.cache_read as f64 / self.prompt() as f64)
    }
}
