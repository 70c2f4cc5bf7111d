//! Answers given in place of the genuine one.

use duduclaw_actors::clock::Timestamp;
use serde_json::json;

use super::Fault;
use crate::sim::answer::{Answer, Break, Instead, Step};
use crate::sim::reply::error_event;

const DEFAULT_RESET: i64 = 7999;
const WEEK_RESET: i64 = 3 * 86_400;

/// When and for what an answer is made up.
pub(in crate::sim) struct Moment<'r> {
    /// Now.
    pub(in crate::sim) now: Timestamp,
    /// The request's id.
    pub(in crate::sim) request_id: &'r str,
    /// The request's model.
    pub(in crate::sim) model: &'r str,
    /// Whether it asks for a stream.
    pub(in crate::sim) stream: bool,
    /// The account's own quota headers.
    pub(in crate::sim) quota: Vec<(String, String)>,
}

/// The first answer that one of these faults gives in place of the genuine one.
pub(in crate::sim) fn instead(faults: &[Fault], moment: &Moment<'_>) -> Option<Answer> {
    faults.iter().find_map(|fault| moment.answer(fault))
}

impl Moment<'_> {
    fn answer(&self, fault: &Fault) -> Option<Answer> {
        match fault {
            Fault::Status { status, headers, body } => Some(self.exact(*status, headers, body)),
            Fault::Quota5h { resets_in } => Some(self.refused("5h", "five_hour", resets_in.unwrap_or(DEFAULT_RESET))),
            Fault::Quota7d { resets_in } => Some(self.refused("7d", "seven_day", resets_in.unwrap_or(WEEK_RESET))),
            Fault::ScopeFable { resets_in } => {
                Some(self.refused("7d_oi", "seven_day_overage_included", resets_in.unwrap_or(WEEK_RESET)))
            }
            Fault::ScopeUnknown { window, resets_in } => {
                Some(self.refused(window, window, resets_in.unwrap_or(DEFAULT_RESET)))
            }
            Fault::AggregateRejected { resets_in, retry_after } => {
                Some(self.aggregate(*resets_in, retry_after.as_deref()))
            }
            Fault::Throttle { retry_after } => Some(self.throttled(RATE).with("retry-after", retry_after)),
            Fault::ThrottleUnstated => Some(self.error(429, "rate_limit_error", RATE)),
            Fault::LongContext => Some(self.throttled("Extra usage is required for long context requests.")),
            Fault::Unauthorized => Some(self.error(401, "authentication_error", "Invalid bearer token")),
            Fault::OrgDisabled => Some(self.error(403, "permission_error", NO_OAUTH)),
            Fault::Forbidden => {
                Some(self.error(403, "permission_error", "Your request was refused by the usage policy."))
            }
            Fault::Firewall => {
                let page = "<!DOCTYPE html><html><body><h1>Access denied</h1></body></html>";
                Some(Answer::whole(403, "text/html; charset=utf-8", page))
            }
            Fault::BalanceEmpty => Some(self.error(400, "invalid_request_error", NO_CREDIT)),
            Fault::SpendLimit => Some(self.error(402, "billing_error", "API key USD spend limit exceeded.")),
            Fault::Overloaded { retry_after } => Some(self.overloaded(retry_after.as_deref())),
            Fault::ServerError => Some(self.with_quota(self.error(500, "api_error", "Internal server error"))),
            Fault::Unavailable { retry_after } => {
                Some(self.error(503, "api_error", "Service unavailable").with("retry-after", retry_after))
            }
            Fault::TooLong => Some(self.error(400, "invalid_request_error", TOO_LONG)),
            Fault::NoSuchModel => Some(self.error(404, "not_found_error", &format!("model: {}", self.model))),
            Fault::TooLarge => {
                Some(self.error(413, "request_too_large", "Request exceeds the maximum allowed number of bytes."))
            }
            Fault::InvalidGrant => Some(invalid_grant()),
            Fault::FirstEventError { kind } => Some(self.first_event(kind)),
            Fault::Blank => Some(self.blank()),
            Fault::StallBeforeHead => Some(nothing(Instead::Stall)),
            Fault::ResetBeforeHead => Some(nothing(Instead::Break(Break::Reset))),
            Fault::RefuseConnection => Some(nothing(Instead::Break(Break::Close))),
            Fault::EmptyMessage
            | Fault::DelayHead { .. }
            | Fault::CutAfter { .. }
            | Fault::ResetAfter { .. }
            | Fault::StallAfter { .. }
            | Fault::ErrorEventAfter { .. }
            | Fault::Pings { .. }
            | Fault::SlowTrickle { .. }
            | Fault::Split { .. }
            | Fault::Gzip
            | Fault::FalseGzip
            | Fault::OddFraming => None,
        }
    }

    fn error(&self, status: u16, kind: &str, message: &str) -> Answer {
        Answer::error(status, kind, message, self.request_id)
    }

    fn with_quota(&self, answer: Answer) -> Answer {
        answer.with_default(self.quota.iter().cloned())
    }

    fn exact(&self, status: u16, headers: &[(String, String)], body: &str) -> Answer {
        let mut answer = Answer::whole(status, "application/json", body.to_owned());
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            answer.headers.clear();
        }
        answer.headers.extend(headers.iter().cloned());
        answer
    }

    fn throttled(&self, message: &str) -> Answer {
        self.with_quota(self.error(429, "rate_limit_error", message).with(&unified("status"), "allowed"))
    }

    fn refused(&self, window: &str, claim: &str, resets_in: i64) -> Answer {
        let reset = (self.now.wall.as_secs() + resets_in).to_string();
        let week = (self.now.wall.as_secs() + WEEK_RESET).to_string();
        let answer = self.error(429, "rate_limit_error", QUOTA);
        let answer = answer.with("retry-after", resets_in.max(0).to_string());
        let answer = told(answer, window, "rejected", &reset, "1.0");
        let others = ["5h", "7d"].into_iter().filter(|other| *other != window);
        others
            .fold(answer, |answer, other| told(answer, other, "allowed", &week, "0.25"))
            .with(&unified("status"), "rejected")
            .with(&unified("reset"), reset)
            .with(&unified("representative-claim"), claim)
    }

    fn aggregate(&self, resets_in: Option<i64>, retry_after: Option<&str>) -> Answer {
        let mut answer = self.error(429, "rate_limit_error", QUOTA).with(&unified("status"), "rejected");
        if let Some(seconds) = resets_in {
            answer = answer.with(&unified("reset"), (self.now.wall.as_secs() + seconds).to_string());
        }
        if let Some(value) = retry_after {
            answer = answer.with("retry-after", value);
        }
        answer.with(&unified("representative-claim"), "five_hour")
    }

    fn overloaded(&self, retry_after: Option<&str>) -> Answer {
        let answer = self.with_quota(self.error(529, "overloaded_error", "Overloaded"));
        retry_after.map_or_else(|| answer.clone(), |value| answer.clone().with("retry-after", value))
    }

    fn first_event(&self, kind: &str) -> Answer {
        if self.stream {
            return self.with_quota(Answer::stream(vec![Step::Send(error_event(kind, error_text(kind)))]));
        }
        let status = match kind {
            "overloaded_error" => 529,
            "rate_limit_error" => 429,
            _other => 500,
        };
        self.with_quota(self.error(status, kind, error_text(kind)))
    }

    fn blank(&self) -> Answer {
        let blank = if self.stream { Answer::stream(Vec::new()) } else { Answer::whole(200, "application/json", "") };
        self.with_quota(blank)
    }
}

