//! Seeing that sources changed: the system's word for it, and a slow look of our own for where that word fails.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use super::Vault;
use super::slot::blocking;

/// How often sources are looked at whatever the system says: network file systems say nothing.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// A change comes as several events; they are answered with one look.
const SETTLE: Duration = Duration::from_millis(50);

impl Vault {
    /// Watches the sources of all accounts until the program ends.
    pub fn watch(&self) {
        let vault = self.clone();
        self.world.tracker.spawn(async move {
            let shutdown = vault.world.shutdown.clone();
            shutdown.run_until_cancelled(vault.keep_watching()).await;
        });
    }

    async fn keep_watching(&self) {
        let (changed, mut changes) = mpsc::channel(1);
        let mut folders = Folders::new(changed);
        loop {
            folders.watch(self.folders().await);
            self.reload_sources().await;
            tokio::select! {
                _ = changes.recv() => tokio::time::sleep(SETTLE).await,
                () = self.assigned.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// The folders of all files, and of what they lead to: a file that is replaced is seen in its folder only.
    async fn folders(&self) -> HashSet<PathBuf> {
        let slots = self.slots.load_full();
        blocking(move || {
            let files = slots.values().flat_map(|slot| slot.files());
            let led_to = |file: &Path| std::fs::canonicalize(file).ok();
            let all = files.flat_map(|file| [led_to(&file), Some(file)]).flatten();
            all.filter_map(|file| file.parent().map(Path::to_owned)).collect()
        })
        .await
    }
}

/// The folders the system watches for us.
struct Folders {
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
}

impl Folders {
    fn new(changed: mpsc::Sender<()>) -> Self {
        let tell = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| is_change(event.kind)) {
                // A full channel holds a change that nobody has answered yet.
                let _ = changed.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(tell);
        let watcher = watcher.inspect_err(|error| tracing::warn!(%error, "files are looked at every 10 s only")).ok();
        Self { watcher, watched: HashSet::new() }
    }

    fn watch(&mut self, wanted: HashSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        for gone in self.watched.difference(&wanted) {
            let _ = watcher.unwatch(gone);
        }
        let watched = &self.watched;
        // A folder that cannot be watched is tried again with the next look.
        self.watched = wanted
            .into_iter()
            .filter(|folder| watched.contains(folder) || watcher.watch(folder, RecursiveMode::NonRecursive).is_ok())
            .collect();
    }
}

/// Our own reading is an event, too, and must not be answered by reading.
fn is_change(kind: EventKind) -> bool {
    !kind.is_access()
}
