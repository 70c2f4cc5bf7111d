//! Could messages go out? Nothing is sent.

use super::Doctor;
use super::finding::{Finding, Group};
use crate::config::settings::Webhook;

pub(super) fn look(doctor: &Doctor) -> Vec<Finding> {
    let Some(ready) = doctor.ready() else { return Vec::new() };
    let mut findings: Vec<_> = ready.settings.webhooks.iter().map(|webhook| of(doctor, webhook)).collect();
    if findings.is_empty() {
        findings.push(Finding::pass(Group::Channels, "channels", "none is configured"));
    } else if ready.settings.notify.is_none() {
        let finding = Finding::warn(Group::Channels, "notify", "nobody is told when every account is out");
        findings.push(finding.advised("name a channel under [notify]"));
    }
    findings
}

fn of(doctor: &Doctor, webhook: &Webhook) -> Finding {
    let what = format!("webhook {}", webhook.name);
    let set = |name: &str| (doctor.environment)(name).is_some_and(|value| !value.to_string_lossy().trim().is_empty());
    let is_address = |name: &str| {
        let text = (doctor.environment)(name).map(|value| value.to_string_lossy().trim().to_owned());
        text.and_then(|text| reqwest::Url::parse(&text).ok())
            .is_some_and(|url| matches!(url.scheme(), "http" | "https"))
    };
    let missing = |name: &str| {
        Finding::fail(Group::Channels, &what, format!("the variable {name} is not set"))
            .advised("set it where the daemon starts")
    };
    match &webhook.secret_env {
        _ if !set(&webhook.url_env) => missing(&webhook.url_env),
        _ if !is_address(&webhook.url_env) => {
            let finding = format!("the variable {} holds no http or https address", webhook.url_env);
            Finding::fail(Group::Channels, what, finding).advised("correct it")
        }
        Some(secret) if !set(secret) => missing(secret),
        Some(_) | None => {
            Finding::pass(Group::Channels, what, "its address and key are set in this shell; nothing is sent")
        }
    }
}
