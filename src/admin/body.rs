//! The body of a request to the control API: small, JSON by its label, and there within a time.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::fault::{Fault, FaultKind};

/// The largest body.
pub(super) const LARGEST: usize = 64 * 1024;
/// How long a body may take.
const WITHIN: Duration = Duration::from_secs(30);

/// Reads the body; empty if there is none.
pub(super) async fn read(request: Request<Incoming>) -> Result<Bytes, Fault> {
    let (head, body) = request.into_parts();
    let whole = tokio::time::timeout(WITHIN, Limited::new(body, LARGEST).collect()).await;
    let whole = whole.map_err(|_| Fault::invalid(format!("the body did not come within {WITHIN:?}")))?;
    let bytes = match whole {
        Ok(whole) => whole.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(Fault::new(FaultKind::TooLarge, format!("the body is larger than {LARGEST} bytes")));
        }
        Err(_) => return Err(Fault::invalid("the body ended before its announced length")),
    };
    if bytes.is_empty() || is_json(&head.headers) {
        return Ok(bytes);
    }
    Err(Fault::new(FaultKind::MediaType, "the body is not JSON by its label")
        .hint("send content-type: application/json"))
}

fn is_json(headers: &HeaderMap) -> bool {
    let named = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = named.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}
