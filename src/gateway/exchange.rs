//! One request from its arrival to its answer: along the chain of upstreams, from account to account, until something
//! serves it or nothing can.
//!
//! Every decision is made elsewhere: which account, by admission; what an answer means, by the provider's rules. Here
//! the two are joined, attempt by attempt. Nothing is sent again once a byte has gone to the client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duduclaw_actors::clock::sleep_until;
use duduclaw_actors::event::{EventKind, FailoverReason, Severity};
use duduclaw_actors::failover::Leased;
use duduclaw_actors::failover::demand::{
    Ask, BindsThinking, Demand, Exhausted, NotBefore, Once, Spent, Step, Via, Why,
};
use duduclaw_actors::id::{AccountId, EntryId};
use duduclaw_actors::outcome::{CallKind, Evidence, Usage};
use http::{HeaderName, StatusCode};

use crate::config::topology::Binding;
use crate::gateway::access::Caller;
use crate::gateway::answer::Answer;
use crate::gateway::attempt::Attempted;
use crate::gateway::body::Buffered;
use crate::gateway::chain::Leg;
use crate::gateway::conversation::Conversation;
use crate::gateway::count;
use crate::gateway::end::End;
use crate::gateway::error::ApiError;
use crate::gateway::final_answer::{self, Best, Verdicts};
use crate::gateway::headers::response::Stamp;
use crate::gateway::inbound::Inbound;
use crate::gateway::kind::Kind;
use crate::gateway::live::Live;
use crate::gateway::rename::Renaming;
use crate::gateway::service::Gateway;
use crate::gateway::ticket::Ticket;

/// The most that a breather's end is blurred by, so that waiters do not come back in one instant.
const JITTER_MS: u64 = 250;

/// A request on its way.
pub struct Exchange {
    pub(super) gateway: Arc<Gateway>,
    pub(super) live: Arc<Live>,
    pub(super) caller: Caller,
    pub(super) inbound: Arc<Inbound>,
    pub(super) conversation: Conversation,
    pub(super) attempts: u32,
    pub(super) late_heads: u32,
    pub(super) spent: Spent,
    /// How it asks first in each upstream.
    pub(super) step: Step,
    /// How often it rested, its tries used up.
    pub(super) rests: u32,
    pub(super) best: Best,
    pub(super) left: Option<(EntryId, FailoverReason)>,
    /// Accounts that had no secret to send, and what that means for the request.
    pub(super) left_out: Vec<(AccountId, Why)>,
    body: Buffered,
    ticket: Option<Ticket>,
}

/// What one upstream came to.
enum Walked {
    /// An answer for the client.
    Answered(Answer),
    /// Nothing: the chain goes on.
    Exhausted(Exhausted),
    /// A refusal that is kept: the chain goes on.
    Left,
}

impl Exchange {
    /// A request of this caller.
    pub(super) fn new(
        gateway: Arc<Gateway>,
        live: Arc<Live>,
        caller: Caller,
        inbound: Inbound,
        body: Buffered,
        ticket: Ticket,
    ) -> Self {
        let conversation = Conversation::of(&inbound.headers, &caller.principal);
        Self {
            gateway,
            live,
            caller,
            inbound: Arc::new(inbound),
            conversation,
            attempts: 0,
            late_heads: 0,
            spent: Spent::default(),
            step: Step::First,
            rests: 0,
            best: Best::default(),
            left: None,
            left_out: Vec::new(),
            body,
            ticket: Some(ticket),
        }
    }

    /// Serves it.
    pub(super) async fn run(mut self, chain: Vec<Leg>) -> Answer {
        let answer = loop {
            let mut verdicts = Vec::new();
            match self.walk_chain(&chain, &mut verdicts).await {
                Err(error) => break error.answer(&self.inbound.id),
                Ok(Some(answer)) => {
                    self.gateway.holds.over(self.conversation.key);
                    self.tell_release();
                    break answer;
                }
                Ok(None) if self.wait_for_return(&verdicts).await => {}
                Ok(None) => break final_answer::make(&mut self, &verdicts),
            }
        };
        if self.ticket.is_some() {
            self.close(answer.status()).close(End::Complete, Usage::default());
        }
        answer
    }

    async fn walk_chain(&mut self, chain: &[Leg], verdicts: &mut Verdicts) -> Result<Option<Answer>, ApiError> {
        for leg in chain {
            if self.inbound.kind == Kind::CountTokens && self.live.uncounting.knows(leg.element().id) {
                return Ok(Some(count::estimate(self.body())));
            }
            match self.walk(leg).await? {
                Walked::Answered(answer) => return Ok(Some(answer)),
                Walked::Exhausted(why) => verdicts.push((leg.clone(), why)),
                Walked::Left => {}
            }
        }
        Ok(None)
    }

    /// One upstream, account by account.
    async fn walk(&mut self, leg: &Leg) -> Result<Walked, ApiError> {
        let mut demand = self.demand(leg);
        loop {
            demand.spent = self.spent;
            let leased = self.gateway.fleet.failover.lease(demand.clone()).await.map_err(|_| ApiError::Internal)?;
            match leased {
                Leased::Granted(grant, guard) => {
                    self.tell_failover(&grant.entry);
                    match Box::pin(self.attempt(leg, grant, guard, &mut demand)).await? {
                        Attempted::Answer(answer) => return Ok(Walked::Answered(answer)),
                        Attempted::Leave => return Ok(Walked::Left),
                        Attempted::Next => {}
                    }
                }
                Leased::NotBefore(wait) => self.take_breath(wait, &mut demand).await,
                Leased::Exhausted(why) => return Ok(Walked::Exhausted(self.with_left_out(why))),
            }
        }
    }

