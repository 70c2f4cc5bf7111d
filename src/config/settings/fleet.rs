//! Failover units, accounts, models and routes, checked.

use std::sync::Arc;

use duduclaw_actors::id::Family;
use duduclaw_actors::roster::{Cap, Strategy, Switch, WindowCaps, WindowLimits};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::config::origin::BaseUrl;
use crate::config::problem::Place;
use crate::config::secret::SecretSource;

/// What an endpoint speaks (`kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    Responses,
    /// OpenAI's Chat Completions API.
    Chat,
    /// Google's generateContent API.
    Gemini,
}

impl Protocol {
    /// The word in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }
}

/// Whose credential is sent (`auth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// The client's own, untouched.
    Passthrough,
    /// A metered key.
    ApiKey,
    /// Claude logins and setup tokens; metered keys may stand beside them.
    ClaudeOauth,
    /// ChatGPT logins.
    ChatgptOauth,
    /// Kimi logins.
    KimiOauth,
    /// None.
    None,
}

impl AuthMode {
    /// The word in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::ApiKey => "api_key",
            Self::ClaudeOauth => "claude_oauth",
            Self::ChatgptOauth => "chatgpt_oauth",
            Self::KimiOauth => "kimi_oauth",
            Self::None => "none",
        }
    }

    /// Whether accounts are logins.
    #[must_use]
    pub fn is_login(self) -> bool {
        match self {
            Self::ClaudeOauth | Self::ChatgptOauth | Self::KimiOauth => true,
            Self::Passthrough | Self::ApiKey | Self::None => false,
        }
    }
}

/// What accounts without settings of their own get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountDefaults {
    /// Soft thresholds.
    pub thresholds: WindowLimits,
    /// Hard caps.
    pub caps: WindowCaps,
    /// What no soft threshold exceeds.
    pub hard_threshold: f64,
}

/// One failover unit as configured, before the store was asked for names.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its name, unique.
    pub name: Arc<str>,
    /// The provider it belongs to; in configuration by providers the same as its name.
    pub provider: Arc<str>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Which family it belongs to.
    pub family: Family,
    /// Where it is.
    pub base_url: BaseUrl,
    /// Whose credential is sent.
    pub auth: AuthMode,
    /// The strategy it names; `None` = that of `[rotation]`, or what the accounts' kinds suggest.
    pub strategy: Option<Strategy>,
    /// The token endpoint, if not the provider's.
    pub token_url: Option<Url>,
    /// The login page, if not the provider's.
    pub authorize_url: Option<Url>,
    /// The user agent of our own calls, if not ours.
    pub user_agent: Option<http::HeaderValue>,
    /// Most requests at once on each account; `None` = no bound.
    pub max_concurrent: Option<u32>,
    /// Its accounts.
    pub scope: Scope,
    /// Where it is declared.
    pub place: Place,
}

/// Which accounts a unit has.
#[derive(Clone, Debug)]
pub enum Scope {
    /// These, in this order.
    Listed(Vec<AccountEntry>),
    /// Every account of the store's folder for this family, in name order.
    WholeStore,
}

/// One account as configured.
#[derive(Clone, Debug)]
pub struct AccountEntry {
    /// Its name, unique in its unit.
    pub name: Arc<str>,
    /// Where its secret is.
    pub source: SecretSource,
    /// The provider's own id of the account, as configured.
    pub uuid: Option<String>,
    /// Lower is preferred.
    pub priority: u32,
    /// Whether it is on.
    pub switch: Switch,
    /// Soft thresholds, resolved.
    pub thresholds: WindowLimits,
    /// Hard caps, resolved.
    pub caps: WindowCaps,
    /// What may be spent on it in a month.
    pub budget: Cap,
    /// Where it is declared.
    pub place: Place,
}

/// `[[models]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelEntry {
    /// The name that clients use.
    pub id: Arc<str>,
    /// The name that people see.
    pub display_name: Option<String>,
    /// Whether its reasoning is bound to the account that made it, if said.
    pub binds_thinking: Option<bool>,
    /// The units that serve it, each with the model's name there, in order of the units.
    pub upstream_models: Vec<(usize, Arc<str>)>,
}

/// `[[routes]]` or `[[route_prefixes]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The model, or how its name begins.
    pub pattern: String,
    /// The unit that serves it.
    pub unit: usize,
}
