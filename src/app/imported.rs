//! Quota that another gateway knew, on its way to the accounts that it is of: those that are here take it at once, the
//! rest waits until they come.
//!
//! The moment of the first import of a file is remembered by what the file holds, so that a second import is the same.
//! Never here: how that gateway wrote it down.

use std::collections::BTreeMap;
use std::sync::Arc;

use duduclaw_actors::account::fact::Fact;
use duduclaw_actors::account::health::{Health, Settings};
use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::{AccountId, EntryId};
use duduclaw_actors::ports::{Batch, Record, Store, StoreError, Table, Write};
use duduclaw_actors::root::Fleet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::config::topology::{Entry, Topology};
use crate::credentials::SecretSource;
use crate::imports::{Imported, Moments, StateError, read_shunt_state};

/// The name of the record.
const KEY: &str = "imported-quota";
const VERSION: u32 = 1;
/// So many files are remembered.
const FILES: usize = 16;

/// Two that change the record take turns.
static TURN: Mutex<()> = Mutex::const_new(());

/// What was imported and has not found its account, and when each file first was.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Waiting {
    /// By the hash of what the file holds.
    first: BTreeMap<String, Wall>,
    /// When each of them was written, as the first import heard it.
    #[serde(default)]
    written: BTreeMap<String, Wall>,
    pending: Vec<Imported>,
}

/// A file of another gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateFile<'a> {
    pub(crate) bytes: &'a [u8],
    /// When it was written, if that is known.
    pub(crate) written: Option<Wall>,
}

/// What became of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Took {
    /// The accounts that have it.
    pub(crate) accounts: Vec<EntryId>,
    /// Those that are not here; they wait.
    pub(crate) orphans: Vec<String>,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Waiting {
    fn of(records: &[Record]) -> Self {
        let record = records.iter().find(|record| record.key == KEY && record.version == VERSION);
        record.and_then(|record| serde_json::from_slice(&record.value).ok()).unwrap_or_default()
    }

    /// Takes what a file says, in the place of what was said of the same accounts.
    fn take(&mut self, file: StateFile<'_>, now: Wall) -> Result<(), StateError> {
        let hash: String = Sha256::digest(file.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let known = self.first.get(&hash).copied();
        let first = known.unwrap_or(now);
        let written = known.map_or(file.written, |_| self.written.get(&hash).copied());
        let imported = read_shunt_state(file.bytes, Moments::new(first, written))?;
        if self.first.len() >= FILES {
            let oldest = self.first.iter().min_by_key(|(_, at)| **at).map(|(hash, _)| hash.clone());
            if let Some(oldest) = oldest {
                self.first.remove(&oldest);
                self.written.remove(&oldest);
            }
        }
        written.and_then(|written| self.written.insert(hash.clone(), written));
        self.first.insert(hash, first);
        self.pending.retain(|known| imported.iter().all(|new| new.key != known.key));
        self.pending.extend(imported);
        Ok(())
    }

    /// What has found its account, which waits no longer.
    fn found(&mut self, topology: &Topology) -> Vec<(AccountId, EntryId, Imported)> {
        let (found, pending) =
            std::mem::take(&mut self.pending).into_iter().partition(|i| owner(i, topology).is_some());
        self.pending = pending;
        let found: Vec<Imported> = found;
        let placed = found.into_iter().filter_map(|imported| {
            let entry = owner(&imported, topology)?;
            Some((entry.account, entry.id.clone(), imported))
        });
        placed.collect()
    }

    fn orphans(&self) -> Vec<String> {
        self.pending.iter().map(|imported| imported.key.to_string()).collect()
    }

    fn written(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

fn owner<'t>(imported: &Imported, topology: &'t Topology) -> Option<&'t Entry> {
    let here = || topology.entries().iter().filter(|entry| topology.roster().accounts.contains_key(&entry.account));
    let exact = here().find(|entry| {
        let (Some(account), Some(element)) = (topology.account(entry.account), topology.elements().get(entry.element))
        else {
            return false;
        };
        let is_stored = matches!(entry.source, SecretSource::StoreFile(_));
        let stored = is_stored.then_some(&*entry.id.name);
        imported.key.is_of(&account.identity, element.family, (&entry.id.provider, &entry.id.name), stored)
    });
    // Its pool may be called otherwise here; then the name alone tells, if only one account has it.
    let is_named = |entry: &&Entry| {
        let family = topology.elements().get(entry.element).map(|element| element.family);
        family.and_then(|family| imported.key.inline_name(family)) == Some(&*entry.id.name)
    };
    exact.or_else(|| {
        let first = here().find(is_named)?;
        here().filter(is_named).all(|entry| entry.account == first.account).then_some(first)
    })
}

/// Imports a file into the running fleet.
pub(crate) async fn import(fleet: &Fleet, topology: &Topology, file: StateFile<'_>) -> Result<Took, TakeError> {
    let _turn = TURN.lock().await;
    let mut waiting = Waiting::of(&fleet.journal.load(Table::Facts).await?);
    waiting.take(file, fleet.now().wall)?;
    let accounts = hand_over(fleet, topology, &mut waiting).await;
    fleet.journal.flush().await?;
    Ok(Took { accounts, orphans: waiting.orphans() })
}

/// Gives what waits to accounts that are here by now.
pub(super) async fn look(fleet: &Fleet, topology: &Topology) {
    let _turn = TURN.lock().await;
    let records = match fleet.journal.load(Table::Facts).await {
        Ok(records) => records,
        Err(error) => return tracing::error!(%error, "what was imported of quota cannot be read; it waits"),
    };
    let mut waiting = Waiting::of(&records);
    if waiting.pending.iter().any(|imported| owner(imported, topology).is_some()) {
        hand_over(fleet, topology, &mut waiting).await;
    }
}

async fn hand_over(fleet: &Fleet, topology: &Topology, waiting: &mut Waiting) -> Vec<EntryId> {
    let roster = fleet.roster();
    let mut accounts = Vec::new();
    for (account, entry, imported) in waiting.found(topology) {
        let Some(spec) = roster.accounts.get(&account) else {
            waiting.pending.push(imported);
            continue;
        };
        let settings =
            Settings { thresholds: spec.thresholds, cooldown: roster.rotation.cooldown, ..Settings::default() };
        let known = Health::with_quota(account, settings, imported.quota.clone());
        match fleet.deliver(account, Fact::Joined(Arc::new(known))).await {
            Ok(()) => accounts.push(entry),
            Err(error) => {
                tracing::warn!(account = %entry, %error, "an account could not take over what was known of its quota");
                waiting.pending.push(imported);
            }
        }
    }
    fleet.journal.remember(Table::Facts, KEY.to_owned(), VERSION, waiting.written());
    accounts
}

/// Imports a file into a store that no fleet uses: the next one hands it over.
pub(crate) fn import_into(
    store: &mut dyn Store,
    topology: &Topology,
    file: StateFile<'_>,
    now: Wall,
) -> Result<Took, TakeError> {
    let mut waiting = Waiting::of(&store.load(Table::Facts)?);
    waiting.take(file, now)?;
    let value = Some((VERSION, waiting.written()));
    let records = vec![Write { table: Table::Facts, key: KEY.to_owned(), value }];
    store.write(&Batch { records, usage: Vec::new(), events: Vec::new() })?;
    let accounts = waiting.found(topology).into_iter().map(|(_, entry, _)| entry).collect();
    Ok(Took { accounts, orphans: waiting.orphans() })
}
