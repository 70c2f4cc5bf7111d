//! The built-in client: asks as a coding client does, with a session, and looks at what comes back.

use reqwest::header::HeaderMap;
use serde_json::{Value, json};

/// Asks the gateway.
#[derive(Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    url: String,
}

/// How an answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As a stream of events.
    Stream,
    /// In one piece.
    Whole,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) session: &'static str,
    pub(super) form: Form,
    /// How long the answer is, in tokens.
    pub(super) tokens: u64,
}

/// What the client saw.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// Our id of the request.
    pub(super) id: String,
    /// The account that answered.
    pub(super) account: String,
    pub(super) verdict: Verdict,
}

/// What the client makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A whole, good answer.
    Good,
    /// It broke off after it had begun.
    Cut,
    /// An error, or no answer at all.
    Bad(String),
}

impl Client {
    /// A client of the gateway at this address.
    pub(super) fn new(url: &str) -> reqwest::Result<Self> {
        Ok(Self { http: reqwest::Client::builder().no_proxy().build()?, url: url.to_owned() })
    }

    /// Asks, and reads the answer to its end.
    pub(super) async fn ask(&self, question: Question) -> Reply {
        let request = self.http.post(format!("{}/v1/messages?beta=true", self.url)).json(&body(question));
        let request = request.header("anthropic-version", "2023-06-01").bearer_auth("demo");
        let answer = match request.header("x-claude-code-session-id", question.session).send().await {
            Ok(answer) => answer,
            Err(error) => return Reply::lost(error.to_string()),
        };
        let (status, headers) = (answer.status(), answer.headers().clone());
        let verdict = match answer.bytes().await {
            Ok(body) if status.is_success() => judge(question.form, &body),
            Ok(body) => Verdict::Bad(format!("{status}: {}", String::from_utf8_lossy(&body))),
            Err(_) if status.is_success() => Verdict::Cut,
            Err(error) => Verdict::Bad(format!("{status}: {error}")),
        };
        Reply { id: text(&headers, "x-duduclaw-request-id"), account: text(&headers, "x-duduclaw-account"), verdict }
    }
}

impl Reply {
    fn lost(why: String) -> Self {
        Self { id: String::new(), account: String::new(), verdict: Verdict::Bad(why) }
    }
}

fn body(question: Question) -> Value {
    json!({
        "model": "claude-opus-5-5",
        "max_tokens": question.tokens,
        "stream": question.form == Form::Stream,
        "messages": [{"role": "user", "content": "[[words: 9000]]"}],
    })
}

fn text(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

fn judge(form: Form, body: &[u8]) -> Verdict {
    match form {
        Form::Stream => judge_stream(&String::from_utf8_lossy(body)),
        Form::Whole => judge_whole(body),
    }
}

fn judge_stream(body: &str) -> Verdict {
    let last = body.lines().filter_map(|line| line.strip_prefix("event: ")).next_back();
    match last {
        Some("message_stop") => Verdict::Good,
        Some(_) if body.contains("event: message_start") => Verdict::Cut,
        Some(_) | None => Verdict::Bad(format!("200, and no message: {body}")),
    }
}

fn judge_whole(body: &[u8]) -> Verdict {
    let kind = serde_json::from_slice::<Value>(body).ok().and_then(|value| value.get("type").cloned());
    match kind {
        Some(kind) if kind == "message" => Verdict::Good,
        Some(_) | None => Verdict::Bad(format!("200, and no message: {}", String::from_utf8_lossy(body))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_message_is_good() {
        let stream = |text: &str| judge(Form::Stream, text.as_bytes());
        let start = "event: message_start\ndata: {}\n\n";
        assert_eq!(stream(&format!("{start}event: message_stop\ndata: {{}}\n\n")), Verdict::Good);
        assert_eq!(stream(start), Verdict::Cut);
        assert_eq!(stream(&format!("{start}event: error\ndata: {{}}\n\n")), Verdict::Cut);
        assert!(matches!(stream("event: error\ndata: {}\n\n"), Verdict::Bad(_)), "nothing had begun");
        assert!(matches!(stream(""), Verdict::Bad(_)));
        assert_eq!(judge(Form::Whole, br#"{"type":"message"}"#), Verdict::Good);
        assert!(matches!(judge(Form::Whole, br#"{"type":"error"}"#), Verdict::Bad(_)));
    }
}
