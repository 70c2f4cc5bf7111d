//! The control API as the gateway sees it: a key that opens nothing else, and somebody who answers for it.
//!
//! Never here: what it shows.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;

use crate::gateway::answer::Answer;
use crate::gateway::error::ApiError;
use crate::gateway::live::Live;

/// What the control API answers, once it does.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, ApiError>> + Send + 'a>>;

/// Who answers for the control API.
pub trait Control: Send + Sync {
    /// Whether a token is the key.
    fn is_key(&self, token: &[u8]) -> bool;

    /// Answers a request that reached us at `local`, or by a Unix socket.
    fn answer(&self, live: Arc<Live>, request: Request<Incoming>, local: Option<SocketAddr>) -> Answering<'_>;
}
