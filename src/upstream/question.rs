//! A small question of our own to a provider: an answer of bounded size within a bounded time, under our own name.
//!
//! Never here: what is asked, and what the answer means.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Limited};

use super::client::{Client, SendError};

/// No answer of interest is longer.
const LONGEST: usize = 256 * 1024;

/// What was answered.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No head came.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Not all of it came in time.
    #[error("no answer in time")]
    Late,
    /// The body broke off or is too long.
    #[error("the answer broke off or is too long")]
    Body,
}

/// Asks, and reads the whole answer.
///
/// # Errors
/// When there is none, none in time, or one that is cut or too long.
pub async fn ask(client: &Client, request: reqwest::Request, within: Duration) -> Result<Reply, AskError> {
    let asked = async {
        let (head, body) = client.send(request).await?.into_parts();
        let body = Limited::new(body, LONGEST).collect().await.map_err(|_| AskError::Body)?;
        Ok(Reply { status: head.status, headers: head.headers, body: body.to_bytes().to_vec() })
    };
    tokio::time::timeout(within, asked).await.unwrap_or(Err(AskError::Late))
}
