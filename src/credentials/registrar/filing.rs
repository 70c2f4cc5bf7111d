//! Putting a credential into its file of the store, under the lock that its renewals take.
//!
//! Never here: whether it is a good one.

use std::io;
use std::path::{Path, PathBuf};

use super::{Before, NotSaved, Taken};
use crate::credentials::document::{Document, Fresh};
use crate::credentials::error::SourceError;
use crate::credentials::file;
use crate::credentials::identity::IdentityFacts;
use crate::credentials::lock::{Held, RefreshLock, hold};
use crate::credentials::seal::Sealer;
use crate::credentials::source::SecretSource;

/// What was filed.
pub(super) struct Filed {
    pub(super) before: Before,
    pub(super) uuid: Option<String>,
}

/// What lies in the place.
enum Place {
    Empty,
    /// A credential; what else the file holds stays.
    Good(Box<Document>),
    /// One that cannot be had; what else the file holds stays, if it can be read at all.
    Broken(Option<Box<Document>>),
}

/// Whether something may be put there, so that nobody is asked in vain.
pub(super) async fn look(path: &Path, name: &str, taken: Taken, sealer: &Sealer) -> Result<(), NotSaved> {
    let (path, name, sealer) = (path.to_owned(), name.to_owned(), sealer.clone());
    off_thread(move || place(&path, &sealer).and_then(|place| admit(place, &name, taken)).map(drop)).await
}

/// Puts it there.
pub(super) async fn file(
    path: PathBuf,
    name: String,
    fresh: Fresh,
    taken: Taken,
    sealer: Sealer,
) -> Result<Filed, NotSaved> {
    off_thread(move || write(&path, &name, fresh, taken, &sealer)).await
}

fn write(path: &Path, name: &str, mut fresh: Fresh, taken: Taken, sealer: &Sealer) -> Result<Filed, NotSaved> {
    let failed = |source| NotSaved::Write { path: path.to_owned(), source };
    file::private_folder(path.parent().unwrap_or(path)).map_err(failed)?;
    let _lock = lock(path)?;
    let place = place(path, sealer)?;
    let is_senseless = matches!(place, Place::Broken(None));
    let (document, before) = admit(place, name, taken)?;
    if is_senseless {
        set_aside(path).map_err(failed)?;
    }
    if taken == Taken::Renew {
        fresh.facts = completed(fresh.facts, document.facts());
    }
    let source = SecretSource::StoreFile(path.to_owned());
    let bytes = source.with_seals(sealer, |seals| document.with_fresh(&fresh, seals))?;
    file::put(path, &bytes).map_err(failed)?;
    Ok(Filed { before, uuid: fresh.facts.uuid })
}

/// What lies there. A file that cannot be read at all is left alone: it may hold what its owner wants back.
fn place(path: &Path, sealer: &Sealer) -> Result<Place, NotSaved> {
    let source = SecretSource::StoreFile(path.to_owned());
    let document = || {
        let (bytes, _) = file::read(path).ok()?;
        Document::parse(path, &bytes).ok().map(Box::new)
    };
    match source.open(sealer) {
        Ok(_) => Ok(document().map_or(Place::Broken(None), Place::Good)),
        Err(SourceError::Missing { .. }) if path.symlink_metadata().is_err() => Ok(Place::Empty),
        Err(error @ (SourceError::Denied { .. } | SourceError::Missing { .. })) => Err(NotSaved::Blocked(error)),
        Err(_) => Ok(Place::Broken(document())),
    }
}

/// Keeps the bytes of a file that makes no sense under a name that no account has.
fn set_aside(path: &Path) -> io::Result<()> {
    let named = |number: u32| path.with_extension(format!("json.aside-{number}"));
    let mut free = (1..).map(named).filter(|aside| aside.symlink_metadata().is_err());
    match free.next() {
        Some(aside) => std::fs::copy(path, aside).map(drop),
        None => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

fn admit(place: Place, name: &str, taken: Taken) -> Result<(Document, Before), NotSaved> {
    match (place, taken) {
        (Place::Empty, Taken::Renew) => Err(NotSaved::Missing { name: name.to_owned() }),
        (Place::Good(_), Taken::Keep) => Err(NotSaved::Exists { name: name.to_owned() }),
        (Place::Empty, Taken::Keep | Taken::Replace) => Ok((Document::new(), Before::Nothing)),
        (Place::Good(document), Taken::Replace | Taken::Renew) => {
            let kind = document.kind();
            Ok((*document, Before::Account(kind)))
        }
        (Place::Broken(document), _) => {
            let kind = document.as_ref().and_then(|document| document.kind());
            Ok((document.map_or_else(Document::new, |d| *d), Before::Account(kind)))
        }
    }
}

fn completed(given: IdentityFacts, known: IdentityFacts) -> IdentityFacts {
    IdentityFacts {
        uuid: given.uuid.or(known.uuid),
        organization: given.organization.or(known.organization),
        plan: given.plan.or(known.plan),
    }
}

fn lock(path: &Path) -> Result<RefreshLock, NotSaved> {
    match hold(path).map_err(|source| NotSaved::Write { path: path.to_owned(), source })? {
        Held::Ours(lock) => Ok(lock),
        Held::By(_) => Err(NotSaved::Busy(path.to_owned())),
    }
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|death| std::panic::resume_unwind(death.into_panic()))
}
