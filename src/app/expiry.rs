//! Tells the accounts when their credentials end for good, so that each warns of it in time.
//!
//! Only what cannot be renewed has such an end. What to make of it is the account's affair.

use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::account::fact::Fact;
use duduclaw_actors::account::health::HealthEvent;
use duduclaw_actors::clock::Wall;
use duduclaw_actors::event::{Event, EventKind};
use duduclaw_actors::id::CredentialKind;
use duduclaw_actors::ports::Observer;
use duduclaw_actors::root::Fleet;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::credentials::{CredentialStatus, Vault};

/// How often it is looked without being told.
const LOOK: Duration = Duration::from_secs(6 * 3600);

/// Rings when a credential may be another.
#[derive(Clone, Debug, Default)]
pub(super) struct Bell(Arc<Notify>);

impl Observer for Bell {
    fn observe(&mut self, event: &Event) {
        let rings =
            matches!(event.kind, EventKind::CredentialRenewed | EventKind::Started { .. } | EventKind::ConfigReloaded);
        if rings {
            self.0.notify_one();
        }
    }
}

/// Looks until cancelled.
pub(super) async fn watch(bell: Bell, fleet: Fleet, vault: Vault, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = bell.0.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        for account in fleet.roster().accounts.keys() {
            let ends = vault.status(*account).and_then(|status| end_of(&status));
            fleet.tell(*account, Fact::Told(HealthEvent::ExpiryTold { ends }));
        }
    }
}

fn end_of(status: &CredentialStatus) -> Option<Wall> {
    status.expires_at.filter(|_| status.kind == Some(CredentialKind::SetupToken))
}
