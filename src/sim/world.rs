//! The simulated provider without its sockets: a request comes in, an answer goes out, and accounts, cache and faults
//! are as they must be after it.
//!
//! Never here: a clock, a socket, or a wait.

use duduclaw_actors::clock::Timestamp;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use super::account::{Account, AccountKind, Token, fingerprint};
use super::answer::Answer;
use super::cache::PromptCache;
use super::config::SimConfig;
use super::fault::{Asked, Endpoint, Fault, FaultBook, Moment, instead, shaped};
use super::log::{Arrived, Log};
use super::quota::{Told, unified_headers};
use super::thinking::Seal;

mod login;
mod messages;
mod side;

use login::Logins;
pub(super) use login::pairs;

/// Everything the simulator knows.
pub(super) struct World {
    pub(super) config: SimConfig,
    pub(super) accounts: Vec<Account>,
    pub(super) faults: FaultBook,
    pub(super) log: Log,
    cache: PromptCache,
    seal: Seal,
    logins: Logins,
}

/// A request on its way through the provider.
struct Call<'r> {
    arrived: &'r Arrived,
    endpoint: Endpoint,
    body: Option<&'r Value>,
    id: u64,
    request_id: String,
    now: Timestamp,
    faults: Vec<Fault>,
}

/// What to play for a request.
#[derive(Debug)]
pub(super) struct Decided {
    /// Its number in the log.
    pub(super) id: u64,
    /// The answer.
    pub(super) answer: Answer,
}

impl World {
    pub(super) fn new(config: SimConfig, now: Timestamp) -> Self {
        let mut faults = FaultBook::default();
        config.faults.iter().cloned().for_each(|rule| faults.add(rule));
        Self {
            accounts: config.accounts.iter().cloned().map(|spec| Account::new(spec, now)).collect(),
            faults,
            log: Log::new(config.keep_bytes),
            cache: PromptCache::default(),
            seal: Seal::new(&config.seed),
            logins: Logins::default(),
            config,
        }
    }

    /// As it was at the start; numbers of requests go on.
    pub(super) fn reset(&mut self, now: Timestamp) {
        let fresh = Self::new(self.config.clone(), now);
        self.accounts = fresh.accounts;
        self.faults = fresh.faults;
        self.logins = fresh.logins;
        self.cache.clear();
        self.log.clear();
    }

    /// Answers a request. `body` is the request's body as JSON, if it is JSON.
    pub(super) fn answer(&mut self, arrived: &Arrived, body: Option<&Value>, now: Timestamp) -> Decided {
        let endpoint = endpoint(arrived);
        let id = self.log.next_id();
        let request_id = format!("req_sim{id:012}");
        self.log.open(arrived, endpoint, &request_id, now);
        let account = self.caller(arrived, endpoint, body, now);
        let name = account.map(|at| self.accounts[at].spec.name.clone());
        let asked =
            Asked { account: name.as_deref(), endpoint, model: field(body, "model"), tools: offers_tools(body) };
        let faults = self.faults.take(asked);
        let call = Call { arrived, endpoint, body, id, request_id, now, faults };
        self.note_caller(&call, name);
        let genuine = match self.in_place(&call, account) {
            Some(answer) => answer,
            None => self.genuine(&call, account),
        };
        let answer = shaped(genuine, &call.faults).with("request-id", call.request_id.clone());
        let answer = answer.with_default(account.into_iter().flat_map(|at| self.accounts[at].spec.headers.clone()));
        self.note_answer(&call, &answer);
        Decided { id, answer }
    }

    fn genuine(&mut self, call: &Call<'_>, account: Option<usize>) -> Answer {
        match call.endpoint {
            Endpoint::Preflight => Answer::whole(200, "text/plain", ""),
            Endpoint::Token => self.token(call, account),
            Endpoint::Messages => self.admitted(call, account, Self::messages),
            Endpoint::CountTokens => self.admitted(call, account, Self::count_tokens),
            Endpoint::Models => self.admitted(call, account, Self::models),
            Endpoint::Login => self.authorize(call),
            Endpoint::Usage if call.arrived.route() != "/api/oauth/usage" => self.chatgpt_usage(call, account),
            Endpoint::Usage => self.admitted(call, account, Self::usage),
            Endpoint::Other => call.error(404, "not_found_error", "Not Found"),
        }
    }

