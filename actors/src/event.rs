//! Everything that happens is one kind of event. The activity feed, metrics, the terminal's story and every page are
//! made of these and of nothing else.

mod kinds;
mod summary;

use std::sync::Arc;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize, Serializer};

use crate::activity::ScopeKey;
use crate::clock::{Deadline, Timestamp};
use crate::efficiency::CacheScope;
use crate::id::EntryId;
use crate::money::Micros;
use crate::outcome::{Cause, Evidence, HoldScope, Usage};
use crate::rows::{AttemptEnd, Figures};
use crate::standing::{HoldKind, State, Stated};

pub use kinds::KINDS;
pub use summary::span;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Its number; the feed gives it.
    pub seq: u64,
    /// When.
    pub ts: Timestamp,
    /// What.
    pub kind: EventKind,
    /// How much it matters.
    pub severity: Severity,
    /// The account it concerns.
    pub account: Option<EntryId>,
    /// What shows it.
    pub evidence: Evidence,
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Counted; not kept in the feed.
    Trace,
    /// Worth a line.
    Info,
    /// Someone should look when there is time.
    Warning,
    /// Someone should look now.
    Error,
}

/// What happened. In the past tense.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// The shown state of an account changed.
    StateChanged {
        /// From.
        from: State,
        /// To.
        to: State,
    },
    /// A hold began, or a running one grew.
    HoldBegan {
        /// Which.
        hold: HoldKind,
        /// On which requests.
        scope: HoldScope,
        /// Why.
        cause: Cause,
        /// Until when.
        #[serde(serialize_with = "civil")]
        until: Deadline,
        /// Whose word that is.
        stated: Stated,
    },
    /// A hold ended.
    HoldEnded {
        /// Which.
        hold: HoldKind,
        /// On which requests.
        scope: HoldScope,
        /// Why it ended.
        by: EndedBy,
    },
    /// A provider asked for a short wait: no hold.
    BreatherTaken {
        /// Until when.
        #[serde(serialize_with = "civil")]
        until: Deadline,
    },
    /// An ended auth hold is undecided: the account serves one request at a time.
    TrialBegan,
    /// The credential can no longer be had.
    CredentialBroke {
        /// Why.
        cause: Cause,
    },
    /// A new credential is in use.
    CredentialRenewed,
    /// The refresh grant is gone; a person must log in.
    LoginNeeded,
    /// A credential that cannot be renewed ends soon.
    CredentialExpiring {
        /// When.
        #[serde(serialize_with = "civil", rename = "until")]
        ends: Deadline,
        /// In how many whole days.
        days: u64,
    },
    /// The provider, asked about it, knows the credential.
    CredentialProved,
    /// An access token was refreshed.
    TokenRefreshed,
    /// Another program had refreshed it; its token was adopted.
    TokenAdopted,
    /// A refresh failed for now.
    RefreshFailed {
        /// What happened, without any secret.
        detail: String,
    },
    /// The operator paused an account.
    Paused,
    /// The operator resumed an account.
    Resumed,
    /// The operator cleared an account's holds.
    Cleared,
    /// A conversation moved to another account.
    ConversationMoved {
        /// From.
        from: EntryId,
        /// Why.
        why: MoveReason,
        /// Whether the model's earlier reasoning is lost by it.
        thinking: ThinkingLoss,
    },
    /// One request of a conversation went elsewhere; the conversation stays.
    Detoured {
        /// From.
        from: EntryId,
        /// Whether the model's earlier reasoning is lost by it.
        thinking: ThinkingLoss,
    },
    /// A conversation's request went back to its account after one that went elsewhere.
    Returned {
        /// The account that served meanwhile.
        from: EntryId,
        /// Whether the model's earlier reasoning is lost by it.
        thinking: ThinkingLoss,
    },
    /// A request was sent to this account after an attempt at another came to nothing.
    FailedOver {
        /// The account that did not serve.
        from: EntryId,
        /// Why.
        why: FailoverReason,
    },
    /// Another model answered than the first upstream of the chain would have used.
    ModelSubstituted {
        /// The model there.
        wanted: String,
        /// The model that answered.
        served: String,
        /// The upstream that answered.
        upstream: String,
    },
    /// An attempt was answered.
    AttemptAnswered {
        /// What it came to.
        outcome: AttemptResult,
        /// From sending to the head, in milliseconds.
        head_ms: u64,
    },
    /// A request is over.
    RequestEnded {
        /// The status the client got.
        status: u16,
        /// How many attempts it took.
        attempts: u32,
        /// How it ended for the client.
        close: RequestClose,
        /// From its first byte to its last, in milliseconds.
        total_ms: u64,
        /// The tokens of the answer that was relayed.
        usage: Usage,
    },
    /// An attempt is over, and paid for.
    AttemptSettled {
        /// How it came out.
        end: AttemptEnd,
        /// The tokens it took.
        usage: Usage,
        /// Where they are from.
        figures: Figures,
        /// What it cost, in US dollars.
        #[serde(serialize_with = "dollars")]
        cost: Micros,
    },
    /// The cache served little of the prompts of the last hour.
    CacheEfficiencyLow {
        /// Of what.
        scope: CacheScope,
        /// The share that it served, from 0 to 1.
        efficiency: f64,
    },
    /// A client waits because nothing can serve.
    RequestHeld {
        /// The soonest return, if known.
        #[serde(serialize_with = "civil_if_known")]
        until: Option<Deadline>,
    },
    /// A waiting client goes on.
    RequestReleased,
    /// A request got a final answer that says nothing can serve.
    PoolExhausted {
        /// Why, account by account.
        reasons: String,
    },
    /// A request was refused for a budget or a count of whoever asked; the accounts are not concerned.
    BudgetRefused {
        /// The client, if it has a name.
        client: Option<Arc<str>>,
        /// Which budget, and what is left of it.
        why: String,
        /// When it begins anew.
        #[serde(serialize_with = "civil")]
        until: Deadline,
    },
    /// The civil clock was stepped.
    ClockStepped {
        /// By how many milliseconds.
        by_ms: i64,
    },
    /// A new configuration is in force.
    ConfigReloaded,
    /// A new configuration was refused; the old one stays.
    ConfigRefused {
        /// Why.
        detail: String,
    },
    /// An actor died and was started again.
    ActorRestarted {
        /// Which.
        actor: String,
    },
    /// A store that cannot be used was put aside, unchanged, and a new one begun: what it knew is not known.
    StoreSetAside {
        /// Where it lies.
        kept_at: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store cannot be read or written. Everything is kept in memory meanwhile.
    StoreFailing {
        /// Why.
        why: String,
    },
    /// The store works again, and everything is written.
    StoreHealed {
        /// How long it did not, in milliseconds.
        failed_ms: u64,
    },
    /// The daemon serves.
    Started {
        /// Where.
        addresses: Vec<String>,
    },
    /// The daemon takes no more requests.
    Draining,
    /// Every account of a scope that is to be used is out because of its login.
    OutageBegan {
        /// Of what.
        scope: ScopeKey,
        /// The accounts that are out.
        accounts: Vec<EntryId>,
    },
    /// The login of an account of the scope was proved good.
    OutageEnded {
        /// Of what.
        scope: ScopeKey,
        /// How long it lasted, in seconds.
        lasted_secs: u64,
    },
    /// A message could not be delivered at first; it is tried again.
    MessageDelayed {
        /// Its id.
        message_id: Arc<str>,
        /// The channel.
        channel: Arc<str>,
        /// Whom in it.
        target: Arc<str>,
        /// Why.
        why: String,
    },
    /// A message arrived that had not arrived at once.
    MessageArrived {
        /// Its id.
        message_id: Arc<str>,
        /// The channel.
        channel: Arc<str>,
        /// Whom in it.
        target: Arc<str>,
    },
    /// A message was tried long enough and is given up.
    MessageLost {
        /// Its id.
        message_id: Arc<str>,
        /// The channel.
        channel: Arc<str>,
        /// Whom in it.
        target: Arc<str>,
        /// Why the last try failed.
        why: String,
    },
}

