//! Asking the provider for a new access token, and what its answer means.
//!
//! Only a structured OAuth error code proves that a refresh grant is dead. A busy server, a firewall's page, a cut
//! connection prove nothing, and the token is kept for the next try. Of an answer nothing but its status and such a
//! code is ever shown: bodies may echo tokens.
//!
//! Never here: files, locks, and when to ask.

use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::time::Duration;

use http::header::{ACCEPT, RETRY_AFTER, USER_AGENT};
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use duduclaw_actors::clock::Wall;

use super::jwt;
use super::login::CODEX_CLIENT_ID;
use super::secret::Secret;

/// Claude's token endpoint.
pub const CLAUDE_TOKEN_URL: &str = "https://platform.claude.com/v1/oauth/token";
/// The variable that replaces it, honoured for https or loopback only.
pub const CLAUDE_TOKEN_URL_VARIABLE: &str = "DUDUCLAW_CLAUDE_TOKEN_URL";
/// OpenAI's token endpoint.
pub(super) const CODEX_TOKEN_URL: &str = "https://auth.openai.com/oauth/token";
/// The variable that replaces it, honoured for https or loopback only.
pub const CODEX_TOKEN_URL_VARIABLE: &str = "DUDUCLAW_CODEX_TOKEN_URL";
/// The public client id of Claude's logins, which refresh tokens are bound to.
pub const CLAUDE_CLIENT_ID: &str = "9d1c250a-e61b-44d9-88ed-5944d1962f5e";
/// The scopes that a login asks for and a refresh asks for again.
pub const CLAUDE_SCOPES: &str =
    "user:profile user:inference user:sessions:claude_code user:mcp_servers user:file_upload";
/// What a refresh of a ChatGPT login asks for.
const CODEX_REFRESH_SCOPES: &str = "openid profile email";
/// How requests of our own name themselves unless the provider's `user_agent` key says otherwise.
pub const OWN_USER_AGENT: &str = concat!("duduclaw/", env!("CARGO_PKG_VERSION"));

/// How long an exchange may take, in seconds of this process's own running time.
const TIME_LIMIT_SECONDS: u32 = 30;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// What is assumed when the answer states no life time.
const DEFAULT_LIFE: Duration = Duration::from_secs(3600);
/// No answer of a token endpoint is longer.
const LONGEST_ANSWER: usize = 256 * 1024;
/// A longer stated wait is not believed: a login would look dead for hours.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A URL that refresh tokens may be sent to: https, or this very machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUrl(reqwest::Url);

/// Why a URL may not receive tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeTokenUrl {
    /// It is no URL.
    #[error("is not a URL")]
    NotAUrl,
    /// It would send a refresh token in the clear, or has a name and password in it.
    #[error("must be an https URL without a user name, or a loopback address")]
    NotSafe,
}

/// Where and as whom to renew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEndpoint {
    /// Where.
    pub url: TokenUrl,
    /// The user agent to name; [`OWN_USER_AGENT`] if none is configured.
    pub user_agent: Option<String>,
    /// Whose it is, and so how it is asked.
    pub issuer: Issuer,
}

/// Who issues tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Issuer {
    /// Anthropic, for Claude logins.
    #[default]
    Anthropic,
    /// OpenAI, for ChatGPT logins.
    OpenAi,
}

/// How the body of a question is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    /// As a web form; all values are texts or numbers.
    Pairs,
}

/// Something asked of an address that may receive tokens.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) url: &'a TokenUrl,
    pub(crate) user_agent: Option<&'a str>,
    pub(crate) body: &'a Value,
    pub(crate) form: Form,
}

impl TokenUrl {
    /// Checks a URL from the configuration or the environment.
    ///
    /// # Errors
    /// When it is no URL, or is neither https nor loopback.
    pub fn parse(text: &str) -> Result<Self, UnsafeTokenUrl> {
        let url = reqwest::Url::parse(text.trim()).map_err(|_| UnsafeTokenUrl::NotAUrl)?;
        let safe = match url.scheme() {
            "https" => url.has_host(),
            "http" => is_loopback(&url),
            _ => false,
        };
        let bare = url.username().is_empty() && url.password().is_none();
        if safe && bare { Ok(Self(url)) } else { Err(UnsafeTokenUrl::NotSafe) }
    }

