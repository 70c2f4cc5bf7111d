//! Logging in: the page on which somebody says yes, the codes that it gives, and what they are worth once.
//!
//! The page lists the accounts that can be logged in to; `sim_account=NAME` in its address is the yes, `sim_refuse=1` the
//! no. Never here: who may be logged in to, beyond that.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::side::SCOPES;
use super::{Call, World, field};
use crate::sim::account::AccountKind;
use crate::sim::answer::Answer;

/// The scope of a token for a year.
const SETUP_SCOPE: &str = "user:inference";
/// Where codes are shown to be pasted.
const SHOWS_CODES: &str = "/oauth/code/callback";
/// How long a setup token is asked for.
const YEAR: u64 = 31_536_000;

/// What has been begun and not been redeemed.
#[derive(Default)]
pub(super) struct Logins {
    codes: Vec<Code>,
    devices: Vec<Device>,
    issued: u64,
}

struct Code {
    code: String,
    account: usize,
    client: String,
    redirect: String,
    challenge: String,
    state: String,
    scope: String,
}

struct Device {
    id: String,
    user_code: String,
    /// Who said yes.
    account: Option<usize>,
}

impl World {
    /// The page, or where it leads.
    pub(super) fn authorize(&mut self, call: &Call<'_>) -> Answer {
        let query = pairs(call.arrived.path.split_once('?').map_or("", |(_, query)| query));
        let value = |name: &str| query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
        if call.arrived.route() == "/codex/device" {
            return self.device_page(call, value("user_code"), value("sim_account"));
        }
        for needed in ["client_id", "redirect_uri", "code_challenge", "state"] {
            if value(needed).is_empty() {
                return call.invalid(&format!("{needed} is missing"));
            }
        }
        if value("code_challenge_method") != "S256" || value("response_type") != "code" {
            return call.invalid("only codes with S256 are given");
        }
        let (redirect, state) = (value("redirect_uri"), value("state"));
        if value("sim_refuse") == "1" {
            return found(&format!("{redirect}?error=access_denied&state={}", encoded(state)));
        }
        let Some(account) = self.login_named(value("sim_account")) else { return self.page(&call.arrived.path) };
        self.logins.issued += 1;
        let code = format!("code-sim-{}-{}", self.accounts[account].spec.name, self.logins.issued);
        let text = |name: &str| value(name).to_owned();
        self.logins.codes.push(Code {
            code: code.clone(),
            account,
            client: text("client_id"),
            redirect: redirect.to_owned(),
            challenge: text("code_challenge"),
            state: state.to_owned(),
            scope: text("scope"),
        });
        if redirect.ends_with(SHOWS_CODES) {
            return html(&format!("<p>Paste this:</p><pre>{code}#{state}</pre>"));
        }
        found(&format!("{redirect}?code={}&state={}", encoded(&code), encoded(state)))
    }

    fn login_named(&self, name: &str) -> Option<usize> {
        let is_login = |kind| matches!(kind, AccountKind::Oauth | AccountKind::SetupToken);
        self.accounts.iter().position(|account| account.spec.name == name && is_login(account.spec.kind))
    }

    /// One link an account.
    fn page(&self, address: &str) -> Answer {
        let mut text = "<p>Simulated login. Who are you?</p><ul>".to_owned();
        let joint = if address.contains('?') { '&' } else { '?' };
        for account in self.accounts.iter().filter(|account| account.spec.kind != AccountKind::ApiKey) {
            let name = &account.spec.name;
            let link = format!("{address}{joint}sim_account={}", encoded(name)).replace('&', "&amp;");
            let _ = write!(text, "<li><a href=\"{link}\">{name}</a></li>");
        }
        html(&(text + "</ul>"))
    }