impl EventKind {
    /// The same with every end as a civil moment: waits that run on the steady clock mean nothing to a reader elsewhere
    /// or later.
    #[must_use]
    pub fn with_civil_ends(mut self, now: Timestamp) -> Self {
        if let Some(until) = self.end_mut() {
            *until = Deadline::Wall(until.as_wall(now));
        }
        self
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "a list of those that have an end")]
    fn end_mut(&mut self) -> Option<&mut Deadline> {
        match self {
            Self::HoldBegan { until, .. } | Self::BreatherTaken { until } => Some(until),
            Self::RequestHeld { until } => until.as_mut(),
            _ => None,
        }
    }
}

fn dollars<S: Serializer>(amount: &Micros, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(amount.dollars())
}

/// An end as people and programs read it: RFC 3339.
fn civil<S: Serializer>(until: &Deadline, serializer: S) -> Result<S::Ok, S::Error> {
    match until {
        Deadline::Wall(at) => match DateTime::from_timestamp_millis(at.0) {
            Some(at) => serializer.serialize_str(&at.to_rfc3339_opts(SecondsFormat::Millis, true)),
            None => serializer.serialize_none(),
        },
        Deadline::Boot(_) => serializer.serialize_none(),
    }
}

fn civil_if_known<S: Serializer>(until: &Option<Deadline>, serializer: S) -> Result<S::Ok, S::Error> {
    match until {
        Some(until) => civil(until, serializer),
        None => serializer.serialize_none(),
    }
}

