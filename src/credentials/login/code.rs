//! What a login's code is worth: the tokens, and whose they are.
//!
//! Of an answer nothing but its status is ever shown. Never here: saving it.

use std::time::Duration;

use duduclaw_actors::clock::Timestamp;
use serde_json::{Value, json};

use super::{LoginAttempt, LoginCode, LoginKind};
use crate::credentials::document::{Content, Fresh, Origin, Proof};
use crate::credentials::exchange::{Form, Question, TokenExchange};
use crate::credentials::identity::IdentityFacts;
use crate::credentials::jwt;
use crate::credentials::secret::Secret;

/// How long a setup token lives.
const YEAR: Duration = Duration::from_secs(31_536_000);

/// Why a code gave no login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoginFailure {
    #[error("the provider did not take the code (status {0}); begin the login again")]
    Refused(u16),
    #[error("the provider could not be asked for the tokens ({0}); begin the login again")]
    Unreachable(String),
    #[error("the provider's answer has no usable token; begin the login again")]
    Unusable,
    #[error("the provider gave no refresh token, so the login would end within hours; nothing was saved")]
    NoRefresh,
    #[error("the provider did not say whose account it is; nothing was saved")]
    NoAccount,
}

/// Trades a code for the login it stands for.
pub(crate) async fn redeem(
    exchange: &TokenExchange,
    attempt: &LoginAttempt,
    code: &LoginCode,
    now: Timestamp,
) -> Result<Fresh, LoginFailure> {
    let kind = attempt.site.kind;
    let (verifier, redirect): (&str, &str) = (&attempt.verifier, &attempt.redirect);
    let code: &str = &code.0;
    let mut body = json!({
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect,
        "client_id": kind.client(),
        "code_verifier": verifier,
    });
    if kind.family() == duduclaw_actors::id::Family::Claude {
        let state: &str = &attempt.state;
        body["state"] = state.into();
    }
    if kind == LoginKind::ClaudeSetupToken {
        body["expires_in"] = YEAR.as_secs().into();
    }
    redeem_body(exchange, attempt, &body, now).await
}

async fn redeem_body(
    exchange: &TokenExchange,
    attempt: &LoginAttempt,
    body: &Value,
    now: Timestamp,
) -> Result<Fresh, LoginFailure> {
    let site = &attempt.site;
    let form = match site.kind {
        LoginKind::Claude | LoginKind::ClaudeSetupToken => Form::Json,
        LoginKind::ChatGpt => Form::Pairs,
    };
    let asked = Question { url: &site.token, user_agent: site.user_agent.as_deref(), body, form };
    let (status, answer) = exchange.ask_for(asked).await.map_err(LoginFailure::Unreachable)?;
    if !(200..300).contains(&status) {
        return Err(LoginFailure::Refused(status));
    }
    let answer: Value = serde_json::from_slice(&answer).map_err(|_| LoginFailure::Unusable)?;
    fresh(site.kind, &answer, now)
}

/// The login in an answer.
pub(super) fn fresh(kind: LoginKind, answer: &Value, now: Timestamp) -> Result<Fresh, LoginFailure> {
    let secret = |name: &str| answer.get(name).and_then(Value::as_str).and_then(|text| Secret::parse(text).ok());
    let access = secret("access_token").ok_or(LoginFailure::Unusable)?;
    let stated = answer.get("expires_in").and_then(Value::as_f64).and_then(|s| Duration::try_from_secs_f64(s).ok());
    let uuid = |of: &str| text(answer.get(of).and_then(|who| who.get("uuid"))).map(str::to_owned);
    let mut facts = IdentityFacts { uuid: uuid("account"), organization: uuid("organization"), plan: None };
    let refresh = secret("refresh_token");
    let content = match kind {
        LoginKind::Claude => {
            let life = stated.unwrap_or(Duration::from_secs(3600));
            let scopes = text(answer.get("scope")).unwrap_or(super::CLAUDE_SCOPES);
            Content::Login {
                access,
                refresh: refresh.ok_or(LoginFailure::NoRefresh)?,
                expires_at: Some(now.wall.plus(life)),
                scopes: scopes.split_whitespace().map(str::to_owned).collect(),
            }
        }
        LoginKind::ClaudeSetupToken => {
            facts.uuid.as_ref().ok_or(LoginFailure::NoAccount)?;
            Content::SetupToken { token: access, expires_at: Some(now.wall.plus(stated.unwrap_or(YEAR))) }
        }
        LoginKind::ChatGpt => {
            let id = secret("id_token").ok_or(LoginFailure::NoAccount)?;
            facts.uuid = Some(jwt::chatgpt_account(id.expose()).ok_or(LoginFailure::NoAccount)?);
            facts.plan = jwt::chatgpt_plan(id.expose());
            Content::ChatGpt { access, refresh: refresh.ok_or(LoginFailure::NoRefresh)?, id }
        }
    };
    Ok(Fresh { content, facts, proof: Proof::Found, origin: Origin::Own })
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use duduclaw_actors::clock::{Boot, Wall};

    fn read(kind: LoginKind, answer: Value) -> Result<Fresh, LoginFailure> {
        fresh(kind, &answer, Timestamp { wall: Wall(0), boot: Boot(0) })
    }

    #[test]
    fn a_login_without_what_it_needs_is_refused() {
        let bare = || json!({"access_token": "sk-ant-oat01-x"});
        assert_eq!(read(LoginKind::Claude, json!({})).unwrap_err(), LoginFailure::Unusable);
        assert_eq!(read(LoginKind::Claude, bare()).unwrap_err(), LoginFailure::NoRefresh);
        assert_eq!(read(LoginKind::ClaudeSetupToken, bare()).unwrap_err(), LoginFailure::NoAccount);
        let mut known = bare();
        known["refresh_token"] = "r".into();
        assert_eq!(read(LoginKind::ChatGpt, known.clone()).unwrap_err(), LoginFailure::NoAccount);
        known["id_token"] = "a.b.c".into();
        assert_eq!(read(LoginKind::ChatGpt, known.clone()).unwrap_err(), LoginFailure::NoAccount);
        assert!(read(LoginKind::Claude, known).is_ok());
    }

    #[test]
    fn whose_it_is_comes_from_the_answer() {
        let answer =
            json!({"access_token": "t", "account": {"uuid": "u"}, "organization": {"uuid": "o"}, "expires_in": 60});
        let fresh = read(LoginKind::ClaudeSetupToken, answer).unwrap();
        assert_eq!((fresh.facts.uuid.as_deref(), fresh.facts.organization.as_deref()), (Some("u"), Some("o")));
    }
}
