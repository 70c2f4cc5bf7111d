//! Logging in at a provider: a page on which a person says yes, a code that comes back, and the tokens it is worth.
//!
//! The code is bound to us by PKCE (S256) and by a random state; both are made anew for every attempt and leave this
//! process only as what the protocol shows. `callback` waits for the browser; where it cannot come back, a person pastes
//! what the page shows. `device` is the way without a browser here. Never here: who is asked, and where tokens are kept.

mod callback;
mod code;
mod device;
mod pending;

use std::fmt;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duduclaw_actors::id::Family;
use reqwest::Url;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::exchange::{
    CLAUDE_CLIENT_ID, CLAUDE_SCOPES, CLAUDE_TOKEN_URL, CODEX_TOKEN_URL, Issuer, TokenUrl, UnsafeTokenUrl,
};
use super::registrar::Destination;
use super::seal;
use super::source::Environment;

pub(crate) use callback::{CallbackError, Listening};
pub(crate) use code::{LoginFailure, redeem};
pub(crate) use device::DeviceCode;
pub use pending::{PENDING_AT_ONCE, PENDING_FOR, Pendings, TooMany};

/// Claude's login page.
const CLAUDE_AUTHORIZE_URL: &str = "https://claude.com/cai/oauth/authorize";
/// Where Claude's login shows its code to be pasted.
const CLAUDE_PASTE_URL: &str = "https://platform.claude.com/oauth/code/callback";
/// What a setup token may do.
const SETUP_SCOPE: &str = "user:inference";
/// OpenAI's login page, token endpoint and client.
const CODEX_AUTHORIZE_URL: &str = "https://auth.openai.com/oauth/authorize";
pub(crate) const CODEX_CLIENT_ID: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
const CODEX_SCOPES: &str = "openid profile email offline_access";
/// The ports that OpenAI's login comes back to.
pub(crate) const CODEX_PORTS: [u16; 2] = [1455, 1457];

/// What a login is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginKind {
    /// A Claude login that can be renewed.
    Claude,
    /// A Claude token for a year, for inference alone.
    ClaudeSetupToken,
    /// A ChatGPT login.
    ChatGpt,
}

impl LoginKind {
    /// The family of its account.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Self::Claude | Self::ClaudeSetupToken => Family::Claude,
            Self::ChatGpt => Family::Codex,
        }
    }

    /// Who issues its tokens.
    pub(crate) fn issuer(self) -> Issuer {
        match self {
            Self::Claude | Self::ClaudeSetupToken => Issuer::Anthropic,
            Self::ChatGpt => Issuer::OpenAi,
        }
    }

    fn client(self) -> &'static str {
        match self {
            Self::Claude | Self::ClaudeSetupToken => CLAUDE_CLIENT_ID,
            Self::ChatGpt => CODEX_CLIENT_ID,
        }
    }

    fn scope(self) -> &'static str {
        match self {
            Self::Claude => CLAUDE_SCOPES,
            Self::ClaudeSetupToken => SETUP_SCOPE,
            Self::ChatGpt => CODEX_SCOPES,
        }
    }
}

/// Where a login is made.
#[derive(Clone, Debug)]
pub struct LoginSite {
    pub(crate) kind: LoginKind,
    authorize: TokenUrl,
    pub(crate) token: TokenUrl,
    pub(crate) user_agent: Option<String>,
}

/// Why it is not known where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} {problem}")]
pub struct NoSite {
    what: &'static str,
    problem: UnsafeTokenUrl,
}

