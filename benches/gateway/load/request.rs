//! The requests of the client, with the headers that a coding client sends.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;

use anyhow::Result;

/// Where messages go.
pub(crate) const PATH: &str = "/v1/messages";

/// The token that names the client to the gateway. Invented.
pub(crate) const CLIENT_TOKEN: &str = "dudu-invented-for-the-benchmark-0123456789abcdef";

/// The headers of one conversation's requests.
pub(crate) fn headers(conversation: u64) -> [(&'static str, String); 9] {
    [
        ("content-type", "application/json".into()),
        ("accept", "application/json".into()),
        ("authorization", format!("Bearer {CLIENT_TOKEN}")),
        ("anthropic-version", "2023-06-01".into()),
        ("anthropic-beta", "claude-code-20250219,oauth-2025-04-20,interleaved-thinking-2025-05-14".into()),
        ("user-agent", "claude-cli/2.1.332 (external, cli)".into()),
        ("x-app", "cli".into()),
        ("x-stainless-lang", "js".into()),
        ("x-claude-code-session-id", format!("b3a1f0de-0000-4000-8000-{conversation:012x}")),
    ]
}

/// A request of a conversation.
pub(crate) fn post(host: &str, conversation: u64, body: Bytes) -> Result<Request<Full<Bytes>>> {
    let mut request = Request::post(PATH).header("host", host);
    for (name, value) in headers(conversation) {
        request = request.header(name, value);
    }
    Ok(request.body(Full::new(body))?)
}
