//! The request of an attempt: the client's own, with what must differ put in its place.

use std::sync::Arc;

use bytes::Bytes;
use duduclaw_actors::id::{AccountId, CredentialKind};
use http::header::{ACCEPT_ENCODING, HeaderValue};
use reqwest::Url;

use crate::config::settings::AuthMode;
use crate::credentials::Held;
use crate::gateway::chain::Leg;
use crate::gateway::error::ApiError;
use crate::gateway::exchange::Exchange;
use crate::gateway::headers::{self, Attempt, Credential};
use crate::gateway::splice::{Body, Splice};

/// A reply in which the model's name is to be exchanged must be readable.
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Makes the request of an attempt on this leg, with this secret.
///
/// # Errors
/// When the account's secret cannot be sent at all.
pub(super) fn request(
    exchange: &Exchange,
    leg: &Leg,
    held: Option<&Arc<Held>>,
    account: AccountId,
) -> Result<reqwest::Request, ApiError> {
    let inbound = &exchange.inbound;
    let is_ours = |token: &[u8]| exchange.is_our_token(token);
    let attempt = Attempt {
        credential: credential(leg, held, &is_ours),
        auth_header: exchange.live.auth_header(),
        streaming: inbound.streaming,
        long_context: inbound.asked.long_context,
    };
    let mut headers = headers::request(&inbound.headers, &attempt).map_err(|_| ApiError::Internal)?;
    if exchange.renamed(leg).is_some() {
        headers.insert(ACCEPT_ENCODING, IDENTITY);
    }
    let mut request =
        reqwest::Request::new(inbound.method.clone(), url(leg.element().base_url.url(), inbound.target.as_str()));
    *request.headers_mut() = headers;
    if !exchange.body().is_empty() {
        *request.body_mut() = Some(body(exchange, leg, held, account));
    }
    Ok(request)
}

fn credential<'a>(leg: &Leg, held: Option<&'a Arc<Held>>, is_ours: &'a dyn Fn(&[u8]) -> bool) -> Credential<'a> {
    let Some(held) = held else {
        return if leg.injects() { Credential::None } else { Credential::Passthrough(is_ours) };
    };
    match (leg.element().auth, held.kind) {
        (_, CredentialKind::ApiKey) => Credential::ApiKey(held.secret.expose()),
        (AuthMode::ClaudeOauth, _) => Credential::ClaudeOauth(held.secret.expose()),
        (
            AuthMode::ApiKey | AuthMode::ChatgptOauth | AuthMode::KimiOauth | AuthMode::Passthrough | AuthMode::None,
            _,
        ) => Credential::Bearer(held.secret.expose()),
    }
}

/// The base with the client's path and query behind it, kept as they came.
fn url(base: &Url, target: &str) -> Url {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut url = base.clone();
    let prefix = base.path().trim_end_matches('/');
    if prefix.is_empty() {
        url.set_path(path);
    } else {
        url.set_path(&format!("{prefix}{path}"));
    }
    url.set_query(query);
    url
}

fn body(exchange: &Exchange, leg: &Leg, held: Option<&Arc<Held>>, account: AccountId) -> reqwest::Body {
    let splices = splices(exchange, leg, held, account);
    if splices.is_empty() {
        return reqwest::Body::from(exchange.body().clone());
    }
    match Body::spliced(exchange.body(), splices) {
        Ok(body) => reqwest::Body::wrap(body),
        Err(_) => reqwest::Body::from(exchange.body().clone()),
    }
}

fn splices(exchange: &Exchange, leg: &Leg, held: Option<&Arc<Held>>, account: AccountId) -> Vec<Splice> {
    let inbound = &exchange.inbound;
    let mut splices = Vec::new();
    if let (Some(span), Some(name)) = (&inbound.asked.span, exchange.renamed(leg)) {
        splices.push(Splice { range: span.clone(), with: quoted(name) });
    }
    for (span, base) in &inbound.asked.tools {
        splices.push(Splice { range: span.clone(), with: quoted(base) });
    }
    if let (Some(range), Some(uuid)) = (&inbound.account_uuid, exchange.live.account_uuid(held, account)) {
        splices.push(Splice { range: range.clone(), with: Bytes::from(uuid) });
    }
    splices
}

fn quoted(text: &str) -> Bytes {
    Bytes::from(serde_json::to_vec(text).unwrap_or_default())
}
