//! Who may use the gateway: named clients, each known by the hash of its token.
//!
//! Tokens themselves are never kept. A token is compared with all clients in constant time.

use std::fmt;

use duduclaw_actors::roster::Cap;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use wildmatch::WildMatch;

/// One client.
#[derive(Clone)]
pub struct Client {
    /// Its name, unique.
    pub name: std::sync::Arc<str>,
    /// The SHA-256 hash of its token.
    pub token: TokenHash,
    /// The models it may use, as patterns; `None` = all.
    pub models: Option<Vec<WildMatch>>,
    /// The providers it may use; `None` = all.
    pub providers: Option<Vec<String>>,
    /// Most requests at once; `None` = no bound of its own.
    pub max_concurrent: Option<u32>,
    /// Whether it may use paths other than inference.
    pub passthrough: Passthrough,
    /// What it may spend and ask for in a month.
    pub cap: Cap,
}

/// The SHA-256 hash of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

/// Whether paths other than inference are open to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passthrough {
    /// They are.
    Open,
    /// They are not.
    Closed,
}

/// All clients.
#[derive(Clone, Debug, Default)]
pub struct Clients(Vec<Client>);

impl TokenHash {
    /// The hash of this token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self::of_bytes(token.as_bytes())
    }

    /// The hash of these bytes.
    #[must_use]
    pub fn of_bytes(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let digits = text.trim().as_bytes();
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = u8::try_from(high * 16 + low).ok()?;
        }
        Some(Self(bytes))
    }
}

impl Client {
    /// Whether it may use this model.
    #[must_use]
    pub fn may_use_model(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(model)))
    }

    /// Whether it may use this element: its own name or its provider's is allowed.
    #[must_use]
    pub fn may_use_element(&self, element: &str, provider: &str) -> bool {
        self.providers.as_ref().is_none_or(|names| names.iter().any(|name| name == element || name == provider))
    }

    /// Whether models, providers or what it spends is limited: then a request that cannot be read is refused.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.models.is_some() || self.providers.is_some() || self.cap.binds()
    }
}

impl Clients {
    /// These clients.
    #[must_use]
    pub fn new(clients: Vec<Client>) -> Self {
        Self(clients)
    }

    /// The client that this token belongs to. Every client is looked at, whether or not an earlier one fits.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<&Client> {
        let offered = TokenHash::of(token);
        let mut found = u32::MAX;
        for (index, client) in (0u32..).zip(&self.0) {
            let same = offered.ct_eq(&client.token);
            found.conditional_assign(&index, same);
        }
        self.0.get(found as usize)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.0.iter()
    }

    /// Whether there is none: then nobody is let in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ConstantTimeEq for TokenHash {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, token: &str) -> Client {
        Client {
            name: name.into(),
            token: TokenHash::of(token),
            models: Some(vec![WildMatch::new("claude-*")]),
            providers: None,
            max_concurrent: None,
            passthrough: Passthrough::Closed,
            cap: Cap::default(),
        }
    }

    #[test]
    fn a_token_finds_its_client_and_nothing_else_does() {
        let clients = Clients::new(vec![client("a", "one"), client("b", "two:with:colons")]);
        let found = |token: &str| clients.authenticate(token).map(|c| c.name.to_string());
        assert_eq!(found("one").as_deref(), Some("a"));
        assert_eq!(found("two:with:colons").as_deref(), Some("b"));
        for token in ["", "One", "one ", "two", "a"] {
            assert_eq!(found(token), None, "{token:?}");
        }
        assert!(Clients::default().authenticate("one").is_none());
    }

    #[test]
    fn a_hash_is_64_hexadecimal_digits() {
        let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert!(TokenHash::from_hex(hex) == Some(TokenHash::of("test")));
        assert!(TokenHash::from_hex(&hex.to_uppercase()) == Some(TokenHash::of("test")));
        for bad in ["", "9f86", &hex[1..], &hex.replace('9', "g"), &format!("{hex}0"), &"é".repeat(32)] {
            assert!(TokenHash::from_hex(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_pattern_limits_models_and_shows_no_hash() {
        let client = client("a", "one");
        assert!(client.may_use_model("claude-sonnet-5-5") && !client.may_use_model("gpt-5.5"));
        assert!(client.may_use_element("pinned", "anthropic") && client.is_limited());
        assert_eq!(format!("{client:?}"), "Client { name: \"a\", .. }");
    }
}
