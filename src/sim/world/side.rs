//! What is called beside messages: the token endpoint, the usage API, the list of models.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::{Call, World, field};
use crate::sim::account::{Account, AccountKind};
use crate::sim::answer::Answer;
use crate::sim::fault::invalid_grant;
use crate::sim::quota::{SimWindow, WindowState};

pub(super) const SCOPES: &str =
    "user:profile user:inference user:sessions:claude_code user:mcp_servers user:file_upload";

impl World {
    pub(super) fn token(&mut self, call: &Call<'_>, account: Option<usize>) -> Answer {
        if call.arrived.route().starts_with("/api/accounts/deviceauth/") {
            return self.device(call);
        }
        let is_claude = call.arrived.route() == "/v1/oauth/token";
        let answer = match field(call.body, "grant_type") {
            "authorization_code" => self.redeemed(call),
            "refresh_token" if !is_claude => self.chatgpt_renewed(call),
            "refresh_token" => self.renewed(call, account),
            _other => Answer::json(400, &json!({"error": "unsupported_grant_type"})),
        };
        answer.after(Duration::from_millis(self.config.token_delay_millis))
    }

    fn renewed(&mut self, call: &Call<'_>, account: Option<usize>) -> Answer {
        let token = field(call.body, "refresh_token");
        let Some(account) = account.map(|at| &mut self.accounts[at]) else {
            return invalid_grant();
        };
        let Some(fresh) = account.refresh(token, call.now) else {
            return invalid_grant();
        };
        let body = json!({
            "token_type": "Bearer",
            "access_token": fresh.token,
            "expires_in": account.lifetime().as_secs(),
            "refresh_token": fresh.refresh_token,
            "scope": SCOPES,
            "organization": {"uuid": fresh.organization, "name": format!("{}'s organization", account.spec.name)},
            "account": {"uuid": fresh.uuid, "email_address": format!("{}@sim.invalid", account.spec.name)},
        });
        Answer::json(200, &body).with("cache-control", "no-store")
    }

    pub(super) fn usage(&mut self, call: &Call<'_>, at: usize) -> Answer {
        let account = &mut self.accounts[at];
        match account.spec.kind {
            AccountKind::Oauth => Answer::json(200, &usage_report(account, call)),
            AccountKind::SetupToken => {
                call.error(403, "permission_error", "OAuth token does not meet scope requirement user:profile")
            }
            AccountKind::ApiKey => call.error(401, "authentication_error", "Invalid bearer token"),
        }
    }

    pub(super) fn models(&mut self, call: &Call<'_>, _account: usize) -> Answer {
        let models = &self.config.models;
        if let Some(id) = call.arrived.route().strip_prefix("/v1/models/") {
            return match models.iter().find(|model| *model == id) {
                Some(model) => Answer::json(200, &described(model)),
                None => call.error(404, "not_found_error", &format!("model: {id}")),
            };
        }
        let data: Vec<Value> = models.iter().map(|model| described(model)).collect();
        Answer::json(
            200,
            &json!({"data": data, "has_more": false, "first_id": models.first(), "last_id": models.last()}),
        )
    }
}

fn usage_report(account: &mut Account, call: &Call<'_>) -> Value {
    let states = account.quota.states(call.now);
    let limits: Vec<Value> = states.iter().filter(|state| state.reset.is_some()).map(limit).collect();
    let window = |wanted: SimWindow| {
        let state = states.iter().find(|state| state.window == wanted && state.reset.is_some());
        state.map(|state| json!({"utilization": percent(state), "resets_at": stamp(state)}))
    };
    json!({
        "five_hour": window(SimWindow::FiveHours),
        "seven_day": window(SimWindow::SevenDays),
        "seven_day_opus": null,
        "limits": limits,
    })
}

fn limit(state: &WindowState) -> Value {
    let (kind, scope) = match state.window {
        SimWindow::FiveHours => ("session", Value::Null),
        SimWindow::SevenDays => ("weekly_all", Value::Null),
        SimWindow::Fable => ("weekly_scoped", json!({"model": {"display_name": "Fable"}})),
    };
    json!({"kind": kind, "percent": percent(state), "resets_at": stamp(state), "scope": scope})
}

fn percent(state: &WindowState) -> f64 {
    (state.utilization * 10_000.0).round() / 100.0
}

fn stamp(state: &WindowState) -> Option<String> {
    let time: DateTime<Utc> = DateTime::from_timestamp(state.reset?, 0)?;
    Some(time.to_rfc3339_opts(SecondsFormat::Micros, false))
}

fn described(model: &str) -> Value {
    json!({"type": "model", "id": model, "display_name": model, "created_at": "2026-01-01T00:00:00Z"})
}
