//! One attempt on one account: its secret, the request as the provider should get it, the beginning of the answer, and
//! what it means.
//!
//! A lease is spent here and returned by its guard, wherever the attempt ends, also when the client goes away and this
//! future is dropped half way.

use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::clock::{self, Deadline};
use duduclaw_actors::event::FailoverReason;
use duduclaw_actors::failover::LeaseGuard;
use duduclaw_actors::failover::demand::{Alternatives, Counted, Demand, Gate, Grant, LastAnswer, Once, Step, Why};
use duduclaw_actors::outcome::{Cause, Evidence, Outcome, QuotaReading};
use duduclaw_actors::provider::anthropic::classify::{self, Asked, Classified, CredentialOwner};
use duduclaw_actors::standing::Stated;
use tokio::time::timeout;

use crate::credentials::{Held, NotNow, Patience, Rejection};
use crate::gateway::answer::Answer;
use crate::gateway::chain::{Leg, advances};
use crate::gateway::count;
use crate::gateway::error::ApiError;
use crate::gateway::exchange::Exchange;
use crate::gateway::fields::Streaming;
use crate::gateway::hold::stainless_timeout;
use crate::gateway::kind::Kind;
use crate::gateway::outgoing;
use crate::gateway::reading::Beginning;
use crate::gateway::rename::Renaming;
use crate::gateway::spending::Spending;
use crate::upstream::client::SendError;
use crate::upstream::tee::DOCUMENT_MAX;

/// What is left of a client's own time-out for an answer without a stream.
const HEAD_MARGIN: Duration = Duration::from_secs(10);

/// How long after the head an answer may be held back to be judged, unless pings are due sooner.
const JUDGED_WITHIN: Duration = Duration::from_secs(30);
/// When to look again for a token whose renewal takes long.
const RENEWING: Duration = Duration::from_secs(1);

/// What an attempt came to.
pub(super) enum Attempted {
    /// An answer for the client.
    Answer(Answer),
    /// Nothing; admission chooses what is next.
    Next,
    /// Nothing, and this upstream has said its word: the chain goes on.
    Leave,
}

/// What came of sending.
pub(super) enum Sent {
    /// An answer began.
    Answer(Box<Beginning>),
    /// No head came in time.
    NoHead,
    /// No answer came.
    Nothing(SendError),
}

/// Whether there is a secret to send.
enum Access {
    /// There is (or none is to be sent).
    Ready(Option<Arc<Held>>),
    /// It is being renewed, and another account is preferred meanwhile.
    Elsewhere,
    /// It cannot be had now.
    Missing(NotNow),
}

/// What became of a token that was refused.
enum Recovered {
    /// There is another: the same account once more.
    With(Arc<Held>),
    /// Renewing takes long, or failed for now: that is not the account's fault.
    NotYet,
    /// There is no other: the refusal stands.
    No,
}

impl Exchange {
    pub(super) async fn attempt(
        &mut self,
        leg: &Leg,
        grant: Grant,
        guard: LeaseGuard,
        demand: &mut Demand,
    ) -> Result<Attempted, ApiError> {
        if grant.gate == Gate::Probe {
            self.spent.probe = Once::Used;
        }
        let held = match self.access(leg, &grant).await {
            Access::Ready(held) => held,
            Access::Elsewhere => return Ok(self.go_elsewhere(grant, demand)),
            Access::Missing(why) => return Ok(self.leave_out(&grant, why, demand)),
        };
        self.count_hop(demand);
        let mut spending = Spending::new(self, grant, guard, held, demand.ask.as_ref());
        let mut sent = self.send(leg, &mut spending).await?;
        let mut classified = self.classify(leg, &spending, &sent);
        if leg.injects() && classified.outcome == Outcome::Unauthorized {
            match self.recover(&spending).await {
                Recovered::With(renewed) => {
                    spending.renew(renewed);
                    sent = self.send(leg, &mut spending).await?;
                    classified = self.classify(leg, &spending, &sent);
                }
                Recovered::NotYet => return Ok(self.leave_out(spending.grant(), NotNow::Renewing, demand)),
                Recovered::No => {}
            }
        }
        Ok(self.judge(leg, spending, sent, classified, demand).await)
    }

    /// An attempt elsewhere after a 429 that stated nothing is such a request's one hop.
    fn count_hop(&mut self, demand: &Demand) {
        let unstated = |last: &LastAnswer| last.answered.outcome == (Outcome::Throttled { wait: None });
        if demand.step == Step::Next && demand.last.as_ref().is_some_and(unstated) {
            self.spent.unstated_hops = self.spent.unstated_hops.saturating_add(1);
        }
    }

