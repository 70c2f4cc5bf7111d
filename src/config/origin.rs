//! Where credentials may go: base URLs, parsed once, and which host each kind of credential is for.

use std::net::IpAddr;

use reqwest::Url;

use crate::config::settings::{AuthMode, Protocol};

/// An upstream's base URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
    /// Scheme, host, port and path, without a slash at the end.
    text: String,
}

/// Why a credential must not be sent to a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misdirected {
    /// The endpoint speaks another protocol than the credential is for.
    #[error("auth = {auth:?} needs kind = {wanted:?}")]
    Protocol {
        /// The credential's mode.
        auth: &'static str,
        /// The kind it is for.
        wanted: &'static str,
    },
    /// The host is not the provider's.
    #[error("auth = {auth:?} sends its tokens only to {wanted} and hosts below it (loopback is exempt), not to {host}")]
    Host {
        /// The credential's mode.
        auth: &'static str,
        /// The hosts it is for.
        wanted: String,
        /// The host that was named.
        host: String,
    },
    /// The connection would not be encrypted.
    #[error("auth = {auth:?} needs https (loopback is exempt)")]
    Plain {
        /// The credential's mode.
        auth: &'static str,
    },
}

impl BaseUrl {
    /// Reads a base URL.
    ///
    /// # Errors
    /// When it is no http or https URL with a host, or has parts that a base URL cannot have.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim()).map_err(|error| format!("is no URL ({error}); write https://host/path"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("must begin with https:// or http:// and name a host".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not hold a user name or password; name the credential under auth".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must end with the path; no ? or #".to_owned());
        }
        let text = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { url, text })
    }

    /// The URL itself.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The base URL as text, without a slash at the end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The full URL of a path (with its query) that begins with a slash.
    #[must_use]
    pub fn join(&self, path_and_query: &str) -> String {
        [self.text.as_str(), path_and_query].concat()
    }

    /// Whether it stays on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }
}

/// Whether a URL stays on this machine, by its parsed host.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Whether a login's tokens may be sent to this URL; asked at start, at reload and for every request.
///
/// # Errors
/// When they may not.
pub fn may_carry(auth: AuthMode, url: &Url) -> Result<(), Misdirected> {
    let wanted: &[&str] = match auth {
        AuthMode::ClaudeOauth => &["anthropic.com"],
        AuthMode::ChatgptOauth => &["chatgpt.com", "openai.com"],
        AuthMode::KimiOauth => &["kimi.com"],
        AuthMode::Passthrough | AuthMode::ApiKey | AuthMode::None => return Ok(()),
    };
    if is_loopback(url) {
        return Ok(());
    }
    let host = url.host_str().unwrap_or_default();
    if !wanted.iter().any(|domain| is_within(host, domain)) {
        let wanted = wanted.join(", ");
        return Err(Misdirected::Host { auth: auth.as_str(), wanted, host: host.to_owned() });
    }
    if url.scheme() == "https" { Ok(()) } else { Err(Misdirected::Plain { auth: auth.as_str() }) }
}

/// Whether an endpoint that speaks this protocol takes this kind of credential.
///
/// # Errors
/// When it does not.
pub fn speaks(auth: AuthMode, protocol: Protocol) -> Result<(), Misdirected> {
    let wanted = match auth {
        AuthMode::ClaudeOauth | AuthMode::KimiOauth => Protocol::Anthropic,
        AuthMode::ChatgptOauth => Protocol::Responses,
        AuthMode::Passthrough | AuthMode::ApiKey | AuthMode::None => return Ok(()),
    };
    if wanted == protocol {
        return Ok(());
    }
    Err(Misdirected::Protocol { auth: auth.as_str(), wanted: wanted.as_str() })
}

fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carry(auth: AuthMode, url: &str) -> Result<(), Misdirected> {
        may_carry(auth, &Url::parse(url).expect(url))
    }

    #[test]
    fn a_login_goes_to_its_own_provider_and_to_loopback_alone() {
        for url in [
            "https://anthropic.com",
            "https://api.anthropic.com/x",
            "https://API.Anthropic.COM",
            "http://127.0.0.1:9",
            "http://127.1:9",
            "http://[::1]:9",
            "http://localhost:9",
            "http://LOCALHOST",
        ] {
            assert_eq!(carry(AuthMode::ClaudeOauth, url), Ok(()), "{url}");
        }
        for url in [
            "https://evilanthropic.com",
            "https://anthropic.com.evil.example",
            "https://api.anthropic.com@evil.example",
            "https://anthropic.com.",
            "https://anthropic.co",
            "https://xn--nthropic-3ya.com",
            "https://anthropic.com-evil.example",
            "https://localhost.evil.example",
            "https://10.0.0.1",
            "http://api.anthropic.com",
            "https://chatgpt.com",
        ] {
            assert!(carry(AuthMode::ClaudeOauth, url).is_err(), "{url}");
        }
        assert_eq!(carry(AuthMode::ChatgptOauth, "https://chatgpt.com/backend-api/codex"), Ok(()));
        assert_eq!(carry(AuthMode::ChatgptOauth, "https://api.openai.com/v1"), Ok(()));
        assert!(carry(AuthMode::ChatgptOauth, "https://notopenai.com").is_err());
        assert_eq!(carry(AuthMode::ApiKey, "https://proxy.example"), Ok(()));
    }

    #[test]
    fn a_base_url_joins_paths_and_takes_no_credentials() {
        let base = BaseUrl::parse("https://api.anthropic.com/").expect("base");
        assert_eq!(base.join("/v1/messages?beta=true"), "https://api.anthropic.com/v1/messages?beta=true");
        let deep = BaseUrl::parse("http://127.0.0.1:1/a/b/").expect("base");
        assert_eq!(deep.join("/v1"), "http://127.0.0.1:1/a/b/v1");
        for text in
            ["api.anthropic.com", "ftp://x", "https://", "https://u:canary@h", "https://h/?q", "https://h/#f", ""]
        {
            let why = BaseUrl::parse(text).expect_err(text);
            assert!(!why.contains("canary"));
        }
    }
}
