//! The control API as the gateway sees it: keys that open nothing else, and somebody who answers for it.
//!
//! Never here: what it shows.

use std::pin::Pin;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;

use crate::gateway::answer::Answer;
use crate::gateway::arrival::Arrival;
use crate::gateway::error::ApiError;
use crate::gateway::live::Live;

/// What the control API answers, once it does.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, ApiError>> + Send + 'a>>;

/// Who answers for the control API.
pub trait Control: Send + Sync {
    /// Whether a token is one of its keys.
    fn is_key(&self, live: &Live, token: &[u8]) -> bool;

    /// Answers the request of this id.
    fn answer<'a>(
        &'a self,
        live: Arc<Live>,
        request: Request<Incoming>,
        arrival: Arrival,
        id: &'a str,
    ) -> Answering<'a>;
}