    /// Of an account without a secret admission may know only that it was tried.
    fn with_left_out(&self, why: Exhausted) -> Exhausted {
        why.explained(&self.left_out, self.gateway.clock.now())
    }

    fn demand(&self, leg: &Leg) -> Demand {
        Demand {
            upstream: leg.element().id,
            principal: Arc::clone(&self.caller.principal),
            conversation: self.conversation.key,
            parent: self.conversation.parent,
            scope: self.inbound.scope,
            call: self.inbound.call,
            via: Via::Gateway,
            tried: Vec::new(),
            renewing: Vec::new(),
            last: None,
            step: self.step,
            binds_thinking: self.binds_thinking(leg),
            spent: self.spent,
            ask: (self.inbound.call == CallKind::Inference).then(|| Arc::new(self.ask(leg))),
        }
    }

    /// What an attempt in this upstream may cost.
    fn ask(&self, leg: &Leg) -> Ask {
        let priced = self.live.settings.prices.priced(leg.element().family, leg.model());
        Ask {
            model: Arc::from(leg.model()),
            priced,
            input: self.inbound.size.tokens,
            max_output: self.inbound.size.max_output,
        }
    }

    pub(super) fn binds_thinking(&self, leg: &Leg) -> BindsThinking {
        match self.live.topology.binds_thinking(&self.inbound.asked.base, leg.model()) {
            Binding::Bound => BindsThinking::Yes,
            Binding::Free => BindsThinking::No,
        }
    }

    /// The provider asked for a moment; the conversation stays where it is.
    async fn take_breath(&mut self, wait: NotBefore, demand: &mut Demand) {
        self.spent.breather = Once::Used;
        sleep_until(&*self.gateway.clock, wait.at).await;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..JITTER_MS))).await;
        demand.tried.retain(|account| *account != wait.account);
        demand.step = Step::Again(wait.account);
    }

    pub(super) fn emit(&self, kind: EventKind, severity: Severity) {
        self.emit_of(None, kind, severity);
    }

    fn emit_of(&self, account: Option<&EntryId>, kind: EventKind, severity: Severity) {
        let evidence = Evidence { request_id: Some(self.inbound.id.clone()), ..Evidence::default() };
        self.gateway.tell(kind, severity, account.cloned(), evidence);
    }

    /// An attempt came to nothing. Whether another account gets the request, the next lease tells.
    pub(super) fn failed_over(&mut self, from: &EntryId, why: FailoverReason) {
        self.left = Some((from.clone(), why));
    }

    fn tell_failover(&mut self, to: &EntryId) {
        if let Some((from, why)) = self.left.take().filter(|(from, _)| from != to) {
            self.emit_of(Some(to), EventKind::FailedOver { from, why }, Severity::Info);
        }
    }

    /// An upstream further down the chain answers with another model than the first one would have.
    pub(super) fn tell_substitution(&self, leg: &Leg, entry: &EntryId) {
        let Some(wanted) = leg.stands_in_for.clone() else { return };
        let kind =
            EventKind::ModelSubstituted { wanted, served: leg.model().to_owned(), upstream: leg.name().to_owned() };
        self.emit_of(Some(entry), kind, Severity::Info);
    }

    /// The place of the request, on its way to whoever sends the answer's last byte.
    pub(super) fn close(&mut self, status: StatusCode) -> Ticket {
        let mut ticket = self.ticket.take().unwrap_or_else(|| Ticket::spare(&self.gateway, &self.inbound));
        ticket.begin(status, self.attempts);
        ticket
    }

    /// What our headers say of a relayed answer.
    pub(super) fn stamp<'a>(&'a self, leg: &'a Leg, entry: Option<&'a EntryId>) -> Stamp<'a> {
        let shown = self.live.settings.server.account_header.as_ref();
        Stamp {
            upstream: Some(leg.name()),
            model: Some(leg.model()).filter(|model| !model.is_empty()),
            attempts: self.attempts,
            request_id: &self.inbound.id,
            account_header: shown.unwrap_or(&DEFAULT_ACCOUNT_HEADER),
            account: shown.and(entry).map(|entry| &*entry.name),
        }
    }

    /// What our headers say of a final refusal: no account is named.
    pub(super) fn stamp_refusal<'a>(&'a self, upstream: &'a str) -> Stamp<'a> {
        Stamp {
            upstream: Some(upstream),
            model: None,
            attempts: self.attempts,
            request_id: &self.inbound.id,
            account_header: self.live.settings.server.account_header.as_ref().unwrap_or(&DEFAULT_ACCOUNT_HEADER),
            account: None,
        }
    }

    /// The client's body. It is let go when the answer begins.
    pub(super) fn body(&self) -> &Bytes {
        &self.body.bytes
    }

    /// The model's name in this upstream, if it is not the one that stands in the body.
    pub(super) fn renamed<'a>(&self, leg: &'a Leg) -> Option<&'a str> {
        let asked = self.inbound.asked.name.as_deref()?;
        Some(leg.model()).filter(|model| *model != asked)
    }

    /// What replies are to call the model, if the provider knows it by another name than the client.
    pub(super) fn renaming(&self, leg: &Leg) -> Option<Renaming> {
        self.renamed(leg)?;
        self.inbound.asked.name.as_deref().map(Renaming::to)
    }

    pub(super) fn is_our_token(&self, token: &[u8]) -> bool {
        let clients = self.live.settings.server.auth.as_ref().map(|gate| &gate.clients);
        clients.is_some_and(|clients| std::str::from_utf8(token).is_ok_and(|t| clients.authenticate(t).is_some()))
    }
}

/// Where the account stands when the configuration shows none: only to keep a provider's header of that name out.
static DEFAULT_ACCOUNT_HEADER: HeaderName = HeaderName::from_static("x-duduclaw-account");