/// What the token endpoint says of a refresh token that it does not take.
pub(in crate::sim) fn invalid_grant() -> Answer {
    let body = json!({"error": "invalid_grant", "error_description": "Refresh token not found or invalid"});
    Answer::json(400, &body)
}

/// The text of an error event of this type.
pub(super) fn error_text(kind: &str) -> &'static str {
    match kind {
        "overloaded_error" => "Overloaded",
        "rate_limit_error" => RATE,
        _other => "Internal server error",
    }
}

fn nothing(instead: Instead) -> Answer {
    let mut answer = Answer::whole(500, "application/json", "");
    answer.before.instead = Some(instead);
    answer
}

fn unified(field: &str) -> String {
    format!("anthropic-ratelimit-unified-{field}")
}

fn told(answer: Answer, window: &str, status: &str, reset: &str, utilization: &str) -> Answer {
    answer
        .with(&unified(&format!("{window}-status")), status)
        .with(&unified(&format!("{window}-reset")), reset)
        .with(&unified(&format!("{window}-utilization")), utilization)
}

const RATE: &str = "This request would exceed the rate limit. Please try again later.";
const QUOTA: &str = "This request would exceed your account's rate limit. Please try again later.";
const NO_OAUTH: &str = "OAuth authentication is currently not allowed for this organization.";
const NO_CREDIT: &str = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to \
                         upgrade or purchase credits.";
