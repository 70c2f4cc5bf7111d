//! What a client saw of an answer, and what an account was taught.

use bytes::Bytes;
use duduclaw::admin::PoolAccount;
use duduclaw::sim::{AccountSpec, Endpoint, Fault, Record};
use duduclaw_actors::event::EventKind;
use duduclaw_actors::outcome::{Cause, HoldScope};
use duduclaw_actors::standing::{HoldKind, Stated};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{PATIENCE, World, eventually};

/// An answer as the client has it.
#[derive(Clone, Debug)]
pub struct Got {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether the body came to its end.
    pub whole: bool,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn account(&self) -> &str {
        self.header("x-duduclaw-account").unwrap_or("nobody")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").map(|value| value.parse().unwrap())
    }

    pub fn served_by(&self, account: &str) {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.account(), account);
    }
}

/// Sends a request and reads the whole answer.
pub async fn got(request: reqwest::RequestBuilder) -> Got {
    let mut response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let (mut body, mut whole) = (Vec::new(), true);
    loop {
        match response.chunk().await {
            Ok(Some(packet)) => body.extend_from_slice(&packet),
            Ok(None) => break,
            Err(_) => {
                whole = false;
                break;
            }
        }
    }
    Got { status, headers, body: body.into(), whole }
}

/// A hold as it began.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub kind: HoldKind,
    pub scope: HoldScope,
    pub cause: Cause,
    /// From when it was laid to its end, in whole seconds, rounded up.
    pub seconds: u64,
    pub stated: Stated,
}

impl World {
    /// Sends a request of Claude Code for a model.
    pub async fn model(&self, model: &str, session: &str, prompt: &str, stream: bool) -> Got {
        got(self.asking(model, session, prompt, stream)).await
    }

    pub fn asking(&self, model: &str, session: &str, prompt: &str, stream: bool) -> reqwest::RequestBuilder {
        let body = json!({
            "model": model, "max_tokens": 256, "stream": stream, "messages": [{"role": "user", "content": prompt}],
        });
        let request = self.post("/v1/messages?beta=true").json(&body);
        if session.is_empty() { request } else { request.header("x-claude-code-session-id", session) }
    }

    /// Sends a small request of a session.
    pub async fn turn(&self, session: &str, stream: bool) -> Got {
        got(self.ask(session, "[[say: hello]]", stream)).await
    }

    /// The holds that began on an account so far.
    pub fn holds(&self, account: &str) -> Vec<Held> {
        let of =
            self.events.all().into_iter().filter(|e| e.account.as_ref().is_some_and(|entry| &*entry.name == account));
        of.filter_map(|event| {
            let EventKind::HoldBegan { hold, scope, cause, until, stated } = event.kind else { return None };
            let seconds = until.remaining(event.ts).as_millis().div_ceil(1000) as u64;
            Some(Held { kind: hold, scope, cause, seconds, stated })
        })
        .collect()
    }

    /// Waits until the control API shows an account so.
    pub async fn until(&self, name: &str, shown: impl Fn(&PoolAccount) -> bool) {
        let looks = async {
            while !shown(&self.account(name).await) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, looks).await.expect("the account comes to be so");
    }

    /// Waits for an account's hold number `nth`, from 1, and checks it. What was stated as a moment may look shorter by
    /// what passed since.
    pub async fn held(&self, account: &str, nth: usize, expected: &Held) {
        let held = eventually(|| self.holds(account).get(nth - 1).cloned()).await;
        let near = held.seconds <= expected.seconds + 1 && held.seconds + 30 >= expected.seconds.max(31);
        let exact = expected.seconds > 120 || held.seconds >= expected.seconds.saturating_sub(2);
        assert!(near && exact, "{held:?} instead of {expected:?}");
        assert_eq!(Held { seconds: 0, ..held }, Held { seconds: 0, ..expected.clone() });
    }

    /// Waits until everything that was reported so far has been taken in, and checks that an account is well and was
    /// never held.
    pub async fn is_well(&self, account: &str) {
        let view = self.account(account).await;
        assert_eq!((view.state.as_str(), self.holds(account)), ("healthy", Vec::new()), "{account}");
    }

    /// The last request of an account that reached the provider.
    pub fn last(&self, account: &str) -> Record {
        self.sim.hits(account, Endpoint::Messages).pop().unwrap_or_else(|| panic!("{account} was not asked"))
    }

    /// Why requests went on from an account, in order.
    pub fn failed_over(&self, account: &str) -> Vec<String> {
        let all = self.events.of("failed_over").into_iter();
        let from = all.filter(|event| event["kind"]["from"].to_string().contains(account));
        from.map(|event| event["kind"]["why"].as_str().unwrap().to_owned()).collect()
    }
}

/// A hold of all of an account.
pub fn hold(kind: HoldKind, cause: Cause, seconds: u64, stated: Stated) -> Held {
    Held { kind, scope: HoldScope::Account, cause, seconds, stated }
}

/// A world of logins of which the first usable one serves.
pub async fn in_order(names: &[&str]) -> World {
    World::with(names.iter().map(|name| AccountSpec::oauth(name))).provider("strategy = \"failover\"").start().await
}

/// A 429 with these unified headers (without their prefix), and others as they are.
pub fn refusal(unified: &[(&str, String)], others: &[(&str, &str)]) -> Fault {
    let named = unified.iter().map(|(name, value)| (format!("anthropic-ratelimit-unified-{name}"), value.clone()));
    let plain = others.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "limit"}});
    Fault::Status { status: 429, headers: named.chain(plain).collect(), body: body.to_string() }
}

/// The events of a stream: names and data.
pub fn events_of(body: &[u8]) -> Vec<(String, Value)> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    frames
        .map(|frame| {
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            (field("event: ").to_owned(), serde_json::from_str(field("data: ")).unwrap_or(Value::Null))
        })
        .collect()
}

/// A provider that answers the first request with exactly these bytes and closes the connection.
pub async fn exact_provider(answer: String) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !ends_as_json(&request) {
            assert!(connection.read_buf(&mut request).await.unwrap() > 0);
        }
        connection.write_all(answer.as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
    });
    url
}

/// Whether head and body of a request are there.
fn ends_as_json(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    text.split_once("\r\n\r\n").is_some_and(|(_, body)| serde_json::from_str::<Value>(body).is_ok())
}

/// A world whose one upstream is at this address, with a model of another name there.
pub async fn in_front_of(url: &str) -> World {
    let text = format!(
        "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{url}\"\n\
         auth = \"claude_oauth\"\n[[providers.anthropic.accounts]]\nname = \"a\"\ncredentials = \
         \"{{creds}}/a.json\"\n[[models]]\nid = \"fast\"\n[models.upstream_model]\nanthropic = \"claude-haiku-4-5\"\n"
    );
    World::with([AccountSpec::oauth("a")]).config(&text).start().await
}
