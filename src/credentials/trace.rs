//! What is kept of a credential across restarts: enough to know it again, and no part of it.
//!
//! Without it a key that was replaced while the daemon was stopped would inherit what was held against the old one.

use duduclaw_actors::id::{CredentialKind, Generation, IdentityKey};
use serde::{Deserialize, Serialize};

use super::document::{Login, Pair};
use super::identity::IdentityFacts;
use super::secret::Fingerprint;
use super::source::Credential;

/// The last credential of an account, as its source gave it or we renewed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Its generation.
    pub generation: Generation,
    kind: CredentialKind,
    access: Fingerprint,
    refresh: Option<Fingerprint>,
    /// The refresh token that the provider will never take again.
    pub(super) dead: Option<Fingerprint>,
    uuid: Option<String>,
    organization: Option<String>,
    plan: Option<String>,
}

impl Trace {
    /// The version of its shape.
    pub const VERSION: u32 = 1;

    /// The name of the fact that it is kept as.
    #[must_use]
    pub fn key(identity: &IdentityKey) -> String {
        format!("credential:{identity}")
    }

    /// Whether the provider will never renew this credential again.
    #[must_use]
    pub fn has_lost(&self, credential: &Credential) -> bool {
        self.dead.is_some() && self.dead == credential.grant
    }

    /// Of this login.
    pub(super) fn of(login: &Login, generation: Generation, dead: Option<Fingerprint>) -> Self {
        let Pair { access, refresh } = login.pair();
        let IdentityFacts { uuid, organization, plan } = login.facts.clone();
        Self { generation, kind: login.kind, access, refresh, dead, uuid, organization, plan }
    }

    /// Whether it is a trace of this very token or key.
    pub(super) fn is_of(&self, login: &Login) -> bool {
        self.access == login.pair().access
    }

    /// Whether this login took its place: another account, plan or kind, or a login after a dead grant. Another program's
    /// renewal keeps all of them.
    pub(super) fn is_replaced_by(&self, login: &Login) -> bool {
        let known_to_differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        self.dead.is_some_and(|dead| Some(dead) != login.pair().refresh)
            || self.kind != CredentialKind::Oauth
            || login.kind != CredentialKind::Oauth
            || known_to_differ(&self.uuid, &login.facts.uuid)
            || known_to_differ(&self.organization, &login.facts.organization)
            || known_to_differ(&self.plan, &login.facts.plan)
    }
}
