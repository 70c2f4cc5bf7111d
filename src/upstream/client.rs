//! The HTTP client of the data plane: one connection pool, HTTP/1.1, and nothing clever. No redirect is followed, no
//! answer is decoded, nothing is sent twice by it.
//!
//! Proxies of the environment apply to remote hosts only: what runs on this machine is reached directly.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::redirect;

/// How long an idle connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);

/// The clients for this machine and for the world.
#[derive(Clone, Debug)]
pub struct Client {
    near: reqwest::Client,
    far: reqwest::Client,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// DNS, connect or TLS: nothing was sent.
    #[error("no connection")]
    Connect,
    /// The connection stood and broke before a head came.
    #[error("the connection was reset before an answer")]
    Reset,
}

impl Client {
    /// Builds both clients.
    ///
    /// # Errors
    /// When the TLS roots of the platform cannot be loaded.
    pub fn new(connect_within: Duration) -> reqwest::Result<Self> {
        // A provider that `main` has installed already stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let near = plain(connect_within).no_proxy().build()?;
        let far = plain(connect_within).build()?;
        Ok(Self { near, far })
    }

    /// Sends one request and waits for the head.
    ///
    /// # Errors
    /// When no head came; see [`SendError`].
    pub async fn send(&self, request: reqwest::Request) -> Result<http::Response<reqwest::Body>, SendError> {
        let client = if is_near(request.url()) { &self.near } else { &self.far };
        match client.execute(request).await {
            Ok(response) => Ok(response.into()),
            Err(error) => {
                let kind = if error.is_connect() { SendError::Connect } else { SendError::Reset };
                tracing::debug!(error = %chain(&error.without_url()), "an upstream did not answer");
                Err(kind)
            }
        }
    }
}

fn plain(connect_within: Duration) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(connect_within)
        .http1_only()
        .tcp_nodelay(true)
        .no_gzip()
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .pool_idle_timeout(POOL_IDLE)
}

/// Whether a URL's host is this machine.
#[must_use]
pub fn is_near(url: &reqwest::Url) -> bool {
    url.host_str().is_some_and(is_loopback_host)
}

/// Whether a host, as it stands in a URL, is this machine.
#[must_use]
pub fn is_loopback_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().map(|ip| ip.to_canonical().is_loopback());
    address.unwrap_or_else(|_| bare.eq_ignore_ascii_case("localhost"))
}

fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C109: what runs on this machine never goes through a proxy.
    #[test]
    fn loopback_hosts_are_near_and_nothing_else_is() {
        for host in ["127.0.0.1", "127.9.9.9", "[::1]", "localhost", "LOCALHOST", "[::ffff:127.0.0.1]"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["api.anthropic.com", "localhost.evil.example", "10.0.0.1", "[::2]", "127.0.0.1.example"] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
