//! What can go wrong on request: answers in place of the genuine one, and things that happen to an answer on its way.
//!
//! A [`FaultRule`] says for whom and how often; its [`Fault`]s are applied together, so that a late head and a cut
//! stream can be asked for at once. Never here: the genuine answers.

use serde::{Deserialize, Serialize};

mod canned;
mod rule;
mod shape;

pub(super) use canned::{Moment, instead, invalid_grant};
pub(super) use rule::{Asked, FaultBook};
pub use rule::{Endpoint, FaultRule, Which};
pub(super) use shape::shaped;

/// One thing that goes wrong. In JSON: `{"fault": "throttle", "retry_after": "5"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// Exactly this answer; `content-type: application/json` unless stated.
    Status {
        /// The HTTP status.
        status: u16,
        /// Its headers.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// Its body.
        #[serde(default)]
        body: String,
    },
    /// 429: the five-hour window refuses. Without `resets_in` it resets in 7,999 s.
    #[serde(rename = "quota_5h")]
    Quota5h {
        /// Seconds until its reset.
        #[serde(default)]
        resets_in: Option<i64>,
    },
    /// 429: the seven-day window refuses.
    #[serde(rename = "quota_7d")]
    Quota7d {
        /// Seconds until its reset.
        #[serde(default)]
        resets_in: Option<i64>,
    },
    /// 429: only the window of the Fable models refuses.
    ScopeFable {
        /// Seconds until its reset.
        #[serde(default)]
        resets_in: Option<i64>,
    },
    /// 429: only a window of a name that nobody knows refuses.
    ScopeUnknown {
        /// Its name.
        window: String,
        /// Seconds until its reset.
        #[serde(default)]
        resets_in: Option<i64>,
    },
    /// 429: no window is named, the aggregate status refuses.
    AggregateRejected {
        /// Seconds until `unified-reset`; none stated without.
        #[serde(default)]
        resets_in: Option<i64>,
        /// The `retry-after` header, as it is.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// 429: no window refuses, and this `retry-after`, as it is: seconds, a date, or nonsense.
    Throttle {
        /// The header's value.
        retry_after: String,
    },
    /// 429 with nothing but a body.
    ThrottleUnstated,
    /// 429 that is about the request: long context needs extra usage.
    #[serde(rename = "long_context_429")]
    LongContext,
    /// 401.
    #[serde(rename = "401")]
    Unauthorized,
    /// 403: the organisation does not allow OAuth.
    #[serde(rename = "403_org")]
    OrgDisabled,
    /// 403 for another reason.
    #[serde(rename = "403_other")]
    Forbidden,
    /// 403 with the HTML page of a firewall.
    #[serde(rename = "403_html")]
    Firewall,
    /// 400: the credit balance is too low.
    #[serde(rename = "balance_400")]
    BalanceEmpty,
    /// 402: a spend limit is reached.
    #[serde(rename = "spend_402")]
    SpendLimit,
    /// 529.
    #[serde(rename = "529")]
    Overloaded {
        /// The `retry-after` header, as it is.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// 500.
    #[serde(rename = "500")]
    ServerError,
    /// 503 with a wait.
    #[serde(rename = "503_retry_after")]
    Unavailable {
        /// The `retry-after` header, as it is.
        retry_after: String,
    },
    /// 400: the prompt is too long.
    #[serde(rename = "400_too_long")]
    TooLong,
    /// 404: no such model.
    #[serde(rename = "404_model")]
    NoSuchModel,
    /// 413.
    #[serde(rename = "413")]
    TooLarge,
    /// 400 `invalid_grant`, as the token endpoint words it.
    InvalidGrant,
    /// A good head, and an error as the first event.
    FirstEventError {
        /// The error's type.
        kind: String,
    },
    /// A good head and nothing after it.
    Blank,
    /// A whole answer without any content.
    EmptyMessage,
    /// The head comes later.
    DelayHead {
        /// By so many milliseconds.
        millis: u64,
    },
    /// The head never comes.
    StallBeforeHead,
    /// The connection is reset before the head.
    ResetBeforeHead,
    /// The connection is closed before the head.
    RefuseConnection,
    /// The connection is closed after so many events (or writes) of the body.
    CutAfter {
        /// How many are sent.
        events: usize,
    },
    /// The connection is reset after so many events.
    ResetAfter {
        /// How many are sent.
        events: usize,
    },
    /// Nothing comes after so many events.
    StallAfter {
        /// How many are sent.
        events: usize,
    },
    /// An error event after so many events, and the end.
    ErrorEventAfter {
        /// How many are sent before it.
        events: usize,
        /// The error's type.
        kind: String,
    },
    /// So many pings after the first event.
    Pings {
        /// How many.
        count: usize,
        /// Milliseconds before each.
        #[serde(default)]
        every_millis: u64,
    },
    /// A wait before each event.
    SlowTrickle {
        /// Milliseconds.
        millis: u64,
    },
    /// The body in pieces of these sizes, in turn, whatever the events.
    Split {
        /// Bytes of each piece.
        sizes: Vec<usize>,
        /// Milliseconds before each piece.
        #[serde(default)]
        pause_millis: u64,
    },
    /// The body compressed, each event flushed.
    Gzip,
    /// The body plain, the label saying gzip.
    FalseGzip,
    /// Events framed in another legal way: CRLF, no space after the colon, comments between, a byte order mark first.
    OddFraming,
}

impl Fault {
    /// Its name in JSON and in the log.
    #[must_use]
    pub fn name(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value.get("fault").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    }
}
