//! Bodies and stream frames of our own, in the protocol of the Messages API.
//!
//! Whatever the gateway itself has to say to a client of this protocol is made here, so that the client's own reading of
//! errors works. Never here: a provider's bytes, which are relayed as they are.

use serde::Serialize;

use super::error::ErrorKind;

/// A frame that keeps an idle stream alive.
pub const PING_FRAME: &[u8] = b"event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// An error body: `{"type":"error","error":{"type","message"},"request_id"}`.
#[must_use]
pub fn error_body(kind: ErrorKind, message: &str, request_id: &str) -> Vec<u8> {
    let error = ErrorDetail { kind: kind.as_str(), message };
    let body = ErrorBody { kind: "error", error, request_id };
    serde_json::to_vec(&body).expect("a struct of strings is always JSON")
}

/// The frame by which a stream that has begun ends in an error.
#[must_use]
pub fn error_frame(kind: ErrorKind, message: &str, request_id: &str) -> Vec<u8> {
    let body = error_body(kind, message, request_id);
    [b"event: error\ndata: ".as_slice(), &body, b"\n\n"].concat()
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    error: ErrorDetail<'a>,
    request_id: &'a str,
}

#[derive(Serialize)]
struct ErrorDetail<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::anthropic::error::ProviderError;

    #[test]
    fn an_error_body_has_the_shape_of_the_protocol() {
        let body = error_body(ErrorKind::RateLimit, "all \"accounts\" wait\n", "req_1");
        let expected = r#"{"type":"error","error":{"type":"rate_limit_error","message":"all \"accounts\" wait\n"},"request_id":"req_1"}"#;
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn an_error_frame_is_one_event_whatever_the_message_holds() {
        let frame = String::from_utf8(error_frame(ErrorKind::Api, "one\n\ntwo\r\n: three", "req_2")).unwrap();
        let data = frame.strip_prefix("event: error\ndata: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
        assert!(!data.contains(['\n', '\r']), "a line break would end the event early: {data}");
        assert_eq!(ProviderError::read(data.as_bytes()).known_kind(), Some(ErrorKind::Api));
    }

    #[test]
    fn a_ping_is_a_whole_event() {
        assert!(PING_FRAME.starts_with(b"event: ping\ndata: ") && PING_FRAME.ends_with(b"}\n\n"));
    }
}
