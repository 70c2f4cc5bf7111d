//! What a request is about, as far as its path tells, and who may ask for it how.

use duduclaw_actors::outcome::CallKind;
use http::Method;

use crate::gateway::access::Caller;
use crate::gateway::error::ApiError;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inference.
    Messages,
    /// Counting tokens.
    CountTokens,
    /// The list of models.
    Models,
    /// Any other path of the provider.
    Passthrough,
}

impl Kind {
    /// Whether it is inference.
    #[must_use]
    pub fn call(self) -> CallKind {
        match self {
            Self::Messages => CallKind::Inference,
            Self::CountTokens | Self::Models | Self::Passthrough => CallKind::Side,
        }
    }

    /// Whether this caller may ask for it by this method.
    ///
    /// # Errors
    /// When not.
    pub fn check(self, method: &Method, caller: &Caller) -> Result<(), ApiError> {
        match (self, method) {
            // What a provider makes of TRACE is to send back the request, with the credential that we put in.
            (Self::Passthrough, &Method::TRACE | &Method::CONNECT) => Err(ApiError::Method("GET, POST, PUT, DELETE")),
            (Self::Messages | Self::CountTokens, &Method::POST) | (Self::Models, &Method::GET) => Ok(()),
            (Self::Messages | Self::CountTokens, _) => Err(ApiError::Method("POST")),
            (Self::Models, _) => Err(ApiError::Method("GET")),
            (Self::Passthrough, _) if caller.may_pass_through() => Ok(()),
            (Self::Passthrough, _) => Err(ApiError::Forbidden(
                "this client may use inference paths only; set passthrough = true for it to open others".to_owned(),
            )),
        }
    }
}
