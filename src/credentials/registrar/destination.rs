//! Where a credential is to go: which provider it is asked about at, and which folder of the store it lies in.

use std::path::PathBuf;

use duduclaw_actors::id::{EntryId, Family};
use http::HeaderValue;
use reqwest::Url;

use crate::config::origin::BaseUrl;
use crate::config::settings::{AuthMode, Protocol, Settings};
use crate::config::topology::{Element, Topology};
use crate::credentials::offer::Taker;
use crate::credentials::source::SecretSource;

/// A provider that is to have an account.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The provider, as it is called in the configuration.
    pub provider: String,
    /// Its family, which names the folder.
    pub family: Family,
    /// What it speaks.
    pub protocol: Protocol,
    /// Whose credentials it sends.
    pub auth: AuthMode,
    /// Where it is.
    pub base_url: BaseUrl,
    /// The user agent of our own calls, if not ours.
    pub user_agent: Option<HeaderValue>,
    /// The account store's folder.
    pub accounts_dir: PathBuf,
    /// The token endpoint, if not the provider's.
    pub token_url: Option<Url>,
    /// The login page, if not the provider's.
    pub authorize_url: Option<Url>,
}

/// Why no provider is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// None is called so.
    #[error("there is no provider {name:?}; there are {}", all.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// All that are.
        all: Vec<String>,
    },
    /// Several may be meant.
    #[error("say which provider it is for: --provider {}", all.join(", --provider "))]
    Several {
        /// Those that may be meant.
        all: Vec<String>,
    },
    /// The account is there, and its secret is kept elsewhere.
    #[error(
        "{account} has its secret elsewhere ({place}), where it is changed; take that out of its entry first, or choose another name"
    )]
    Elsewhere {
        /// The account.
        account: String,
        /// The key of its entry that says where.
        place: String,
    },
    /// None can be meant.
    #[error("no configured provider takes such an account; add one to the configuration:\n\n{}", wanted(*.0))]
    None(Option<Family>),
}

/// A provider that takes logins of a family, as text of a configuration.
fn wanted(family: Option<Family>) -> &'static str {
    match family {
        Some(Family::Codex) => {
            "[providers.codex]\nkind = \"responses\"\nbase_url = \"https://chatgpt.com/backend-api/codex\"\n\
             auth = \"chatgpt_oauth\""
        }
        Some(Family::Claude | Family::Gemini | Family::Local) | None => {
            "[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"https://api.anthropic.com\"\nauth = \"claude_oauth\""
        }
    }
}

fn place_of(source: &SecretSource) -> Option<String> {
    match source {
        SecretSource::CredentialsFile(path) => Some(format!("credentials = \"{}\"", path.display())),
        SecretSource::TokenEnv(name) => Some(format!("token_env = \"{name}\"")),
        SecretSource::ApiKeyEnv(name) => Some(format!("api_key_env = \"{name}\"")),
        SecretSource::Keychain { .. } => Some("keychain = true".to_owned()),
        SecretSource::StoreFile(_) | SecretSource::None => None,
    }
}

impl Destination {
    /// The provider of this name; without one, the only one that takes logins of this family, or accounts at all.
    ///
    /// # Errors
    /// When none is meant, or several may be.
    pub fn find(
        topology: &Topology,
        settings: &Settings,
        name: Option<&str>,
        login_of: Option<Family>,
    ) -> Result<Self, DestinationError> {
        let all = topology.elements();
        let of = |element: &Element| Self::of(element, settings);
        if let Some(name) = name {
            let named = |element: &&Element| *element.name == *name || *element.provider == *name;
            let exact = all.iter().find(|element| *element.name == *name).or_else(|| all.iter().find(named));
            let all = || all.iter().map(|element| element.name.to_string()).collect();
            return exact.map(of).ok_or_else(|| DestinationError::Unknown { name: name.to_owned(), all: all() });
        }
        let fits = |element: &&Element| match login_of {
            Some(family) => element.family == family && element.auth.is_login(),
            None => !matches!(element.auth, AuthMode::Passthrough | AuthMode::None),
        };
        let mut fitting: Vec<&Element> = all.iter().filter(fits).collect();
        // Units of one provider lead to one store.
        fitting.dedup_by(|a, b| a.provider == b.provider);
        match fitting.as_slice() {
            [] => Err(DestinationError::None(login_of)),
            [one] => Ok(of(one)),
            several => Err(DestinationError::Several { all: several.iter().map(|one| one.name.to_string()).collect() }),
        }
    }

    /// The same, for an account of this name that is to be saved: one whose secret the configuration has elsewhere would
    /// never use what is stored.
    ///
    /// # Errors
    /// When there is such an account.
    pub fn saves(self, topology: &Topology, name: &str) -> Result<Self, DestinationError> {
        let id = EntryId { provider: self.provider.as_str().into(), name: name.into() };
        let place = topology.entries().iter().find(|entry| entry.id == id).and_then(|entry| place_of(&entry.source));
        place.map_or(Ok(self), |place| Err(DestinationError::Elsewhere { account: id.to_string(), place }))
    }

    fn of(element: &Element, settings: &Settings) -> Self {
        Self {
            provider: element.name.to_string(),
            family: element.family,
            protocol: element.protocol,
            auth: element.auth,
            base_url: element.base_url.clone(),
            user_agent: element.user_agent.clone(),
            accounts_dir: settings.accounts_dir.clone(),
            token_url: element.token_url.clone(),
            authorize_url: element.authorize_url.clone(),
        }
    }

    pub(crate) fn taker(&self) -> Taker<'_> {
        Taker { provider: &self.provider, family: self.family, auth: self.auth }
    }
}
