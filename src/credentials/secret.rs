//! One secret in memory: wiped when dropped, and unable to show itself.
//!
//! Never here: where a secret comes from, or whether it still works.

use std::fmt;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// A token or key. `Debug` and `Display` tell its kind and four digits of its hash, never a character of it.
#[derive(Clone)]
pub struct Secret {
    value: SecretString,
    fingerprint: Fingerprint,
}

/// What a secret is told apart by without being known: its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint([u8; 32]);

/// What a secret's first characters say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretShape {
    /// `sk-ant-oat01-`: an OAuth access token, from a login or from `claude setup-token`.
    ClaudeOauth,
    /// `sk-ant-at01-`: a short-lived access token.
    ClaudeShortLived,
    /// `sk-ant-ort01-`: a refresh token.
    ClaudeRefresh,
    /// `sk-ant-api`: a metered key.
    ClaudeApiKey,
    /// Nothing that we know.
    Unknown,
}

/// Why a text cannot be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedSecret {
    /// Nothing but white space, or not even that.
    #[error("is empty")]
    Empty,
    /// White space between its ends: two values, or a line break from copying.
    #[error("has white space inside")]
    Whitespace,
    /// A character that no header can carry.
    #[error("has a character that no token has")]
    Character,
}

impl Secret {
    /// Takes a text as a secret, without the white space around it.
    ///
    /// # Errors
    /// When nothing is left, or what is left cannot be one secret.
    pub fn parse(text: &str) -> Result<Self, MalformedSecret> {
        let text = text.trim();
        if text.is_empty() {
            return Err(MalformedSecret::Empty);
        }
        if text.contains(char::is_whitespace) {
            return Err(MalformedSecret::Whitespace);
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(MalformedSecret::Character);
        }
        Ok(Self { fingerprint: Fingerprint::of(text), value: SecretString::from(text) })
    }

    /// What tells this secret from others.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What its first characters say it is.
    #[must_use]
    pub fn shape(&self) -> SecretShape {
        SecretShape::of(self.value.expose_secret())
    }

    /// The value of an `Authorization` header, marked as sensitive.
    #[must_use]
    pub fn bearer(&self) -> HeaderValue {
        sensitive(&Zeroizing::new(format!("Bearer {}", self.value.expose_secret())))
    }

    /// The value of a header that carries the bare secret, such as `x-api-key`, marked as sensitive.
    #[must_use]
    pub fn plain_header(&self) -> HeaderValue {
        sensitive(self.value.expose_secret())
    }

    /// The secret itself, for the one place that sends or keeps it.
    pub(crate) fn expose(&self) -> &str {
        self.value.expose_secret()
    }
}

fn sensitive(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).expect("a secret is made of visible ASCII only");
    value.set_sensitive(true);
    value
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…#{}", self.shape().prefix(), self.fingerprint)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

impl Fingerprint {
    pub(crate) fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, ..] = self.0;
        write!(f, "{first:02x}{second:02x}")
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl SecretShape {
    /// What the first characters of `text` say it is.
    #[must_use]
    pub fn of(text: &str) -> Self {
        const KNOWN: [SecretShape; 4] = [
            SecretShape::ClaudeOauth,
            SecretShape::ClaudeShortLived,
            SecretShape::ClaudeRefresh,
            SecretShape::ClaudeApiKey,
        ];
        KNOWN.into_iter().find(|shape| text.starts_with(shape.prefix())).unwrap_or(Self::Unknown)
    }

    /// The characters that every secret of this shape begins with.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::ClaudeOauth => "sk-ant-oat01-",
            Self::ClaudeShortLived => "sk-ant-at01-",
            Self::ClaudeRefresh => "sk-ant-ort01-",
            Self::ClaudeApiKey => "sk-ant-api",
            Self::Unknown => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_trimmed_and_refuses_to_be_empty_or_two() {
        assert_eq!(Secret::parse(" tok\r\n").expect("one token").expose(), "tok");
        assert_eq!(Secret::parse(" \n").expect_err("nothing"), MalformedSecret::Empty);
        assert_eq!(Secret::parse("a b").expect_err("two"), MalformedSecret::Whitespace);
        assert_eq!(Secret::parse("a\nb").expect_err("two lines"), MalformedSecret::Whitespace);
        assert_eq!(Secret::parse("tök").expect_err("no header carries it"), MalformedSecret::Character);
    }

    #[test]
    fn a_secret_shows_its_kind_and_nothing_of_itself() {
        let secret = Secret::parse("sk-ant-oat01-CANARYcanary").expect("a token");
        let shown = format!("{secret} {secret:?} {:?} {:?}", secret.bearer(), secret.fingerprint());
        assert!(shown.contains("sk-ant-oat01-…#"), "{shown}");
        assert!(!shown.to_lowercase().contains("canary"), "{shown}");
    }

    #[test]
    fn headers_are_sensitive_and_carry_the_secret() {
        let secret = Secret::parse("sk-ant-api03-k").expect("a key");
        assert!(secret.plain_header().is_sensitive() && secret.bearer().is_sensitive());
        assert_eq!(secret.plain_header(), "sk-ant-api03-k");
        assert_eq!(secret.bearer(), "Bearer sk-ant-api03-k");
    }

    #[test]
    fn equal_secrets_have_equal_fingerprints_and_others_do_not() {
        let [a, b, c] = ["x", " x ", "y"].map(|t| Secret::parse(t).expect("a token").fingerprint());
        assert_eq!(a, b);
        assert_ne!(a, c);
    }
}
