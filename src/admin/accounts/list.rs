//! `accounts.list`: every account with what it is, where it is configured, and how it stands.

use duduclaw_actors::id::{AccountId, CredentialKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::admin::fault::Fault;
use crate::admin::pool::{Look, PoolAccount};
use crate::admin::verb::{Call, Nothing};
use crate::config::topology::{Element, Entry};
use crate::credentials::SecretSource;

/// All accounts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AccountsView {
    /// Each account of each provider, in the order of the configuration.
    pub accounts: Vec<ListedAccount>,
}

/// One account, after something was done to it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AccountAnswer {
    /// The account as it stands now.
    pub account: ListedAccount,
    /// The `provider/name` that was meant: the account's own, or an alias of it.
    pub named: String,
    /// What is to be known besides.
    pub notes: Vec<String>,
}

/// One account of one provider.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListedAccount {
    /// `provider/name`, which no other account has.
    pub id: String,
    /// The provider.
    pub provider: String,
    /// The family.
    pub family: String,
    /// What kind of secret it holds: `oauth`, `setup_token`, `api_key`, `keychain`, `none`.
    pub kind: String,
    /// Where its secret is: a file, or a variable's name. Never the secret.
    pub source: String,
    /// Where it is configured.
    pub declared: String,
    /// How it stands.
    #[serde(flatten)]
    pub standing: PoolAccount,
}

/// All accounts now.
pub(in crate::admin) async fn list(call: Call, _: Nothing) -> Result<AccountsView, Fault> {
    let look = Look::take(&call).await;
    let each =
        call.live.topology.elements().iter().flat_map(|element| element.accounts.iter().map(move |id| (element, *id)));
    Ok(AccountsView { accounts: each.filter_map(|(element, id)| listed(&call, &look, element, id)).collect() })
}

/// One account now, as the element shows it where this entry stands.
pub(super) async fn show(call: &Call, entry: &Entry) -> Option<ListedAccount> {
    let look = Look::take(call).await;
    let element = call.live.topology.elements().get(entry.element)?;
    listed(call, &look, element, entry.account)
}

fn listed(call: &Call, look: &Look<'_>, element: &Element, id: AccountId) -> Option<ListedAccount> {
    let standing = look.account(element, id)?;
    let topology = &call.live.topology;
    let entry = topology.shown_in(element, id).or_else(|| topology.representative(id))?;
    Some(ListedAccount {
        id: format!("{}/{}", element.name, standing.name),
        provider: element.name.to_string(),
        family: element.family.as_str().to_owned(),
        kind: kind(entry.kind).to_owned(),
        source: source(&entry.source),
        declared: entry.place.to_string(),
        standing,
    })
}

pub(super) fn kind(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Oauth => "oauth",
        CredentialKind::SetupToken => "setup_token",
        CredentialKind::ApiKey => "api_key",
        CredentialKind::Keychain => "keychain",
        CredentialKind::None => "none",
    }
}

fn source(source: &SecretSource) -> String {
    match source {
        SecretSource::CredentialsFile(path) | SecretSource::StoreFile(path) => path.display().to_string(),
        SecretSource::TokenEnv(name) | SecretSource::ApiKeyEnv(name) => format!("${name}"),
        SecretSource::Keychain { .. } => "keychain".to_owned(),
        SecretSource::None => "none".to_owned(),
    }
}
