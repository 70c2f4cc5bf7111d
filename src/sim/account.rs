//! An account at the simulated provider: who it belongs to, which tokens open it, and how it is renewed.
//!
//! Refresh tokens are good for one use; using one twice revokes nothing else. Never here: what a request costs.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duduclaw_actors::clock::{Timestamp, Wall};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::quota::{Quota, QuotaLimits};

const ACCESS_TOKENS_KEPT: usize = 16;
const YEAR: u64 = 365 * 86_400;

/// What opens an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountKind {
    /// A login: access tokens that expire, and a refresh token.
    #[default]
    Oauth,
    /// A token for a year that cannot be refreshed.
    SetupToken,
    /// An API key: no quota windows.
    ApiKey,
}

/// An account as it is asked for. What is left out is made up from the name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountSpec {
    /// Its name in the log and in control calls.
    pub name: String,
    /// What opens it.
    pub kind: AccountKind,
    /// Its uuid.
    pub uuid: Option<String>,
    /// Its organisation's uuid: accounts of one organisation share the prompt cache.
    pub organization: Option<String>,
    /// How much its quota windows hold.
    pub limits: QuotaLimits,
    /// The first access token, setup token or key.
    pub token: Option<String>,
    /// More tokens or keys that open the same account.
    pub more_tokens: Vec<String>,
    /// The first refresh token.
    pub refresh_token: Option<String>,
    /// How long an access token of a login lives; 8 h without.
    pub token_seconds: Option<u64>,
    /// Headers on every answer to it.
    pub headers: Vec<(String, String)>,
}

impl AccountSpec {
    /// A login with a refresh token.
    #[must_use]
    pub fn oauth(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// A setup token.
    #[must_use]
    pub fn setup_token(name: &str) -> Self {
        Self { kind: AccountKind::SetupToken, ..Self::oauth(name) }
    }

    /// An API key.
    #[must_use]
    pub fn api_key(name: &str) -> Self {
        Self { kind: AccountKind::ApiKey, ..Self::oauth(name) }
    }

    /// The same with these limits.
    #[must_use]
    pub fn with_limits(self, limits: QuotaLimits) -> Self {
        Self { limits, ..self }
    }
}

/// What a client needs to use an account.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Credentials {
    /// What opens it.
    pub kind: AccountKind,
    /// The newest access token, setup token or key.
    pub token: String,
    /// The refresh token that is good now.
    pub refresh_token: Option<String>,
    /// When the token expires, in Unix milliseconds; keys do not.
    pub expires_at: Option<i64>,
    /// The account's uuid.
    pub uuid: String,
    /// The organisation's uuid.
    pub organization: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("kind", &self.kind)
            .field("token", &fingerprint(&self.token))
            .finish_non_exhaustive()
    }
}

/// How a credential is shown in the log: the same for the same credential, and no use to anyone.
#[must_use]
pub fn fingerprint(credential: &str) -> String {
    let digest = Sha256::digest(credential.as_bytes());
    let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("#{hex}")
}

#[derive(Clone, Debug)]
struct Access {
    token: String,
    expires: Option<Wall>,
}

/// What the provider holds of an account.
pub(super) struct Account {
    pub(super) spec: AccountSpec,
    pub(super) uuid: String,
    pub(super) organization: String,
    pub(super) quota: Quota,
    access: Vec<Access>,
    refresh: Option<String>,
    spent: BTreeSet<String>,
    issued: u64,
}

/// Whether a token opens its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Good,
    Expired,
}

impl Account {
    pub(super) fn new(spec: AccountSpec, now: Timestamp) -> Self {
        let uuid = spec.uuid.clone().unwrap_or_else(|| uuid_of("account", &spec.name));
        let organization = spec.organization.clone().unwrap_or_else(|| uuid_of("organization", &spec.name));
        let quota = Quota::new(spec.limits);
        let mut account = Self {
            spec,
            uuid,
            organization,
            quota,
            access: Vec::new(),
            refresh: None,
            spent: BTreeSet::new(),
            issued: 1,
        };
        account.admit_first_tokens(now);
        account
    }

    /// Whether this opens, or once opened, the account.
    pub(super) fn token(&self, token: &str, now: Timestamp) -> Option<Token> {
        let access = self.access.iter().find(|access| access.token == token)?;
        let expired = access.expires.is_some_and(|expires| expires <= now.wall);
        Some(if expired { Token::Expired } else { Token::Good })
    }

    /// Whether this is, or was, a refresh token of the account.
    pub(super) fn knows_refresh(&self, token: &str) -> bool {
        self.refresh.as_deref() == Some(token) || self.spent.contains(token)
    }

    /// Trades a refresh token for new tokens; a spent one for nothing.
    pub(super) fn refresh(&mut self, token: &str, now: Timestamp) -> Option<Credentials> {
        let current = self.refresh.take_if(|current| current == token)?;
        self.spent.insert(current);
        self.issued += 1;
        self.refresh = Some(self.minted("ort01", self.issued));
        self.admit(self.minted("oat01", self.issued), Some(self.lifetime()), now);
        Some(self.credentials())
    }

