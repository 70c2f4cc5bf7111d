//! `config.show`: the configuration in force, every default filled in, under the names of its keys.
//!
//! Secrets are not in it: it holds the names of variables and files, and hashes are left out. Whatever a `${…}` reference
//! stood for, and whatever looks like a secret, is not shown either.

use std::time::Duration;

use duduclaw_actors::roster::{Affinity, BurnRate, Switch, TieOrder, WindowCaps, WindowLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::admin::fault::Fault;
use crate::admin::verb::{Call, Nothing};
use crate::config::problem::is_secretive;
use crate::config::settings::{AccountEntry, Gate, Scope, Server, Settings, StoreUrl, Unit};
use crate::credentials::SecretSource;

/// The configuration in force.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ConfigView {
    /// The file it came from; null where what was found on the machine is used.
    pub(crate) file: Option<String>,
    /// The values in force, by their keys in the file; what is off is null.
    pub(crate) config: Map<String, Value>,
}

/// What stands in the place of what is not shown.
const NOT_SHOWN: &str = "(not shown)";

/// The configuration in force.
pub(in crate::admin) async fn show(call: Call, _: Nothing) -> Result<ConfigView, Fault> {
    let settings = &call.live.settings;
    let mut config = values(settings);
    redact(&mut config, settings);
    let Value::Object(config) = config else { return Err(Fault::internal()) };
    Ok(ConfigView { file: call.desk.keeper.file().map(|path| path.display().to_string()), config })
}

fn values(settings: &Settings) -> Value {
    let unit = |at: usize| settings.units.get(at).map(|unit| unit.name.to_string());
    let routes = |routes: &[crate::config::settings::Route], key: &str| -> Value {
        routes.iter().map(|route| json!({key: route.pattern, "provider": unit(route.unit)})).collect()
    };
    json!({
        "server": server(settings, unit(settings.default_unit.unwrap_or(usize::MAX))),
        "rotation": {
            "session_affinity": settings.rotation.affinity == Affinity::Bind,
            "cooldown_seconds": settings.rotation.cooldown.as_secs(),
            "health_interval_seconds": settings.rotation.health_interval.as_secs(),
        },
        "upstreams": settings.units.iter().map(upstream).collect::<Vec<_>>(),
        "models": settings.models.iter().map(|model| json!({
            "id": model.id, "display_name": model.display_name, "binds_thinking": model.binds_thinking,
            "upstream_model": model.upstream_models.iter().filter_map(|(at, name)| Some((unit(*at)?, json!(name))))
                .collect::<Map<_, _>>(),
        })).collect::<Vec<_>>(),
        "routes": routes(&settings.routes, "model"),
        "route_prefixes": routes(&settings.route_prefixes, "prefix"),
        "secrets": {"accounts_dir": settings.accounts_dir},
        "store": {"url": store(&settings.store.url), "retention_days": settings.store.retention_days},
        "runtimes": {"claude": {"path": settings.claude_path}},
        "notify": settings.notify.as_ref().map(|target| json!({"channel": target.channel, "target": target.name})),
        "channels": {"webhook": settings.webhooks.iter().map(|webhook| {
            (webhook.name.to_string(), json!({"url_env": webhook.url_env, "secret_env": webhook.secret_env}))
        }).collect::<Map<_, _>>()},
        "log": {"level": settings.log.level, "format": settings.log.format},
    })
}

fn server(settings: &Settings, default_provider: Option<String>) -> Value {
    let Server { limits, timeouts, .. } = &settings.server;
    let server = &settings.server;
    json!({
        "bind": server.binds.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "default_provider": default_provider,
        "max_concurrent_requests": server.max_concurrent.unwrap_or(0),
        "shutdown_timeout_seconds": server.shutdown_timeout.as_secs(),
        "sse_keepalive_seconds": server.sse_keepalive.map_or(0, |every| every.as_secs()),
        "expose_accounts": server.account_header.is_some(),
        "account_header": server.account_header.as_ref().map(|header| header.as_str()),
        "hosts": server.hosts,
        "quota_headers": server.quota_headers,
        "limits": {
            "max_request_bytes": limits.request, "max_request_header_bytes": limits.request_headers,
            "max_url_length": limits.url, "max_buffered_bytes": limits.buffered,
        },
        "timeouts": {
            "upstream_connect": span(timeouts.connect), "upstream_ttfb": span(timeouts.ttfb),
            "upstream_ttfb_nonstream": span(timeouts.ttfb_nonstream), "stream_idle": span(timeouts.stream_idle),
        },
        "auth": server.auth.as_ref().map(gate),
        "admin": server.admin.as_ref().map(|admin| json!({
            "bind": admin.binds.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "operators": admin.operators.iter().map(|operator| json!({
                "name": operator.name, "access": format!("{:?}", operator.access).to_lowercase(),
            })).collect::<Vec<_>>(),
            "session_ttl_seconds": admin.session_ttl.as_secs(),
        })),
        "pool": pool(settings),
    })
}

fn gate(gate: &Gate) -> Value {
    let clients = gate.clients.iter().map(|client| {
        json!({
            "name": client.name,
            "models": client.models.as_ref().map(|globs| globs.iter().map(ToString::to_string).collect::<Vec<_>>()),
            "providers": client.providers,
            "max_concurrent_requests": client.max_concurrent.unwrap_or(0),
            "passthrough": client.passthrough == crate::config::clients::Passthrough::Open,
        })
    });
    json!({"header": gate.header.as_str(), "clients": clients.collect::<Vec<_>>()})
}

