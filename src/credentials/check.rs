//! Asking a provider whether it knows a credential: one small question with exactly that secret, and what the answer
//! means for it.
//!
//! A login whose token has ended is renewed first, under the usual lock; one that is refused is renewed once and asked
//! about again, since only a refusal that a renewal does not cure says something of the login. Never here: what the
//! verdict means for the account, and when to ask.

use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::account::health::Verdict;
use duduclaw_actors::clock::{Deadline, SharedClock, Timestamp, sleep_until};
use duduclaw_actors::id::{AccountId, CredentialKind, Generation};
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use http::{HeaderName, Method, StatusCode};

use super::exchange::OWN_USER_AGENT;
use super::secret::Secret;
use super::vault::{Held, NotNow, Patience, Rejection, Vault};
use crate::config::origin::BaseUrl;
use crate::config::settings::{AuthMode, Protocol};
use crate::config::topology::Topology;
use crate::upstream::client::Client;
use crate::upstream::question::{Reply, ask};

/// How long one answer may take.
const WITHIN: Duration = Duration::from_secs(10);

const PATH: &str = "/v1/models";
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");
const BETA_OF_LOGINS: HeaderValue = HeaderValue::from_static("oauth-2025-04-20");
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const VERSION_WE_SPEAK: HeaderValue = HeaderValue::from_static("2023-06-01");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const CHATGPT_ACCOUNT: HeaderName = HeaderName::from_static("chatgpt-account-id");

/// What asks.
#[derive(Clone)]
pub struct Checker {
    /// The secrets.
    pub vault: Vault,
    /// The way to the providers.
    pub client: Client,
    /// Tells the time.
    pub clock: SharedClock,
}

/// Whose credential is asked about, and where.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The account.
    pub account: AccountId,
    /// Its provider.
    pub at: Asked<'a>,
}

/// The provider that is asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Where it is.
    pub base_url: &'a BaseUrl,
    /// The name under which we ask, if not our own.
    pub user_agent: Option<&'a HeaderValue>,
    /// What it speaks, and so how it is asked.
    pub protocol: Protocol,
}

impl<'a> Subject<'a> {
    /// This account, at the provider of the entry that represents it; none where clients bring their own credentials.
    #[must_use]
    pub fn of(topology: &'a Topology, account: AccountId) -> Option<Self> {
        let entry = topology.representative(account)?;
        let element = topology.elements().get(entry.element)?;
        let (base_url, user_agent) = (&element.base_url, element.user_agent.as_ref());
        let at = Asked { base_url, user_agent, protocol: element.protocol };
        match element.auth {
            AuthMode::Passthrough | AuthMode::None => None,
            AuthMode::ClaudeOauth | AuthMode::ApiKey | AuthMode::ChatgptOauth | AuthMode::KimiOauth => {
                Some(Self { account, at })
            }
        }
    }
}

/// What was told.
#[derive(Debug)]
pub struct Told {
    /// What it says of the credential.
    pub verdict: Verdict,
    /// The answer, if there was one.
    pub reply: Option<Reply>,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What it says of the credential.
    pub verdict: Verdict,
    /// The credential that was asked about.
    pub generation: Generation,
    /// When it was asked.
    pub sent_at: Timestamp,
    /// The status, if there was an answer.
    pub status: Option<u16>,
}

impl Told {
    fn nothing() -> Self {
        Self { verdict: Verdict::Undecided, reply: None }
    }
}

impl Checker {
    /// Asks.
    ///
    /// # Errors
    /// When there is no secret to ask with, and why.
    pub async fn check(&self, subject: Subject<'_>) -> Result<Checked, NotNow> {
        let held = self.vault.fresh(subject.account, Patience::Full).await?;
        let checked = self.ask(subject, &held).await;
        if checked.verdict != Verdict::InvalidToken {
            return Ok(checked);
        }
        let rejected = held.secret.fingerprint();
        match self.vault.refresh_rejected(subject.account, rejected, Patience::Full).await {
            Rejection::Refreshed(other) | Rejection::Adopted(other) => Ok(self.ask(subject, &other).await),
            Rejection::Failed | Rejection::StillRenewing => Ok(Checked { verdict: Verdict::Undecided, ..checked }),
            Rejection::StillSame | Rejection::GrantLost | Rejection::Broken(_) => Ok(checked),
        }
    }

    async fn ask(&self, subject: Subject<'_>, held: &Arc<Held>) -> Checked {
        let sent_at = self.clock.now();
        let shown = Shown { kind: held.kind, secret: &held.secret, account: held.facts.uuid.as_deref() };
        let told = self.in_time(question(&self.client, subject.at, shown), sent_at).await;
        let status = told.reply.map(|reply| reply.status.as_u16());
        Checked { verdict: told.verdict, generation: held.generation, sent_at, status }
    }