    /// What a client would hold that is up to date.
    pub(super) fn credentials(&self) -> Credentials {
        let newest = self.access.last();
        Credentials {
            kind: self.spec.kind,
            token: newest.map(|access| access.token.clone()).unwrap_or_default(),
            refresh_token: self.refresh.clone(),
            expires_at: newest.and_then(|access| access.expires).map(|expires| expires.0),
            uuid: self.uuid.clone(),
            organization: self.organization.clone(),
        }
    }

    /// How long a new access token lives.
    pub(super) fn lifetime(&self) -> Duration {
        Duration::from_secs(self.spec.token_seconds.unwrap_or(8 * 3600))
    }

    /// Lets all access tokens expire now.
    pub(super) fn expire(&mut self, now: Timestamp) {
        for access in &mut self.access {
            access.expires = Some(now.wall);
        }
    }

    /// Takes all tokens away, the refresh token too.
    pub(super) fn revoke(&mut self, now: Timestamp) {
        self.expire(now);
        self.spent.extend(self.refresh.take());
    }

    /// Issues new tokens beside the old ones, as a login by a person does.
    pub(super) fn log_in(&mut self, now: Timestamp) -> Credentials {
        self.issued += 1;
        if self.spec.kind == AccountKind::Oauth {
            self.spent.extend(self.refresh.take());
            self.refresh = Some(self.minted("ort01", self.issued));
        }
        let (family, life) = self.first_life();
        self.admit(self.minted(family, self.issued), life, now);
        self.credentials()
    }

    fn admit_first_tokens(&mut self, now: Timestamp) {
        let (family, life) = self.first_life();
        for token in self.spec.more_tokens.clone() {
            self.admit(token, life, now);
        }
        let token = self.spec.token.clone().unwrap_or_else(|| self.minted(family, 1));
        self.admit(token, life, now);
        if self.spec.kind == AccountKind::Oauth {
            self.refresh = Some(self.spec.refresh_token.clone().unwrap_or_else(|| self.minted("ort01", 1)));
        }
    }

    fn first_life(&self) -> (&'static str, Option<Duration>) {
        match self.spec.kind {
            AccountKind::Oauth => ("oat01", Some(self.lifetime())),
            AccountKind::SetupToken => ("oat01", Some(Duration::from_secs(YEAR))),
            AccountKind::ApiKey => ("api03", None),
        }
    }

    fn minted(&self, family: &str, serial: u64) -> String {
        format!("sk-ant-{family}-sim-{}-{serial}", self.spec.name)
    }

    /// A token for a year, beside all others.
    pub(super) fn long_token(&mut self, now: Timestamp) -> String {
        self.issued += 1;
        let token = format!("{}-setup", self.minted("oat01", self.issued));
        self.admit(token.clone(), Some(Duration::from_secs(YEAR)), now);
        token
    }

    /// New tokens of a ChatGPT login: access, refresh, and who it is.
    pub(super) fn chatgpt_login(&mut self, now: Timestamp) -> (String, String, String) {
        self.issued += 1;
        self.spent.extend(self.refresh.take());
        let refresh = format!("rt-sim-{}-{}", self.spec.name, self.issued);
        self.refresh = Some(refresh.clone());
        let ends = now.wall.plus(self.lifetime()).0 / 1000;
        let claims = |what: &str| {
            json!({
                "exp": ends, "jti": format!("sim-{what}-{}-{}", self.spec.name, self.issued),
                "https://api.openai.com/auth": {"chatgpt_account_id": self.uuid, "chatgpt_plan_type": "pro"},
            })
        };
        let token =
            |what: &str| format!("eyJhbGciOiJub25lIn0.{}.c2lt", URL_SAFE_NO_PAD.encode(claims(what).to_string()));
        let (access, id) = (token("access"), token("id"));
        self.admit(access.clone(), Some(self.lifetime()), now);
        (access, refresh, id)
    }

    /// Whether this refresh token is good now.
    pub(super) fn is_refresh(&self, token: &str) -> bool {
        self.refresh.as_deref() == Some(token)
    }

    /// Whether this token opens it now.
    pub(super) fn opens(&self, token: &str, now: Timestamp) -> bool {
        self.token(token, now) == Some(Token::Good)
    }

    fn admit(&mut self, token: String, life: Option<Duration>, now: Timestamp) {
        if self.access.len() >= ACCESS_TOKENS_KEPT {
            self.access.remove(0);
        }
        self.access.push(Access { token, expires: life.map(|life| now.wall.plus(life)) });
    }
}

fn uuid_of(what: &str, name: &str) -> String {
    let digest = Sha256::digest(format!("{what}:{name}").as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32]);
    format!("{a}-{b}-4{c}-8{d}-{e}")
}

#[cfg(test)]
mod tests;
