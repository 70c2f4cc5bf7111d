//! Who is at the door: the client's token, the host name it used, and whether a web page of another origin asks.
//!
//! Never here: what the client asks for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use duduclaw_actors::id::Principal;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::config::clients::{Client, Passthrough};
use crate::config::settings::Server;
use crate::gateway::control::Control;
use crate::gateway::error::ApiError;
use crate::gateway::headers::{X_API_KEY, X_GOOG_API_KEY, token};
use crate::gateway::live::Live;
use crate::upstream::client::is_loopback_host;

/// What tokens of jobs begin with. None are given out while no job runs, so each is an ended one.
const JOB_TOKEN: &[u8] = b"ddj_";
/// Where a token may be shown, beside the configured header.
static SLOTS: [HeaderName; 3] = [AUTHORIZATION, X_API_KEY, X_GOOG_API_KEY];
/// What browsers say of where a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";

/// Someone who was let in.
#[derive(Clone, Debug)]
pub struct Caller {
    /// As whom they ask.
    pub principal: Arc<Principal>,
    /// The named client, unless the gateway is open.
    pub client: Option<Client>,
}

impl Caller {
    /// Whether paths beside inference are open to them.
    #[must_use]
    pub fn may_pass_through(&self) -> bool {
        self.client.as_ref().is_none_or(|client| client.passthrough == Passthrough::Open && !client.is_limited())
    }

    /// Whether what they may use is limited, so that a body that cannot be read must be refused.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.client.as_ref().is_some_and(Client::is_limited)
    }
}

/// Lets a request in as the client whose token it shows.
///
/// # Errors
/// When it shows none, a wrong one, one of a job that has ended, or the key to the control API.
pub fn authenticate(headers: &HeaderMap, live: &Live, control: &dyn Control) -> Result<Caller, ApiError> {
    let header = live.auth_header();
    if shown_tokens(headers, header).any(|token| token.starts_with(JOB_TOKEN)) {
        return Err(ApiError::Unauthenticated("the job of this token has ended".to_owned()));
    }
    if shown_tokens(headers, header).any(|token| control.is_key(live, token)) {
        return Err(ApiError::Unauthenticated("the key to the control API is no client token".to_owned()));
    }
    let Some(gate) = &live.settings.server.auth else { return Ok(Caller { principal: Arc::default(), client: None }) };
    let known = shown_tokens(headers, header)
        .filter_map(|token| std::str::from_utf8(token).ok())
        .find_map(|token| gate.clients.authenticate(token));
    let client = known.ok_or_else(|| refusal(&gate.header))?.clone();
    let principal = Principal { client: Some(Arc::clone(&client.name)), ..Principal::default() };
    Ok(Caller { principal: Arc::new(principal), client: Some(client) })
}

/// Every value of every slot that can hold a token of ours.
fn shown_tokens<'a>(headers: &'a HeaderMap, header: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let slots = std::iter::once(header).chain(&SLOTS);
    slots.flat_map(|slot| headers.get_all(slot)).map(|value| token(value.as_bytes()))
}

fn refusal(header: &HeaderName) -> ApiError {
    ApiError::Unauthenticated(format!(
        "this gateway asks for a client token: send it as `{header}`, as `Authorization: Bearer` (ANTHROPIC_AUTH_TOKEN) or as `x-api-key`"
    ))
}

/// Whether a request was meant for us: every host name in it is one of ours. One without any comes from no browser.
///
/// # Errors
/// When it names somebody else, as a page does whose name was made to point at this machine; or several, of which others
/// on the way may have read another one.
pub fn check_host(headers: &HeaderMap, uri: &Uri, local: Option<SocketAddr>, server: &Server) -> Result<(), ApiError> {
    if headers.get_all(HOST).iter().nth(1).is_some() {
        return Err(ApiError::Invalid("a request has one Host header".to_owned()));
    }
    let line = uri.authority().map(Authority::as_str);
    let named = headers.get_all(HOST).into_iter().map(|host| host.to_str().unwrap_or_default());
    named.chain(line).try_for_each(|named| {
        let host = named.parse::<Authority>().map(|authority| authority.host().to_owned()).unwrap_or_default();
        if is_ours(&host, local, server) { Ok(()) } else { Err(ApiError::Misdirected(host)) }
    })
}

fn is_ours(host: &str, local: Option<SocketAddr>, server: &Server) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if is_loopback_host(host) || server.hosts.contains(&bare.to_ascii_lowercase()) {
        return true;
    }
    let address = bare.parse::<IpAddr>().map(|ip| ip.to_canonical());
    match (address, local) {
        (Ok(address), Some(local)) => address == local.ip().to_canonical() || local.ip().is_unspecified(),
        (Ok(_) | Err(_), _) => false,
    }
}

/// Refuses what a web page of another origin sends.
///
/// # Errors
/// When a browser says so, by its own header or by an origin that is not the host asked.
pub fn check_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
        Some(b"same-origin" | b"none") => return Ok(()),
        Some(_) => return Err(ApiError::CrossOrigin),
        None => {}
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let from = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    if from.is_some_and(|from| from.eq_ignore_ascii_case(host)) { Ok(()) } else { Err(ApiError::CrossOrigin) }
}