    /// An issuer's token endpoint: the variable's value, else the configured one, else its own. Blank is unset.
    ///
    /// # Errors
    /// When the one that counts may not receive tokens.
    pub fn of(issuer: Issuer, variable: Option<&str>, configured: Option<&str>) -> Result<Self, UnsafeTokenUrl> {
        let given = [variable, configured].into_iter().flatten().find(|text| !text.trim().is_empty());
        let own = match issuer {
            Issuer::Anthropic => CLAUDE_TOKEN_URL,
            Issuer::OpenAi => CODEX_TOKEN_URL,
        };
        Self::parse(given.unwrap_or(own))
    }
}

impl TokenUrl {
    pub(crate) fn url(&self) -> &reqwest::Url {
        &self.0
    }

    /// Another path of the same host.
    pub(crate) fn beside(&self, path: &str) -> Option<Self> {
        let mut url = self.0.clone();
        url.set_query(None);
        url.set_path(path);
        Self::parse(url.as_str()).ok()
    }
}

impl fmt::Display for TokenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a URL's host is this machine, by its parsed form.
fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A renewed grant.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) access: Secret,
    /// None: the old one stays.
    pub(crate) refresh: Option<Secret>,
    pub(crate) life: Duration,
    /// When it ends, if the token itself says so.
    pub(crate) ends: Option<Wall>,
}

/// Why there is no new token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The grant is dead, by the provider's own code for it.
    GrantDead { code: &'static str },
    /// Nothing is known; ask again later.
    NotNow { detail: String, wait: Option<Duration> },
}

/// What asks token endpoints.
#[derive(Clone, Debug)]
pub struct TokenExchange {
    outside: reqwest::Client,
    loopback: reqwest::Client,
}

impl TokenExchange {
    /// Builds the clients: no redirects, since a refresh token goes to the configured URL and nowhere else; the
    /// environment's proxies for the outside, none for loopback.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new() -> Result<Self, reqwest::Error> {
        // A provider that `main` has installed already stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder =
            || reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).connect_timeout(CONNECT_LIMIT);
        Ok(Self { outside: builder().build()?, loopback: builder().no_proxy().build()? })
    }

    /// Spends a refresh token.
    pub(crate) async fn refresh(&self, endpoint: &TokenEndpoint, token: &Secret) -> Result<Grant, Refusal> {
        let asked = within(TIME_LIMIT_SECONDS, self.ask(endpoint, token)).await;
        let answer = asked.unwrap_or_else(|| Err(not_now(format!("no answer within {TIME_LIMIT_SECONDS} s"))))?;
        read(&answer)
    }

    async fn ask(&self, endpoint: &TokenEndpoint, token: &Secret) -> Result<Answer, Refusal> {
        let (client, scope) = match endpoint.issuer {
            Issuer::Anthropic => (CLAUDE_CLIENT_ID, CLAUDE_SCOPES),
            Issuer::OpenAi => (CODEX_CLIENT_ID, CODEX_REFRESH_SCOPES),
        };
        let body = json!({
            "grant_type": "refresh_token",
            "refresh_token": token.expose(),
            "client_id": client,
            "scope": scope,
        });
        let user_agent = endpoint.user_agent.as_deref();
        self.send(Question { url: &endpoint.url, user_agent, body: &body, form: Form::Json }).await
    }

    /// Asks something, and gives status and body; why not, in words of ours.
    pub(crate) async fn ask_for(&self, question: Question<'_>) -> Result<(u16, Zeroizing<Vec<u8>>), String> {
        match within(TIME_LIMIT_SECONDS, self.send(question)).await {
            Some(Ok(answer)) => Ok((answer.status, answer.body)),
            Some(Err(Refusal::NotNow { detail, .. })) => Err(detail),
            Some(Err(Refusal::GrantDead { code })) => Err(code.to_owned()),
            None => Err(format!("no answer within {TIME_LIMIT_SECONDS} s")),
        }
    }

    async fn send(&self, question: Question<'_>) -> Result<Answer, Refusal> {
        let Question { url, user_agent, body, form } = question;
        let client = if is_loopback(&url.0) { &self.loopback } else { &self.outside };
        let request = client
            .post(url.0.clone())
            .header(USER_AGENT, user_agent.unwrap_or(OWN_USER_AGENT))
            .header(ACCEPT, "application/json");
        let request = match form {
            Form::Json => request.json(body),
            Form::Pairs => request.form(body),
        };
        let response = request.send().await.map_err(|error| not_now(describe(&error).to_owned()))?;
        Answer::take(response).await
    }
}

