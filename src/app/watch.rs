//! Notices when the configuration or the account store changed.
//!
//! The system tells of changes in the folders; a slow look heals what it does not tell, on network drives for example.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::reload::Reloader;

/// Editors write in several steps: this long after a change nothing more must happen before it is read.
const SETTLE: Duration = Duration::from_millis(150);
/// How often it is looked without being told.
const LOOK: Duration = Duration::from_secs(10);

/// Watches until cancelled.
pub(super) fn watch(reloader: Arc<Reloader>, stop: CancellationToken) {
    let tasks = reloader.tasks();
    tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = run(&reloader) => {}
        }
    });
}

async fn run(reloader: &Reloader) {
    let (told, mut changes) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |_| {
        let _ = told.try_send(());
    })
    .inspect_err(|error| tracing::warn!(%error, "changes of files are not told; they are looked for instead"))
    .ok();
    loop {
        follow(watcher.as_mut(), reloader.seen().await.folders());
        if reloader.seen().await.has_changed() {
            // What is refused was said.
            let _ = reloader.reload().await;
            continue;
        }
        tokio::select! {
            told = changes.recv() => if told.is_none() { tokio::time::sleep(LOOK).await },
            () = tokio::time::sleep(LOOK) => {}
        }
        tokio::time::sleep(SETTLE).await;
        while changes.try_recv().is_ok() {}
    }
}

/// A folder that is not there yet shows in the nearest one above it.
fn follow<'a>(watcher: Option<&mut notify::RecommendedWatcher>, folders: impl Iterator<Item = &'a Path>) {
    let Some(watcher) = watcher else { return };
    for folder in folders.filter_map(|folder| folder.ancestors().find(|ancestor| ancestor.is_dir())) {
        if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
            tracing::debug!(%error, folder = %folder.display(), "a folder cannot be watched");
        }
    }
}