    async fn access(&self, leg: &Leg, grant: &Grant) -> Access {
        if !leg.injects() {
            return Access::Ready(None);
        }
        let vault = &self.gateway.vault;
        let patience = match (vault.current(grant.account), grant.alternatives) {
            (Ok(held), _) => return Access::Ready(Some(held)),
            (Err(NotNow::NoSecret), _) => return Access::Ready(None),
            (Err(NotNow::Renewing | NotNow::Postponed(_)), Alternatives::Some) => Patience::Short,
            (Err(NotNow::Renewing | NotNow::Postponed(_)), Alternatives::None) => Patience::Full,
            (Err(why @ (NotNow::Unknown | NotNow::Broken(_) | NotNow::LoginNeeded)), _) => {
                return Access::Missing(why);
            }
        };
        match (vault.fresh(grant.account, patience).await, grant.alternatives) {
            (Ok(held), _) => Access::Ready(Some(held)),
            (Err(NotNow::Renewing | NotNow::Postponed(_)), Alternatives::Some) => Access::Elsewhere,
            (Err(why), _) => Access::Missing(why),
        }
    }

    /// The account has no secret to send. Nothing was sent, so nothing is held against it; what that means for it, the
    /// keeper of secrets has told it.
    fn leave_out(&mut self, grant: &Grant, why: NotNow, demand: &mut Demand) -> Attempted {
        self.failed_over(&grant.entry, FailoverReason::Auth);
        let now = self.gateway.clock.now();
        let held = |until| Why::Held { cause: Cause::Network, until, stated: Stated::Guessed };
        let meaning = match why {
            NotNow::LoginNeeded => Some(Why::NeedsLogin),
            NotNow::Broken(cause) => Some(Why::NeedsPerson(cause)),
            NotNow::Postponed(retry) => Some(held(retry)),
            NotNow::Renewing => Some(held(Deadline::after(now, RENEWING))),
            NotNow::Unknown | NotNow::NoSecret => None,
        };
        self.left_out.extend(meaning.map(|why| (grant.account, why)));
        demand.tried.push(grant.account);
        demand.step = Step::Next;
        Attempted::Next
    }

    fn go_elsewhere(&mut self, grant: Grant, demand: &mut Demand) -> Attempted {
        self.failed_over(&grant.entry, FailoverReason::Renewing);
        demand.renewing.push(grant.account);
        Attempted::Next
    }

    /// Sends, once more at once if the connection failed before a head; what is merely passed through may not bear it.
    async fn send(&mut self, leg: &Leg, spending: &mut Spending) -> Result<Sent, ApiError> {
        let first = self.send_once(leg, spending).await?;
        match first {
            Sent::Nothing(_) if self.inbound.kind != Kind::Passthrough => self.send_once(leg, spending).await,
            Sent::Answer(_) | Sent::NoHead | Sent::Nothing(_) => Ok(first),
        }
    }

    async fn send_once(&mut self, leg: &Leg, spending: &mut Spending) -> Result<Sent, ApiError> {
        let request = outgoing::request(self, leg, spending.held(), spending.account())?;
        self.attempts += 1;
        self.spent.counted = Counted::Already;
        spending.sent(self.attempts, self.gateway.clock.now());
        let answer = timeout(self.head_within(), self.gateway.client.send(request)).await;
        let sent = match answer {
            Err(_) => Sent::NoHead,
            Ok(Err(error)) => Sent::Nothing(error),
            Ok(Ok(response)) => {
                let patience = self.live.settings.server.sse_keepalive.unwrap_or(JUDGED_WITHIN);
                let patience = clock::instant() + patience;
                Sent::Answer(Box::new(Beginning::read(response, patience).await))
            }
        };
        spending.answered(self.gateway.clock.now());
        Ok(sent)
    }

    pub(super) fn head_within(&self) -> Duration {
        let timeouts = &self.live.settings.server.timeouts;
        match self.inbound.streaming {
            Streaming::Yes => timeouts.ttfb,
            Streaming::No => stainless_timeout(&self.inbound.headers)
                .and_then(|client| client.checked_sub(HEAD_MARGIN))
                .filter(|left| !left.is_zero())
                .unwrap_or(timeouts.ttfb_nonstream),
        }
    }

    fn classify(&self, leg: &Leg, spending: &Spending, sent: &Sent) -> Classified {
        let mut classified = match sent {
            Sent::NoHead => bare(Outcome::HeadTimeout { streaming: self.inbound.streaming == Streaming::Yes }),
            Sent::Nothing(error) => bare(Outcome::Unreachable { connecting: *error == SendError::Connect }),
            Sent::Answer(beginning) => match beginning.shown.as_seen() {
                None => bare(Outcome::Unreachable { connecting: false }),
                Some(seen) => {
                    let (status, headers) = (beginning.head.status, &beginning.head.headers);
                    let answer = classify::Answer { status, headers, seen };
                    classify::classify(answer, self.asked_of(leg), spending.answered_at())
                }
            },
        };
        classified.evidence.request_id = Some(self.inbound.id.clone());
        classified
    }

    pub(super) fn asked_of(&self, leg: &Leg) -> Asked {
        let credential = if leg.injects() { CredentialOwner::Account } else { CredentialOwner::Client };
        Asked { call: self.inbound.call, scope: self.inbound.scope, credential }
    }

