//! Messages as signed HTTP requests: a JSON body, its id, and an HMAC-SHA256 over its very bytes.

use std::time::Duration;

use duduclaw_actors::postman::Parcel;
use hmac::{Hmac, Mac};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::config::settings::Webhook;
use crate::credentials::{Environment, OWN_USER_AGENT};
use crate::upstream::client::Client;
use crate::upstream::question::{AskError, ask};

/// How long a receiver may take.
const WITHIN: Duration = Duration::from_secs(10);
/// The message's id: a receiver that has seen it drops the double.
const ID: HeaderName = HeaderName::from_static("x-duduclaw-id");
/// `sha256=` and the HMAC over the body in hexadecimal digits.
const SIGNATURE: HeaderName = HeaderName::from_static("x-duduclaw-signature");

/// Why a message did not get through. An address may hold a secret, and is never named.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("the variable {0} is not set")]
    Unset(String),
    #[error("the variable {0} holds no http or https address")]
    Address(String),
    #[error("the message cannot be written: {0}")]
    Message(String),
    #[error("the receiver cannot be reached: {0}")]
    Unreachable(#[from] AskError),
    #[error("the receiver answered {0}")]
    Refused(u16),
}

/// Sends one message; any 2xx means that it was taken.
pub(super) async fn send(
    client: &Client,
    webhook: &Webhook,
    environment: &Environment,
    parcel: &Parcel,
) -> Result<(), SendError> {
    let request = request(webhook, environment, parcel)?;
    let reply = ask(client, request, WITHIN).await?;
    if reply.status.is_success() { Ok(()) } else { Err(SendError::Refused(reply.status.as_u16())) }
}

fn request(webhook: &Webhook, environment: &Environment, parcel: &Parcel) -> Result<reqwest::Request, SendError> {
    let unreadable = |error: &dyn std::fmt::Display| SendError::Message(error.to_string());
    let body = serde_json::to_vec(&parcel.body).map_err(|error| unreadable(&error))?;
    let address = value(environment, &webhook.url_env)?;
    let url = reqwest::Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or_else(|| SendError::Address(webhook.url_env.clone()))?;
    let mut request = reqwest::Request::new(http::Method::POST, url);
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(OWN_USER_AGENT));
    headers.insert(ID, HeaderValue::from_str(&parcel.id).map_err(|error| unreadable(&error))?);
    if let Some(name) = &webhook.secret_env {
        let signature = signature(value(environment, name)?.as_bytes(), &body);
        headers.insert(SIGNATURE, HeaderValue::from_str(&signature).map_err(|error| unreadable(&error))?);
    }
    *request.body_mut() = Some(body.into());
    Ok(request)
}

fn value(environment: &Environment, name: &str) -> Result<Zeroizing<String>, SendError> {
    let value = environment(name).and_then(|value| value.into_string().ok());
    let value = value.map(|value| Zeroizing::new(value.trim().to_owned())).filter(|value| !value.is_empty());
    value.ok_or_else(|| SendError::Unset(name.to_owned()))
}

fn signature(secret: &[u8], body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length is taken");
    mac.update(body);
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn a_signature_is_the_hmac_of_the_bodys_bytes() {
        assert_eq!(
            signature(b"Jefe", b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