impl LoginSite {
    /// The login of this kind at this provider: a variable's address, else the configured one, else the provider's own.
    ///
    /// # Errors
    /// When the one that counts may receive no codes.
    pub fn of(to: &Destination, kind: LoginKind, environment: &Environment) -> Result<Self, NoSite> {
        let family = kind.family().as_str().to_ascii_uppercase();
        let variable = |what: &str| {
            let value = environment(&format!("DUDUCLAW_{family}_{what}"))?.into_string().ok()?;
            (!value.trim().is_empty()).then_some(value)
        };
        let (own_page, own_tokens) = match kind {
            LoginKind::Claude | LoginKind::ClaudeSetupToken => (CLAUDE_AUTHORIZE_URL, CLAUDE_TOKEN_URL),
            LoginKind::ChatGpt => (CODEX_AUTHORIZE_URL, CODEX_TOKEN_URL),
        };
        let page = variable("AUTHORIZE_URL").or_else(|| to.authorize_url.as_ref().map(ToString::to_string));
        let tokens = variable("TOKEN_URL").or_else(|| to.token_url.as_ref().map(ToString::to_string));
        let safe = |what, text: Option<String>, own: &str| {
            TokenUrl::parse(text.as_deref().unwrap_or(own)).map_err(|problem| NoSite { what, problem })
        };
        Ok(Self {
            kind,
            authorize: safe("address of the login page (authorize_url)", page, own_page)?,
            token: safe("address of the token endpoint (token_url)", tokens, own_tokens)?,
            user_agent: to.user_agent.as_ref().and_then(|agent| agent.to_str().ok()).map(str::to_owned),
        })
    }
}

/// One try to log in.
pub struct LoginAttempt {
    pub(crate) site: LoginSite,
    verifier: Zeroizing<String>,
    state: Zeroizing<String>,
    redirect: String,
}

impl fmt::Debug for LoginAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginAttempt").field("kind", &self.site.kind).finish_non_exhaustive()
    }
}

/// A code that a login gave, with the state that came with it, which was ours.
pub struct LoginCode(pub(crate) Zeroizing<String>);

impl fmt::Debug for LoginCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginCode")
    }
}

/// Why what was pasted is not the code of this login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasteError {
    /// It is something else.
    #[error("that is not a code: paste all of <code>#<state> as the page shows it, or the whole address it led to")]
    Shape,
    /// It belongs to another attempt.
    #[error("that code belongs to another login (its state is not ours); use the page that was opened for this one")]
    State,
}

impl LoginAttempt {
    /// A new one, which comes back to this address.
    ///
    /// # Errors
    /// When the machine gives no random numbers.
    pub fn new(site: LoginSite, redirect: String) -> io::Result<Self> {
        Ok(Self { site, verifier: random()?, state: random()?, redirect })
    }

    /// A new one, whose code a person pastes.
    ///
    /// # Errors
    /// When the machine gives no random numbers.
    pub fn to_be_pasted(site: LoginSite) -> io::Result<Self> {
        let redirect = match site.kind {
            LoginKind::Claude | LoginKind::ClaudeSetupToken => CLAUDE_PASTE_URL.to_owned(),
            // Its page has no place to show a code: the browser ends at an address that leads nowhere, and has it there.
            LoginKind::ChatGpt => codex_redirect(CODEX_PORTS[0]),
        };
        Self::new(site, redirect)
    }

    /// The page to be opened.
    #[must_use]
    pub fn page(&self) -> Url {
        let kind = self.site.kind;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()));
        let mut page = self.site.authorize.url().clone();
        let mut query = page.query_pairs_mut();
        if kind.issuer() == Issuer::Anthropic {
            query.append_pair("code", "true");
        }
        query
            .append_pair("client_id", kind.client())
            .append_pair("response_type", "code")
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("scope", kind.scope())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", &self.state);
        if kind.issuer() == Issuer::OpenAi {
            query.append_pair("id_token_add_organizations", "true").append_pair("codex_cli_simplified_flow", "true");
        }
        drop(query);
        page
    }

    /// The code, if it came with our state.
    pub(crate) fn accept(&self, code: &str, state: &str) -> Option<LoginCode> {
        let is_ours = bool::from(self.state.as_bytes().ct_eq(state.as_bytes()));
        (is_ours && !code.is_empty()).then(|| LoginCode(Zeroizing::new(code.to_owned())))
    }

    /// The code in what a person pasted: `<code>#<state>`, or the whole address that the page led to.
    ///
    /// # Errors
    /// When there is none, or it belongs to another attempt.
    pub fn paste(&self, text: &str) -> Result<LoginCode, PasteError> {
        let text = text.trim();
        let (code, state) = if text.contains("://") {
            let url = Url::parse(text).map_err(|_| PasteError::Shape)?;
            let value =
                |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
            value("code").zip(value("state")).ok_or(PasteError::Shape)?
        } else {
            let (code, state) = text.split_once('#').ok_or(PasteError::Shape)?;
            (code.to_owned(), state.to_owned())
        };
        if code.is_empty() || state.is_empty() || code.contains(char::is_whitespace) {
            return Err(PasteError::Shape);
        }
        self.accept(&code, &state).ok_or(PasteError::State)
    }
}

