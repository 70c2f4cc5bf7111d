//! Counting tokens for providers that cannot: such a provider is remembered, and the count is estimated here.
//!
//! The estimate is flagged, so that nobody takes it for the provider's word. A reload begins anew, since another
//! provider may stand at the address by then.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use duduclaw_actors::id::UpstreamId;
use duduclaw_actors::provider::anthropic::error::ProviderError;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, StatusCode};

use crate::gateway::answer::{Answer, whole};
use crate::gateway::fields::estimate::input_tokens;
use crate::gateway::reading::{Beginning, Shown};

/// Says that a figure is ours.
const ESTIMATED: HeaderName = HeaderName::from_static("x-duduclaw-estimated");

/// Upstreams that were found to count no tokens.
#[derive(Debug, Default)]
pub struct Uncounting {
    upstreams: Mutex<HashSet<UpstreamId>>,
}

impl Uncounting {
    /// Whether this upstream was found to count none.
    #[must_use]
    pub fn knows(&self, upstream: UpstreamId) -> bool {
        self.upstreams().contains(&upstream)
    }

    /// It counts none.
    pub fn remember(&self, upstream: UpstreamId) {
        self.upstreams().insert(upstream);
    }

    fn upstreams(&self) -> MutexGuard<'_, HashSet<UpstreamId>> {
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an answer says that nothing stands at the path, as opposed to an error about the request, such as a model
/// that is not there.
pub(super) fn is_missing(beginning: &Beginning) -> bool {
    let status = beginning.head.status;
    let absent = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];
    absent.contains(&status) && !speaks_of_the_request(&beginning.shown)
}

fn speaks_of_the_request(shown: &Shown) -> bool {
    match shown {
        Shown::Body(body) => ProviderError::read(body).names_a_model(),
        Shown::Event { .. } | Shown::Nothing | Shown::Broken => false,
    }
}

/// The estimate for this body, as the endpoint would say it.
pub(super) fn estimate(body: &[u8]) -> Answer {
    let mut answer = whole(format!("{{\"input_tokens\":{}}}", input_tokens(body)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ESTIMATED, HeaderValue::from_static("input_tokens"));
    answer
}
