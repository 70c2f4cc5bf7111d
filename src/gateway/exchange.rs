//! One request from its arrival to its answer: along the chain of upstreams, from account to account, until something
//! serves it or nothing can.
//!
//! Every decision is made elsewhere: which account, by admission; what an answer means, by the provider's rules. Here
//! the two are joined, attempt by attempt. Nothing is sent again once a byte has gone to the client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duduclaw_actors::clock::{Deadline, Timestamp, sleep_until};
use duduclaw_actors::event::{EventKind, FailoverReason, Severity};
use duduclaw_actors::failover::Leased;
use duduclaw_actors::failover::demand::{Demand, Exhausted, NotBefore, Once, Remedy, Spent, Step, Via};
use duduclaw_actors::id::ModelScope;
use duduclaw_actors::outcome::CallKind;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode};

use crate::config::topology::Element;
use crate::gateway::access::Caller;
use crate::gateway::attempt::Attempted;
use crate::gateway::conversation::Conversation;
use crate::gateway::error::ApiError;
use crate::gateway::fields::{LongContext, Streaming};
use crate::gateway::final_answer::{self, Best};
use crate::gateway::hold::LastSlice;
use crate::gateway::service::{Answer, Gateway, Live};

/// The most that a breather's end is blurred by, so that waiters do not come back in one instant.
const JITTER_MS: u64 = 250;

/// What a client sent.
pub struct Inbound {
    /// Our id for it.
    pub id: String,
    /// Its method.
    pub method: Method,
    /// Its path and query, as they came.
    pub target: PathAndQuery,
    /// Its headers, as they came.
    pub headers: HeaderMap,
    /// Its body, as it came.
    pub body: Bytes,
    /// What routing read in the body.
    pub asked: AskedModel,
    /// Whether a stream was asked for.
    pub streaming: Streaming,
    /// The place of `account_uuid` in the body.
    pub account_uuid: Option<std::ops::Range<usize>>,
    /// The models it concerns, as far as quota windows care.
    pub scope: ModelScope,
    /// Inference, or beside it.
    pub call: CallKind,
    /// When it arrived.
    pub began: Timestamp,
}

/// The model a client asked for.
#[derive(Clone, Debug, Default)]
pub struct AskedModel {
    /// As it stands in the body, if it does.
    pub name: Option<String>,
    /// Without what asks for the long context.
    pub base: String,
    /// Where it stands, with its quotes.
    pub span: Option<std::ops::Range<usize>>,
    /// Whether the long context was asked for by the name.
    pub long_context: LongContext,
    /// Models of tools that ask for the long context: their places, and the names without it.
    pub tools: Vec<(std::ops::Range<usize>, String)>,
}

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
    pub(super) best: Best,
}

/// What one upstream came to.
pub(super) enum Walked {
    /// An answer for the client.
    Answered(Answer),
    /// Nothing: the chain goes on.
    Exhausted(Exhausted),
}