    /// A refused token is renewed once, unless it cannot be.
    async fn recover(&self, spending: &Spending) -> Recovered {
        let Some(held) = spending.held() else { return Recovered::No };
        let rejected = held.secret.fingerprint();
        let patience = match spending.grant().alternatives {
            Alternatives::Some => Patience::Short,
            Alternatives::None => Patience::Full,
        };
        match self.gateway.vault.refresh_rejected(spending.account(), rejected, patience).await {
            Rejection::Refreshed(held) | Rejection::Adopted(held) => Recovered::With(held),
            Rejection::Failed | Rejection::StillRenewing => Recovered::NotYet,
            Rejection::StillSame | Rejection::GrantLost | Rejection::Broken(_) => Recovered::No,
        }
    }

    async fn judge(
        &mut self,
        leg: &Leg,
        mut spending: Spending,
        sent: Sent,
        classified: Classified,
        demand: &mut Demand,
    ) -> Attempted {
        let why = failover_reason(&classified.outcome);
        let last = spending.report(self, classified);
        match (why, sent) {
            (Some(_), Sent::Answer(beginning)) if self.inbound.kind == Kind::Passthrough => {
                Attempted::Answer(spending.relay(self, leg, *beginning, &Outcome::Relayed))
            }
            (None, Sent::Answer(beginning)) => {
                let beginning = self.whole_if_renamed(leg, *beginning).await;
                self.relay(leg, spending, beginning, &last.answered.outcome)
            }
            (_, Sent::Nothing(error)) if self.inbound.kind == Kind::Passthrough => {
                Attempted::Answer(ApiError::Unreachable(error.to_string()).answer(&self.inbound.id))
            }
            (why, sent) => self.next(leg, spending, sent, why.unwrap_or(FailoverReason::Transport), last, demand),
        }
    }

    /// A message in which the model's name is to be exchanged is read to its end first: its length must be known.
    async fn whole_if_renamed(&self, leg: &Leg, beginning: Beginning) -> Beginning {
        if self.renamed(leg).is_none() || !Renaming::needs_whole(&beginning) {
            return beginning;
        }
        beginning.whole(DOCUMENT_MAX, self.live.settings.server.timeouts.stream_idle).await
    }

    /// The attempt came to nothing: what was answered is kept, and admission is asked again.
    fn next(
        &mut self,
        leg: &Leg,
        spending: Spending,
        sent: Sent,
        why: FailoverReason,
        last: LastAnswer,
        demand: &mut Demand,
    ) -> Attempted {
        if let Sent::Answer(beginning) = sent {
            self.best.keep(*beginning, leg);
        }
        if self.is_too_late(&last.answered.outcome) {
            return Attempted::Answer(ApiError::HeadTimeout(self.head_within()).answer(&self.inbound.id));
        }
        self.failed_over(spending.entry(), why);
        demand.tried.push(spending.account());
        demand.last = Some(last);
        demand.step = Step::Next;
        Attempted::Next
    }

    /// A stream whose head is late is sent elsewhere once; any other request never.
    fn is_too_late(&mut self, outcome: &Outcome) -> bool {
        let Outcome::HeadTimeout { streaming } = outcome else { return false };
        self.late_heads += 1;
        !streaming || self.late_heads > 1
    }

    /// What goes to the client. A refusal that is its own affair makes a chain go on all the same, if it can.
    fn relay(&mut self, leg: &Leg, spending: Spending, beginning: Beginning, outcome: &Outcome) -> Attempted {
        if self.inbound.kind == Kind::CountTokens && count::is_missing(&beginning) {
            self.live.uncounting.remember(leg.element().id);
            return Attempted::Answer(count::estimate(self.body()));
        }
        if *outcome == Outcome::Relayed && !leg.is_last && advances(beginning.head.status) {
            self.best.keep(beginning, leg);
            return Attempted::Leave;
        }
        if *outcome == Outcome::Served {
            self.tell_substitution(leg, spending.entry());
        }
        Attempted::Answer(spending.relay(self, leg, beginning, outcome))
    }
}

fn bare(outcome: Outcome) -> Classified {
    Classified { outcome, quota: QuotaReading::default(), evidence: Evidence::default() }
}

/// Why a request goes on; `None` for what is relayed.
pub(super) fn failover_reason(outcome: &Outcome) -> Option<FailoverReason> {
    match outcome {
        Outcome::Served | Outcome::Relayed | Outcome::Abandoned => None,
        Outcome::Quota(_) => Some(FailoverReason::Quota),
        Outcome::Throttled { .. } => Some(FailoverReason::RateLimit),
        Outcome::Unauthorized | Outcome::OrgRefused => Some(FailoverReason::Auth),
        Outcome::BalanceEmpty => Some(FailoverReason::Balance),
        Outcome::ServerFault { .. } => Some(FailoverReason::ServerError),
        Outcome::Unreachable { .. } => Some(FailoverReason::Transport),
        Outcome::HeadTimeout { .. } => Some(FailoverReason::Timeout),
        Outcome::Blank => Some(FailoverReason::Blank),
    }
}
