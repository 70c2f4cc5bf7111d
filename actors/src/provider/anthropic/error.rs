//! The protocol's error types, and what an error says.
//!
//! What an error means is read from its status and type. Only where these leave it open does its message decide, by the
//! lists below, and only the message: never another part of the body, where a client's own words may stand.

use http::StatusCode;
use serde_json::Value;

/// The type of an error in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// `invalid_request_error`.
    InvalidRequest,
    /// `authentication_error`.
    Authentication,
    /// `billing_error`.
    Billing,
    /// `permission_error`.
    Permission,
    /// `not_found_error`.
    NotFound,
    /// `request_too_large`.
    RequestTooLarge,
    /// `rate_limit_error`.
    RateLimit,
    /// `api_error`.
    Api,
    /// `timeout_error`.
    Timeout,
    /// `overloaded_error`.
    Overloaded,
}

/// Each type, its name, and the status that goes with it.
const KINDS: [(ErrorKind, &str, StatusCode); 10] = [
    (ErrorKind::InvalidRequest, "invalid_request_error", StatusCode::BAD_REQUEST),
    (ErrorKind::Authentication, "authentication_error", StatusCode::UNAUTHORIZED),
    (ErrorKind::Billing, "billing_error", StatusCode::PAYMENT_REQUIRED),
    (ErrorKind::Permission, "permission_error", StatusCode::FORBIDDEN),
    (ErrorKind::NotFound, "not_found_error", StatusCode::NOT_FOUND),
    (ErrorKind::RequestTooLarge, "request_too_large", StatusCode::PAYLOAD_TOO_LARGE),
    (ErrorKind::RateLimit, "rate_limit_error", StatusCode::TOO_MANY_REQUESTS),
    (ErrorKind::Api, "api_error", StatusCode::INTERNAL_SERVER_ERROR),
    (ErrorKind::Timeout, "timeout_error", StatusCode::GATEWAY_TIMEOUT),
    (ErrorKind::Overloaded, "overloaded_error", OVERLOADED),
];

/// The status of an overloaded provider.
pub const OVERLOADED: StatusCode = match StatusCode::from_u16(529) {
    Ok(status) => status,
    Err(_) => StatusCode::SERVICE_UNAVAILABLE,
};

/// No error body is longer; what is longer is not searched for one.
pub const LONGEST_ERROR: usize = 256 * 1024;

/// A 429 whose message has one of these is about the request: it needs something that the account did not buy.
pub const REQUEST_NEEDS_MORE: [&str; 4] = ["extra usage", "usage credits are required", "long context", "1m context"];

/// A 429 whose message names one of these things …
pub const OFFERED: [&str; 4] = ["plan", "subscription", "model", "tier"];

/// … together with one of these words is about the request too.
pub const NOT_OFFERED: [&str; 8] = [
    "not available",
    "isn't available",
    "not included",
    "not include",
    "not supported",
    "not support",
    "not enabled",
    "not have access",
];

/// A 403 whose message names one of these is the organisation's refusal of this kind of access …
pub const ORGANISATION: [&str; 4] = ["organization", "organisation", "oauth", "subscription"];

/// … unless it speaks of one model, which is the request's affair.
pub const ONE_MODEL: [&str; 2] = ["model", "models"];

/// A token that lacks a scope for one endpoint may serve all the others.
pub const LACKS_SCOPE: &str = "scope requirement";

/// A 400 or 402 whose message has one of these says that the money is used up.
pub const NO_MONEY: [&str; 10] = [
    "credit balance",
    "insufficient balance",
    "insufficient credit",
    "insufficient funds",
    "out of credits",
    "spend limit",
    "spending limit",
    "spend cap",
    "specified api usage limits",
    "specified workspace api usage limits",
];

impl ErrorKind {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.row().1
    }

    /// The status that goes with it.
    #[must_use]
    pub fn status(self) -> StatusCode {
        self.row().2
    }

    /// The type of this name, if the protocol has it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }

    /// The type that goes with a status: its own, else that of its class.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        match KINDS.iter().find(|(.., known)| *known == status) {
            Some((kind, ..)) => *kind,
            None if status == StatusCode::REQUEST_TIMEOUT => Self::Timeout,
            None if status.is_server_error() => Self::Api,
            None => Self::InvalidRequest,
        }
    }

    fn row(self) -> (Self, &'static str, StatusCode) {
        KINDS[self as usize]
    }
}

/// What an error body or event says. Empty where it says nothing readable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderError {
    /// The name of its type.
    pub kind: Option<String>,
    /// Its message, in lower case.
    message: String,
}

impl ProviderError {
    /// Reads `{"error":{"type","message"}}`, and the looser `{"error":"text"}`. Anything else says nothing.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        match parse(body).and_then(|mut tree| tree.get_mut("error").map(Value::take)) {
            Some(Value::String(text)) => Self { kind: None, message: text.to_lowercase() },
            Some(Value::Object(error)) => Self {
                kind: error.get("type").and_then(Value::as_str).map(str::to_owned),
                message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_lowercase(),
            },
            _ => Self::default(),
        }
    }

    /// Its type, if the protocol has it.
    #[must_use]
    pub fn known_kind(&self) -> Option<ErrorKind> {
        self.kind.as_deref().and_then(ErrorKind::from_name)
    }

    /// Whether its message speaks of a model.
    #[must_use]
    pub fn names_a_model(&self) -> bool {
        self.message.contains("model")
    }

    /// Whether a 429 with it is about the request itself: extra usage, long context, a plan or a model not available.
    #[must_use]
    pub fn is_about_the_request(&self) -> bool {
        let not_offered = OFFERED.iter().any(|thing| self.names(thing)) && self.says_any(&NOT_OFFERED);
        self.says_any(&REQUEST_NEEDS_MORE) || not_offered
    }

    /// Whether a 403 with it names the organisation, OAuth or subscription access.
    #[must_use]
    pub fn is_the_organisations(&self) -> bool {
        self.says_any(&ORGANISATION) && !ONE_MODEL.iter().any(|word| self.names(word))
    }

    /// Whether it only says that the token's scope does not reach this endpoint.
    #[must_use]
    pub fn is_about_scope(&self) -> bool {
        self.message.contains(LACKS_SCOPE)
    }

    /// Whether a 400 or 402 with it names an empty balance or a spend limit.
    #[must_use]
    pub fn is_about_money(&self) -> bool {
        self.known_kind() == Some(ErrorKind::Billing) || self.says_any(&NO_MONEY)
    }

    fn says_any(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.message.contains(phrase))
    }

    fn names(&self, word: &str) -> bool {
        self.message.split(|letter: char| !letter.is_alphanumeric()).any(|named| named == word)
    }
}

fn parse(body: &[u8]) -> Option<Value> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    (body.len() <= LONGEST_ERROR).then(|| serde_json::from_slice(body).ok()).flatten()
}

#[cfg(test)]
mod tests;