impl Exchange {
    /// A request of this caller.
    pub fn new(gateway: Arc<Gateway>, live: Arc<Live>, caller: Caller, inbound: Inbound) -> Self {
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
            best: Best::default(),
        }
    }

    /// Serves it.
    pub async fn run(mut self, chain: Vec<Arc<Element>>) -> Answer {
        loop {
            let mut exhausted = Vec::new();
            for element in &chain {
                match self.walk(element, chain.len()).await {
                    Ok(Walked::Answered(answer)) => return self.answered(answer),
                    Ok(Walked::Exhausted(why)) => exhausted.push((Arc::clone(element), why)),
                    Err(error) => return self.refuse(&error),
                }
            }
            if !self.wait_for_return(&exhausted).await {
                return final_answer::make(&self, exhausted).await;
            }
        }
    }

    /// One upstream, account by account.
    async fn walk(&mut self, element: &Arc<Element>, chain: usize) -> Result<Walked, ApiError> {
        let mut demand = self.demand(element);
        loop {
            demand.spent = self.spent;
            let leased = self.gateway.fleet.failover.lease(demand.clone()).await.map_err(|_| ApiError::Internal)?;
            match leased {
                Leased::Granted(grant, guard) => {
                    match Box::pin(self.attempt(element, grant, guard, &mut demand, chain)).await? {
                        Attempted::Answer(answer) => return Ok(Walked::Answered(answer)),
                        Attempted::Next => {}
                    }
                }
                Leased::NotBefore(wait) => self.take_breath(wait, &mut demand).await,
                Leased::Exhausted(why) => return Ok(Walked::Exhausted(why)),
            }
        }
    }

    fn demand(&self, element: &Element) -> Demand {
        Demand {
            upstream: element.id,
            principal: Arc::clone(&self.caller.principal),
            conversation: self.conversation.key,
            parent: self.conversation.parent,
            scope: self.inbound.scope,
            call: self.inbound.call,
            via: Via::Gateway,
            tried: Vec::new(),
            renewing: Vec::new(),
            last: None,
            step: Step::First,
            binds_thinking: self.live.binds_thinking(&self.inbound.asked.base),
            spent: self.spent,
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

    /// Waits, without a byte to the client, until an account may have returned. `false`: the answer is due now.
    async fn wait_for_return(&mut self, exhausted: &[(Arc<Element>, Exhausted)]) -> bool {
        let hold = self.live.settings.pool.hold;
        let curable = exhausted.iter().any(|(_, why)| matches!(why.remedy, Remedy::Wait { .. } | Remedy::BackOff { .. }));
        if hold.is_zero() || !curable || self.inbound.call == CallKind::Side {
            return false;
        }
        let now = self.gateway.clock.now();
        let (key, began) = (self.conversation.key, self.inbound.began);
        let Some(place) = self.gateway.holds.enter(key, &self.inbound.headers, hold, began, now) else { return false };
        let soonest = exhausted.iter().filter_map(|(_, why)| soonest_return(why)).reduce(|a, b| a.sooner(b, now));
        self.emit(EventKind::RequestHeld { until: soonest }, Severity::Info);
        let returned = self.returns(place.slice_end).await;
        if returned {
            self.emit(EventKind::RequestReleased, Severity::Info);
            self.spent = Spent::default();
        } else {
            self.best.slice_over = place.last == LastSlice::No;
        }
        returned
    }

    /// Whether admission would serve before the deadline; looks again whenever an account's standing changed.
    async fn returns(&self, deadline: Deadline) -> bool {
        let mut changed = self.gateway.fleet.changed();
        let clock = Arc::clone(&self.gateway.clock);
        loop {
            tokio::select! {
                () = sleep_until(&*clock, deadline) => return false,
                () = self.gateway.stop.cancelled() => return false,
                told = changed.changed() => if told.is_err() { return false },
            }
            if self.gateway.may_serve(&self.live, self.inbound.scope).await {
                return true;
            }
        }
    }

    fn answered(&self, answer: Answer) -> Answer {
        self.gateway.holds.over(self.conversation.key);
        answer
    }

    fn refuse(&self, error: &ApiError) -> Answer {
        error.answer(&self.inbound.id)
    }

    pub(super) fn emit(&self, kind: EventKind, severity: Severity) {
        self.gateway.emit(kind, severity, None, &self.inbound.id);
    }

    pub(super) fn failed_over(&self, from: &duduclaw_actors::id::EntryId, why: FailoverReason) {
        let kind = EventKind::FailedOver { from: from.clone(), why };
        self.gateway.emit(kind, Severity::Info, Some(from.clone()), &self.inbound.id);
    }
}

/// When an exhausted upstream may serve again, whoever says so.
pub(super) fn soonest_return(why: &Exhausted) -> Option<Deadline> {
    match why.remedy {
        Remedy::Wait { until, .. } => until,
        Remedy::BackOff { until } => Some(until),
        Remedy::Person | Remedy::Spent => None,
    }
}

/// Whether a status makes the chain go on.
#[must_use]
pub fn advances(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND
    ) || status.is_server_error()
}