const TOO_LONG: &str = "prompt is too long: 1186139 tokens > 1000000 maximum";

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(stream: bool) -> Moment<'static> {
        let quota = vec![(unified("status"), "allowed".to_owned()), (unified("5h-status"), "allowed".to_owned())];
        Moment { now: Timestamp::at_millis(1_000_000), request_id: "req_1", model: "claude-sonnet-5", stream, quota }
    }

    fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
        let mut values = answer.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} is there once");
        first
    }

    fn answer(fault: Fault) -> Answer {
        instead(&[fault], &moment(true)).expect("an answer")
    }

    #[test]
    fn a_refused_window_states_its_reset_everywhere() {
        let answer = answer(Fault::Quota5h { resets_in: Some(7999) });
        assert_eq!((answer.status, header(&answer, "retry-after")), (429, Some("7999")));
        assert_eq!(header(&answer, "anthropic-ratelimit-unified-5h-reset"), Some("8999"));
        assert_eq!(header(&answer, "anthropic-ratelimit-unified-5h-status"), Some("rejected"));
        assert_eq!(header(&answer, "anthropic-ratelimit-unified-7d-status"), Some("allowed"));
        assert_eq!(header(&answer, "anthropic-ratelimit-unified-reset"), Some("8999"));
    }

    #[test]
    fn a_scope_refusal_leaves_the_shared_windows_allowed() {
        for (fault, window) in [
            (Fault::ScopeFable { resets_in: None }, "7d_oi"),
            (Fault::ScopeUnknown { window: "7d_zz".to_owned(), resets_in: None }, "7d_zz"),
        ] {
            let answer = answer(fault);
            assert_eq!(header(&answer, &format!("anthropic-ratelimit-unified-{window}-status")), Some("rejected"));
            assert_eq!(header(&answer, "anthropic-ratelimit-unified-5h-status"), Some("allowed"));
            assert_eq!(header(&answer, "anthropic-ratelimit-unified-7d-status"), Some("allowed"));
        }
    }

    #[test]
    fn what_a_refusal_does_not_state_is_not_there() {
        let unstated = answer(Fault::ThrottleUnstated);
        assert_eq!(unstated.headers.len(), 1, "{unstated:?}");
        let aggregate = answer(Fault::AggregateRejected { resets_in: None, retry_after: None });
        assert_eq!(header(&aggregate, "anthropic-ratelimit-unified-reset"), None);
        assert_eq!(header(&aggregate, "anthropic-ratelimit-unified-5h-status"), None);
        assert_eq!(header(&aggregate, "anthropic-ratelimit-unified-status"), Some("rejected"));
    }

    #[test]
    fn a_throttle_says_what_it_was_told_to_say() {
        let answer = answer(Fault::Throttle { retry_after: "Wed, 99 Foo 2026".to_owned() });
        assert_eq!(header(&answer, "retry-after"), Some("Wed, 99 Foo 2026"));
        assert_eq!(header(&answer, "anthropic-ratelimit-unified-status"), Some("allowed"));
    }

    #[test]
    fn an_error_as_first_event_comes_under_a_good_status_only_in_a_stream() {
        let fault = [Fault::FirstEventError { kind: "overloaded_error".to_owned() }];
        let status = |stream| instead(&fault, &moment(stream)).map(|answer| answer.status);
        assert_eq!((status(true), status(false)), (Some(200), Some(529)));
    }
}
