//! The control API: what an operator may see of the fleet, for whoever shows the key.
//!
//! Never here: inference. The key opens nothing there, and client tokens open nothing here.

mod counts;
mod pool;

use std::net::SocketAddr;
use std::sync::Arc;

use duduclaw_actors::clock::SharedClock;
use duduclaw_actors::root::Fleet;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::credentials::Vault;
use crate::gateway::answer::{Answer, json};
use crate::gateway::control::{Answering, Control};
use crate::gateway::error::ApiError;
use crate::gateway::headers::token;
use crate::gateway::live::Live;

pub use counts::Counts;
pub use pool::{PoolAccount, PoolProvider, PoolView, SpendView, WindowView};

/// A slot for the key beside `Authorization`.
const ADMIN_TOKEN: &str = "x-duduclaw-admin-token";

/// What the control API draws from.
pub struct Sources {
    /// The fleet.
    pub fleet: Fleet,
    /// What is known of its secrets.
    pub vault: Vault,
    /// What became of its attempts.
    pub counts: Counts,
    /// Tells the time.
    pub clock: SharedClock,
}

/// The control API.
pub struct Admin {
    key: SecretString,
    sources: Sources,
}

impl Control for Admin {
    /// Compared by hash, in constant time.
    fn is_key(&self, token: &[u8]) -> bool {
        let key = Sha256::digest(self.key.expose_secret().as_bytes());
        Sha256::digest(token).ct_eq(&key).into()
    }

    fn answer(&self, live: Arc<Live>, request: Request<Incoming>, local: Option<SocketAddr>) -> Answering<'_> {
        Box::pin(async move {
            self.check(&live, request.headers(), local)?;
            self.show(&live, &request).await
        })
    }
}

impl Admin {
    /// The API that this key opens.
    #[must_use]
    pub fn new(key: SecretString, sources: Sources) -> Self {
        Self { key, sources }
    }

    /// Whoever is not on this machine finds nothing unless the configuration opens it; the key is asked of everybody.
    fn check(&self, live: &Live, headers: &HeaderMap, local: Option<SocketAddr>) -> Result<(), ApiError> {
        if live.settings.server.admin.is_none() && !local.is_none_or(|local| local.ip().to_canonical().is_loopback()) {
            return Err(ApiError::NotFound("nothing is served at this path".to_owned()));
        }
        self.authenticate(headers)
    }

    async fn show(&self, live: &Live, request: &Request<Incoming>) -> Result<Answer, ApiError> {
        match (request.uri().path(), request.method()) {
            ("/admin/api/pool", &Method::GET) => Ok(json(&pool::view(&self.sources, live).await)),
            ("/admin/api/pool", _) => Err(ApiError::Method("GET")),
            _ => Err(ApiError::NotFound("the control API has nothing at this path".to_owned())),
        }
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
