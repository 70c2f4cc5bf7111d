//! The answer when nothing can serve: the truth, in a form the client can act on.
//!
//! The body is that of the best real refusal. The status says what helps: 429 if waiting for a quota does, the relayed
//! 5xx if an error back-off is all there is, 503 if only a person can help, 502 if nothing answered. Never 401 or 403:
//! Claude Code would log its user out over an account of ours. What a provider did not state is not promised.

use std::time::Duration;

use bytes::Bytes;
use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::event::{EventKind, Severity};
use duduclaw_actors::failover::demand::{CapsOnly, Exhausted, Reason, Remedy, Why};
use duduclaw_actors::outcome::{Cause, QuotaReading, QuotaStatus};
use duduclaw_actors::provider::anthropic::error::ProviderError;
use duduclaw_actors::provider::anthropic::quota::{claim_of, unified_headers};
use duduclaw_actors::standing::Stated;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use crate::gateway::answer::{self, Answer};
use crate::gateway::chain::Leg;
use crate::gateway::error::{ApiError, seconds_up};
use crate::gateway::exchange::Exchange;
use crate::gateway::headers::response::{self, Relay};
use crate::gateway::over_budget;
use crate::gateway::pool_quota;
use crate::gateway::reading::{Beginning, Shown};
use crate::gateway::reason;
use crate::gateway::waiting::soonest_return;

/// The best refusals so far, one of each kind.
#[derive(Default)]
pub(super) struct Best {
    quota: Option<Kept>,
    fault: Option<Kept>,
    other: Option<Kept>,
    /// A slice of a longer wait is over: the client is asked to come back at once.
    pub(super) slice_over: bool,
    /// Whether the wait was told to the feed.
    pub(super) wait_told: bool,
}

struct Kept {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    upstream: String,
}

impl Best {
    /// Keeps a refusal, if its whole body was read.
    pub(super) fn keep(&mut self, beginning: Beginning, leg: &Leg) {
        let Some(kept) = Kept::of(beginning, leg) else { return };
        let place = match kept.status {
            StatusCode::TOO_MANY_REQUESTS => &mut self.quota,
            status if status.is_server_error() => &mut self.fault,
            _ => &mut self.other,
        };
        place.get_or_insert(kept);
    }

    fn relayable(self) -> Option<Kept> {
        let other = self.other.filter(|kept| !matches!(kept.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN));
        self.quota.or(self.fault).or(other)
    }
}

/// What every upstream of the chain said in the end.
pub(super) type Verdicts = Vec<(Leg, Exhausted)>;

/// Makes the final answer.
pub(super) fn make(exchange: &mut Exchange, verdicts: &Verdicts) -> Answer {
    let now = exchange.gateway.clock.now();
    let why = describe(verdicts, Naming::of(exchange), now);
    let best = std::mem::take(&mut exchange.best);
    if best.slice_over {
        let back = ApiError::Exhausted { message: why, retry_after: Some(Duration::from_secs(1)) };
        return back.answer(&exchange.inbound.id);
    }
    exchange.gateway.holds.over(exchange.conversation.key);
    let remedy = remedy(verdicts, now);
    let told = match remedy {
        Remedy::Budget(over) => over_budget::told(&exchange.caller.principal, over, now),
        Remedy::Wait { .. } | Remedy::BackOff { .. } | Remedy::Person | Remedy::Spent { .. } => {
            EventKind::PoolExhausted { reasons: describe(verdicts, Naming::Names, now) }
        }
    };
    exchange.emit(told, Severity::Warning);
    match remedy {
        Remedy::Wait { until, stated, caps_only } => {
            wait(exchange, best, verdicts, Return { until, stated, caps_only }, why, now)
        }
        Remedy::Budget(over) => {
            over_budget::refusal(&exchange.caller.principal, over, now).answer(&exchange.inbound.id)
        }
        Remedy::BackOff { .. } => match best.fault {
            Some(kept) => kept.answer(exchange, HeaderMap::new()),
            None => ApiError::Unreachable(why).answer(&exchange.inbound.id),
        },
        Remedy::Person => ApiError::NeedsPerson(why).answer(&exchange.inbound.id),
        Remedy::Spent { .. } => match best.relayable() {
            Some(kept) => kept.answer(exchange, HeaderMap::new()),
            None => ApiError::Unreachable(why).answer(&exchange.inbound.id),
        },
    }
}

/// The most hopeful of what the upstreams said: the soonest return, else the asker's next month, else what was tried,
/// else a person.
fn remedy(verdicts: &Verdicts, now: Timestamp) -> Remedy {
    let hopeful = verdicts.iter().filter_map(|(_, why)| soonest_return(why).map(|at| (at, why.remedy)));
    let soonest = hopeful.reduce(|a, b| if a.0.sooner(b.0, now) == a.0 { a } else { b }).map(|(_, remedy)| remedy);
    let of = |kind: fn(&Remedy) -> bool| verdicts.iter().map(|(_, why)| why.remedy).find(kind);
    soonest
        .or_else(|| of(|remedy| matches!(remedy, Remedy::Wait { .. })))
        .or_else(|| of(|remedy| matches!(remedy, Remedy::Budget(_))))
        .or_else(|| of(|remedy| matches!(remedy, Remedy::Spent { .. })))
        .unwrap_or(Remedy::Person)
}