    /// What a code is worth.
    pub(super) fn redeemed(&mut self, call: &Call<'_>) -> Answer {
        let given = field(call.body, "code");
        let Some(at) = self.logins.codes.iter().position(|code| code.code == given) else { return no_grant() };
        // Whoever shows a code has spent it.
        let code = self.logins.codes.remove(at);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(field(call.body, "code_verifier").as_bytes()));
        let is_claude = call.arrived.route() == "/v1/oauth/token";
        let fits = challenge == code.challenge
            && field(call.body, "client_id") == code.client
            && field(call.body, "redirect_uri") == code.redirect
            && (!is_claude || field(call.body, "state") == code.state);
        if !fits {
            return no_grant();
        }
        if !is_claude {
            return self.chatgpt_tokens(code.account, call);
        }
        let long = call.body.and_then(|body| body.get("expires_in")).and_then(Value::as_u64) == Some(YEAR);
        match (code.scope.as_str(), long) {
            (SETUP_SCOPE, true) => self.setup_token(code.account, call),
            (SETUP_SCOPE, false) | (_, true) => no_grant(),
            (_, false) => self.login_tokens(code.account, call),
        }
    }

    fn login_tokens(&mut self, at: usize, call: &Call<'_>) -> Answer {
        let fresh = self.accounts[at].log_in(call.now);
        let mut body = self.whose(at);
        body["access_token"] = fresh.token.into();
        body["refresh_token"] = fresh.refresh_token.into();
        body["expires_in"] = self.accounts[at].lifetime().as_secs().into();
        body["scope"] = SCOPES.into();
        Answer::json(200, &body)
    }

    fn setup_token(&mut self, at: usize, call: &Call<'_>) -> Answer {
        let token = self.accounts[at].long_token(call.now);
        let mut body = self.whose(at);
        body["access_token"] = token.into();
        body["expires_in"] = YEAR.into();
        body["scope"] = SETUP_SCOPE.into();
        Answer::json(200, &body)
    }

    fn whose(&self, at: usize) -> Value {
        let account = &self.accounts[at];
        json!({
            "token_type": "Bearer",
            "organization": {"uuid": account.organization, "name": "simulated"},
            "account": {"uuid": account.uuid, "email_address": format!("{}@sim.invalid", account.spec.name)},
        })
    }

    pub(super) fn chatgpt_tokens(&mut self, at: usize, call: &Call<'_>) -> Answer {
        let (access, refresh, id) = self.accounts[at].chatgpt_login(call.now);
        Answer::json(200, &json!({"access_token": access, "refresh_token": refresh, "id_token": id}))
    }

    /// Trades the refresh token of a ChatGPT login.
    pub(super) fn chatgpt_renewed(&mut self, call: &Call<'_>) -> Answer {
        let token = field(call.body, "refresh_token");
        match self.accounts.iter().position(|account| account.is_refresh(token)) {
            Some(at) => self.chatgpt_tokens(at, call),
            None => no_grant(),
        }
    }

    /// The two calls of a login by device code.
    pub(super) fn device(&mut self, call: &Call<'_>) -> Answer {
        if call.arrived.route().ends_with("/usercode") {
            self.logins.issued += 1;
            let (id, user_code) = (format!("device-{}", self.logins.issued), format!("SIM-{:04}", self.logins.issued));
            self.logins.devices.push(Device { id: id.clone(), user_code: user_code.clone(), account: None });
            return Answer::json(200, &json!({"device_auth_id": id, "user_code": user_code, "interval": "1"}));
        }
        let (id, user_code) = (field(call.body, "device_auth_id"), field(call.body, "user_code"));
        let known = self.logins.devices.iter().position(|device| device.id == id && device.user_code == user_code);
        let Some(account) = known.and_then(|at| self.logins.devices[at].account) else {
            return Answer::json(403, &json!({"error": "authorization_pending"}));
        };
        self.logins.issued += 1;
        let (code, verifier) = (format!("code-sim-device-{}", self.logins.issued), format!("verifier-{id}"));
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let host = call.arrived.header("host").unwrap_or_default();
        self.logins.codes.push(Code {
            code: code.clone(),
            account,
            client: "app_EMoamEEZ73f0CkXaXp7hrann".to_owned(),
            redirect: format!("http://{host}/deviceauth/callback"),
            challenge: challenge.clone(),
            state: String::new(),
            scope: String::new(),
        });
        let body = json!({"authorization_code": code, "code_challenge": challenge, "code_verifier": verifier});
        Answer::json(200, &body)
    }

    fn device_page(&mut self, call: &Call<'_>, user_code: &str, name: &str) -> Answer {
        let account = self.login_named(name);
        let known = self.logins.devices.iter_mut().find(|device| device.user_code == user_code);
        match (known, account) {
            (Some(device), Some(account)) => {
                device.account = Some(account);
                html("<p>Thank you.</p>")
            }
            (Some(_), None) => self.page(&call.arrived.path),
            (None, _) => html("<form>Code: <input name=user_code> <button>Go on</button></form>"),
        }
    }

    /// ChatGPT's usage page, which only a good login may see, for its own account.
    pub(super) fn chatgpt_usage(&mut self, call: &Call<'_>, account: Option<usize>) -> Answer {
        let token = call.arrived.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let good = account.filter(|at| {
            token.is_some_and(|token| self.accounts[*at].opens(token, call.now))
                && call.arrived.header("chatgpt-account-id") == Some(self.accounts[*at].uuid.as_str())
        });
        match good {
            Some(_) => Answer::json(200, &json!({"plan_type": "pro", "rate_limit": {"allowed": true}})),
            None => Answer::json(401, &json!({"detail": "Unauthorized"})),
        }
    }
}

/// The pairs of a query, or of a form.
pub(in crate::sim) fn pairs(text: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let split = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key), decoded(value))
    };
    text.split('&').filter(|pair| !pair.is_empty()).map(split).collect()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn no_grant() -> Answer {
    Answer::json(400, &json!({"error": "invalid_grant"}))
}

fn found(location: &str) -> Answer {
    Answer::whole(302, "text/plain", "").with("location", location.to_owned())
}

fn html(text: &str) -> Answer {
    Answer::whole(200, "text/html; charset=utf-8", format!("<!doctype html><meta charset=utf-8>{text}\n"))
}
