//! Names for things: what is configured, what is stored, what is in memory, and who asks.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An account in memory: small, dense, stable for the process's life. One per identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AccountId(pub u32);

/// A failover unit in memory (an element of a chain): provider, account scope and model map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UpstreamId(pub u32);

/// One lease: permission to spend one attempt on one account. Never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// Counts how often an account's credential was replaced. Evidence of an older one is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u64);

/// The number of a piece of evidence in its account's inbox; later evidence has a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EvidenceSeq(pub u64);

/// What decides login kind, quota rules and the store folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Anthropic's Claude.
    Claude,
    /// OpenAI's Codex and API.
    Codex,
    /// Google's Gemini.
    Gemini,
    /// A model server on the user's own machines.
    Local,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Local];

    /// The name used in configuration, paths and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Local => "local",
        }
    }
}

/// What kind of secret an account holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// A login that can be refreshed.
    Oauth,
    /// A long-lived token that cannot.
    SetupToken,
    /// A metered key.
    ApiKey,
    /// A CLI's own login; no secret is held here.
    Keychain,
    /// No secret at all: local servers, and accounts whose client brings its own.
    None,
}

/// A configured account: its provider and its name there. Shown as `provider/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryId {
    /// The provider's (or upstream's) name.
    pub provider: Arc<str>,
    /// The account's name, unique in its provider.
    pub name: Arc<str>,
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

/// Who an account is, whatever it is called: entries of one identity share one state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum IdentityKey {
    /// The provider's own account id, and the organisation where known. Unknown is not the same as known.
    Verified {
        /// The family that issued the id.
        family: Family,
        /// The provider's account id.
        uuid: String,
        /// The organisation's id.
        organization: Option<String>,
    },
    /// A file of the account store.
    Stored {
        /// The store's folder.
        family: Family,
        /// The file's name without its ending.
        name: String,
    },
    /// Known only by where it stands in the configuration.
    Inline {
        /// The provider or upstream.
        upstream: String,
        /// The account's name there.
        name: String,
    },
}

impl fmt::Display for IdentityKey {
    /// The key of the identity's records in the store: never changes for one identity.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verified { family, uuid, organization: None } => write!(f, "verified:{}:{uuid}", family.as_str()),
            Self::Verified { family, uuid, organization: Some(organization) } => {
                write!(f, "verified:{}:{uuid}:{organization}", family.as_str())
            }
            Self::Stored { family, name } => write!(f, "stored:{}:{name}", family.as_str()),
            Self::Inline { upstream, name } => write!(f, "inline:{upstream}:{name}"),
        }
    }
}

/// Who asks. Conversations, budgets and permissions hang on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The named client whose token was shown; none on an open gateway.
    pub client: Option<Arc<str>>,
    /// The agent on whose behalf a job runs.
    pub agent: Option<Arc<str>>,
    /// The job that runs.
    pub job: Option<Arc<str>>,
}

/// One conversation of one principal: a hash of principal, session and agent ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConversationKey(pub u128);

/// Which models a request is for, as far as model-scoped quota windows care.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelScope {
    /// No model-scoped window governs it.
    #[default]
    Base,
    /// The window `7d_oi` governs it.
    Fable,
}

impl ModelScope {
    /// The scope of a model id: any that contains `fable`, whatever the case, is in [`ModelScope::Fable`].
    #[must_use]
    pub fn of_model(model: &str) -> Self {
        let found = model.as_bytes().windows(5).any(|w| w.eq_ignore_ascii_case(b"fable"));
        if found { Self::Fable } else { Self::Base }
    }

    /// The scope of a request that names several models: the narrowest of them.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        self.max(other)
    }
}

/// A quota window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Window {
    /// `5h`.
    FiveHour,
    /// `7d`.
    Weekly,
    /// `7d_oi`, which governs the models of [`ModelScope::Fable`].
    WeeklyFable,
    /// Any other, by its raw name.
    Other(String),
}

impl Window {
    /// The window of a raw name as it stands in a header.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "5h" => Self::FiveHour,
            "7d" => Self::Weekly,
            "7d_oi" => Self::WeeklyFable,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The raw name as it stands in a header.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::FiveHour => "5h",
            Self::Weekly => "7d",
            Self::WeeklyFable => "7d_oi",
            Self::Other(name) => name,
        }
    }

    /// How long the window is; unknown ones count as weekly.
    #[must_use]
    pub fn length(&self) -> std::time::Duration {
        const HOUR: u64 = 3600;
        match self {
            Self::FiveHour => std::time::Duration::from_secs(5 * HOUR),
            Self::Weekly | Self::WeeklyFable | Self::Other(_) => std::time::Duration::from_secs(7 * 24 * HOUR),
        }
    }
}

impl From<Window> for String {
    fn from(window: Window) -> Self {
        window.name().to_owned()
    }
}

impl From<String> for Window {
    fn from(name: String) -> Self {
        Self::from_name(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fable_model_is_told_whatever_its_case() {
        assert_eq!(ModelScope::of_model("claude-FABLE-5"), ModelScope::Fable);
        assert_eq!(ModelScope::of_model("claude-fabl-5"), ModelScope::Base);
        assert_eq!(ModelScope::Base.join(ModelScope::Fable), ModelScope::Fable);
    }

    #[test]
    fn a_window_keeps_its_raw_name() {
        for name in ["5h", "7d", "7d_oi", "30d_zz"] {
            assert_eq!(Window::from_name(name).name(), name);
        }
    }
}
