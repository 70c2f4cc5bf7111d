//! A lease in use: who is told of what becomes of it, and when.
//!
//! It lasts as long as the answer. So it keeps nothing of the request's head, which would keep the buffer that the head
//! was read into.
//!
//! Dropped before the answer was judged, it reports that the attempt was given up: the account learns nothing, and the
//! lease is returned.

use std::sync::Arc;

use duduclaw_actors::clock::Timestamp;
use duduclaw_actors::event::{AttemptResult, EventKind, Severity};
use duduclaw_actors::failover::demand::{Ask, BindsThinking, Grant, LastAnswer};
use duduclaw_actors::failover::{Flow, LeaseGuard};
use duduclaw_actors::id::{AccountId, EntryId, Generation, LeaseId, ModelScope};
use duduclaw_actors::outcome::{Answered, CallKind, Close, Ended, Evidence, Outcome};
use duduclaw_actors::ports::Reports;
use duduclaw_actors::provider::anthropic::classify::Classified;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;

use crate::config::settings::QuotaHeaders;
use crate::credentials::Held;
use crate::gateway::answer::{Answer, AnswerBody};
use crate::gateway::bill::Bill;
use crate::gateway::chain::Leg;
use crate::gateway::end::{End, Finish};
use crate::gateway::error::ApiError;
use crate::gateway::exchange::Exchange;
use crate::gateway::fields::Streaming;
use crate::gateway::headers::response::{self, Relay as Length};
use crate::gateway::meter::Meter;
use crate::gateway::pool_quota::{self, Served};
use crate::gateway::reading::Beginning;
use crate::gateway::relay::{self, Relay};
use crate::gateway::service::Gateway;
use crate::gateway::ticket::Ticket;
use crate::gateway::watch::Watch;

/// Where a conversation that thinks was before.
const MOVED: HeaderName = HeaderName::from_static("x-duduclaw-session-moved");

/// A lease in use.
pub(super) struct Spending {
    gateway: Arc<Gateway>,
    call: CallKind,
    scope: ModelScope,
    grant: Grant,
    /// What it is charged for; let go before the lease is returned.
    bill: Option<Bill>,
    guard: LeaseGuard,
    held: Option<Arc<Held>>,
    sent_at: Timestamp,
    answered_at: Timestamp,
}

impl Spending {
    pub(super) fn new(
        exchange: &Exchange,
        grant: Grant,
        guard: LeaseGuard,
        held: Option<Arc<Held>>,
        ask: Option<&Arc<Ask>>,
    ) -> Self {
        let now = exchange.gateway.clock.now();
        let bill = ask.map(|ask| Bill::new(exchange, &grant, guard.lease(), ask));
        Self {
            gateway: Arc::clone(&exchange.gateway),
            call: exchange.inbound.call,
            scope: exchange.inbound.scope,
            grant,
            bill,
            guard,
            held,
            sent_at: now,
            answered_at: now,
        }
    }

    pub(super) fn held(&self) -> Option<&Arc<Held>> {
        self.held.as_ref()
    }

    pub(super) fn account(&self) -> AccountId {
        self.grant.account
    }

    pub(super) fn grant(&self) -> &Grant {
        &self.grant
    }

    pub(super) fn entry(&self) -> &EntryId {
        &self.grant.entry
    }

    pub(super) fn answered_at(&self) -> Timestamp {
        self.answered_at
    }

    pub(super) fn renew(&mut self, held: Arc<Held>) {
        self.held = Some(held);
    }

    /// Attempt `number` of the request is sent.
    pub(super) fn sent(&mut self, number: u32, now: Timestamp) {
        self.sent_at = now;
        self.guard.sent();
        if let Some(bill) = &mut self.bill {
            bill.sent(number);
        }
    }

    pub(super) fn answered(&mut self, now: Timestamp) {
        self.answered_at = now;
    }

    /// Tells the account what was answered, and the feed.
    pub(super) fn report(&mut self, exchange: &Exchange, classified: Classified) -> LastAnswer {
        if let Some(bill) = &mut self.bill {
            bill.judged(&classified.outcome);
        }
        let outcome = classified.outcome.clone();
        let evidence = classified.evidence.clone();
        let answered = Arc::new(Answered {
            lease: self.lease(),
            call: self.call,
            scope: self.scope,
            generation: self.generation(),
            sent_at: self.sent_at,
            answered_at: self.answered_at,
            outcome: classified.outcome,
            quota: classified.quota,
            evidence: classified.evidence,
        });
        if outcome == Outcome::Served {
            self.guard.answered(match exchange.inbound.streaming {
                Streaming::Yes => Flow::Stream,
                Streaming::No => Flow::Whole,
            });
        }
        let seq = self.gateway.fleet.answered(self.grant.account, Arc::clone(&answered));
        self.tell_attempt(exchange, &outcome, evidence);
        LastAnswer { account: self.grant.account, evidence: seq, answered }
    }