    fn admitted(
        &mut self,
        call: &Call<'_>,
        account: Option<usize>,
        serve: impl FnOnce(&mut Self, &Call<'_>, usize) -> Answer,
    ) -> Answer {
        match self.admit(call, account) {
            Ok(account) => serve(self, call, account),
            Err(refusal) => refusal,
        }
    }

    /// Whether the caller may come in, and as whom.
    fn admit(&self, call: &Call<'_>, account: Option<usize>) -> Result<usize, Answer> {
        let shown = credentials(call.arrived);
        if shown.len() > 1 {
            return Err(call.error(400, "invalid_request_error", "two credentials in one request: send one"));
        }
        let Some(at) = account else {
            let text = if shown.is_empty() { "x-api-key header is required" } else { "Invalid bearer token" };
            return Err(call.error(401, "authentication_error", text));
        };
        let held = shown.first().and_then(|token| self.accounts[at].token(token, call.now));
        match (held, self.accounts[at].spec.kind) {
            (Some(Token::Good), AccountKind::ApiKey) => {}
            (Some(Token::Good), AccountKind::Oauth | AccountKind::SetupToken) => oauth_allowed(call)?,
            (Some(Token::Expired) | None, _) => {
                return Err(call.error(401, "authentication_error", "OAuth token has expired."));
            }
        }
        if call.arrived.header("anthropic-version").is_none() && call.endpoint != Endpoint::Usage {
            return Err(call.error(400, "invalid_request_error", "anthropic-version: header is required"));
        }
        Ok(at)
    }

    /// Whose credential this is, good or not.
    fn caller(&self, arrived: &Arrived, endpoint: Endpoint, body: Option<&Value>, now: Timestamp) -> Option<usize> {
        if endpoint == Endpoint::Token {
            let token = field(body, "refresh_token");
            return self.accounts.iter().position(|account| account.knows_refresh(token));
        }
        let shown = credentials(arrived);
        let mut owners = shown
            .iter()
            .filter_map(|token| self.accounts.iter().position(|account| account.token(token, now).is_some()));
        owners.next()
    }

    fn in_place(&mut self, call: &Call<'_>, account: Option<usize>) -> Option<Answer> {
        let model = field(call.body, "model");
        let quota = account.map(|at| self.quota_headers(at, model, Told::Served, call.now)).unwrap_or_default();
        let stream = call.body.and_then(|body| body.get("stream")).and_then(Value::as_bool).unwrap_or(false);
        let moment = Moment { now: call.now, request_id: &call.request_id, model, stream, quota };
        instead(&call.faults, &moment)
    }

    fn quota_headers(&mut self, at: usize, model: &str, told: Told, now: Timestamp) -> Vec<(String, String)> {
        let account = &mut self.accounts[at];
        match account.spec.kind {
            AccountKind::ApiKey => Vec::new(),
            AccountKind::Oauth | AccountKind::SetupToken => unified_headers(&account.quota.governing(model, now), told),
        }
    }

    fn note_caller(&mut self, call: &Call<'_>, account: Option<String>) {
        let credential = match call.endpoint {
            Endpoint::Token => {
                Some(field(call.body, "refresh_token")).filter(|token| !token.is_empty()).map(fingerprint)
            }
            Endpoint::Messages
            | Endpoint::CountTokens
            | Endpoint::Models
            | Endpoint::Usage
            | Endpoint::Preflight
            | Endpoint::Login
            | Endpoint::Other => credentials(call.arrived).first().map(|token| fingerprint(token)),
        };
        if let Some(record) = self.log.get_mut(call.id) {
            record.account = account;
            record.credential = credential;
            record.model = Some(field(call.body, "model").to_owned()).filter(|model| !model.is_empty());
            record.stream = call.body.and_then(|body| body.get("stream")).and_then(Value::as_bool).unwrap_or(false);
            record.faults = call.faults.iter().map(Fault::name).collect();
        }
    }

    fn note_answer(&mut self, call: &Call<'_>, answer: &Answer) {
        if let Some(record) = self.log.get_mut(call.id) {
            record.status = answer.before.instead.is_none().then_some(answer.status);
        }
    }
}

impl Call<'_> {
    fn error(&self, status: u16, kind: &str, message: &str) -> Answer {
        Answer::error(status, kind, message, &self.request_id)
    }

    fn invalid(&self, message: &str) -> Answer {
        self.error(400, "invalid_request_error", message)
    }
}

fn endpoint(arrived: &Arrived) -> Endpoint {
    match (arrived.method.as_str(), arrived.route()) {
        ("POST", "/v1/messages") => Endpoint::Messages,
        ("POST", "/v1/messages/count_tokens") => Endpoint::CountTokens,
        ("GET", route) if route == "/v1/models" || route.starts_with("/v1/models/") => Endpoint::Models,
        ("POST", "/v1/oauth/token" | "/oauth/token") => Endpoint::Token,
        ("POST", "/api/accounts/deviceauth/usercode" | "/api/accounts/deviceauth/token") => Endpoint::Token,
        ("GET", "/cai/oauth/authorize" | "/oauth/authorize" | "/codex/device") => Endpoint::Login,
        ("GET", "/api/oauth/usage" | "/backend-api/wham/usage") => Endpoint::Usage,
        ("HEAD" | "GET", "/" | "/api/hello") => Endpoint::Preflight,
        _other => Endpoint::Other,
    }
}

/// All credentials that a request bears, each header counted.
fn credentials(arrived: &Arrived) -> Vec<&str> {
    let secret = |(name, value): &'_ (String, String)| match name.to_ascii_lowercase().as_str() {
        "x-api-key" | "authorization" => !value.is_empty(),
        _other => false,
    };
    let shown = arrived.headers.iter().filter(|header| secret(header));
    shown.map(|(_, value)| value.strip_prefix("Bearer ").unwrap_or(value).trim()).collect()
}

/// OAuth tokens come as bearer tokens and with the beta that allows them.
fn oauth_allowed(call: &Call<'_>) -> Result<(), Answer> {
    const BETA: &str = "oauth-2025-04-20";
    if call.arrived.header("authorization").is_none() {
        return Err(call.error(401, "authentication_error", "invalid x-api-key"));
    }
    let mut betas = call.arrived.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("anthropic-beta"));
    if betas.any(|(_, value)| value.split(',').any(|beta| beta.trim() == BETA)) {
        return Ok(());
    }
    Err(call.error(401, "authentication_error", "OAuth authentication is currently not supported."))
}

fn field<'b>(body: Option<&'b Value>, name: &str) -> &'b str {
    body.and_then(|body| body.get(name)).and_then(Value::as_str).unwrap_or_default()
}

fn offers_tools(body: Option<&Value>) -> bool {
    body.and_then(|body| body.get("tools")).and_then(Value::as_array).is_some_and(|tools| !tools.is_empty())
}

/// A number that stands for an account or organisation.
fn identity(uuid: &str) -> u128 {
    xxh3_128(uuid.as_bytes())
}

#[cfg(test)]
mod tests;
