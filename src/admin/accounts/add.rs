//! `accounts.add` and `accounts.replace`: a token, a key or a whole login becomes an account of the store.
//!
//! The provider is asked before anything is saved, and what was handed over is never repeated: not in the answer, not in
//! an error, not in a log.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::saved::{SavedAnswer, Use, put_to_use};
use crate::admin::fault::{Fault, FaultKind};
use crate::admin::verb::{ACCOUNT_NAME, Call};
use crate::credentials::{
    Destination, DestinationError, NotSaved, Offer, OfferedKind, SecretSource, Taken, is_store_name,
};

/// A name that an account of the store may have.
const STORE_NAME: &str = "^[a-z0-9-]+$";

/// A new account.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Adding {
    /// What it is to be called.
    #[schemars(regex(pattern = STORE_NAME))]
    name: String,
    /// The provider, where there are several.
    provider: Option<String>,
    /// What kind of secret it is, where its first characters do not tell.
    kind: Option<OfferedKind>,
    /// The token or key; for a login the whole text of a credentials file.
    secret: Hidden,
    /// The provider's id of the account.
    uuid: Option<String>,
    /// The organisation's id.
    organization: Option<String>,
    /// Whether it takes the place of an account of that name.
    #[serde(default)]
    replace: bool,
    /// Whether its entry is added to the configuration, where that is needed for it to serve.
    #[serde(default)]
    write_config: bool,
}

/// Another secret for an account.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Replacing {
    /// The account: `name`, or `provider/name` where several have that name.
    #[schemars(regex(pattern = ACCOUNT_NAME))]
    account: String,
    /// What kind of secret it is, where its first characters do not tell.
    kind: Option<OfferedKind>,
    /// The token or key; for a login the whole text of a credentials file.
    secret: Hidden,
    /// The provider's id of the account, if it is another.
    uuid: Option<String>,
    /// The organisation's id, if it is another.
    organization: Option<String>,
}

/// A text that shows itself nowhere.
#[derive(JsonSchema)]
#[schemars(with = "String")]
pub(in crate::admin) struct Hidden(pub(in crate::admin) Zeroizing<String>);

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

/// Saves a new account.
pub(in crate::admin) async fn add(call: Call, adding: Adding) -> Result<SavedAnswer, Fault> {
    let to = Destination::find(&call.live.topology, &call.live.settings, adding.provider.as_deref(), None)?;
    let to = to.saves(&call.live.topology, &adding.name)?;
    let taken = if adding.replace { Taken::Replace } else { Taken::Keep };
    let wanted = if adding.write_config { Use::Configured } else { Use::AsItIs };
    let offer =
        Offer { text: adding.secret.0, kind: adding.kind, uuid: adding.uuid, organization: adding.organization };
    let saved = call.desk.registrar.take(&to, &adding.name, &offer, taken).await?;
    put_to_use(&call, &to, &adding.name, &saved, wanted).await
}

/// Gives an account of the store another secret.
pub(in crate::admin) async fn replace(call: Call, with: Replacing) -> Result<SavedAnswer, Fault> {
    let (to, name) = stored(&call, &with.account)?;
    let offer = Offer { text: with.secret.0, kind: with.kind, uuid: with.uuid, organization: with.organization };
    let saved = call.desk.registrar.take(&to, &name, &offer, Taken::Renew).await?;
    put_to_use(&call, &to, &name, &saved, Use::AsItIs).await
}

/// The provider and the name of a stored account. One that is in no pool is known by its name alone.
fn stored(call: &Call, account: &str) -> Result<(Destination, String), Fault> {
    let (topology, settings) = (&call.live.topology, &call.live.settings);
    let find = |provider: Option<&str>| Destination::find(topology, settings, provider, None).map_err(Fault::from);
    match topology.entry_named(account) {
        Ok(entry) => {
            if let SecretSource::StoreFile(_) = entry.source {
                return Ok((find(Some(&entry.id.provider))?, entry.id.name.to_string()));
            }
            Err(elsewhere(account, &entry.source))
        }
        Err(unknown @ crate::config::topology::NameError::Unknown { .. }) => {
            let (provider, name) = account.rsplit_once('/').map_or((None, account), |(p, name)| (Some(p), name));
            let to = find(provider).map_err(|_| Fault::from(unknown.clone()))?;
            let is_stored =
                is_store_name(name) && to.accounts_dir.join(to.family.as_str()).join(format!("{name}.json")).exists();
            if is_stored { Ok((to, name.to_owned())) } else { Err(unknown.into()) }
        }
        Err(ambiguous) => Err(ambiguous.into()),
    }
}

fn elsewhere(account: &str, source: &SecretSource) -> Fault {
    let text = match source {
        SecretSource::CredentialsFile(path) => {
            format!("the login of {account:?} is kept in {} by another program; log in there", path.display())
        }
        SecretSource::TokenEnv(name) | SecretSource::ApiKeyEnv(name) => {
            format!("the secret of {account:?} is the variable {name}; set it, and start the daemon again")
        }
        SecretSource::Keychain { .. } => format!("{account:?} is a login of a CLI; log in with that"),
        SecretSource::None | SecretSource::StoreFile(_) => format!("{account:?} has no secret"),
    };
    Fault::new(FaultKind::Unprocessable, text)
}

impl From<DestinationError> for Fault {
    fn from(error: DestinationError) -> Self {
        let kind = match error {
            DestinationError::Unknown { .. } => FaultKind::NotFound,
            DestinationError::Several { .. } | DestinationError::Elsewhere { .. } => FaultKind::Conflict,
            DestinationError::None(_) => FaultKind::Unprocessable,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<NotSaved> for Fault {
    fn from(error: NotSaved) -> Self {
        let kind = match error {
            NotSaved::Name => FaultKind::Invalid,
            NotSaved::Exists { .. } => FaultKind::Conflict,
            NotSaved::Missing { .. } => FaultKind::NotFound,
            NotSaved::Busy(_) => FaultKind::Unavailable,
            NotSaved::Offer(_)
            | NotSaved::Refused
            | NotSaved::OrgRefused
            | NotSaved::Seal(_)
            | NotSaved::Blocked(_)
            | NotSaved::Write { .. } => FaultKind::Unprocessable,
        };
        Self::new(kind, error.to_string())
    }
}
