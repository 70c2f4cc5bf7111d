//! Our own refusals, as answers in the client's protocol.
//!
//! Clients parse these: a status they wait for, `x-should-retry: false` for what waiting cannot mend. Never here: an
//! upstream's error, which is relayed as it is.

use std::time::Duration;

use duduclaw_actors::provider::anthropic::body::error_body;
use duduclaw_actors::provider::anthropic::error::ErrorKind;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::gateway::answer::{self, Answer};

/// Tells Anthropic's clients not to try again.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// The id under which a request is found in logs and the feed.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-duduclaw-request-id");

/// A refusal of ours.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The request makes no sense as it is.
    #[error("{0}")]
    Invalid(String),
    /// The client went away before its request was whole.
    #[error("the request body ended before its announced length")]
    BrokenOff,
    /// No token, or a wrong one.
    #[error("{0}")]
    Unauthenticated(String),
    /// The client may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// Nothing stands at this path, or no upstream speaks of this model.
    #[error("{0}")]
    NotFound(String),
    /// The path stands, the method does not.
    #[error("this path answers {0} only")]
    Method(&'static str),
    /// The body is larger than the limit.
    #[error("the request body is larger than {0} bytes, the limit of this gateway ([server.limits] max_request_bytes)")]
    TooLarge(usize),
    /// The URL is longer than the limit.
    #[error("the URL is longer than {0} bytes, the limit of this gateway ([server.limits] max_url_length)")]
    UrlTooLong(usize),
    /// The headers are larger than the limit.
    #[error(
        "the request headers are larger than {0} bytes, the limit of this gateway ([server.limits] max_request_header_bytes)"
    )]
    HeadersTooLarge(usize),
    /// `Host` names nobody we are.
    #[error("this gateway does not answer to the host name {0:?}; use its address, or add the name to [server] hosts")]
    Misdirected(String),
    /// A web page of another origin asks.
    #[error("requests from web pages of other origins are refused")]
    CrossOrigin,
    /// Too much at once.
    #[error("{0}")]
    Overloaded(&'static str),
    /// The client's own limit of requests at once.
    #[error("{0}")]
    ClientBusy(String),
    /// Waiting helps: every account waits for its quota.
    #[error("{message}")]
    Exhausted {
        /// Why, account by account.
        message: String,
        /// The soonest stated return.
        retry_after: Option<Duration>,
    },
    /// The request would exceed a budget of whoever asks.
    #[error("{message}")]
    OverBudget {
        /// Which budget, and when it begins anew.
        message: String,
        /// How long until then.
        retry_after: Duration,
    },
    /// Only a person can help.
    #[error("{0}")]
    NeedsPerson(String),
    /// Nothing answered.
    #[error("{0}")]
    Unreachable(String),
    /// What answered is no HTTP answer.
    #[error("the upstream answered with the status {0}, which HTTP does not have for answers; check its base_url")]
    NoAnswer(u16),
    /// No head in time.
    #[error("the upstream sent no answer within {0:?}")]
    HeadTimeout(Duration),
    /// We stop.
    #[error("this gateway is stopping; try again")]
    Stopping,
    /// A fault of ours.
    #[error("an internal fault; the request id finds it in the log")]
    Internal,
}

impl ApiError {
    /// The status that says it.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) | Self::BrokenOff => StatusCode::BAD_REQUEST,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::CrossOrigin => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UrlTooLong(_) => StatusCode::URI_TOO_LONG,
            Self::HeadersTooLarge(_) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Misdirected(_) => StatusCode::MISDIRECTED_REQUEST,
            Self::ClientBusy(_) | Self::Exhausted { .. } | Self::OverBudget { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Overloaded(_) | Self::NeedsPerson(_) | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable(_) | Self::NoAnswer(_) => StatusCode::BAD_GATEWAY,
            Self::HeadTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The protocol's word for it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::BrokenOff | Self::Method(_) | Self::UrlTooLong(_) | Self::HeadersTooLarge(_) => {
                ErrorKind::InvalidRequest
            }
            Self::Unauthenticated(_) => ErrorKind::Authentication,
            Self::Forbidden(_) | Self::CrossOrigin | Self::Misdirected(_) => ErrorKind::Permission,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::TooLarge(_) => ErrorKind::RequestTooLarge,
            Self::ClientBusy(_) | Self::Exhausted { .. } | Self::OverBudget { .. } => ErrorKind::RateLimit,
            Self::Overloaded(_) | Self::Stopping => ErrorKind::Overloaded,
            Self::HeadTimeout(_) => ErrorKind::Timeout,
            Self::NeedsPerson(_) | Self::Unreachable(_) | Self::NoAnswer(_) | Self::Internal => ErrorKind::Api,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Unauthenticated(_) | Self::NeedsPerson(_) => Retry::Never,
            Self::Overloaded(_) | Self::ClientBusy(_) | Self::Stopping => Retry::After(Duration::from_secs(1)),
            Self::Exhausted { retry_after: Some(wait), .. } | Self::OverBudget { retry_after: wait, .. } => {
                Retry::After(*wait)
            }
            Self::Invalid(_)
            | Self::BrokenOff
            | Self::Forbidden(_)
            | Self::NotFound(_)
            | Self::Method(_)
            | Self::TooLarge(_)
            | Self::UrlTooLong(_)
            | Self::HeadersTooLarge(_)
            | Self::Misdirected(_)
            | Self::CrossOrigin
            | Self::Exhausted { retry_after: None, .. }
            | Self::Unreachable(_)
            | Self::NoAnswer(_)
            | Self::HeadTimeout(_)
            | Self::Internal => Retry::Unsaid,
        }
    }

    /// The answer that tells the client.
    #[must_use]
    pub fn answer(&self, request_id: &str) -> Answer {
        let body = error_body(self.kind(), &self.to_string(), request_id);
        let mut response = answer::whole(body);
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(id) = HeaderValue::from_str(request_id) {
            headers.insert(REQUEST_ID, id);
        }
        if let Self::Method(allowed) = self {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        match self.retry() {
            Retry::Never => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            Retry::After(wait) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds_up(wait)));
            }
            Retry::Unsaid => {}
        }
        response
    }
}

enum Retry {
    Never,
    After(Duration),
    Unsaid,
}

/// Whole seconds, rounded up, at least one: a client must not come back too early.
#[must_use]
pub fn seconds_up(wait: Duration) -> u64 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    seconds.max(1)
}
