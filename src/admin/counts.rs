//! How many attempts each account had and what became of them: a fold over the feed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use duduclaw_actors::event::{AttemptResult, Event, EventKind};
use duduclaw_actors::id::EntryId;
use duduclaw_actors::ports::Observer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figures of all accounts.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    accounts: Arc<Mutex<HashMap<EntryId, Count>>>,
}

/// One account's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// Attempts.
    pub attempted: u64,
    /// Served.
    pub succeeded: u64,
    /// Came to nothing, or relayed as a refusal.
    pub failed: u64,
    /// Given up because the client went away.
    pub cancelled: u64,
    /// From sending to the head, of all together, in milliseconds.
    #[serde(skip)]
    pub head_ms: u64,
}

impl Counts {
    /// What drives the figures.
    #[must_use]
    pub fn observer(&self) -> impl Observer + use<> {
        Fold(self.clone())
    }

    /// One account's figures.
    #[must_use]
    pub fn of(&self, entry: &EntryId) -> Count {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).get(entry).copied().unwrap_or_default()
    }
}

struct Fold(Counts);

impl Observer for Fold {
    fn observe(&mut self, event: &Event) {
        let (EventKind::AttemptAnswered { outcome, head_ms }, Some(entry)) = (&event.kind, &event.account) else {
            return;
        };
        let mut accounts = self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if !accounts.contains_key(entry) {
            accounts.insert(entry.clone(), Count::default());
        }
        let Some(count) = accounts.get_mut(entry) else { return };
        count.attempted += 1;
        count.head_ms += head_ms;
        match outcome {
            AttemptResult::Served => count.succeeded += 1,
            AttemptResult::Failed(_) | AttemptResult::Relayed => count.failed += 1,
            AttemptResult::Abandoned => count.cancelled += 1,
        }
    }
}
