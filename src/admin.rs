//! The control API: what an operator may see of the fleet, for whoever shows the key.
//!
//! Never here: inference. The key opens nothing there, and client tokens open nothing here.

mod counts;
mod pool;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::gateway::error::ApiError;
use crate::gateway::headers::token;
use crate::gateway::service::{Answer, AnswerBody, Gateway, Live};

pub use counts::Counts;
pub use pool::{PoolAccount, PoolProvider, PoolView, SpendView, WindowView};

/// A slot for the key beside `Authorization`.
const ADMIN_TOKEN: &str = "x-duduclaw-admin-token";

/// The control API.
#[derive(Debug)]
pub struct Admin {
    key: SecretString,
    counts: Counts,
}

impl Admin {
    /// The API that this key opens.
    #[must_use]
    pub fn new(key: SecretString, counts: Counts) -> Self {
        Self { key, counts }
    }

    /// Answers a request for the API.
    ///
    /// # Errors
    /// When the key is not shown, or nothing stands at the path.
    pub async fn answer(
        &self,
        gateway: &Arc<Gateway>,
        live: &Arc<Live>,
        request: Request<Incoming>,
        local: Option<SocketAddr>,
    ) -> Result<Answer, ApiError> {
        if live.settings.server.admin.is_none() && !local.is_none_or(|local| local.ip().to_canonical().is_loopback()) {
            return Err(ApiError::NotFound("nothing is served at this path".to_owned()));
        }
        self.authenticate(request.headers())?;
        match (request.uri().path(), request.method()) {
            ("/admin/api/pool", &Method::GET) => Ok(json(&pool::view(gateway, live, &self.counts).await)),
            ("/admin/api/pool", _) => Err(ApiError::Method("GET")),
            _ => Err(ApiError::NotFound("the control API has nothing at this path".to_owned())),
        }
    }

    /// Whether this token is the key. Compared by hash, in constant time.
    #[must_use]
    pub fn is_key(&self, token: &[u8]) -> bool {
        let key = Sha256::digest(self.key.expose_secret().as_bytes());
        Sha256::digest(token).ct_eq(&key).into()
    }

    fn authenticate(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let mut shown = headers.get_all(AUTHORIZATION).iter().chain(headers.get_all(ADMIN_TOKEN));
        if shown.any(|value| self.is_key(token(value.as_bytes()))) {
            return Ok(());
        }
        Err(ApiError::Unauthenticated(
            "the control API asks for the key in <home>/admin-token, as `Authorization: Bearer`".to_owned(),
        ))
    }
}

fn json(value: &impl serde::Serialize) -> Answer {
    let body = serde_json::to_vec(value).unwrap_or_default();
    let mut answer = Response::new(AnswerBody::new(Full::new(Bytes::from(body)).map_err(|never| match never {})));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
