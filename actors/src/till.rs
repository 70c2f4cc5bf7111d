//! The till: where attempts are paid for. What is set aside is written down when an attempt is sent; when it is over, its
//! row is made, its budgets are charged, and what was set aside is given back, in one piece.
//!
//! Never here: what is affordable, how long an answer may become.

mod opening;
mod reservation;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use self::reservation::Reservation;
use crate::clock::{SharedClock, Timestamp};
use crate::efficiency::{CacheWatch, Share};
use crate::event::{Event, EventKind, Severity};
use crate::failover::LeaseBook;
use crate::failover::demand::{Ask, Counted};
use crate::failover::ledger::{Bill, Settled, Spend, Then};
use crate::id::{AccountId, EntryId, LeaseId, Principal};
use crate::journal::Journal;
use crate::money::Micros;
use crate::outcome::{Evidence, Usage};
use crate::ports::{SharedSink, Table};
use crate::rows::{AttemptEnd, Figures, PriceBasis, UsageRow};

/// One attempt that is to be paid for.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The lease it spends.
    pub lease: LeaseId,
    /// Our id of its request.
    pub request_id: Arc<str>,
    /// Which attempt of the request, from 1.
    pub number: u32,
    /// The account.
    pub account: AccountId,
    /// The account by its name.
    pub entry: EntryId,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What was known of it before.
    pub ask: Arc<Ask>,
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// The tokens it took.
    pub usage: Usage,
    /// Where they are from.
    pub figures: Figures,
    /// How it came out.
    pub end: AttemptEnd,
    /// Whether its lease is sent once more.
    pub then: Then,
}

/// The till.
#[derive(Clone)]
pub struct Till {
    book: Arc<LeaseBook>,
    journal: Journal,
    events: SharedSink,
    clock: SharedClock,
    caches: Arc<Mutex<CacheWatch>>,
    run: Run,
}

/// Tells one run of the program from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run(pub(crate) u64);

impl std::fmt::Debug for Till {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Till").finish_non_exhaustive()
    }
}

impl Till {
    pub(crate) fn new(
        book: Arc<LeaseBook>,
        journal: Journal,
        events: SharedSink,
        clock: SharedClock,
        caches: Arc<Mutex<CacheWatch>>,
        run: Run,
    ) -> Self {
        Self { book, journal, events, clock, caches, run }
    }

    /// An attempt is sent. Tells what is set aside for it: nothing where it costs nothing.
    #[must_use]
    pub fn sent(&self, attempt: &Attempt) -> Micros {
        let reservation = {
            let ledger = self.book.ledger();
            Reservation::of(attempt, &ledger, self.run, self.clock.now().wall)
        };
        let Some(reservation) = reservation else { return Micros::ZERO };
        self.keep(&reservation);
        reservation.amount
    }

    /// A stream is about to pass what is set aside for it: that becomes `to`. Tells what it is now.
    #[must_use]
    pub fn extend(&self, attempt: &Attempt, to: Micros) -> Micros {
        let Some(amount) = self.book.ledger().extend(attempt.lease, to) else { return Micros::ZERO };
        let reservation = {
            let ledger = self.book.ledger();
            Reservation::of(attempt, &ledger, self.run, self.clock.now().wall)
        };
        reservation.iter().for_each(|reservation| self.keep(reservation));
        amount
    }

    /// An attempt is over.
    pub fn settle(&self, attempt: &Attempt, receipt: Receipt) {
        let now = self.clock.now();
        let value = attempt.ask.priced.price.cost(&receipt.usage);
        let Some(settled) = self.charge(attempt, receipt, value, now) else {
            return tracing::error!(account = %attempt.entry, "an account that the ledger does not know was used");
        };
        self.tell(attempt, receipt, settled.cost, now);
        let key = reservation::key(&attempt.request_id, attempt.number);
        self.journal.settle(row(attempt, receipt, value, settled, now), key);
    }

    /// An account's budget now.
    #[must_use]
    pub fn account(&self, account: AccountId) -> Option<Spend> {
        self.book.ledger().account(account, self.clock.now().wall)
    }

    /// How well prompts are served from the cache.
    #[must_use]
    pub fn cache_shares(&self) -> Vec<Share> {
        self.caches().shares(self.clock.now())
    }

    fn keep(&self, reservation: &Reservation) {
        match serde_json::to_vec(reservation) {
            Ok(value) => self.journal.remember(Table::Reservations, reservation.key(), Reservation::VERSION, value),
            Err(error) => tracing::error!(%error, "what is set aside cannot be written down"),
        }
    }

    fn charge(&self, attempt: &Attempt, receipt: Receipt, value: Micros, now: Timestamp) -> Option<Settled> {
        let mut ledger = self.book.ledger();
        if receipt.end == AttemptEnd::Complete && receipt.figures == Figures::Reported {
            ledger.note_answer(&attempt.principal, &attempt.ask.model, receipt.usage.output);
        }
        let bill = Bill {
            lease: attempt.lease,
            account: attempt.account,
            principal: &attempt.principal,
            value,
            counted: attempt.counted(),
            then: receipt.then,
        };
        ledger.settle(bill, now.wall)
    }

    fn tell(&self, attempt: &Attempt, receipt: Receipt, cost: Micros, now: Timestamp) {
        let Receipt { usage, figures, end, .. } = receipt;
        let kind = EventKind::AttemptSettled { end, usage, figures, cost };
        self.emit(kind, Severity::Trace, attempt, now);
        if attempt.ask.priced.basis == PriceBasis::Free {
            return;
        }
        let low = self.caches().ended(&attempt.entry, attempt.principal.agent.as_ref(), &usage, now);
        for Share { scope, efficiency } in low {
            self.emit(EventKind::CacheEfficiencyLow { scope, efficiency }, Severity::Warning, attempt, now);
        }
    }

    fn emit(&self, kind: EventKind, severity: Severity, attempt: &Attempt, now: Timestamp) {
        let of_attempt = severity == Severity::Trace;
        let request_id = of_attempt.then(|| attempt.request_id.to_string());
        let account = of_attempt.then(|| attempt.entry.clone());
        let evidence = Evidence { request_id, ..Evidence::default() };
        self.events.emit(Event { seq: 0, ts: now, kind, severity, account, evidence });
    }

    fn caches(&self) -> MutexGuard<'_, CacheWatch> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// A request is counted with its first attempt.
    fn counted(&self) -> Counted {
        if self.number == 1 { Counted::NotYet } else { Counted::Already }
    }
}

fn row(attempt: &Attempt, receipt: Receipt, value: Micros, settled: Settled, now: Timestamp) -> UsageRow {
    UsageRow {
        request_id: Arc::clone(&attempt.request_id),
        attempt: attempt.number,
        at: now.wall,
        day: settled.day,
        identity: settled.identity,
        entry: attempt.entry.clone(),
        principal: Principal::clone(&attempt.principal),
        model: attempt.ask.model.to_string(),
        usage: receipt.usage,
        cost: settled.cost,
        list_value: value,
        result: receipt.end,
        figures: receipt.figures,
        price: attempt.ask.priced.basis,
        charges: settled.charges,
    }
}
