//! Notices when the configuration or the account store changed.
//!
//! The system tells of changes in the folders; a slow look heals what it does not tell, on network drives for example.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecursiveMode, Watcher, WatcherKind};
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
    let mut followed = notify::recommended_watcher(move |_| {
        let _ = told.try_send(());
    })
    .inspect_err(|error| tracing::warn!(%error, "changes of files are not told; they are looked for instead"))
    .map(Followed::by)
    .ok();
    loop {
        if let Some(followed) = &mut followed {
            followed.follow(reloader.seen().await.folders());
        }
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

/// The folders whose changes the system tells of.
struct Followed<W> {
    watcher: W,
    known: HashSet<PathBuf>,
}

impl<W: Watcher> Followed<W> {
    fn by(watcher: W) -> Self {
        Self { watcher, known: HashSet::new() }
    }

    /// A folder that is not there yet shows in the nearest one above it.
    fn follow<'a>(&mut self, folders: impl Iterator<Item = &'a Path>) {
        for folder in folders.filter_map(|folder| folder.ancestors().find(|ancestor| ancestor.is_dir())) {
            if let Err(error) = self.watch(folder) {
                tracing::debug!(%error, folder = %folder.display(), "a folder cannot be watched");
            }
        }
    }

    /// Linux is given each folder every time, and so finds the one that came in the place of another. macOS goes by
    /// names, and begins its stream of events anew with every folder it is given, known or not, so it gets each once.
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        if W::kind() != WatcherKind::Fsevent {
            return self.watcher.watch(folder, RecursiveMode::NonRecursive);
        }
        let place = folder.canonicalize()?;
        if !self.known.contains(&place) {
            self.watcher.watch(&place, RecursiveMode::NonRecursive)?;
            self.known.insert(place);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use notify::{Config, EventHandler};

    use super::*;

    /// Writes down what it is given, as the watcher of this kind would be.
    struct Given<const FSEVENTS: bool>(Vec<PathBuf>);

    impl<const FSEVENTS: bool> Watcher for Given<FSEVENTS> {
        fn new<F: EventHandler>(_: F, _: Config) -> notify::Result<Self> {
            Ok(Self(Vec::new()))
        }

        fn watch(&mut self, path: &Path, _: RecursiveMode) -> notify::Result<()> {
            self.0.push(path.to_owned());
            Ok(())
        }

        fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
            Ok(())
        }

        fn kind() -> WatcherKind {
            if FSEVENTS { WatcherKind::Fsevent } else { WatcherKind::Inotify }
        }
    }

    #[test]
    fn fsevents_is_given_a_folder_once_under_its_own_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let real = dir.path().canonicalize().expect("it is there").join("real");
        let link = dir.path().join("link");
        std::fs::create_dir(&real).expect("writable");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        let mut followed = Followed::by(Given::<true>(Vec::new()));
        for _ in 0..3 {
            followed.follow([real.as_path(), &link, &link.join("not there yet")].into_iter());
        }
        assert_eq!(followed.watcher.0, [real]);
    }

    #[test]
    fn inotify_is_given_a_folder_every_time_since_another_may_have_its_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut followed = Followed::by(Given::<false>(Vec::new()));
        followed.follow(std::iter::once(dir.path()));
        followed.follow(std::iter::once(dir.path()));
        assert_eq!(followed.watcher.0, [dir.path(), dir.path()]);
    }
}
