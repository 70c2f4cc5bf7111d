//! The shapes of credential files, and where in each its secrets stand.
//!
//! Claude Code's: `claudeAiOauth {accessToken, refreshToken, expiresAt (ms), scopes, subscriptionType, …}`. Codex's:
//! `tokens {access_token, refresh_token, id_token, account_id}`, or a key as `OPENAI_API_KEY`. A metered key of our own
//! store: `duduclawApiKey`. Never here: what the values are.

use duduclaw_actors::id::CredentialKind;
use serde_json::{Map, Value};

/// The table of a Claude login.
pub(super) const CLAUDE: &str = "claudeAiOauth";
/// The table of a ChatGPT login.
pub(super) const CODEX: &str = "tokens";

/// What a file is shaped like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Claude,
    Codex,
    Key(Field),
}

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    table: Option<&'static str>,
    key: &'static str,
    /// The whole way to it, by which it is named and sealed.
    pub(super) name: &'static str,
}

pub(super) const CLAUDE_ACCESS: Field =
    Field { table: Some(CLAUDE), key: "accessToken", name: "claudeAiOauth.accessToken" };
pub(super) const CLAUDE_REFRESH: Field =
    Field { table: Some(CLAUDE), key: "refreshToken", name: "claudeAiOauth.refreshToken" };
pub(super) const CODEX_ACCESS: Field = Field { table: Some(CODEX), key: "access_token", name: "tokens.access_token" };
pub(super) const CODEX_REFRESH: Field =
    Field { table: Some(CODEX), key: "refresh_token", name: "tokens.refresh_token" };
pub(super) const CODEX_ID: Field = Field { table: Some(CODEX), key: "id_token", name: "tokens.id_token" };
pub(super) const OWN_KEY: Field = Field { table: None, key: "duduclawApiKey", name: "duduclawApiKey" };
const OPENAI_KEY: Field = Field { table: None, key: "OPENAI_API_KEY", name: "OPENAI_API_KEY" };

impl Shape {
    /// What this file is shaped like; one that says nothing is a login of Claude that lacks everything.
    pub(super) fn of(root: &Map<String, Value>) -> Self {
        if root.contains_key(CLAUDE) {
            Self::Claude
        } else if root.contains_key(OWN_KEY.key) {
            Self::Key(OWN_KEY)
        } else if root.get(CODEX).is_some_and(Value::is_object) {
            Self::Codex
        } else if root.get(OPENAI_KEY.key).is_some_and(Value::is_string) {
            Self::Key(OPENAI_KEY)
        } else {
            Self::Claude
        }
    }

    /// The table in which the secrets stand, if in one.
    pub(super) fn table(self) -> Option<&'static str> {
        self.access().table
    }

    pub(super) fn access(self) -> Field {
        match self {
            Self::Claude => CLAUDE_ACCESS,
            Self::Codex => CODEX_ACCESS,
            Self::Key(field) => field,
        }
    }

    pub(super) fn refresh(self) -> Option<Field> {
        match self {
            Self::Claude => Some(CLAUDE_REFRESH),
            Self::Codex => Some(CODEX_REFRESH),
            Self::Key(_) => None,
        }
    }

    pub(super) fn kind(self, is_refreshable: bool) -> CredentialKind {
        match self {
            Self::Key(_) => CredentialKind::ApiKey,
            Self::Claude | Self::Codex if is_refreshable => CredentialKind::Oauth,
            Self::Claude | Self::Codex => CredentialKind::SetupToken,
        }
    }
}

impl Field {
    /// The value there.
    pub(super) fn of(self, root: &Map<String, Value>) -> Option<&Value> {
        match self.table {
            Some(table) => root.get(table)?.get(self.key),
            None => root.get(self.key),
        }
    }

    /// Puts a value there, if its table is there.
    pub(super) fn set(self, root: &mut Map<String, Value>, text: String) {
        let place = match self.table {
            Some(table) => root.get_mut(table).and_then(Value::as_object_mut),
            None => Some(root),
        };
        if let Some(place) = place {
            place.insert(self.key.into(), text.into());
        }
    }
}
