//! Providers, upstreams, accounts, models and routes.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};

use duduclaw_actors::roster::Strategy;

use super::Key;
use crate::config::document::{At, Ordered};
use crate::config::settings::{AuthMode, Protocol};

/// `[providers.<name>]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawProvider {
    pub(crate) kind: Key<Protocol>,
    pub(crate) base_url: Key<String>,
    pub(crate) auth: Key<AuthMode>,
    pub(crate) strategy: Key<Strategy>,
    pub(crate) token_url: Key<String>,
    pub(crate) authorize_url: Key<String>,
    pub(crate) user_agent: Key<String>,
    pub(crate) api_key_env: Key<String>,
    pub(crate) local: Key<bool>,
    pub(crate) max_concurrent_requests: Key<u32>,
    pub(crate) accounts: Key<Vec<At<RawAccount>>>,
}

/// `[[upstreams]]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawUpstream {
    pub(crate) name: Key<String>,
    pub(crate) provider: Key<String>,
    pub(crate) auth: Key<RawAuth>,
    pub(crate) kind: Key<Protocol>,
    pub(crate) base_url: Key<String>,
    pub(crate) strategy: Key<Strategy>,
    pub(crate) token_url: Key<String>,
    pub(crate) authorize_url: Key<String>,
    pub(crate) user_agent: Key<String>,
    pub(crate) api_key_env: Key<String>,
    pub(crate) local: Key<bool>,
    pub(crate) max_concurrent_requests: Key<u32>,
}

/// `auth` of an upstream: a mode alone, or a mode with the accounts in scope.
#[derive(Default)]
pub(crate) struct RawAuth {
    pub(crate) mode: Key<AuthMode>,
    pub(crate) short: Option<AuthMode>,
    pub(crate) account: Key<RawScopeItem>,
    pub(crate) accounts: Key<Vec<At<RawScopeItem>>>,
}

/// One account in a scope: a name in the store, or an account written out.
pub(crate) enum RawScopeItem {
    Name(String),
    Inline(Box<RawAccount>),
}

/// An account of a provider or of an upstream's scope.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawAccount {
    pub(crate) name: Key<String>,
    pub(crate) credentials: Key<String>,
    pub(crate) token_env: Key<String>,
    pub(crate) api_key_env: Key<String>,
    pub(crate) keychain: Key<bool>,
    pub(crate) config_dir: Key<String>,
    pub(crate) uuid: Key<String>,
    pub(crate) priority: Key<u32>,
    pub(crate) disabled: Key<bool>,
    pub(crate) threshold: Key<f64>,
    pub(crate) threshold_5h: Key<f64>,
    pub(crate) threshold_7d: Key<f64>,
    pub(crate) threshold_fable: Key<f64>,
    pub(crate) max_utilization: Key<f64>,
    pub(crate) max_utilization_5h: Key<f64>,
    pub(crate) max_utilization_7d: Key<f64>,
    pub(crate) max_utilization_fable: Key<f64>,
    pub(crate) monthly_budget_usd: Key<f64>,
    pub(crate) monthly_requests: Key<u64>,
}

/// `[[models]]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawModel {
    pub(crate) id: Key<String>,
    pub(crate) display_name: Key<String>,
    pub(crate) binds_thinking: Key<bool>,
    pub(crate) upstream_model: Key<Ordered<String>>,
}

/// `[[routes]]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRoute {
    pub(crate) model: Key<String>,
    pub(crate) provider: Key<String>,
}

/// `[[route_prefixes]]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRoutePrefix {
    pub(crate) prefix: Key<String>,
    pub(crate) provider: Key<String>,
}

impl<'de> Deserialize<'de> for RawAuth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            mode: Key<AuthMode>,
            account: Key<RawScopeItem>,
            accounts: Key<Vec<At<RawScopeItem>>>,
        }
        struct AuthVisitor;
        impl<'de> Visitor<'de> for AuthVisitor {
            type Value = RawAuth;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mode, or a table { mode = …, accounts = […] }")
            }

            fn visit_str<E: de::Error>(self, mode: &str) -> Result<RawAuth, E> {
                let short = AuthMode::deserialize(mode.into_deserializer())?;
                Ok(RawAuth { short: Some(short), ..RawAuth::default() })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RawAuth, A::Error> {
                let Long { mode, account, accounts } = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawAuth { mode, short: None, account, accounts })
            }
        }
        deserializer.deserialize_any(AuthVisitor)
    }
}

impl<'de> Deserialize<'de> for RawScopeItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = RawScopeItem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an account's name, or a table { name = …, … }")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<RawScopeItem, E> {
                Ok(RawScopeItem::Name(name.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RawScopeItem, A::Error> {
                let account = RawAccount::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawScopeItem::Inline(Box::new(account)))
            }
        }
        deserializer.deserialize_any(ItemVisitor)
    }
}
