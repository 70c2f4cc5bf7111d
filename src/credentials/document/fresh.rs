//! A credential that is saved for the first time, or in another's place: what stands in the file beside it stays.
//!
//! Never here: whether it may be saved.

use std::path::PathBuf;

use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::CredentialKind;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::shape::{
    CLAUDE, CLAUDE_ACCESS, CLAUDE_REFRESH, CODEX, CODEX_ACCESS, CODEX_ID, CODEX_REFRESH, OWN_KEY, Shape,
};
use super::{Document, LINK, Login, ORGANIZATION, PENDING, Proof, Seals, UUID};
use crate::credentials::identity::IdentityFacts;
use crate::credentials::seal::SealError;
use crate::credentials::secret::Secret;

/// A credential to be saved.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    pub(crate) content: Content,
    pub(crate) facts: IdentityFacts,
    pub(crate) proof: Proof,
    pub(crate) origin: Origin,
}

/// The secrets.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A Claude login that can be renewed.
    Login { access: Secret, refresh: Secret, expires_at: Option<Wall>, scopes: Vec<String> },
    /// A Claude token that cannot.
    SetupToken { token: Secret, expires_at: Option<Wall> },
    /// A ChatGPT login.
    ChatGpt { access: Secret, refresh: Secret, id: Secret },
    /// A metered key.
    Key(Secret),
}

/// Whether it is ours alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is.
    Own,
    /// It is a copy of what this file of another program holds, which goes on using it.
    Linked(PathBuf),
}

impl Content {
    pub(crate) fn kind(&self) -> CredentialKind {
        match self {
            Self::Login { .. } | Self::ChatGpt { .. } => CredentialKind::Oauth,
            Self::SetupToken { .. } => CredentialKind::SetupToken,
            Self::Key(_) => CredentialKind::ApiKey,
        }
    }

    /// What is sent with requests.
    pub(crate) fn secret(&self) -> &Secret {
        match self {
            Self::Login { access, .. } | Self::ChatGpt { access, .. } => access,
            Self::SetupToken { token, .. } => token,
            Self::Key(key) => key,
        }
    }

    fn place(&self) -> Option<&'static str> {
        match self {
            Self::Login { .. } | Self::SetupToken { .. } => Some(CLAUDE),
            Self::ChatGpt { .. } => Some(CODEX),
            Self::Key(_) => None,
        }
    }
}

impl Document {
    /// What this login of the file would be on its own; `None` if it lacks what renews it.
    pub(crate) fn content(&self, login: Login) -> Option<Content> {
        let (access, expires_at) = (login.access, login.expires_at);
        match Shape::of(&self.root) {
            Shape::Claude => Some(match login.refresh {
                Some(refresh) => Content::Login { access, refresh, expires_at, scopes: self.scopes() },
                None => Content::SetupToken { token: access, expires_at },
            }),
            Shape::Codex => {
                let id = CODEX_ID.of(&self.root).and_then(Value::as_str).and_then(|id| Secret::parse(id).ok())?;
                Some(Content::ChatGpt { access, refresh: login.refresh?, id })
            }
            Shape::Key(_) => Some(Content::Key(access)),
        }
    }

    fn scopes(&self) -> Vec<String> {
        let scopes = self.root.get(CLAUDE).and_then(|login| login.get("scopes")).and_then(Value::as_array);
        scopes.into_iter().flatten().filter_map(|scope| scope.as_str().map(str::to_owned)).collect()
    }

    /// A credential as the text of a file, open for whoever is to save it.
    pub(crate) fn text_of(fresh: &Fresh) -> Zeroizing<String> {
        let bytes = Self::new().with_fresh(fresh, &Seals::FOREIGN).expect("nothing is sealed");
        Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The file's bytes with this credential in the place of the one before.
    pub(crate) fn with_fresh(mut self, fresh: &Fresh, seals: &Seals<'_>) -> Result<Zeroizing<Vec<u8>>, SealError> {
        self.clear();
        if let Some(table) = fresh.content.place() {
            self.root.insert(table.into(), Value::Object(Map::new()));
        }
        self.note(fresh);
        match &fresh.content {
            Content::Login { access, refresh, expires_at, scopes } => {
                self.put(CLAUDE_ACCESS, access, seals)?;
                self.put(CLAUDE_REFRESH, refresh, seals)?;
                let plan = fresh.facts.plan.as_ref();
                self.describe(
                    &json!({"expiresAt": expires_at.map(|end| end.0), "scopes": scopes, "subscriptionType": plan}),
                );
            }
            Content::SetupToken { token, expires_at } => {
                self.put(CLAUDE_ACCESS, token, seals)?;
                self.describe(&json!({"expiresAt": expires_at.map(|end| end.0), "scopes": ["user:inference"]}));
            }
            Content::ChatGpt { access, refresh, id } => {
                self.put(CODEX_ID, id, seals)?;
                self.put(CODEX_ACCESS, access, seals)?;
                self.put(CODEX_REFRESH, refresh, seals)?;
                let uuid = fresh.facts.uuid.clone();
                if let Some(Value::Object(tokens)) = self.root.get_mut(CODEX) {
                    tokens.insert("account_id".into(), uuid.into());
                }
            }
            Content::Key(key) => self.put(OWN_KEY, key, seals)?,
        }
        Ok(self.bytes())
    }

    /// Takes the credential before away, with all that was said of it.
    fn clear(&mut self) {
        let of_it = [CLAUDE, CODEX, "duduclawApiKey", "OPENAI_API_KEY", "shuntAccountUuid", "organizationUuid"];
        for key in of_it.into_iter().chain([UUID, ORGANIZATION, PENDING, LINK]) {
            self.root.shift_remove(key);
        }
    }

    fn note(&mut self, fresh: &Fresh) {
        let mut note = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                self.root.insert(key.into(), value.into());
            }
        };
        note(UUID, fresh.facts.uuid.clone());
        note(ORGANIZATION, fresh.facts.organization.clone());
        if let Origin::Linked(file) = &fresh.origin {
            note(LINK, Some(file.display().to_string()));
        }
        if fresh.proof == Proof::Pending {
            self.root.insert(PENDING.into(), true.into());
        }
    }

    /// Adds to a Claude login what is known of it.
    fn describe(&mut self, more: &Value) {
        let known = more.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        if let Some(Value::Object(login)) = self.root.get_mut(CLAUDE) {
            login.extend(known.map(|(key, value)| (key.clone(), value.clone())));
        }
    }
}