struct Return {
    until: Option<Deadline>,
    stated: Stated,
    caps_only: CapsOnly,
}

fn wait(exchange: &Exchange, best: Best, verdicts: &Verdicts, back: Return, why: String, now: Timestamp) -> Answer {
    let stated = back.until.filter(|_| back.stated == Stated::ByProvider);
    let retry_after = stated.map(|until| until.remaining(now));
    let mut headers = pool_headers(exchange, verdicts, stated, now);
    if let Some(wait) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds_up(wait)));
    }
    match best.quota {
        Some(kept) if back.caps_only == CapsOnly::No => kept.answer(exchange, headers),
        Some(_) | None => {
            let message = if back.caps_only == CapsOnly::Yes { caps_text(verdicts) } else { why };
            let mut answer = ApiError::Exhausted { message, retry_after: None }.answer(&exchange.inbound.id);
            answer.headers_mut().extend(headers);
            answer
        }
    }
}

fn caps_text(verdicts: &Verdicts) -> String {
    let capped = |why: &Exhausted| matches!(why.remedy, Remedy::Wait { caps_only: CapsOnly::Yes, .. });
    let name = verdicts.iter().find(|(_, why)| capped(why)).map(|(leg, _)| leg.provider()).unwrap_or_default();
    format!("all selectable accounts for provider '{name}' are at their max_utilization cap for this request")
}

/// What the pool as a whole would say: refused until the soonest stated return, by the windows of the account that
/// returns then.
fn pool_headers(exchange: &Exchange, verdicts: &Verdicts, stated: Option<Deadline>, now: Timestamp) -> HeaderMap {
    let Some(until) = stated else { return HeaderMap::new() };
    let mut reading = QuotaReading {
        status: Some(QuotaStatus::Rejected),
        reset: Some(until.as_wall(now)),
        ..QuotaReading::default()
    };
    let returning = verdicts.iter().flat_map(|(_, why)| &why.reasons).find(|reason| reason.returns_at() == Some(until));
    if let Some(reason) = returning.filter(|reason| holds_by_quota(reason)) {
        reading.windows = exchange.gateway.refused_windows(reason.account);
        reading.representative = reading.windows.first().map(|refused| claim_of(&refused.window).to_owned());
    }
    unified_headers(&reading).into_iter().collect()
}

fn holds_by_quota(reason: &Reason) -> bool {
    matches!(reason.why, Why::Held { cause: Cause::Quota, .. })
}

impl Kept {
    /// A refusal whose whole body was read; or the error with which a stream began, as the answer it stands for.
    fn of(beginning: Beginning, leg: &Leg) -> Option<Self> {
        let whole = beginning.is_whole();
        let Beginning { head, packets, shown, .. } = beginning;
        let upstream = leg.name().to_owned();
        if !head.status.is_success() {
            return whole.then(|| Self {
                status: head.status,
                headers: head.headers,
                body: packets.concat().into(),
                upstream,
            });
        }
        let Shown::Event { data, .. } = shown else { return None };
        let status = ProviderError::read(&data).known_kind()?.status();
        let mut headers = head.headers;
        headers.remove(CONTENT_ENCODING);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Some(Self { status, headers, body: data.into(), upstream })
    }

    fn answer(self, exchange: &Exchange, truth: HeaderMap) -> Answer {
        let stamp = exchange.stamp_refusal(&self.upstream);
        let mut headers = response::relayed(&self.headers, Relay::Changed, &stamp);
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            // One account's word is not the pool's.
            headers.remove(RETRY_AFTER);
            pool_quota::drop_claims(&mut headers);
        }
        headers.extend(truth);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        let mut response = answer::whole(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response
    }
}

/// How accounts are called in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// By their names.
    Names,
    /// By their place in the text: clients are not to see names.
    Numbers,
}

impl Naming {
    fn of(exchange: &Exchange) -> Self {
        if exchange.live.settings.server.account_header.is_some() { Self::Names } else { Self::Numbers }
    }

    fn call(self, reason: &Reason, at: usize) -> String {
        match self {
            Self::Names => reason.entry.name.to_string(),
            Self::Numbers => format!("account {}", at + 1),
        }
    }
}

/// Who cannot serve and why, for a person.
fn describe(verdicts: &Verdicts, naming: Naming, now: Timestamp) -> String {
    let reasons = verdicts.iter().flat_map(|(_, why)| &why.reasons).enumerate();
    let lines: Vec<String> =
        reasons.map(|(at, reason)| reason::words(&naming.call(reason, at), &reason.why, now)).collect();
    if lines.is_empty() {
        return "no account is configured for this request; `duduclaw check` says what is missing".to_owned();
    }
    format!("no account can serve this request now: {}", lines.join("; "))
}
