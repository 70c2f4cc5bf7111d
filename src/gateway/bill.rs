//! What an attempt is charged for: opened when it is sent, settled exactly once, wherever it ends.
//!
//! What the provider told counts. Where its count never came (the client left, the answer broke off) the tokens are
//! estimated from what passed by, and are flagged. A stream that passes what is set aside for it has more set aside: it
//! is never cut.
//!
//! Never here: prices, budgets.

use std::sync::Arc;

use duduclaw_actors::failover::demand::{Ask, Grant};
use duduclaw_actors::failover::ledger::Then;
use duduclaw_actors::id::LeaseId;
use duduclaw_actors::money::Micros;
use duduclaw_actors::outcome::{Outcome, Usage};
use duduclaw_actors::rows::{AttemptEnd, Figures};
use duduclaw_actors::till::{Attempt, Receipt, Till};

use crate::gateway::end::End;
use crate::gateway::exchange::Exchange;
use crate::gateway::meter::{Counted, Meter};

/// For so many more tokens is set aside at a time.
const STRIDE: u64 = 256;

/// The bill of one lease.
pub(super) struct Bill {
    till: Till,
    attempt: Attempt,
    stage: Stage,
    set_aside: Micros,
    /// At so many tokens of the answer what is set aside is looked at again.
    next_look: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is to be paid.
    Unsent,
    /// An attempt is on its way.
    Sent,
    /// It was paid for.
    Settled,
}

impl Bill {
    /// The bill of a lease, for a request that may cost so much.
    pub(super) fn new(exchange: &Exchange, grant: &Grant, lease: LeaseId, ask: &Arc<Ask>) -> Self {
        let attempt = Attempt {
            lease,
            request_id: Arc::from(exchange.inbound.id.as_str()),
            number: 0,
            account: grant.account,
            entry: grant.entry.clone(),
            principal: Arc::clone(&exchange.caller.principal),
            ask: Arc::clone(ask),
        };
        let till = exchange.gateway.fleet.till.clone();
        Self { till, attempt, stage: Stage::Unsent, set_aside: Micros::ZERO, next_look: u64::MAX }
    }

    /// Attempt `number` of the request is sent; one that was sent before came to nothing.
    pub(super) fn sent(&mut self, number: u32) {
        if self.stage == Stage::Sent {
            self.settle(nothing(AttemptEnd::Failed, Figures::Reported, Then::Again));
        }
        self.attempt.number = number;
        self.set_aside = self.till.sent(&self.attempt);
        self.next_look = if self.set_aside > Micros::ZERO { 0 } else { u64::MAX };
        self.stage = Stage::Sent;
    }

    /// The attempt was judged. One that came to nothing costs nothing.
    pub(super) fn judged(&mut self, outcome: &Outcome) {
        if *outcome == Outcome::Served {
            return;
        }
        let figures = if says_nothing(outcome) { Figures::Estimated } else { Figures::Reported };
        self.settle(nothing(AttemptEnd::Failed, figures, Then::Over));
    }

    /// Some of the answer passed.
    pub(super) fn passed(&mut self, meter: &Meter) {
        let output = meter.spoken().max(meter.usage().output);
        if output < self.next_look {
            return;
        }
        let (price, usage) = (&self.attempt.ask.priced.price, meter.usage());
        if price.cost(&Usage { output, ..usage }) > self.set_aside {
            let more = price.cost(&Usage { output: output + STRIDE, ..usage });
            self.set_aside = self.till.extend(&self.attempt, more);
        }
        let fits = price.output_within(self.set_aside, &usage);
        self.next_look = if self.set_aside == Micros::ZERO { u64::MAX } else { fits.saturating_add(1) };
    }

    /// The answer is over.
    pub(super) fn over(&mut self, end: End, meter: &Meter) {
        let (usage, figures) = figures(meter, &self.attempt.ask);
        self.settle(Receipt { usage, figures, end: attempt_end(end, meter), then: Then::Over });
    }

    fn settle(&mut self, receipt: Receipt) {
        if self.stage == Stage::Sent {
            self.stage = Stage::Settled;
            self.till.settle(&self.attempt, receipt);
        }
    }
}

/// Given up before an answer began: nothing was seen of what it may have cost.
impl Drop for Bill {
    fn drop(&mut self) {
        self.settle(nothing(AttemptEnd::ClientGone, Figures::Estimated, Then::Over));
    }
}

fn nothing(end: AttemptEnd, figures: Figures, then: Then) -> Receipt {
    Receipt { usage: Usage::default(), figures, end, then }
}

/// Whether the provider may have worked on the attempt all the same.
fn says_nothing(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::HeadTimeout { .. } | Outcome::Unreachable { connecting: false })
}

/// What the provider told, and where that is not all, at least what passed by.
fn figures(meter: &Meter, ask: &Ask) -> (Usage, Figures) {
    let mut usage = meter.usage();
    let mut figures = Figures::Reported;
    if meter.counted() == Counted::NotYet {
        usage.output = usage.output.max(meter.spoken());
        figures = Figures::Estimated;
    }
    if usage.prompt() == 0 {
        usage.input = ask.input;
        figures = Figures::Estimated;
    }
    (usage, figures)
}

fn attempt_end(end: End, meter: &Meter) -> AttemptEnd {
    match end {
        End::Complete if meter.has_failed() => AttemptEnd::Cut,
        End::Complete => AttemptEnd::Complete,
        End::Broken | End::Stalled | End::Stopped => AttemptEnd::Cut,
        End::ClientGone => AttemptEnd::ClientGone,
    }
}
