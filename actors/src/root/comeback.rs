//! After a store that could not be used can be used again: nothing that was kept is lost, nothing that is known is not
//! written.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Fleet, restored, settings_of};
use crate::account::fact::Fact;
use crate::journal::Comeback;
use crate::ports::Record;

/// Looks until cancelled.
pub(super) async fn watch(fleet: Fleet, stop: CancellationToken) {
    let mut comeback = fleet.journal.comeback();
    loop {
        let came = comeback.borrow_and_update().clone();
        match came {
            Comeback::Never => {}
            Comeback::Found(records) => join(&fleet, &records),
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

fn keep_all(fleet: &Fleet) {
    fleet.roster().accounts.keys().for_each(|account| fleet.keep_now(*account));
}