/// Where OpenAI's login comes back to.
pub(crate) fn codex_redirect(port: u16) -> String {
    format!("http://localhost:{port}/auth/callback")
}

/// 32 random bytes as text.
pub(crate) fn random() -> io::Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    seal::fill_random(bytes.as_mut_slice())?;
    Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice())))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn attempt(kind: LoginKind) -> LoginAttempt {
        let url = |text| TokenUrl::parse(text).unwrap();
        let site = LoginSite {
            kind,
            authorize: url("https://page.test/a?x=1"),
            token: url("https://t.test/"),
            user_agent: None,
        };
        LoginAttempt::new(site, "http://127.0.0.1:1/callback".into()).unwrap()
    }

    fn value(page: &Url, name: &str) -> String {
        page.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    }

    #[test]
    fn the_page_shows_the_challenge_and_never_the_verifier() {
        let attempt = attempt(LoginKind::Claude);
        let page = attempt.page();
        assert!(!page.as_str().contains(attempt.verifier.as_str()));
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(attempt.verifier.as_bytes()));
        assert_eq!((value(&page, "code_challenge"), value(&page, "code_challenge_method")), (challenge, "S256".into()));
        assert_eq!((value(&page, "x"), value(&page, "code")), ("1".into(), "true".into()));
        assert_eq!(value(&page, "scope"), CLAUDE_SCOPES);
        assert_eq!(URL_SAFE_NO_PAD.decode(value(&page, "state")).unwrap().len(), 32);
        assert!(!format!("{attempt:?}").contains(attempt.state.as_str()));
    }

    #[test]
    fn no_two_attempts_are_alike() {
        let [a, b] = [attempt(LoginKind::Claude), attempt(LoginKind::Claude)];
        assert!(a.state != b.state && a.verifier != b.verifier && a.state != a.verifier);
    }

    #[test]
    fn a_setup_token_asks_for_inference_alone() {
        assert_eq!(value(&attempt(LoginKind::ClaudeSetupToken).page(), "scope"), "user:inference");
        assert!(value(&attempt(LoginKind::ChatGpt).page(), "scope").contains("offline_access"));
    }

    #[test]
    fn what_was_pasted_must_have_our_state() {
        let attempt = attempt(LoginKind::ChatGpt);
        let state = attempt.state.as_str();
        for good in [format!(" c0de#{state}\n"), format!("http://localhost:1455/auth/callback?code=c0de&state={state}")]
        {
            assert_eq!(attempt.paste(&good).unwrap().0.as_str(), "c0de");
        }
        assert_eq!(attempt.paste(&format!("c0de#{state}x")).unwrap_err(), PasteError::State);
        assert_eq!(attempt.paste("c0de#other").unwrap_err(), PasteError::State);
        for odd in ["", "c0de", "#", "c0de#", "#s", "http://x/?code=c", "a b#s", "://"] {
            assert_eq!(attempt.paste(odd).unwrap_err(), PasteError::Shape, "{odd}");
        }
    }
}
