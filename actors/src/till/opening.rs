//! Where the last run stopped: what was spent, and what it had set aside and did not settle. That is spent as well:
//! whether its provider charged for it, nobody knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Till;
use super::reservation::Reservation;
use crate::failover::actor::NAME_PREFIX;
use crate::ports::{Record, StoreError, Table};
use crate::roster::Roster;
use crate::rows::SpentRow;

/// How long after a store could not be read it is asked again.
const AGAIN: Duration = Duration::from_secs(5);

impl Till {
    /// Takes in what the last run spent. Until it succeeds, budgets know only of this run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn open(&self, roster: &Roster) -> Result<(), StoreError> {
        let names = self.names().await?;
        let spent = self.journal.spent().await?;
        let reserved = self.journal.load(Table::Reservations).await?;
        self.book.ledger().load(&renamed(spent, &names));
        reserved.iter().for_each(|record| self.give_up(&record.key, &record.value, roster));
        Ok(())
    }

    /// The same, again and again.
    pub(crate) async fn open_later(self, roster: watch::Receiver<Arc<Roster>>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
            let roster = roster.borrow().clone();
            if self.open(&roster).await.is_ok() {
                return;
            }
        }
    }

    /// Budgets that have another name by now.
    async fn names(&self) -> Result<BTreeMap<String, Arc<str>>, StoreError> {
        let name = |record: &Record| {
            let was = record.key.strip_prefix(NAME_PREFIX)?;
            Some((was.to_owned(), Arc::from(std::str::from_utf8(&record.value).ok()?)))
        };
        Ok(self.journal.load(Table::Facts).await?.iter().filter_map(name).collect())
    }

    /// An attempt that nobody settled is spent as it was set aside.
    fn give_up(&self, key: &str, kept: &[u8], roster: &Roster) {
        match serde_json::from_slice::<Reservation>(kept) {
            Ok(reservation) if reservation.run == self.run => {}
            Ok(reservation) => {
                let row = reservation.lost(&roster.billing);
                self.book.ledger().charge(&row.charges);
                self.journal.settle(row, key.to_owned());
            }
            Err(error) => {
                tracing::warn!(%error, key, "what was set aside for an attempt cannot be read; it is not counted");
                self.journal.forget(Table::Reservations, key.to_owned());
            }
        }
    }
}

fn renamed(mut spent: Vec<SpentRow>, names: &BTreeMap<String, Arc<str>>) -> Vec<SpentRow> {
    for row in &mut spent {
        // A name may have had another name before; none has itself.
        for _ in 0..names.len() {
            let Some(name) = names.get(&*row.budget) else { break };
            row.budget = Arc::clone(name);
        }
    }
    spent
}