/// What ended a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its end came.
    Time,
    /// A request sent after it began was served.
    Served,
    /// A newer observation shows the windows below their thresholds.
    Observation,
    /// The operator.
    Clear,
    /// A new credential.
    Credential,
    /// A check of this very credential.
    Probe,
    /// A raised cap or a new billing cycle.
    Budget,
}

/// Why a conversation moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveReason {
    /// A quota window refused, or is near.
    Quota,
    /// A cap or budget.
    Limit,
    /// Authentication.
    Auth,
    /// Switched off, paused or removed.
    Removed,
    /// A hold longer than five minutes.
    LongHold,
    /// Three detours within ten minutes.
    Detours,
    /// A better group is usable again.
    BetterGroup,
}

/// Why a request went on to the next account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailoverReason {
    /// A quota window refused.
    Quota,
    /// Throttled.
    RateLimit,
    /// The credential was refused or could not be had.
    Auth,
    /// The balance is empty.
    Balance,
    /// A 5xx.
    ServerError,
    /// No answer.
    Transport,
    /// No head in time.
    Timeout,
    /// An empty answer.
    Blank,
    /// The account's credential is being renewed.
    Renewing,
}

impl FailoverReason {
    /// The name used in metrics and texts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::RateLimit => "rate_limit",
            Self::Auth => "auth",
            Self::Balance => "balance",
            Self::ServerError => "server_error",
            Self::Transport => "transport",
            Self::Timeout => "timeout",
            Self::Blank => "blank",
            Self::Renewing => "renewing",
        }
    }
}

/// What an attempt came to, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptResult {
    /// Served.
    Served,
    /// Came to nothing, for this reason.
    Failed(FailoverReason),
    /// Relayed to the client as it is.
    Relayed,
    /// Given up because the client went away.
    Abandoned,
}

/// How a request ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestClose {
    /// Wholly answered.
    Complete,
    /// Cut after output.
    Cut,
    /// The client went away.
    ClientGone,
}

/// Whether a model's earlier reasoning is lost by a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingLoss {
    /// It is: the provider drops what another account produced.
    Lost,
    /// It is not.
    None,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Boot, Wall};

    #[test]
    fn a_wait_is_told_as_the_civil_moment_of_its_end() {
        let now = Timestamp { wall: Wall(1_796_000_000_000), boot: Boot(5_000) };
        let kind = EventKind::RequestHeld { until: Some(Deadline::after(now, Duration::from_millis(1_500))) };
        let told = serde_json::to_value(kind.with_civil_ends(now)).unwrap();
        assert_eq!(told["until"], "2026-11-30T00:53:21.500Z");
        let unknown = EventKind::RequestHeld { until: None }.with_civil_ends(now);
        assert!(serde_json::to_value(unknown).unwrap()["until"].is_null());
    }
}