struct Answer {
    status: u16,
    wait: Option<Duration>,
    body: Zeroizing<Vec<u8>>,
}

impl Answer {
    async fn take(mut response: reqwest::Response) -> Result<Self, Refusal> {
        let wait = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.trim().parse().ok());
        let wait = wait.map(|seconds| Duration::from_secs(seconds).min(LONGEST_WAIT));
        let mut body = Zeroizing::new(Vec::with_capacity(4096));
        while let Some(chunk) = response.chunk().await.map_err(|error| not_now(describe(&error).to_owned()))? {
            if body.len() + chunk.len() > LONGEST_ANSWER {
                return Err(not_now(format!("status {}: the answer is too long", response.status().as_u16())));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Self { status: response.status().as_u16(), wait, body })
    }
}

/// What went wrong on the way, in words of ours: an error's own text may hold a URL.
fn describe(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke off"
    }
}

fn not_now(detail: String) -> Refusal {
    Refusal::NotNow { detail, wait: None }
}

fn read(answer: &Answer) -> Result<Grant, Refusal> {
    if let Some(code) = dead_code(answer) {
        return Err(Refusal::GrantDead { code });
    }
    if !(200..300).contains(&answer.status) {
        return Err(Refusal::NotNow { detail: format!("status {}", answer.status), wait: answer.wait });
    }
    grant(&answer.body).ok_or_else(|| not_now(format!("status {}: the answer has no usable token", answer.status)))
}

/// The codes by which providers say that a refresh token will never work again.
const DEAD_CODES: [&str; 8] = [
    "invalid_grant",
    "bad_refresh_token",
    "invalid_refresh_token",
    "expired_refresh_token",
    "refresh_token_expired",
    "refresh_token_reused",
    "refresh_token_invalidated",
    "refresh_token_revoked",
];

/// The code that proves a dead grant, from an answer that is a verdict and not a failure of the server.
fn dead_code(answer: &Answer) -> Option<&'static str> {
    if answer.status >= 500 || matches!(answer.status, 408 | 429) {
        return None;
    }
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let error = body.get("error")?;
    let told = [Some(error), error.get("code"), error.get("type")];
    told.into_iter().flatten().filter_map(Value::as_str).find_map(|c| DEAD_CODES.into_iter().find(|dead| *dead == c))
}

/// Borrowed from the answer's bytes, which are wiped.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    access_token: Cow<'a, str>,
    #[serde(borrow)]
    refresh_token: Option<Cow<'a, str>>,
    expires_in: Option<f64>,
}

fn grant(body: &[u8]) -> Option<Grant> {
    let body: Body<'_> = serde_json::from_slice(body).ok()?;
    let refresh = body.refresh_token.filter(|token| !token.trim().is_empty());
    let stated = body.expires_in.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Some(Grant {
        ends: jwt::expiry(&body.access_token),
        access: Secret::parse(&body.access_token).ok()?,
        refresh: refresh.map(|token| Secret::parse(&token)).transpose().ok()?,
        life: stated.filter(|life| *life >= Duration::from_secs(1)).unwrap_or(DEFAULT_LIFE),
    })
}

