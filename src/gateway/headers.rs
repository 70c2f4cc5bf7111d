//! The headers of an attempt, made from those the client sent, and the headers of its answer, made from the provider's.
//!
//! Each attempt starts from the client's own headers, so that nothing of one account's attempt reaches another.
//! Everything that is not named here passes with its values in their order. What never enters: bodies, and a decision
//! which account to use.

mod betas;
pub mod response;
#[cfg(test)]
mod tests;

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use super::fields::{LongContext, Streaming};

/// The slot of Anthropic's keys.
pub const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The slot of Google's keys.
pub const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
/// What our own headers begin with.
const OURS: &str = "x-duduclaw-";
/// Headers of a connection, beside those that `connection` names.
const HOP_BY_HOP: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
/// Older headers of a connection, without a constant.
const HOP_BY_HOP_OLD: [&str; 2] = ["keep-alive", "proxy-connection"];

/// What an attempt shows to the provider.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    /// A Claude login's access token, or its setup token: as bearer, with the beta that such logins need.
    ClaudeOauth(&'a str),
    /// A key or token that goes as bearer.
    Bearer(&'a str),
    /// A key that goes as `x-api-key`.
    ApiKey(&'a str),
    /// A key that goes as `x-goog-api-key`.
    GoogleKey(&'a str),
    /// None: a server that asks for none.
    None,
    /// The client's own; only what is ours is taken out.
    Passthrough(&'a dyn Fn(&[u8]) -> bool),
}

/// What makes the difference between the client's headers and an attempt's.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The credential.
    pub credential: Credential<'a>,
    /// The configured header in which clients may show their token.
    pub auth_header: &'a HeaderName,
    /// Whether a stream was asked for.
    pub streaming: Streaming,
    /// Whether the client asked for the long context by the model's name.
    pub long_context: LongContext,
}

/// A secret that cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the account's secret has characters that a header cannot carry; log in again or set the key anew")]
pub struct SecretUnsendable;

/// The headers of an attempt.
///
/// # Errors
/// If the secret cannot stand in a header.
pub fn request(client: &HeaderMap, attempt: &Attempt<'_>) -> Result<HeaderMap, SecretUnsendable> {
    let mut headers = HeaderMap::with_capacity(client.len() + 4);
    let dropped = Dropped::new(client);
    for (name, value) in client {
        if !dropped.covers(name) && !is_clients_alone(name) && !is_credential(name, value, attempt) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers.insert(ACCEPT_ENCODING, accepted(attempt.streaming));
    betas::merge(&mut headers, &attempt.credential, attempt.long_context);
    inject(&mut headers, &attempt.credential)?;
    Ok(headers)
}

/// The token in a slot's value: behind `Bearer`, or the whole value.
#[must_use]
pub fn token(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token.trim_ascii(),
        Some(_) | None => value,
    }
}

/// What goes in neither direction.
struct Dropped<'a> {
    named: Vec<&'a [u8]>,
}

impl<'a> Dropped<'a> {
    fn new(headers: &'a HeaderMap) -> Self {
        let values = headers.get_all(CONNECTION).into_iter();
        let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        Self { named: names.map(<[u8]>::trim_ascii).collect() }
    }

    fn covers(&self, name: &HeaderName) -> bool {
        HOP_BY_HOP.contains(name)
            || HOP_BY_HOP_OLD.contains(&name.as_str())
            || name.as_str().starts_with(OURS)
            || self.named.iter().any(|named| named.eq_ignore_ascii_case(name.as_str().as_bytes()))
    }
}

/// Headers that concern only the client's leg.
fn is_clients_alone(name: &HeaderName) -> bool {
    [HOST, CONTENT_LENGTH, COOKIE, ACCEPT_ENCODING].contains(name)
}

/// Whether it is, or may be, a credential for us.
fn is_credential(name: &HeaderName, value: &HeaderValue, attempt: &Attempt<'_>) -> bool {
    if name == attempt.auth_header {
        return true;
    }
    let slot = [AUTHORIZATION, X_API_KEY, X_GOOG_API_KEY].contains(name);
    match attempt.credential {
        Credential::Passthrough(is_ours) => slot && is_ours(token(value.as_bytes())),
        Credential::ClaudeOauth(_)
        | Credential::Bearer(_)
        | Credential::ApiKey(_)
        | Credential::GoogleKey(_)
        | Credential::None => slot,
    }
}

fn accepted(streaming: Streaming) -> HeaderValue {
    HeaderValue::from_static(match streaming {
        Streaming::Yes => "identity",
        Streaming::No => "gzip, identity",
    })
}

fn inject(headers: &mut HeaderMap, credential: &Credential<'_>) -> Result<(), SecretUnsendable> {
    let (name, value) = match credential {
        Credential::ClaudeOauth(secret) | Credential::Bearer(secret) => {
            (AUTHORIZATION, Zeroizing::new(format!("Bearer {secret}")))
        }
        Credential::ApiKey(key) => (X_API_KEY, Zeroizing::new((*key).to_owned())),
        Credential::GoogleKey(key) => (X_GOOG_API_KEY, Zeroizing::new((*key).to_owned())),
        Credential::None | Credential::Passthrough(_) => return Ok(()),
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| SecretUnsendable)?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}