    fn tell_attempt(&self, exchange: &Exchange, outcome: &Outcome, evidence: Evidence) {
        let result = match super::attempt::failover_reason(outcome) {
            Some(why) => AttemptResult::Failed(why),
            None if *outcome == Outcome::Served => AttemptResult::Served,
            None => AttemptResult::Relayed,
        };
        let head_ms = u64::try_from(self.answered_at.since(self.sent_at).as_millis()).unwrap_or(u64::MAX);
        let kind = EventKind::AttemptAnswered { outcome: result, head_ms };
        exchange.gateway.tell(kind, Severity::Trace, Some(self.grant.entry.clone()), evidence);
    }

    fn lease(&self) -> LeaseId {
        self.guard.lease()
    }

    fn generation(&self) -> Generation {
        self.held.as_ref().map_or(Generation(0), |held| held.generation)
    }

    /// The answer for the client: the provider's head and body, watched on their way.
    pub(super) fn relay(
        self,
        exchange: &mut Exchange,
        leg: &Leg,
        mut beginning: Beginning,
        outcome: &Outcome,
    ) -> Answer {
        if !is_answer(beginning.head.status) {
            return ApiError::NoAnswer(beginning.head.status.as_u16()).answer(&exchange.inbound.id);
        }
        let renaming = exchange.renaming(leg);
        if let Some(renaming) = &renaming {
            renaming.document(&mut beginning);
        }
        let Beginning { head, packets, rest, .. } = beginning;
        let (clock, tasks) = (Arc::clone(&self.gateway.clock), self.gateway.tasks.clone());
        let watch = Watch::new(&head.headers, exchange.asked_of(leg), clock, tasks);
        let length = if watch.is_open() { Length::Changed } else { Length::Unchanged };
        let mut response = Response::new(());
        *response.status_mut() = head.status;
        *response.headers_mut() =
            response::relayed(&head.headers, length, &exchange.stamp(leg, Some(&self.grant.entry)));
        if exchange.live.settings.server.quota_headers == QuotaHeaders::Pool && leg.injects() {
            let served = Served { element: leg.element(), account: self.account(), scope: self.scope };
            pool_quota::tell(response.headers_mut(), &self.gateway, &exchange.live, served, self.answered_at);
        }
        if let Some(from) = self.moved_from(exchange, leg) {
            response.headers_mut().insert(MOVED, from);
        }
        let server = &exchange.live.settings.server;
        let patience =
            relay::Patience { idle: server.timeouts.stream_idle, ping: server.sse_keepalive.unwrap_or_default() };
        let body = Relay::new(relay::Parts {
            held: packets,
            rest,
            watch,
            renaming,
            patience,
            stop: self.gateway.stop.clone().cancelled_owned(),
            request_id: exchange.inbound.id.clone(),
            finish: Box::new(Closing {
                account_learns: *outcome == Outcome::Served,
                ticket: exchange.close(head.status),
                spending: self,
            }),
        });
        response.map(|()| AnswerBody::new(body.map_err(Into::into)))
    }

    fn moved_from(&self, exchange: &Exchange, leg: &Leg) -> Option<HeaderValue> {
        let from = self.grant.moved_from.as_ref()?;
        if exchange.binds_thinking(leg) == BindsThinking::No {
            return None;
        }
        let shown = exchange.live.settings.server.account_header.is_some();
        HeaderValue::from_str(if shown { &from.name } else { "1" }).ok()
    }
}

/// Whether HTTP has this status as that of an answer. What has not could mean anything to a client.
fn is_answer(status: StatusCode) -> bool {
    (200..=599).contains(&status.as_u16())
}

/// What is done when a relayed body is over.
struct Closing {
    account_learns: bool,
    ticket: Ticket,
    spending: Spending,
}

impl Finish for Closing {
    fn passed(&mut self, meter: &Meter) {
        if let Some(bill) = &mut self.spending.bill {
            bill.passed(meter);
        }
    }

    fn over(self: Box<Self>, end: End, meter: &Meter) {
        let Self { account_learns, ticket, mut spending } = *self;
        if let Some(bill) = &mut spending.bill {
            bill.over(end, meter);
        }
        if account_learns {
            spending.gateway.fleet.ended(spending.grant.account, spending.ended(end, meter));
        }
        ticket.close(end, meter.usage());
    }
}

impl Spending {
    fn ended(&self, end: End, meter: &Meter) -> Ended {
        Ended {
            lease: self.lease(),
            call: self.call,
            scope: self.scope,
            generation: self.generation(),
            sent_at: self.sent_at,
            close: close(end, meter),
            usage: meter.usage(),
        }
    }
}

fn close(end: End, meter: &Meter) -> Close {
    match (end, meter.error()) {
        (End::Complete, Some(outcome)) => Close::ErrorEvent(outcome.clone()),
        (End::Complete, None) => Close::Complete,
        (End::Broken, _) => Close::Broken,
        (End::Stalled, _) => Close::Stalled,
        (End::Stopped | End::ClientGone, _) => Close::ClientGone,
    }
}
