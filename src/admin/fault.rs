//! Why a verb could not be done: one error for both doors, with what to do about it.
//!
//! Never here: how a door words it on its wire beyond the shared fields.

use http::StatusCode;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::topology::NameError;
use crate::gateway::answer::{self, Answer};
use crate::gateway::error::REQUEST_ID;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fault {
    /// What kind.
    pub(crate) kind: FaultKind,
    /// What failed.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

/// The kinds of refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The request makes no sense as it is.
    Invalid,
    /// The operator may only read.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The path stands, the method does not; these do.
    Method(String),
    /// Several things are meant, or what is under way must end first.
    Conflict,
    /// The body is too large.
    TooLarge,
    /// The body is not JSON by its label.
    MediaType,
    /// It is understood, and cannot be done as things are.
    Unprocessable,
    /// It cannot be done now, or may not last.
    Unavailable,
    /// A fault of ours.
    Internal,
}

impl FaultKind {
    /// The HTTP status that says it.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The word for it.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Invalid | Self::Method(_) | Self::MediaType => "invalid_request_error",
            Self::Forbidden => "permission_error",
            Self::NotFound => "not_found_error",
            Self::Conflict => "conflict_error",
            Self::TooLarge => "request_too_large",
            Self::Unprocessable => "unprocessable_error",
            Self::Unavailable => "overloaded_error",
            Self::Internal => "api_error",
        }
    }

    /// The code of JSON-RPC: the standard's own where it has one, else ours, `-32000` less the last two digits of the
    /// status.
    pub(crate) fn code(&self) -> i64 {
        match self {
            Self::Invalid | Self::Method(_) | Self::TooLarge | Self::MediaType => -32602,
            Self::Internal => -32603,
            Self::Forbidden => -32003,
            Self::NotFound => -32004,
            Self::Conflict => -32009,
            Self::Unprocessable => -32022,
            Self::Unavailable => -32053,
        }
    }
}

impl Fault {
    /// A refusal of this kind.
    pub(crate) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// With what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The request makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Invalid, message)
    }

    /// It cannot be done now.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Unavailable, message)
    }

    /// A fault of ours, which was logged.
    pub(crate) fn internal() -> Self {
        Self::new(FaultKind::Internal, "an internal fault; the request id finds it in the log")
    }

    /// The body that tells it.
    pub(crate) fn body(&self, request_id: &str) -> ErrorView {
        let kind = self.kind.as_str().to_owned();
        let error = ErrorDetail { kind, message: self.message.clone(), hint: self.hint.clone() };
        ErrorView { kind: ErrorWord::Error, error, request_id: request_id.to_owned() }
    }

    /// The HTTP answer that tells it.
    pub(crate) fn answer(&self, request_id: &str) -> Answer {
        let mut answer = answer::whole(serde_json::to_vec(&self.body(request_id)).unwrap_or_default());
        *answer.status_mut() = self.kind.status();
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(id) = HeaderValue::from_str(request_id) {
            headers.insert(REQUEST_ID, id);
        }
        if let FaultKind::Method(allowed) = &self.kind
            && let Ok(allowed) = HeaderValue::from_str(allowed)
        {
            headers.insert(ALLOW, allowed);
        }
        answer
    }
}

impl From<NameError> for Fault {
    fn from(error: NameError) -> Self {
        let kind = match error {
            NameError::Unknown { .. } => FaultKind::NotFound,
            NameError::Ambiguous { .. } => FaultKind::Conflict,
        };
        Self::new(kind, error.to_string()).hint(error.hint())
    }
}

/// What an error looks like, whoever refused: the same shape as the gateway's own refusals.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorView {
    /// Always `error`.
    #[serde(rename = "type")]
    pub(crate) kind: ErrorWord,
    /// The error.
    pub(crate) error: ErrorDetail,
    /// The id under which the request is found in the log.
    pub(crate) request_id: String,
}

/// The word that tells an error from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorWord {
    /// An error.
    Error,
}

/// What failed, and what to do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ErrorDetail {
    /// The kind of error.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// What failed.
    pub(crate) message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) hint: Option<String>,
}
