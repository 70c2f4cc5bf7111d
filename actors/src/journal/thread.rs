//! The store's own thread. It may block; nobody else waits for it unless they asked.

use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;

use super::{Ask, Dirty, OpenStore};
use crate::ports::{Batch, Record, Store, StoreError, Table};

/// What the thread is told to do.
pub(super) enum Job {
    /// Write what is dirty.
    Write(oneshot::Sender<Result<(), StoreError>>),
    /// Read a table.
    Load(Table, oneshot::Sender<Result<Vec<Record>, StoreError>>),
    /// Write what is dirty, then answer.
    Ask(Ask),
}

/// Starts the thread; it ends when the sender is dropped.
pub(super) fn start(open: OpenStore, dirty: Arc<Dirty>) -> std::io::Result<mpsc::Sender<Job>> {
    let (jobs, inbox) = mpsc::channel();
    std::thread::Builder::new().name("store".to_owned()).spawn(move || run(&open, &dirty, &inbox))?;
    Ok(jobs)
}

fn run(open: &OpenStore, dirty: &Dirty, inbox: &mpsc::Receiver<Job>) {
    let mut store: Option<Box<dyn Store>> = None;
    while let Ok(job) = inbox.recv() {
        match job {
            Job::Write(reply) => {
                let _ = reply.send(opened(&mut store, open).and_then(|store| write(store, dirty)));
            }
            Job::Ask(ask) => {
                let store = opened(&mut store, open).and_then(|store| write(store, dirty).map(|()| store));
                ask(store);
            }
            Job::Load(table, reply) => {
                let _ = reply.send(opened(&mut store, open).and_then(|store| load(store, dirty, table)));
            }
        }
    }
}

fn opened<'a>(store: &'a mut Option<Box<dyn Store>>, open: &OpenStore) -> Result<&'a mut dyn Store, StoreError> {
    let store = match store {
        Some(store) => store,
        None => store.insert(open()?),
    };
    Ok(&mut **store)
}

/// Only this thread takes records out of the map, so none can be missed between the store and the map.
fn load(store: &mut dyn Store, dirty: &Dirty, table: Table) -> Result<Vec<Record>, StoreError> {
    store.load(table).map(|stored| dirty.overlay(table, stored))
}

/// Puts the batch back unless it was written, also when the store panics.
fn write(store: &mut dyn Store, dirty: &Dirty) -> Result<(), StoreError> {
    let mut taken = PutBack { batch: dirty.take(), dirty };
    if taken.batch.is_empty() {
        return Ok(());
    }
    store.write(&taken.batch)?;
    taken.batch = Batch::default();
    Ok(())
}

struct PutBack<'a> {
    batch: Batch,
    dirty: &'a Dirty,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            self.dirty.put_back(batch);
        }
    }
}
