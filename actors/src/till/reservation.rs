//! What is set aside for an attempt, as it is written down: enough to make its row if nobody comes back to it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Attempt, Run};
use crate::billing::BillingCycle;
use crate::clock::Wall;
use crate::failover::demand::Counted;
use crate::failover::ledger::Ledger;
use crate::id::{EntryId, IdentityKey, Principal};
use crate::money::Micros;
use crate::outcome::Usage;
use crate::rows::{AttemptEnd, Charge, Figures, PriceBasis, UsageRow};

/// What is set aside for an attempt.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reservation {
    request_id: Arc<str>,
    attempt: u32,
    at: Wall,
    /// The run of the program that set it aside.
    pub(super) run: Run,
    identity: IdentityKey,
    entry: EntryId,
    principal: Principal,
    model: Arc<str>,
    expected: Usage,
    value: Micros,
    price: PriceBasis,
    pub(super) amount: Micros,
}

impl Reservation {
    /// The shape of the record.
    pub(super) const VERSION: u32 = 1;

    /// What is set aside for an attempt that is sent.
    pub(super) fn of(attempt: &Attempt, ledger: &Ledger, run: Run, at: Wall) -> Option<Self> {
        let expected = ledger.expected(&attempt.principal, &attempt.ask);
        Some(Self {
            request_id: Arc::clone(&attempt.request_id),
            attempt: attempt.number,
            at,
            run,
            identity: ledger.identity(attempt.account)?.clone(),
            entry: attempt.entry.clone(),
            principal: Principal::clone(&attempt.principal),
            model: Arc::clone(&attempt.ask.model),
            value: attempt.ask.priced.price.cost(&expected),
            expected,
            price: attempt.ask.priced.basis,
            amount: ledger.set_aside_for(attempt.lease),
        })
    }

    pub(super) fn key(&self) -> String {
        key(&self.request_id, self.attempt)
    }

    /// The row of an attempt that nobody settled: as if it had taken all that was set aside, when that was written.
    pub(super) fn lost(self, billing: &BillingCycle) -> UsageRow {
        UsageRow {
            day: billing.day(self.at).date.to_string(),
            charges: self.charges(billing.month(self.at).name()),
            request_id: self.request_id,
            attempt: self.attempt,
            at: self.at,
            identity: self.identity,
            entry: self.entry,
            principal: self.principal,
            model: self.model.to_string(),
            usage: self.expected,
            cost: self.amount,
            list_value: self.value.max(self.amount),
            result: AttemptEnd::Lost,
            figures: Figures::Estimated,
            price: self.price,
        }
    }

    fn charges(&self, month: String) -> Vec<Charge> {
        let counted = if self.attempt == 1 { Counted::NotYet } else { Counted::Already };
        crate::failover::ledger::charges(&self.identity, &self.principal, self.amount, counted, &month)
    }
}

/// The key of an attempt's record.
pub(super) fn key(request_id: &str, attempt: u32) -> String {
    format!("{request_id}/{attempt}")
}
