//! What somebody offers as an account's credential, and whether it can be one at all: told by its first characters,
//! before anybody is asked about it.
//!
//! Never here: the network, files. No error shows any part of what was offered.

use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::Family;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::document::{Content, Document, Fresh, Origin, Proof, Seals};
use super::error::SourceError;
use super::identity::{IdentityFacts, UUID_LIKE, is_uuid};
use super::secret::{MalformedSecret, Secret, SecretShape};
use crate::config::settings::AuthMode;

/// A credential as it was handed over.
pub struct Offer {
    /// The token or key; for a login the whole text of a credentials file.
    pub text: Zeroizing<String>,
    /// What it is said to be.
    pub kind: Option<OfferedKind>,
    /// The provider's id of its account.
    pub uuid: Option<String>,
    /// The organisation's id.
    pub organization: Option<String>,
}

/// What a credential may be said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum OfferedKind {
    /// A login that can be renewed: the whole text of a credentials file.
    Oauth,
    /// A long-lived token, as `claude setup-token` makes one.
    SetupToken,
    /// A metered key.
    ApiKey,
}

/// Why what was offered cannot be this account's credential.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// It cannot be a secret.
    #[error("the secret {0}; nothing was saved")]
    Malformed(#[from] MalformedSecret),
    /// It lives for some hours only.
    #[error(
        "this is a short-lived access token (sk-ant-at01-…), which would end within hours; run `claude setup-token`, \
         which makes a long-lived one (sk-ant-oat01-…), and add that"
    )]
    ShortLived,
    /// It renews a login and is none itself.
    #[error("this is a refresh token (sk-ant-ort01-…) without its login; use `duduclaw login claude`")]
    RefreshToken,
    /// It is of another kind than was said, or than the provider takes.
    #[error("this is {found}, but {wanted} belongs here")]
    WrongKind {
        /// What it is.
        found: &'static str,
        /// What is wanted.
        wanted: &'static str,
    },
    /// A login's token without what renews it.
    #[error(
        "a login needs its refresh token too: hand over the whole credentials file, use `duduclaw login claude`, or say \
         that it is a setup_token"
    )]
    HalfLogin,
    /// Its first characters do not tell.
    #[error("its first characters do not tell what kind it is: say --kind setup_token or --kind api_key")]
    UnknownKind,
    /// The account's id looks like none.
    #[error("an account's uuid looks like {UUID_LIKE}, and this one does not; nothing was saved")]
    Uuid,
    /// A credentials file that makes no sense.
    #[error("the login cannot be read: {0}")]
    Login(SourceError),
    /// The provider takes no credentials of ours.
    #[error("provider {provider:?} has auth = {auth:?} and uses no account of the store; set auth = \"claude_oauth\"")]
    NoCredentials {
        /// The provider.
        provider: String,
        /// Whose credential it sends.
        auth: &'static str,
    },
}

const KEY: &str = "an API key";
const TOKEN: &str = "an OAuth token (sk-ant-oat01-…)";
const LOGIN: &str = "a login";

/// Who is to have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker<'a> {
    pub(crate) provider: &'a str,
    pub(crate) family: Family,
    pub(crate) auth: AuthMode,
}

/// What was offered, as it would be saved.
pub(crate) fn judge(offer: &Offer, taker: Taker<'_>) -> Result<Fresh, OfferError> {
    if matches!(taker.auth, AuthMode::Passthrough | AuthMode::None) {
        return Err(OfferError::NoCredentials { provider: taker.provider.to_owned(), auth: taker.auth.as_str() });
    }
    let uuid = offer.uuid.as_deref().map(str::trim).filter(|uuid| !uuid.is_empty());
    if taker.family == Family::Claude && uuid.is_some_and(|uuid| !is_uuid(uuid)) {
        return Err(OfferError::Uuid);
    }
    if offer.text.trim_start().starts_with('{') {
        return whole_login(offer, taker);
    }
    let secret = Secret::parse(&offer.text)?;
    let content = match (kind_of(secret.shape(), offer.kind, taker)?, taker.auth) {
        (OfferedKind::SetupToken, AuthMode::ApiKey) => return Err(wrong(TOKEN, KEY)),
        (OfferedKind::SetupToken, _) => Content::SetupToken { token: secret, expires_at: None },
        (OfferedKind::ApiKey, _) => Content::Key(secret),
        (OfferedKind::Oauth, _) => return Err(OfferError::HalfLogin),
    };
    Ok(fresh(content, offer, IdentityFacts::default()))
}

