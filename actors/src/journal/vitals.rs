//! How the store fares, for whoever shows it; and the word that it came back with something to be told.
//!
//! Never here: when it is tried again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Timestamp;
use crate::ports::Record;

/// A write that takes longer is shown.
const SLOW: Duration = Duration::from_secs(5);

/// How the store fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// What is told is written within a second.
    Fine,
    /// A write has been running since.
    Slow {
        /// Since when.
        since: Timestamp,
    },
    /// It cannot be read or written; everything is kept in memory meanwhile.
    Failing {
        /// Since when.
        since: Timestamp,
        /// Why.
        why: String,
    },
}

/// What is to be known after the store came back.
#[derive(Clone, Debug, Default)]
pub enum Comeback {
    /// Nothing: it never was away.
    #[default]
    Never,
    /// Records were found of accounts that had begun without them; they are in the store unchanged.
    Found(Arc<[Record]>),
    /// It began anew and is empty: what is still known is to be told again.
    Empty,
}

/// How the store fares, as its thread and actor note it.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    state: Mutex<State>,
    comeback: watch::Sender<Comeback>,
}

#[derive(Debug, Default)]
struct State {
    writes: u32,
    writing: Option<Timestamp>,
    failing: Option<(Timestamp, String)>,
    /// Keys of accounts that began while their records could not be read.
    missed: BTreeSet<String>,
}

impl Vitals {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it fares at this moment.
    pub(super) fn at(&self, now: Timestamp) -> StoreState {
        let state = self.state();
        match (&state.failing, state.writing) {
            (Some((since, why)), _) => StoreState::Failing { since: *since, why: why.clone() },
            (None, Some(since)) if now.since(since) >= SLOW => StoreState::Slow { since },
            (None, _) => StoreState::Fine,
        }
    }

    /// A write was ordered.
    pub(super) fn began(&self, now: Timestamp) {
        let mut state = self.state();
        state.writes += 1;
        state.writing.get_or_insert(now);
    }

    /// A write that was ordered is over; the next one, if one waits, is at it from now on.
    pub(super) fn ended(&self, now: Timestamp) {
        let mut state = self.state();
        state.writes = state.writes.saturating_sub(1);
        state.writing = (state.writes > 0).then_some(now);
    }

    /// It failed. Whether that is news.
    pub(super) fn fails(&self, now: Timestamp, why: &str) -> bool {
        let mut state = self.state();
        let news = state.failing.is_none();
        let since = state.failing.take().map_or(now, |(since, _)| since);
        state.failing = Some((since, why.to_owned()));
        news
    }

    /// It works. Since when it did not, if that is news.
    pub(super) fn works(&self) -> Option<Timestamp> {
        self.state().failing.take().map(|(since, _)| since)
    }

    /// An account began without its record, since the store could not be read.
    pub(super) fn missed(&self, key: String) {
        self.state().missed.insert(key);
    }

    /// Whether any did, and its record was not found since.
    pub(super) fn misses_any(&self) -> bool {
        !self.state().missed.is_empty()
    }

    /// The store can be read: these are the accounts' records. Those that were missed are given back.
    pub(super) fn missed_among(&self, stored: Vec<Record>) -> Vec<Record> {
        let state = self.state();
        stored.into_iter().filter(|record| state.missed.contains(&record.key)).collect()
    }

    /// Tells of the records that were missed.
    pub(super) fn found(&self, records: Vec<Record>) {
        self.state().missed.clear();
        if !records.is_empty() {
            self.comeback.send_replace(Comeback::Found(records.into()));
        }
    }

    /// The store began anew.
    pub(super) fn empty(&self) {
        self.state().missed.clear();
        self.comeback.send_replace(Comeback::Empty);
    }

    /// Changes when it came back.
    pub(super) fn comeback(&self) -> watch::Receiver<Comeback> {
        self.comeback.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::at_millis(seconds * 1000)
    }

    #[test]
    fn a_write_that_takes_long_is_shown_and_one_that_is_over_is_not() {
        let vitals = Vitals::default();
        vitals.began(at(0));
        assert_eq!(vitals.at(at(4)), StoreState::Fine);
        assert_eq!(vitals.at(at(5)), StoreState::Slow { since: at(0) });
        vitals.began(at(6));
        vitals.ended(at(7));
        assert_eq!(vitals.at(at(11)), StoreState::Fine, "the second has its own time");
        assert_eq!(vitals.at(at(12)), StoreState::Slow { since: at(7) });
        vitals.ended(at(13));
        assert_eq!(vitals.at(at(99)), StoreState::Fine);
    }

    #[test]
    fn a_failure_is_news_once_and_its_beginning_is_remembered() {
        let vitals = Vitals::default();
        assert!(vitals.fails(at(1), "full"));
        assert!(!vitals.fails(at(2), "still full"));
        assert_eq!(vitals.at(at(9)), StoreState::Failing { since: at(1), why: "still full".to_owned() });
        assert_eq!(vitals.works(), Some(at(1)));
        assert_eq!(vitals.works(), None);
    }
}
