//! After a store that could not be used can be used again: nothing that was kept is lost, nothing that is known is not
//! written.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Fleet, restored, settings_of};
use crate::account::fact::Fact;
use crate::failover::actor as failover;
use crate::journal::Comeback;
use crate::ports::{Record, Table};

/// Looks until cancelled.
pub(super) async fn watch(fleet: Fleet, stop: CancellationToken) {
    let mut comeback = fleet.journal.comeback();
    loop {
        let came = comeback.borrow_and_update().clone();
        match came {
            Comeback::Never => {}
            Comeback::Found(records) => {
                // First, so that an outage that was told is known when its accounts turn out to be out.
                rejoin(&fleet).await;
                join(&fleet, &records);
            }
            Comeback::Empty => keep_all(&fleet),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = comeback.changed() => if changed.is_err() { return },
        }
    }
}

/// The accounts began cold and may have learnt something meanwhile: the stricter of both is kept.
fn join(fleet: &Fleet, records: &[Record]) {
    let (roster, now) = (fleet.roster(), fleet.now());
    for spec in roster.accounts.values() {
        let settings = settings_of(spec, &roster.rotation);
        let record = records.iter().find(|record| record.key == spec.identity.to_string());
        if let Some(health) = record.and_then(|record| restored(&record.value, spec, settings, now)) {
            fleet.tell(spec.id, Fact::Joined(Arc::new(health)));
            fleet.keep_now(spec.id);
        }
    }
}

/// Outages, messages and conversations were not known either. What began meanwhile stays as it is.
async fn rejoin(fleet: &Fleet) {
    let now = fleet.now();
    for table in [Table::Outages, Table::Outbox, Table::Conversations] {
        match (table, fleet.journal.load(table).await) {
            (Table::Outages, Ok(kept)) => fleet.lasting.join_outages(&kept),
            (Table::Outbox, Ok(kept)) => fleet.lasting.post().restore(&kept, now),
            (_, Ok(kept)) => fleet.failover.recall(failover::conversations(&kept)),
            (table, Err(error)) => tracing::error!(%error, table = table.as_str(), "what was kept cannot be read"),
        }
    }
}

fn keep_all(fleet: &Fleet) {
    fleet.roster().accounts.keys().for_each(|account| fleet.keep_now(*account));
}
