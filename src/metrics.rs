//! Figures for Prometheus: a fold over the feed's events, how the actors' hearts beat, and how well the cache serves.

mod usage;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use duduclaw_actors::efficiency::Share;
use duduclaw_actors::event::{AttemptResult, Event, EventKind, RequestClose};
use duduclaw_actors::ports::{ActorKind, Heartbeat, Observer};
use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use self::usage::UsageFigures;

/// All figures.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    refused: Family<StatusLabels, Counter>,
    moves: Counter,
    holds: Family<HoldLabels, Counter>,
    refreshes: Counter,
    restarts: Family<ActorLabels, Counter>,
    outages: Counter,
    messages_lost: Counter,
    store_failing: Gauge,
    head_seconds: Histogram,
    usage: UsageFigures,
    beats: [AtomicU64; 6],
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    status: u16,
    close: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptLabels {
    provider: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatusLabels {
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HoldLabels {
    provider: String,
    cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ActorLabels {
    actor: String,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("duduclaw"),
            requests: Family::default(),
            attempts: Family::default(),
            refused: Family::default(),
            moves: Counter::default(),
            holds: Family::default(),
            refreshes: Counter::default(),
            restarts: Family::default(),
            outages: Counter::default(),
            messages_lost: Counter::default(),
            store_failing: Gauge::default(),
            head_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 14)),
            usage: UsageFigures::default(),
            beats: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests", "Requests that are over, by status and end", self.requests.clone());
        registry.register("attempts", "Attempts on accounts, by provider and result", self.attempts.clone());
        registry.register("refused", "Requests refused at the door, by status", self.refused.clone());
        registry.register("conversation_moves", "Conversations that moved to another account", self.moves.clone());
        registry.register("holds", "Holds that began, by provider and cause", self.holds.clone());
        registry.register("token_refreshes", "Access tokens refreshed", self.refreshes.clone());
        registry.register("actor_restarts", "Actors that died and were started again", self.restarts.clone());
        registry.register("outages", "Times that no login of a pool worked any more", self.outages.clone());
        registry.register("messages_lost", "Messages that were given up", self.messages_lost.clone());
        registry.register("store_failing", "1 while the store cannot be read or written", self.store_failing.clone());
        registry.register("head_seconds", "From sending an attempt to its head", self.head_seconds.clone());
        self.usage.register(registry);
    }

    /// All figures in Prometheus' text format, with how well the cache serves now.
    #[must_use]
    pub fn render(&self, caches: &[Share]) -> String {
        self.usage.show_caches(caches);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        let end = text.rfind("# EOF").unwrap_or(text.len());
        text.truncate(end);
        text.push_str(
            "# HELP duduclaw_actor_messages Messages that actors handled.\n# TYPE duduclaw_actor_messages counter\n",
        );
        for kind in KINDS {
            let beats = self.beats[index(kind)].load(Ordering::Relaxed);
            let _ = writeln!(text, "duduclaw_actor_messages_total{{actor=\"{}\"}} {beats}", kind.as_str());
        }
        text.push_str("# EOF\n");
        text
    }

    /// A request was refused before it could be served.
    pub fn refused(&self, status: StatusCode) {
        self.refused.get_or_create(&StatusLabels { status: status.as_u16() }).inc();
    }

    fn observe(&self, event: &Event) {
        let provider = || event.account.as_ref().map(|entry| entry.provider.to_string()).unwrap_or_default();
        match &event.kind {
            EventKind::RequestEnded { status, close, .. } => {
                self.requests.get_or_create(&RequestLabels { status: *status, close: close_name(*close) }).inc();
            }
            EventKind::AttemptAnswered { outcome, head_ms } => {
                let labels = AttemptLabels { provider: provider(), result: result_name(*outcome) };
                self.attempts.get_or_create(&labels).inc();
                self.head_seconds.observe(*head_ms as f64 / 1000.0);
            }
            EventKind::AttemptSettled { usage, cost, .. } => self.usage.settled(&provider(), usage, *cost),
            EventKind::HoldBegan { cause, .. } => {
                self.holds.get_or_create(&HoldLabels { provider: provider(), cause: cause.as_str() }).inc();
            }
            EventKind::ConversationMoved { .. } => {
                self.moves.inc();
            }
            EventKind::TokenRefreshed | EventKind::TokenAdopted => {
                self.refreshes.inc();
            }
            EventKind::ActorRestarted { actor } => {
                self.restarts.get_or_create(&ActorLabels { actor: actor.clone() }).inc();
            }
            EventKind::OutageBegan { .. } => {
                self.outages.inc();
            }
            EventKind::MessageLost { .. } => {
                self.messages_lost.inc();
            }
            EventKind::StoreFailing { .. } => {
                self.store_failing.set(1);
            }
            EventKind::StoreHealed { .. } => {
                self.store_failing.set(0);
            }
            EventKind::CacheEfficiencyLow { .. }
            | EventKind::StateChanged { .. }
            | EventKind::OutageEnded { .. }
            | EventKind::MessageDelayed { .. }
            | EventKind::HoldEnded { .. }
            | EventKind::BreatherTaken { .. }
            | EventKind::TrialBegan
            | EventKind::CredentialBroke { .. }
            | EventKind::CredentialRenewed
            | EventKind::CredentialProved
            | EventKind::CredentialExpiring { .. }
            | EventKind::LoginNeeded
            | EventKind::RefreshFailed { .. }
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::Cleared
            | EventKind::Detoured { .. }
            | EventKind::ModelSubstituted { .. }
            | EventKind::Returned { .. }
            | EventKind::FailedOver { .. }
            | EventKind::RequestHeld { .. }
            | EventKind::RequestReleased
            | EventKind::PoolExhausted { .. }
            | EventKind::BudgetRefused { .. }
            | EventKind::MessageArrived { .. }
            | EventKind::ClockStepped { .. }
            | EventKind::ConfigReloaded
            | EventKind::ConfigRefused { .. }
            | EventKind::StoreSetAside { .. }
            | EventKind::Started { .. }
            | EventKind::Draining => {}
        }
    }
}

const KINDS: [ActorKind; 6] = [
    ActorKind::Journal,
    ActorKind::Account,
    ActorKind::AccountSupervisor,
    ActorKind::FailoverManager,
    ActorKind::ActivityFeed,
    ActorKind::Postman,
];

fn index(kind: ActorKind) -> usize {
    match kind {
        ActorKind::Journal => 0,
        ActorKind::Account => 1,
        ActorKind::FailoverManager => 2,
        ActorKind::ActivityFeed => 3,
        ActorKind::AccountSupervisor => 4,
        ActorKind::Postman => 5,
    }
}

fn close_name(close: RequestClose) -> &'static str {
    match close {
        RequestClose::Complete => "complete",
        RequestClose::Cut => "cut",
        RequestClose::ClientGone => "client_gone",
    }
}

fn result_name(result: AttemptResult) -> &'static str {
    match result {
        AttemptResult::Served => "served",
        AttemptResult::Failed(why) => why.as_str(),
        AttemptResult::Relayed => "relayed",
        AttemptResult::Abandoned => "abandoned",
    }
}

impl Heartbeat for Metrics {
    fn beat(&self, actor: ActorKind) {
        self.beats[index(actor)].fetch_add(1, Ordering::Relaxed);
    }
}

/// The fold that the feed drives.
#[derive(Debug)]
pub struct MetricsObserver(pub std::sync::Arc<Metrics>);

impl Observer for MetricsObserver {
    fn observe(&mut self, event: &Event) {
        self.0.observe(event);
    }
}
