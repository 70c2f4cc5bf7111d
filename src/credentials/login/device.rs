//! Logging in without a browser on this machine: a short code to be typed on a page elsewhere, and asking until it was.
//!
//! Never here: what is shown to the person.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{CODEX_CLIENT_ID, LoginAttempt, LoginCode, LoginSite};
use crate::credentials::exchange::{Form, Question, TokenExchange, TokenUrl};

/// How long the person may take.
const WITHIN: Duration = Duration::from_secs(15 * 60);
/// How often is asked where nothing is said, and the longest that is believed.
const USUAL_WAIT: u64 = 5;
const LONGEST_WAIT: u64 = 60;

/// A login that waits for a person elsewhere.
pub(crate) struct DeviceCode {
    site: LoginSite,
    /// What is to be typed.
    pub(crate) user_code: String,
    /// Where.
    pub(crate) page: String,
    id: Zeroizing<String>,
    wait: Duration,
}

/// Why it did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeviceFailure {
    #[error("the provider has no login by device code; use the browser: --mode oauth")]
    None,
    #[error("the provider could not be asked ({0}); try again")]
    Unreachable(String),
    #[error("the provider answered {0}; try again, or use the browser: --mode oauth")]
    Refused(u16),
    #[error("the provider's answer makes no sense")]
    Unusable,
    #[error("the code was not typed within 15 minutes; begin again")]
    Late,
}

#[derive(Deserialize)]
struct Begun {
    device_auth_id: String,
    #[serde(alias = "usercode")]
    user_code: String,
    #[serde(default)]
    interval: Value,
}

#[derive(Deserialize)]
struct Done {
    authorization_code: String,
    code_verifier: String,
}

impl DeviceCode {
    /// Begins one.
    pub(crate) async fn begin(exchange: &TokenExchange, site: LoginSite) -> Result<Self, DeviceFailure> {
        let url = endpoint(&site, "api/accounts/deviceauth/usercode")?;
        let body = json!({"client_id": CODEX_CLIENT_ID});
        let begun: Begun = match ask(exchange, &site, &url, &body).await? {
            (200..=299, answer) => serde_json::from_slice(&answer).map_err(|_| DeviceFailure::Unusable)?,
            (404, _) => return Err(DeviceFailure::None),
            (status, _) => return Err(DeviceFailure::Refused(status)),
        };
        let page = endpoint(&site, "codex/device")?.to_string();
        let stated = begun.interval.as_u64().or_else(|| begun.interval.as_str()?.trim().parse().ok());
        let wait = Duration::from_secs(stated.unwrap_or(USUAL_WAIT).clamp(1, LONGEST_WAIT));
        Ok(Self { page, user_code: begun.user_code, id: Zeroizing::new(begun.device_auth_id), wait, site })
    }

    /// Asks until the code was typed.
    pub(crate) async fn wait(self, exchange: &TokenExchange) -> Result<(LoginAttempt, LoginCode), DeviceFailure> {
        let url = endpoint(&self.site, "api/accounts/deviceauth/token")?;
        let id: &str = &self.id;
        let body = json!({"device_auth_id": id, "user_code": self.user_code});
        let asked = tokio::time::timeout(WITHIN, self.ask_until_done(exchange, &url, &body)).await;
        let done = asked.unwrap_or(Err(DeviceFailure::Late))?;
        let redirect = endpoint(&self.site, "deviceauth/callback")?.to_string();
        let attempt = LoginAttempt {
            site: self.site,
            verifier: Zeroizing::new(done.code_verifier),
            // There is none in this protocol, and the code came to us alone.
            state: Zeroizing::default(),
            redirect,
        };
        Ok((attempt, LoginCode(Zeroizing::new(done.authorization_code))))
    }
}

impl DeviceCode {
    async fn ask_until_done(
        &self,
        exchange: &TokenExchange,
        url: &TokenUrl,
        body: &Value,
    ) -> Result<Done, DeviceFailure> {
        loop {
            match ask(exchange, &self.site, url, body).await? {
                (200..=299, answer) => return serde_json::from_slice(&answer).map_err(|_| DeviceFailure::Unusable),
                (403 | 404, _) => tokio::time::sleep(self.wait).await,
                (status, _) => return Err(DeviceFailure::Refused(status)),
            }
        }
    }
}

/// An address beside the token endpoint's.
fn endpoint(site: &LoginSite, path: &str) -> Result<TokenUrl, DeviceFailure> {
    site.token.beside(path).ok_or(DeviceFailure::None)
}

async fn ask(
    exchange: &TokenExchange,
    site: &LoginSite,
    url: &TokenUrl,
    body: &Value,
) -> Result<(u16, Zeroizing<Vec<u8>>), DeviceFailure> {
    let question = Question { url, user_agent: site.user_agent.as_deref(), body, form: Form::Json };
    exchange.ask_for(question).await.map_err(DeviceFailure::Unreachable)
}