fn kind_of(shape: SecretShape, said: Option<OfferedKind>, taker: Taker<'_>) -> Result<OfferedKind, OfferError> {
    let wanted = match said {
        Some(OfferedKind::ApiKey) => KEY,
        Some(OfferedKind::SetupToken) => TOKEN,
        Some(OfferedKind::Oauth) => LOGIN,
        None if taker.auth == AuthMode::ApiKey => KEY,
        None => "",
    };
    match (shape, said) {
        (SecretShape::ClaudeShortLived, _) => Err(OfferError::ShortLived),
        (SecretShape::ClaudeRefresh, _) => Err(OfferError::RefreshToken),
        (SecretShape::ClaudeOauth, Some(OfferedKind::ApiKey)) => Err(wrong(TOKEN, wanted)),
        (SecretShape::ClaudeOauth, None) if wanted == KEY => Err(wrong(TOKEN, KEY)),
        (SecretShape::ClaudeOauth, Some(OfferedKind::Oauth)) => Err(OfferError::HalfLogin),
        (SecretShape::ClaudeOauth, _) => Ok(OfferedKind::SetupToken),
        (SecretShape::ClaudeApiKey, Some(OfferedKind::SetupToken | OfferedKind::Oauth)) => Err(wrong(KEY, wanted)),
        (SecretShape::ClaudeApiKey, _) => Ok(OfferedKind::ApiKey),
        (SecretShape::Unknown, Some(said)) => Ok(said),
        // Only Anthropic has two kinds that are pasted.
        (SecretShape::Unknown, None) if wanted == KEY || taker.family != Family::Claude => Ok(OfferedKind::ApiKey),
        (SecretShape::Unknown, None) => Err(OfferError::UnknownKind),
    }
}

fn wrong(found: &'static str, wanted: &'static str) -> OfferError {
    OfferError::WrongKind { found, wanted }
}

/// The text of a credentials file.
fn whole_login(offer: &Offer, taker: Taker<'_>) -> Result<Fresh, OfferError> {
    if offer.kind == Some(OfferedKind::ApiKey) || taker.auth == AuthMode::ApiKey {
        return Err(wrong(LOGIN, KEY));
    }
    let path = std::path::Path::new("what was handed over");
    let document = Document::parse(path, offer.text.as_bytes()).map_err(OfferError::Login)?;
    let login = document.login(path, &Seals::FOREIGN).map_err(OfferError::Login)?;
    let content = document.content(login.clone()).ok_or(OfferError::HalfLogin)?;
    match (&content, offer.kind) {
        (Content::SetupToken { .. }, Some(OfferedKind::Oauth)) => return Err(OfferError::HalfLogin),
        (Content::Login { .. } | Content::ChatGpt { .. }, Some(OfferedKind::SetupToken)) => {
            return Err(wrong(LOGIN, TOKEN));
        }
        (_, _) => {}
    }
    match content.secret().shape() {
        SecretShape::ClaudeShortLived => Err(OfferError::ShortLived),
        SecretShape::ClaudeRefresh => Err(OfferError::RefreshToken),
        SecretShape::ClaudeOauth | SecretShape::ClaudeApiKey | SecretShape::Unknown => {
            Ok(fresh(content, offer, login.facts))
        }
    }
}

fn fresh(content: Content, offer: &Offer, facts: IdentityFacts) -> Fresh {
    let given = |text: &Option<String>| text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned);
    let facts = IdentityFacts {
        uuid: given(&offer.uuid).or(facts.uuid),
        organization: given(&offer.organization).or(facts.organization),
        plan: facts.plan,
    };
    Fresh { content, facts, proof: Proof::Found, origin: Origin::Own }
}

