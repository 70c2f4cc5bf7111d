//! What a gateway for one run remembers by, and how it makes way for the daemon.

use std::time::Duration;

use duduclaw_actors::clock::SharedClock;
use duduclaw_actors::journal::{Journal, OpenStore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Home, Memory, Role};
use crate::store::{Handover, StoreFile, in_memory};

/// How often it is looked whether a daemon is there by now. Its start waits for the store so long.
const LOOK: Duration = Duration::from_secs(1);

/// How the store is opened; and how it is handed over, by whom it is only borrowed.
pub(super) fn store(memory: Memory, role: Role, home: &Home, clock: &SharedClock) -> (OpenStore, Option<Handover>) {
    let file = || StoreFile::at(home.store_path(), SharedClock::clone(clock));
    match (memory, role) {
        (Memory::OfHome, Role::Daemon) => (file().opener(), None),
        (Memory::OfHome, Role::Companion) => {
            let (open, handover) = file().shared_opener();
            (open, Some(handover))
        }
        (Memory::OfThisRun, _) => (in_memory(), None),
        (Memory::Of(open), _) => (open, None),
    }
}

/// Looks for a daemon, and hands the store over when there is one. What happens from then on is remembered for this run.
pub(super) fn give_way(tasks: &TaskTracker, home: Home, journal: Journal, handover: Handover, stop: CancellationToken) {
    tasks.spawn(async move {
        while handover.is_ahead() {
            if home.is_taken() {
                hand_over(&journal, &handover).await;
            }
            if stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                return;
            }
        }
    });
}

async fn hand_over(journal: &Journal, handover: &Handover) {
    handover.begin();
    if let Err(error) = journal.close_store().await {
        tracing::error!(%error, "what happened last could not be written before the daemon took the store");
    }
    // Whoever asks next gets the other store, so the first one is closed by now.
    let _ = journal.flush().await;
    tracing::info!("a daemon runs now and has the store; this run is remembered no further");
}