/// Waits for at most that many seconds in which this process ran. A process that was stopped, or a machine that slept,
/// finds on waking that time has passed, but also the answer in its socket: one long timer would throw away a token
/// that nobody can ask for again.
async fn within<T>(seconds: u32, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    for _ in 0..seconds {
        if let Ok(done) = tokio::time::timeout(Duration::from_secs(1), work.as_mut()).await {
            return Some(done);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Result<Grant, Refusal> {
        read(&Answer { status, wait: None, body: Zeroizing::new(body.as_bytes().to_vec()) })
    }

    /// C32: only a structured code proves a dead grant.
    #[test]
    fn only_a_structured_code_proves_a_dead_grant() {
        let dead = [
            (400, r#"{"error":"invalid_grant"}"#),
            (401, r#"{"error":"invalid_grant","error_description":"rt-CANARY"}"#),
            (403, r#"{"error":"invalid_grant"}"#),
            (200, r#"{"error":"bad_refresh_token"}"#),
            (400, r#"{"type":"error","error":{"type":"invalid_grant","message":"x"}}"#),
            (401, r#"{"error":{"code":"refresh_token_reused"}}"#),
        ];
        for (status, body) in dead {
            assert!(matches!(answer(status, body), Err(Refusal::GrantDead { .. })), "{status} {body}");
        }
        let undecided = [
            (503, r#"{"error":"invalid_grant"}"#),
            (429, r#"{"error":"invalid_grant"}"#),
            (408, ""),
            (403, "<html>blocked: invalid_grant</html>"),
            (400, r#"{"error":"invalid_request"}"#),
            (401, r#"{"error":"invalid_client"}"#),
            (400, r#"{"error_description":"invalid_grant"}"#),
            (302, ""),
            (200, "invalid_grant"),
            (200, r#"{"access_token":"  "}"#),
        ];
        for (status, body) in undecided {
            assert!(matches!(answer(status, body), Err(Refusal::NotNow { .. })), "{status} {body}");
        }
    }

    #[test]
    fn what_an_answer_leaves_out_is_filled_in() {
        let told = answer(200, r#"{"access_token":"a","refresh_token":"r","expires_in":120}"#).expect("a grant");
        assert_eq!((told.life, told.refresh.is_some()), (Duration::from_secs(120), true));
        for body in [
            r#"{"access_token":"a"}"#,
            r#"{"access_token":"a","refresh_token":"","expires_in":0}"#,
            r#"{"access_token":"a","expires_in":-5}"#,
        ] {
            let silent = answer(200, body).expect("a grant");
            assert_eq!((silent.life, silent.refresh.is_none()), (DEFAULT_LIFE, true), "{body}");
        }
    }

    /// C116: a refused or unreadable answer shows its status and nothing else.
    #[test]
    fn an_answer_is_never_shown() {
        for status in [200, 400, 403, 500] {
            for body in ["CANARY", r#"{"error":"CANARY"}"#, r#"{"access_token":"CANARY CANARY"}"#] {
                let refusal = answer(status, body).expect_err("no grant");
                assert!(!format!("{refusal:?}").contains("CANARY"), "{refusal:?}");
            }
        }
    }

    #[test]
    fn refresh_tokens_go_to_https_or_loopback_only() {
        for url in [
            "https://platform.claude.com/v1/oauth/token",
            "http://127.0.0.1:8/t",
            "http://[::1]:8/t",
            "http://localhost/t",
        ] {
            TokenUrl::parse(url).expect(url);
        }
        for url in [
            "http://platform.claude.com/t",
            "http://127.0.0.1.evil.test/t",
            "http://localhost@evil.test/",
            "https://u:p@h/",
            "ftp://127.0.0.1/",
            "nonsense",
        ] {
            TokenUrl::parse(url).expect_err(url);
        }
    }

    #[test]
    fn the_variable_wins_over_the_configuration_and_an_unsafe_one_is_an_error() {
        let of = |variable, configured| TokenUrl::of(Issuer::Anthropic, variable, configured);
        assert_eq!(of(Some(" "), None), TokenUrl::parse(CLAUDE_TOKEN_URL));
        assert_eq!(of(None, Some("https://b.test/t")), TokenUrl::parse("https://b.test/t"));
        assert_eq!(of(Some("http://127.0.0.1:9/t"), Some("https://b.test/t")), TokenUrl::parse("http://127.0.0.1:9/t"));
        assert_eq!(of(Some("http://b.test/t"), None), Err(UnsafeTokenUrl::NotSafe));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_stopped_still_takes_the_answer_that_waits_for_it() {
        let (tx, rx) = tokio::sync::oneshot::channel();
        let waiting = within(30, rx);
        let mut waiting = pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(futures_util::poll!(waiting.as_mut()).is_pending(), "one tick of running time, not an hour");
        tx.send("token").expect("still listened to");
        assert_eq!(waiting.await, Some(Ok("token")));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_never_answers_is_given_up() {
        assert_eq!(within(30, std::future::pending::<()>()).await, None);
    }
}