/// Whether a token that ends then has ended.
pub(crate) fn has_ended(expires_at: Option<Wall>, now: Wall) -> bool {
    expires_at.is_some_and(|end| end <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str, kind: Option<OfferedKind>, auth: AuthMode) -> Result<Content, String> {
        let offer = Offer { text: Zeroizing::new(text.to_owned()), kind, uuid: None, organization: None };
        let taker = Taker { provider: "anthropic", family: Family::Claude, auth };
        judge(&offer, taker).map(|fresh| fresh.content).map_err(|error| format!("{error} {error:?}"))
    }

    #[test]
    fn the_first_characters_tell_the_kind() {
        let content = judged(" sk-ant-oat01-x\n", None, AuthMode::ClaudeOauth).unwrap();
        assert!(matches!(content, Content::SetupToken { token, .. } if token.expose() == "sk-ant-oat01-x"));
        let content = judged("sk-ant-api03-x", None, AuthMode::ClaudeOauth).unwrap();
        assert!(matches!(content, Content::Key(_)));
        let content = judged("else", Some(OfferedKind::ApiKey), AuthMode::ClaudeOauth).unwrap();
        assert!(matches!(content, Content::Key(_)));
        let error = judged("else-CANARY", None, AuthMode::ClaudeOauth).unwrap_err();
        assert!(error.contains("--kind") && !error.contains("CANARY"), "{error}");
        assert!(matches!(judged("else", None, AuthMode::ApiKey), Ok(Content::Key(_))));
    }

    #[test]
    fn an_id_of_an_account_must_look_like_one() {
        let judged = |uuid: &str, family| {
            let (text, uuid) = (Zeroizing::new("sk-ant-oat01-x".to_owned()), Some(uuid.to_owned()));
            let offer = Offer { text, kind: None, uuid, organization: None };
            judge(&offer, Taker { provider: "p", family, auth: AuthMode::ClaudeOauth }).map(|fresh| fresh.facts.uuid)
        };
        let good = "5F0c1d6e-1111-4a2b-8c3d-000000000001";
        assert_eq!(judged(&format!(" {good}\n"), Family::Claude).unwrap().as_deref(), Some(good));
        assert_eq!(judged(" ", Family::Claude).unwrap(), None);
        for odd in [
            "me",
            "5f0c1d6e11114a2b8c3d000000000001",
            "5f0c1d6e-1111-4a2b-8c3d-00000000000g",
            "5f0c1d6e-1111-4a2b-8c3d-000000000001-",
            "00000000-0000-0000-0000-000000000000",
            "sk-ant-oat01-CANARY",
        ] {
            let error = judged(odd, Family::Claude).unwrap_err().to_string();
            assert!(error.contains("looks like 01234567-") && !error.contains("CANARY"), "{odd}: {error}");
        }
        assert!(judged("user-1", Family::Codex).is_ok(), "what other providers' ids look like is theirs");
    }

    /// C46: what can only be refused is refused without asking, and told without being shown.
    #[test]
    fn what_cannot_be_right_is_told_and_never_shown() {
        use OfferedKind::{ApiKey, Oauth, SetupToken};
        let cases = [
            ("sk-ant-at01-CANARY", None, "claude setup-token"),
            ("sk-ant-at01-CANARY", Some(ApiKey), "claude setup-token"),
            ("sk-ant-ort01-CANARY", None, "refresh token"),
            ("sk-ant-oat01-CANARY", Some(ApiKey), "OAuth token"),
            ("sk-ant-api03-CANARY", Some(SetupToken), "this is an API key"),
            ("sk-ant-api03-CANARY", Some(Oauth), "this is an API key"),
            ("sk-ant-oat01-CANARY", Some(Oauth), "refresh token too"),
            ("CANARY and CANARY", None, "white space"),
            ("CANARY\nCANARY", Some(ApiKey), "white space"),
            (" \n ", None, "is empty"),
            (r#"{"claudeAiOauth":{"accessToken":"sk-ant-at01-CANARY","refreshToken":"r"}}"#, None, "setup-token"),
            (r#"{"claudeAiOauth":{"accessToken":"CANARY CANARY"}}"#, None, "white space"),
            (r#"{"claudeAiOauth":{"accessToken":"CANARY"}}"#, Some(Oauth), "refresh token too"),
            (r#"{"claudeAiOauth":{"accessToken":"a","refreshToken":"CANARY"}}"#, Some(SetupToken), "this is a login"),
            (r#"{"CANARY"#, None, "not valid JSON"),
            (r#"{"claudeAiOauth":{"accessToken":"CANARY"}}"#, Some(ApiKey), "this is a login"),
        ];
        for (text, kind, expected) in cases {
            let error = judged(text, kind, AuthMode::ClaudeOauth).unwrap_err();
            assert!(error.contains(expected) && !error.contains("CANARY"), "{text}: {error}");
        }
        for text in ["sk-ant-oat01-CANARY", r#"{"claudeAiOauth":{"accessToken":"a","refreshToken":"r"}}"#] {
            let error = judged(text, None, AuthMode::ApiKey).unwrap_err();
            assert!(error.contains("an API key belongs here"), "{error}");
        }
    }
}