fn pool(settings: &Settings) -> Value {
    let pool = &settings.pool;
    let mut shown = json!({
        "ties": if pool.order == TieOrder::Headroom { "headroom" } else { "weekly_reset" },
        "hard_threshold": pool.hard_threshold,
        "burn_rate_avoidance": pool.burn_rate == BurnRate::Avoid,
        "usage_refresh_seconds": settings.usage_refresh.map_or(0, |every| every.as_secs()),
        "ramp_initial_concurrency": pool.ramp_initial,
        "hold_seconds": pool.hold.as_secs(),
        "reprobe_seconds": pool.reprobe.as_secs(),
    });
    limits(&mut shown, "default_", &settings.account_defaults.thresholds, &settings.account_defaults.caps);
    shown
}

fn upstream(unit: &Unit) -> Value {
    let accounts = match &unit.scope {
        Scope::Listed(entries) => entries.iter().map(account).collect(),
        Scope::WholeStore => json!("the whole account store"),
    };
    json!({
        "name": unit.name,
        "provider": unit.provider,
        "kind": unit.protocol,
        "base_url": unit.base_url.as_str(),
        "auth": unit.auth,
        "strategy": unit.strategy,
        "token_url": unit.token_url.as_ref().map(url),
        "authorize_url": unit.authorize_url.as_ref().map(url),
        "user_agent": unit.user_agent.as_ref().and_then(|agent| agent.to_str().ok()),
        "max_concurrent_requests": unit.max_concurrent.unwrap_or(0),
        "accounts": accounts,
    })
}

fn account(entry: &AccountEntry) -> Value {
    let mut shown = json!({
        "name": entry.name,
        "uuid": entry.uuid,
        "priority": entry.priority,
        "disabled": entry.switch == Switch::Off,
        "declared": entry.place.to_string(),
    });
    let (key, value) = match &entry.source {
        SecretSource::CredentialsFile(path) => ("credentials", json!(path)),
        SecretSource::StoreFile(path) => ("stored", json!(path)),
        SecretSource::TokenEnv(name) => ("token_env", json!(name)),
        SecretSource::ApiKeyEnv(name) => ("api_key_env", json!(name)),
        SecretSource::Keychain { config_dir } => ("keychain", json!({"config_dir": config_dir})),
        SecretSource::None => ("secret", Value::Null),
    };
    shown[key] = value;
    limits(&mut shown, "", &entry.thresholds, &entry.caps);
    shown
}

fn limits(shown: &mut Value, prefix: &str, thresholds: &WindowLimits, caps: &WindowCaps) {
    let soft = [("5h", thresholds.five_hour), ("7d", thresholds.weekly), ("fable", thresholds.fable)];
    let hard = [("5h", caps.five_hour), ("7d", caps.weekly), ("fable", caps.fable)];
    for ((window, soft), (_, hard)) in soft.into_iter().zip(hard) {
        shown[format!("{prefix}threshold_{window}")] = json!(soft);
        shown[format!("{prefix}max_utilization_{window}")] = json!(hard);
    }
}

fn span(time: Duration) -> String {
    if time.subsec_millis() == 0 { format!("{}s", time.as_secs()) } else { format!("{}ms", time.as_millis()) }
}

fn url(url: &reqwest::Url) -> &str {
    if url.password().is_some() || !url.username().is_empty() { NOT_SHOWN } else { url.as_str() }
}

/// The address of a server may hold a password.
fn store(url: &StoreUrl) -> &'static str {
    match url {
        StoreUrl::Sqlite => "sqlite",
        StoreUrl::Postgres(_) => "postgres (address not shown)",
    }
}

fn redact(value: &mut Value, settings: &Settings) {
    match value {
        Value::String(text) => {
            let scrubbed = settings.referred.scrub(text);
            *text = if is_secretive(&scrubbed) { NOT_SHOWN.to_owned() } else { scrubbed };
        }
        Value::Array(list) => list.iter_mut().for_each(|value| redact(value, settings)),
        Value::Object(map) => map.values_mut().for_each(|value| redact(value, settings)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::locate::Named;
    use crate::config::surroundings::fake::Fake;
    use crate::config::topology::{IdentityFacts, Ids, Lookups};

    fn shown(text: &str, machine: Fake) -> Value {
        let machine = machine.with_file("/home/me/.duduclaw/config.toml", text);
        let lookups = Lookups { names: &|_, _| Ok(Vec::new()), facts: &|_, _| IdentityFacts::default() };
        let loaded = crate::config::load(&Named::default(), &machine, lookups, &mut Ids::default());
        let ready = loaded.ready.unwrap_or_else(|| panic!("{:?}", loaded.report.problems));
        let mut config = values(&ready.settings);
        redact(&mut config, &ready.settings);
        config
    }

    #[test]
    fn every_default_is_filled_in_and_every_secret_left_out() {
        let machine = Fake::default()
            .with_var("CLIENTS", "laptop:CANARY-client")
            .with_var("ADMINS", "root:CANARY-admin")
            .with_var("HIDDEN", "https://CANARY.example")
            .with_var("KEY", "sk-ant-api03-CANARY");
        let text = "[server.auth]\ntokens_env = \"CLIENTS\"\n[server.admin]\ntokens_env = \"ADMINS\"\n\
                    [providers.anthropic]\nkind = \"anthropic\"\nauth = \"api_key\"\nbase_url = \"${HIDDEN}\"\n\
                    [[providers.anthropic.accounts]]\nname = \"metered\"\napi_key_env = \"KEY\"\npriority = 7\n";
        let shown = shown(text, machine);
        assert!(!shown.to_string().to_uppercase().contains("CANARY"), "{shown}");
        insta::assert_json_snapshot!(shown);
    }
}
