//! What is told to an account, as it waits in the inbox: the health machine's events, owned and cheap to copy.

use std::sync::Arc;

use crate::account::health::{Health, HealthEvent, UsagePoll};
use crate::outcome::{Answered, Ended};

/// One thing that happened to an account.
#[derive(Clone, Debug)]
pub enum Fact {
    /// Head and first event of an attempt are classified.
    Answered(Arc<Answered>),
    /// The body of an attempt is over.
    Ended(Arc<Ended>),
    /// The provider's usage page was read.
    UsagePolled(Arc<UsagePoll>),
    /// Another account turned out to be this one; this was its state.
    Joined(Arc<Health>),
    /// Anything that borrows nothing.
    Told(HealthEvent<'static>),
}

impl Fact {
    /// The machine's event.
    #[must_use]
    pub fn as_event(&self) -> HealthEvent<'_> {
        match self {
            Self::Answered(answered) => HealthEvent::Answered(answered),
            Self::Ended(ended) => HealthEvent::Ended(ended),
            Self::UsagePolled(poll) => HealthEvent::UsagePolled(poll),
            Self::Joined(health) => HealthEvent::Joined(health),
            Self::Told(event) => *event,
        }
    }
}
