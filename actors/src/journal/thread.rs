//! The store's own thread. It may block; nobody else waits for it unless they asked.

use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;

use super::{Ask, Dirty, Fared, OpenStore};
use crate::ports::{Record, SetAside, Store, StoreError, Table};

/// What the thread is told to do.
pub(super) enum Job {
    /// Write what is dirty.
    Write(oneshot::Sender<Result<(), StoreError>>),
    /// Read a table.
    Load(Table, oneshot::Sender<Result<Vec<Record>, StoreError>>),
    /// Write what is dirty, then answer.
    Ask(Ask),
}

/// The thread's desk: the store, which is opened when it is first needed, and anew after it failed.
struct Desk<T> {
    open: OpenStore,
    dirty: Arc<Dirty>,
    tell: T,
    store: Option<Box<dyn Store>>,
}

/// The thread as its actor holds it.
pub(super) struct Hand {
    jobs: mpsc::Sender<Job>,
    over: oneshot::Receiver<()>,
}

/// Starts the thread; it ends when its hand is dropped. It tells of stores that were set aside.
pub(super) fn start(
    open: OpenStore,
    dirty: Arc<Dirty>,
    tell: impl Fn(SetAside) + Send + 'static,
) -> std::io::Result<Hand> {
    let ((jobs, inbox), (closing, over)) = (mpsc::channel(), oneshot::channel::<()>());
    let mut desk = Desk { open, dirty, tell, store: None };
    std::thread::Builder::new().name("store".to_owned()).spawn(move || {
        while let Ok(job) = inbox.recv() {
            desk.perform(job);
        }
        drop(desk);
        drop(closing);
    })?;
    Ok(Hand { jobs, over })
}

impl Hand {
    /// Orders a job; false if the thread is dead.
    pub(super) fn order(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }

    /// Lets the thread finish what was ordered and close the store.
    pub(super) async fn close(self) {
        drop(self.jobs);
        let _ = self.over.await;
    }
}

impl<T: Fn(SetAside)> Desk<T> {
    fn perform(&mut self, job: Job) {
        let dirty = Arc::clone(&self.dirty);
        let _alone = dirty.alone();
        match job {
            Job::Write(reply) => {
                let _ = reply.send(self.with(|store| write(store, &dirty)));
            }
            Job::Load(table, reply) => {
                let _ = reply.send(self.with(|store| load(store, &dirty, table)));
            }
            Job::Ask(ask) => match self.ready(|store| write(store, &dirty)) {
                Ok(store) => {
                    if ask(Ok(store)) == Fared::Ill {
                        self.store = None;
                    }
                }
                Err(error) => {
                    ask(Err(error));
                }
            },
        }
    }

    /// Works with the store. One that failed is opened anew the next time.
    fn with<R>(&mut self, work: impl FnOnce(&mut dyn Store) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let worked = self.opened().and_then(work);
        if worked.is_err() {
            self.store = None;
        }
        worked
    }

    /// The store after this work.
    fn ready(
        &mut self,
        work: impl FnOnce(&mut dyn Store) -> Result<(), StoreError>,
    ) -> Result<&mut dyn Store, StoreError> {
        self.with(work)?;
        self.opened()
    }

    fn opened(&mut self) -> Result<&mut dyn Store, StoreError> {
        let mut store = match self.store.take() {
            Some(store) => store,
            None => self.open()?,
        };
        if self.dirty.vitals.misses_any() {
            recall(&mut *store, &self.dirty)?;
        }
        Ok(&mut **self.store.insert(store))
    }

    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        let opened = (self.open)()?;
        if let Some(aside) = opened.set_aside {
            (self.tell)(aside);
            self.dirty.vitals.empty();
        }
        Ok(opened.store)
    }
}

/// What was kept of accounts that began without knowing of it must not be written over unread.
fn recall(store: &mut dyn Store, dirty: &Dirty) -> Result<(), StoreError> {
    let missed = dirty.vitals.missed_among(store.load(Table::Health)?);
    dirty.spare(Table::Health, &missed);
    dirty.vitals.found(missed);
    Ok(())
}

/// Only one thread at a time takes records out of the map, so none can be missed between the store and the map.
fn load(store: &mut dyn Store, dirty: &Dirty, table: Table) -> Result<Vec<Record>, StoreError> {
    store.load(table).map(|stored| dirty.overlay(table, stored))
}

fn write(store: &mut dyn Store, dirty: &Dirty) -> Result<(), StoreError> {
    let taken = dirty.take();
    if taken.batch.is_empty() {
        return Ok(());
    }
    store.write(&taken.batch)?;
    taken.kept();
    Ok(())
}