    /// What is told in time also by the clock, which runs on while the machine sleeps.
    async fn in_time(&self, question: impl Future<Output = Told>, sent_at: Timestamp) -> Told {
        tokio::select! {
            told = question => told,
            () = sleep_until(&*self.clock, Deadline::after(sent_at, WITHIN)) => Told::nothing(),
        }
    }
}

/// Asks with a secret that no vault needs to hold.
pub async fn question(client: &Client, at: Asked<'_>, shown: Shown<'_>) -> Told {
    let Some(request) = asked_with(at, shown) else { return Told::nothing() };
    let Ok(reply) = ask(client, request, WITHIN).await else { return Told::nothing() };
    Told { verdict: verdict(&reply), reply: Some(reply) }
}

/// What is shown of a credential to ask about it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// What kind it is.
    pub kind: CredentialKind,
    /// The token or key.
    pub secret: &'a Secret,
    /// The provider's id of its account, where that is shown too.
    pub account: Option<&'a str>,
}

/// The question of each protocol: the list of models; for a ChatGPT login, which has none, its usage page.
fn asked_with(at: Asked<'_>, shown: Shown<'_>) -> Option<reqwest::Request> {
    match at.protocol {
        Protocol::Anthropic => request(&at.base_url.join(PATH), headers(at.user_agent, shown)),
        Protocol::Gemini => {
            let mut headers = plain_headers(at.user_agent);
            headers.insert(GOOGLE_KEY, shown.secret.plain_header());
            request(&at.base_url.join("/v1beta/models"), headers)
        }
        Protocol::Responses | Protocol::Chat => {
            let is_login = shown.kind != CredentialKind::ApiKey;
            let url = if is_login { usage_page(at.base_url) } else { at.base_url.join("/models") };
            let mut headers = plain_headers(at.user_agent);
            headers.insert(AUTHORIZATION, shown.secret.bearer());
            if let Some(account) = shown.account.filter(|_| is_login).and_then(|id| HeaderValue::from_str(id).ok()) {
                headers.insert(CHATGPT_ACCOUNT, account);
            }
            request(&url, headers)
        }
    }
}

/// Where ChatGPT shows an account's usage, which only a good login may see.
fn usage_page(base_url: &BaseUrl) -> String {
    let base = base_url.as_str().trim_end_matches('/');
    format!("{}/wham/usage", base.strip_suffix("/codex").unwrap_or(base))
}

/// What an answer says of the credential that was shown. Only three statuses say anything; and a 200 that is no JSON
/// object comes from somebody else, such as the login page of a hotel.
fn verdict(reply: &Reply) -> Verdict {
    match reply.status {
        StatusCode::OK if is_object(&reply.body) => Verdict::Valid,
        StatusCode::UNAUTHORIZED => Verdict::InvalidToken,
        StatusCode::FORBIDDEN => Verdict::OrgRefused,
        _ => Verdict::Undecided,
    }
}

fn is_object(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).is_ok()
}

fn request(url: &str, headers: HeaderMap) -> Option<reqwest::Request> {
    let mut request = reqwest::Request::new(Method::GET, url.parse().ok()?);
    *request.headers_mut() = headers;
    Some(request)
}

/// The headers of every question.
fn plain_headers(user_agent: Option<&HeaderValue>) -> HeaderMap {
    let own = || HeaderValue::from_static(OWN_USER_AGENT);
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, user_agent.cloned().unwrap_or_else(own));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers
}

/// The headers of a question to Anthropic.
fn headers(user_agent: Option<&HeaderValue>, shown: Shown<'_>) -> HeaderMap {
    let mut headers = plain_headers(user_agent);
    headers.insert(VERSION, VERSION_WE_SPEAK);
    match shown.kind {
        CredentialKind::ApiKey => {
            headers.insert(API_KEY, shown.secret.plain_header());
        }
        CredentialKind::Oauth | CredentialKind::SetupToken | CredentialKind::Keychain | CredentialKind::None => {
            headers.insert(AUTHORIZATION, shown.secret.bearer());
            headers.insert(BETA, BETA_OF_LOGINS);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Verdict {
        let status = StatusCode::from_u16(status).expect("a status");
        verdict(&Reply { status, headers: HeaderMap::new(), body: body.into() })
    }

    #[test]
    fn a_200_that_is_no_json_object_says_nothing() {
        for body in ["", "<html>Please log in to the hotel's network</html>", "[]", "{", "null"] {
            assert_eq!(answered(200, body), Verdict::Undecided, "{body:?}");
        }
    }

    #[test]
    fn only_three_statuses_say_anything_of_a_credential() {
        let of = |status| answered(status, "{\"data\": []}");
        assert_eq!([of(200), of(401), of(403)], [Verdict::Valid, Verdict::InvalidToken, Verdict::OrgRefused]);
        for status in [204, 301, 400, 402, 404, 429, 500, 503, 529] {
            assert_eq!(of(status), Verdict::Undecided, "{status}");
        }
    }
}
