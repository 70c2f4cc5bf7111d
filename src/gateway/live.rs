//! The configuration in force, as requests see it: each keeps the one under which it came in.
//!
//! Never here: reading or changing it.

use std::sync::Arc;

use duduclaw_actors::id::AccountId;
use http::HeaderName;

use crate::config::settings::Settings;
use crate::config::topology::Topology;
use crate::credentials::Held;
use crate::gateway::count::Uncounting;

/// The header in which clients may show their token, where the configuration names none.
pub static DEFAULT_AUTH_HEADER: HeaderName = HeaderName::from_static("x-duduclaw-token");

/// The configuration in force, as one consistent whole.
#[derive(Debug)]
pub struct Live {
    /// The checked values.
    pub settings: Arc<Settings>,
    /// The fleet's shape.
    pub topology: Arc<Topology>,
    /// Upstreams that were found to count no tokens; another configuration finds out anew.
    pub uncounting: Uncounting,
}

impl Live {
    /// This configuration, in force from now on.
    #[must_use]
    pub fn new(settings: Arc<Settings>, topology: Arc<Topology>) -> Self {
        Self { settings, topology, uncounting: Uncounting::default() }
    }

    /// The header in which clients may show their token.
    #[must_use]
    pub fn auth_header(&self) -> &HeaderName {
        self.settings.server.auth.as_ref().map_or(&DEFAULT_AUTH_HEADER, |gate| &gate.header)
    }

    /// The account's id at its provider, by the configuration or by what its credential says.
    #[must_use]
    pub fn account_uuid(&self, held: Option<&Arc<Held>>, account: AccountId) -> Option<String> {
        let configured = self.topology.representative(account).and_then(|entry| entry.uuid.clone());
        configured.or_else(|| held?.facts.uuid.clone()).filter(|uuid| needs_no_escape(uuid))
    }
}

fn needs_no_escape(uuid: &str) -> bool {
    !uuid.is_empty() && uuid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}
