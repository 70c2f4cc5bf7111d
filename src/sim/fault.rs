//! What can go wrong on request: answers in place of the genuine one, and things that happen to an answer on its way.
//!
//! A [`FaultRule`] says for whom and how often; its [`Fault`]s are applied together, so that a late head and a cut
//! stream can be asked for at once. Never here: the genuine answers.

use serde::{Deserialize, Serialize};

mod canned;
mod shape;

pub(super) use canned::{Moment, instead, invalid_grant};
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

/// Which part of the provider was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/messages/count_tokens`.
    CountTokens,
    /// `GET /v1/models`.
    Models,
    /// The token endpoint.
    Token,
    /// `GET /api/oauth/usage`.
    Usage,
    /// `HEAD /` and the like.
    Preflight,
    /// Anything else.
    Other,
}

/// For whom faults happen, and how often. A rule without `endpoint` is about messages only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The account; without it all, unknown callers included.
    #[serde(default)]
    pub account: Option<String>,
    /// The endpoint.
    #[serde(default = "messages")]
    pub endpoint: Endpoint,
    /// A part of the model's name.
    #[serde(default)]
    pub model: Option<String>,
    /// So many requests are let through first.
    #[serde(default)]
    pub after: u32,
    /// How many requests it happens to; without it, to all until cleared.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens, all of it together.
    pub faults: Vec<Fault>,
}

fn messages() -> Endpoint {
    Endpoint::Messages
}

impl FaultRule {
    /// Happens to all messages of this account until cleared.
    #[must_use]
    pub fn standing(account: &str, fault: Fault) -> Self {
        Self {
            account: Some(account.to_owned()),
            endpoint: Endpoint::Messages,
            model: None,
            after: 0,
            times: None,
            faults: vec![fault],
        }
    }

    /// Happens to the next so many messages of this account.
    #[must_use]
    pub fn next(account: &str, times: u32, fault: Fault) -> Self {
        Self { times: Some(times), ..Self::standing(account, fault) }
    }

    /// The same for whatever account.
    #[must_use]
    pub fn for_all(self) -> Self {
        Self { account: None, ..self }
    }

    /// The same for another endpoint.
    #[must_use]
    pub fn on(self, endpoint: Endpoint) -> Self {
        Self { endpoint, ..self }
    }

    /// The same for models with this in their name only.
    #[must_use]
    pub fn for_model(self, part: &str) -> Self {
        Self { model: Some(part.to_owned()), ..self }
    }

    /// The same after so many requests that it lets through.
    #[must_use]
    pub fn after(self, requests: u32) -> Self {
        Self { after: requests, ..self }
    }

    /// The same with one more thing going wrong at once.
    #[must_use]
    pub fn and(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    fn concerns(&self, account: Option<&str>, endpoint: Endpoint, model: &str) -> bool {
        self.account.as_deref().is_none_or(|wanted| Some(wanted) == account)
            && self.endpoint == endpoint
            && self.model.as_deref().is_none_or(|part| model.contains(part))
    }
}

/// The rules in force, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct FaultBook {
    rules: Vec<FaultRule>,
}

impl FaultBook {
    pub(super) fn add(&mut self, rule: FaultRule) {
        self.rules.push(rule);
    }

    /// Forgets the rules of an account, or all.
    pub(super) fn clear(&mut self, account: Option<&str>) {
        self.rules.retain(|rule| account.is_some() && rule.account.as_deref() != account);
    }

    pub(super) fn rules(&self) -> &[FaultRule] {
        &self.rules
    }

    /// What happens to this request. Counted rules come before standing ones.
    pub(super) fn take(&mut self, account: Option<&str>, endpoint: Endpoint, model: &str) -> Vec<Fault> {
        let concerned = |rule: &FaultRule| rule.concerns(account, endpoint, model);
        let counted = self.rules.iter().position(|rule| rule.times.is_some() && concerned(rule));
        let Some(at) = counted.or_else(|| self.rules.iter().position(concerned)) else {
            return Vec::new();
        };
        let rule = &mut self.rules[at];
        if rule.after > 0 {
            rule.after -= 1;
            return Vec::new();
        }
        let faults = rule.faults.clone();
        rule.times = rule.times.map(|left| left.saturating_sub(1));
        if rule.times == Some(0) {
            self.rules.remove(at);
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(book: &mut FaultBook, account: &str) -> Vec<Fault> {
        book.take(Some(account), Endpoint::Messages, "claude-sonnet-5")
    }

    #[test]
    fn a_counted_fault_happens_so_often_and_before_a_standing_one() {
        let mut book = FaultBook::default();
        book.add(FaultRule::standing("a", Fault::ServerError));
        book.add(FaultRule::next("a", 2, Fault::Unauthorized).and(Fault::Gzip));
        let happened: Vec<usize> = (0..3).map(|_| take(&mut book, "a").len()).collect();
        assert_eq!(happened, [2, 2, 1]);
        assert_eq!(take(&mut book, "a"), [Fault::ServerError], "it stands");
        assert_eq!(take(&mut book, "b"), [], "another account");
    }

    #[test]
    fn a_fault_waits_for_its_turn_endpoint_and_model() {
        let mut book = FaultBook::default();
        book.add(FaultRule::next("a", 1, Fault::ServerError).after(1).for_model("fable"));
        assert_eq!(take(&mut book, "a"), []);
        assert_eq!(book.take(Some("a"), Endpoint::CountTokens, "claude-fable-5"), []);
        assert_eq!(book.take(Some("a"), Endpoint::Messages, "claude-fable-5"), [], "let through");
        assert_eq!(book.take(Some("a"), Endpoint::Messages, "claude-fable-5"), [Fault::ServerError]);
    }

    #[test]
    fn clearing_one_account_leaves_the_others() {
        let mut book = FaultBook::default();
        book.add(FaultRule::standing("a", Fault::ServerError));
        book.add(FaultRule::standing("b", Fault::ServerError));
        book.clear(Some("a"));
        assert_eq!((take(&mut book, "a").len(), take(&mut book, "b").len()), (0, 1));
        book.clear(None);
        assert!(book.rules().is_empty());
    }

    #[test]
    fn every_fault_has_its_name_in_json() {
        let text = r#"{"account":"a","times":1,"faults":[{"fault":"quota_5h"},{"fault":"529"},{"fault":"split","sizes":[1]}]}"#;
        let rule: FaultRule = serde_json::from_str(text).expect("valid");
        assert_eq!(rule.faults.iter().map(Fault::name).collect::<Vec<_>>(), ["quota_5h", "529", "split"]);
        assert_eq!(rule.endpoint, Endpoint::Messages);
    }
}
