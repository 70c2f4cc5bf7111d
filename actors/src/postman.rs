//! The postman: carries messages from the outbox to their receivers, again and again until each is taken.
//!
//! Messages are kept before they are carried, so that a message that was sent is never written anew under another id.

mod actor;
mod outbox;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use actor::{Args, Msg, PostmanActor};
pub use outbox::{Failed, Outbox, Parcel};

use crate::clock::Timestamp;
use crate::ports::{Record, Table, Write};
use crate::slot::Handle;

/// The shape of a kept message.
const VERSION: u32 = 1;

/// What a delivery comes to; the text says why it did not, without any secret.
pub type Delivery = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Brings a message to its receiver.
pub trait Courier: Send + Sync {
    /// Delivers one message.
    fn deliver(&self, parcel: Parcel) -> Delivery;
}

/// For a fleet without channels: nothing can be delivered.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Courier for Nowhere {
    fn deliver(&self, parcel: Parcel) -> Delivery {
        Box::pin(async move { Err(format!("no channel {} is configured", parcel.target.channel)) })
    }
}

/// The outbox as everybody sees it.
#[derive(Clone, Debug)]
pub struct Post {
    outbox: Arc<Mutex<Outbox>>,
    actor: Handle<Msg>,
}

impl Post {
    /// The post over this outbox and whichever actor carries its messages.
    #[must_use]
    pub fn new(outbox: Arc<Mutex<Outbox>>, actor: Handle<Msg>) -> Self {
        Self { outbox, actor }
    }

    /// What keeps a message. It is to be written together with what the message tells of.
    #[must_use]
    pub fn record(parcel: &Parcel) -> Option<Write> {
        let value = serde_json::to_vec(parcel).ok()?;
        Some(Write { table: Table::Outbox, key: parcel.id.clone(), value: Some((VERSION, value)) })
    }

    /// Has a message carried that is kept, or will be by the next write.
    pub fn send(&self, parcel: Parcel, now: Timestamp) {
        lock(&self.outbox).put(parcel, now);
        self.actor.cast(Msg::Look);
    }

    /// Takes in what was kept.
    pub fn restore(&self, records: &[Record], now: Timestamp) {
        for record in records {
            match serde_json::from_slice(&record.value) {
                Ok(parcel) => lock(&self.outbox).put_back(parcel, now),
                Err(error) => tracing::warn!(%error, "a message that was kept cannot be read, and is not sent"),
            }
        }
        self.actor.cast(Msg::Look);
    }
}

fn lock(outbox: &Mutex<Outbox>) -> MutexGuard<'_, Outbox> {
    outbox.lock().unwrap_or_else(PoisonError::into_inner)
}
