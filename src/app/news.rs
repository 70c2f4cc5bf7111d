//! From the vault to the fleet: what happens to a credential, as the account's health wants to hear it.

use std::collections::BTreeMap;

use duduclaw_actors::account::fact::Fact;
use duduclaw_actors::account::health::{Check, HealthEvent};
use duduclaw_actors::event::{Event, EventKind, Severity};
use duduclaw_actors::id::{AccountId, IdentityKey};
use duduclaw_actors::outcome::Evidence;
use duduclaw_actors::ports::{EventSink, Table};
use duduclaw_actors::root::Fleet;

use crate::credentials::{CredentialEvents, CredentialNews, Trace};

/// Passes news on.
#[derive(Clone, Debug)]
pub struct NewsDesk {
    fleet: Fleet,
}

impl NewsDesk {
    /// A desk that tells this fleet.
    #[must_use]
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet }
    }

    fn tell(&self, account: AccountId, event: HealthEvent<'static>) {
        self.fleet.tell(account, Fact::Told(event));
    }

    fn note(&self, account: AccountId, kind: EventKind, severity: Severity) {
        let entry = self.fleet.entry(account);
        let ts = self.fleet.now();
        self.fleet.feed.emit(Event { seq: 0, ts, kind, severity, account: entry, evidence: Evidence::default() });
    }
}

impl CredentialEvents for NewsDesk {
    fn happened(&self, account: AccountId, news: CredentialNews) {
        match news {
            CredentialNews::Renewed { generation, .. } => {
                self.tell(account, HealthEvent::TokenRefreshed { generation });
            }
            CredentialNews::Adopted { generation } => {
                self.note(account, EventKind::TokenAdopted, Severity::Info);
                self.tell(account, HealthEvent::TokenRefreshed { generation });
            }
            CredentialNews::Replaced { generation } => {
                self.tell(account, HealthEvent::CredentialRenewed { generation, check: Check::Passed });
            }
            CredentialNews::ReplacedUnverified { generation } => {
                self.tell(account, HealthEvent::CredentialRenewed { generation, check: Check::Undecided });
            }
            CredentialNews::Broke { cause, detail } => {
                let account_name = self.name(account);
                tracing::error!(account = account_name, detail, "the secret of an account cannot be had");
                self.tell(account, HealthEvent::CredentialBroke { cause });
            }
            CredentialNews::ReadAgain { generation } => {
                self.tell(account, HealthEvent::CredentialRead { generation });
            }
            CredentialNews::GrantLost { access_until } => {
                self.tell(account, HealthEvent::GrantLost { access_until });
            }
            CredentialNews::RefreshFailed { detail, .. } => {
                self.note(account, EventKind::RefreshFailed { detail }, Severity::Warning);
            }
            CredentialNews::NotSaved { detail } => {
                let detail = format!("the renewed login could not be saved: {detail}");
                self.note(account, EventKind::RefreshFailed { detail }, Severity::Error);
            }
            CredentialNews::Saved => tracing::info!(account = self.name(account), "the renewed login is saved now"),
        }
    }

    /// Also of one that comes in with a reload, and is in no roster yet.
    fn name(&self, account: AccountId) -> String {
        self.fleet.entry(account).map(|entry| entry.to_string()).unwrap_or_default()
    }

    fn remember(&self, account: AccountId, trace: &Trace) {
        let Some(identity) = self.fleet.identity(account) else { return };
        match serde_json::to_vec(trace) {
            Ok(value) => self.fleet.journal.remember(Table::Facts, Trace::key(&identity), Trace::VERSION, value),
            Err(error) => tracing::error!(%error, "what is to be known of a credential cannot be written down"),
        }
    }
}

/// What is remembered of credentials, by the accounts' identities.
#[derive(Debug, Default)]
pub(super) struct Traces(BTreeMap<String, Trace>);

impl Traces {
    /// All that is remembered. What cannot be read is not known.
    pub(super) async fn recall(fleet: &Fleet) -> Self {
        let facts = fleet.journal.load(Table::Facts).await.inspect_err(|error| {
            tracing::error!(%error, "what is remembered of credentials cannot be read; none counts as replaced");
        });
        let known = facts.unwrap_or_default().into_iter().filter(|fact| fact.version == Trace::VERSION);
        Self(known.filter_map(|fact| Some((fact.key, serde_json::from_slice(&fact.value).ok()?))).collect())
    }

    /// What is remembered of this account's.
    pub(super) fn of(&self, identity: &IdentityKey) -> Option<Trace> {
        self.0.get(&Trace::key(identity)).cloned()
    }
}
