//! What goes back to a client, whoever made it, and the few answers that we word ourselves.
//!
//! Never here: errors, which have a shape of their own; what a provider answered.

use bytes::Bytes;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of any answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;
/// Any answer.
pub type Answer = Response<AnswerBody>;

/// An answer without headers, of these bytes.
#[must_use]
pub fn whole(body: impl Into<Bytes>) -> Answer {
    Response::new(AnswerBody::new(Full::new(body.into()).map_err(|never| match never {})))
}

/// A plain text answer.
#[must_use]
pub fn text(text: impl Into<String>) -> Answer {
    let mut answer = whole(text.into());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// A value that nobody is to keep.
#[must_use]
pub fn json(value: &impl serde::Serialize) -> Answer {
    let mut answer = whole(serde_json::to_vec(value).unwrap_or_default());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    keep_private(&mut answer);
    answer
}

/// Tells everybody on the way to keep no copy, and browsers to take the answer for nothing but what it says it is.
pub fn keep_private(answer: &mut Answer) {
    let headers = answer.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
