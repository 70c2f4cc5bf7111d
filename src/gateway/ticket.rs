//! A request's place in the gateway, from its arrival to the last byte of its answer: one of the requests that may run
//! at once, the room its body takes, and the event that tells how it ended.

use std::sync::Arc;

use duduclaw_actors::clock::{Timestamp, Wall};
use duduclaw_actors::event::{EventKind, RequestClose, Severity};
use duduclaw_actors::outcome::{Evidence, Usage};
use http::StatusCode;
use tokio::sync::OwnedSemaphorePermit;

use crate::gateway::end::End;
use crate::gateway::error::ApiError;
use crate::gateway::inbound::Inbound;
use crate::gateway::service::Gateway;

/// An id that no other request has. It begins with the moment, so that those of one time lie beside each other in the
/// store.
#[must_use]
pub fn request_id(now: Wall) -> String {
    let moment = now.0.cast_unsigned() & 0xffff_ffff_ffff;
    format!("{moment:012x}{:020x}", fastrand::u128(..) >> 48)
}

/// A request's place. Dropped without a word, it says that the client went away, or that we stop.
pub struct Ticket {
    gateway: Arc<Gateway>,
    request_id: String,
    began: Timestamp,
    _permits: Vec<OwnedSemaphorePermit>,
    status: Option<StatusCode>,
    attempts: u32,
    told: bool,
}

impl Ticket {
    /// The place of a request that arrived at `began`.
    #[must_use]
    pub fn new(
        gateway: Arc<Gateway>,
        request_id: String,
        began: Timestamp,
        permits: Vec<OwnedSemaphorePermit>,
    ) -> Self {
        Self { gateway, request_id, began, _permits: permits, status: None, attempts: 0, told: false }
    }

    /// A place for an answer whose request gave its own away already.
    pub(super) fn spare(gateway: &Arc<Gateway>, inbound: &Inbound) -> Self {
        Self::new(Arc::clone(gateway), inbound.id.clone(), inbound.began, Vec::new())
    }

    /// The answer has begun.
    pub fn begin(&mut self, status: StatusCode, attempts: u32) {
        self.status = Some(status);
        self.attempts = attempts;
    }

    /// The request is refused before it was sent anywhere.
    pub(super) fn refuse(mut self, error: ApiError) -> ApiError {
        self.begin(error.status(), 0);
        let end = if matches!(error, ApiError::BrokenOff) { End::ClientGone } else { End::Complete };
        self.tell(end, Usage::default());
        error
    }

    /// The answer is over.
    pub fn close(mut self, end: End, usage: Usage) {
        self.tell(end, usage);
    }

    fn tell(&mut self, end: End, usage: Usage) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let close = match end {
            End::Complete => RequestClose::Complete,
            End::Broken | End::Stalled | End::Stopped => RequestClose::Cut,
            End::ClientGone => RequestClose::ClientGone,
        };
        let passed = self.gateway.clock.now().since(self.began);
        let kind = EventKind::RequestEnded {
            status: self.status.map_or(0, |status| status.as_u16()),
            attempts: self.attempts,
            close,
            total_ms: u64::try_from(passed.as_millis()).unwrap_or(u64::MAX),
            usage,
        };
        let evidence = Evidence { request_id: Some(self.request_id.clone()), ..Evidence::default() };
        self.gateway.tell(kind, Severity::Trace, None, evidence);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let end = if self.gateway.stop.is_cancelled() { End::Stopped } else { End::ClientGone };
        self.tell(end, Usage::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_as_long_as_ever_grows_with_time_and_is_given_once() {
        let ids: Vec<String> = (0..1000).map(|at| request_id(Wall(1_796_000_000_000 + at / 2))).collect();
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        assert!(ids.iter().step_by(2).is_sorted());
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 1000);
        assert_eq!(request_id(Wall(-1)).len(), 32);
    }
}
