//! Rules as tables, properties over random histories, and the transition table of the module's documentation.

mod faults;
mod history;
mod journeys;
mod lives;
mod properties;
mod restarts;
mod rules;
mod shadow;
mod transitions;

use super::*;
use crate::clock::{Boot, Wall};
use crate::event::EndedBy;
use crate::id::{LeaseId, ModelScope, Window};
use crate::outcome::{
    Answered, CallKind, Cause, Close, Ended, Evidence, HoldScope, Outcome, QuotaReading, QuotaRefusal, QuotaStatus,
    Usage, WindowReading,
};
use crate::roster::WindowLimits;
use crate::standing::{CredentialState, HoldKind, Stated};

const AGAIN: Duration = Duration::from_secs(60);
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// The two clocks differ, so that a rule that mixes them up shows.
fn at(seconds: i64) -> Timestamp {
    Timestamp { wall: wall(seconds), boot: Boot(5_000_000 + seconds * 1000) }
}

fn wall(seconds: i64) -> Wall {
    Wall::from_secs(1_800_000_000 + seconds)
}

fn stated(seconds: i64) -> Deadline {
    Deadline::Wall(wall(seconds))
}

fn wait(from: i64, seconds: i64) -> Deadline {
    Deadline::Boot(at(from + seconds).boot)
}

/// An account, told what happened in seconds since the start.
#[derive(Clone, Debug)]
struct Subject {
    health: Health,
    told: Vec<EventKind>,
    generation: Generation,
    scope: ModelScope,
    call: CallKind,
    lease: LeaseId,
}

impl Default for Subject {
    fn default() -> Self {
        Self {
            health: Health::new(AccountId(7), Settings::default()),
            told: Vec::new(),
            generation: Generation(0),
            scope: ModelScope::Base,
            call: CallKind::Inference,
            lease: LeaseId(1),
        }
    }
}

impl Subject {
    fn hears(&mut self, now: i64, event: HealthEvent<'_>) -> Vec<Effect> {
        let effects = self.health.apply(event, at(now));
        self.told = effects.iter().filter_map(told).collect();
        effects
    }

    fn attempt(&self, sent: i64, answered: i64, outcome: Outcome, quota: QuotaReading) -> Answered {
        Answered {
            lease: self.lease,
            call: self.call,
            scope: self.scope,
            generation: self.generation,
            sent_at: at(sent),
            answered_at: at(answered),
            outcome,
            quota,
            evidence: Evidence::default(),
        }
    }

    /// An attempt that was sent, and answered (and heard of) later.
    fn answer(&mut self, sent: i64, answered: i64, outcome: Outcome) -> Vec<Effect> {
        let answered_event = self.attempt(sent, answered, outcome, QuotaReading::default());
        self.hears(answered, HealthEvent::Answered(&answered_event))
    }

    fn shows(&mut self, answered: i64, outcome: Outcome, quota: QuotaReading) {
        let answered_event = self.attempt(answered, answered, outcome, quota);
        self.hears(answered, HealthEvent::Answered(&answered_event));
    }

    fn ends(&mut self, sent: i64, now: i64, close: Close) {
        let ended = Ended {
            lease: self.lease,
            call: self.call,
            scope: self.scope,
            generation: self.generation,
            sent_at: at(sent),
            close,
            usage: Usage::default(),
        };
        self.hears(now, HealthEvent::Ended(&ended));
    }

    /// A stream that is answered well, and breaks.
    fn streams(&mut self, lease: u64, answered: i64, broken: i64) {
        self.lease = LeaseId(lease);
        self.answer(answered, answered, Outcome::Served);
        self.ends(answered, broken, Close::Broken);
    }

    fn in_scope(&mut self, scope: ModelScope) -> &mut Self {
        self.scope = scope;
        self
    }

    /// From now on its provider can be asked about its credential, each minute.
    fn is_asked_about(&mut self, now: i64) {
        let questions = Questions::OfProvider { every: AGAIN };
        self.hears(now, HealthEvent::SettingsChanged(Settings { questions, ..Settings::default() }));
    }

    fn tick(&mut self, now: i64) {
        self.hears(now, HealthEvent::Ticked);
    }

    fn standing(&self, now: i64) -> Standing {
        self.health.standing(1, EvidenceSeq(1), at(now))
    }

    fn hold(&self, kind: HoldKind) -> Option<Hold> {
        self.standing(0).holds.into_iter().find(|hold| hold.kind == kind)
    }

    fn until(&self, kind: HoldKind) -> Option<Deadline> {
        self.hold(kind).map(|hold| hold.until)
    }

    fn fable_until(&self) -> Option<Deadline> {
        self.standing(0).fable_hold.map(|hold| hold.until)
    }

    fn state(&self, now: i64) -> State {
        self.standing(now).state(at(now))
    }
}

fn told(effect: &Effect) -> Option<EventKind> {
    match effect {
        Effect::Emit { kind, .. } => Some(kind.clone()),
        Effect::Publish | Effect::Persist => None,
    }
}

fn refused(scope: HoldScope, windows: &[&str], until: Option<Deadline>) -> Outcome {
    let windows = windows.iter().map(|name| Window::from_name(name)).collect();
    Outcome::Quota(QuotaRefusal { scope, windows, until })
}

fn quota_refused(until: Option<Deadline>) -> Outcome {
    refused(HoldScope::Account, &["5h"], until)
}

fn fable_refused(until: Option<Deadline>) -> Outcome {
    refused(HoldScope::Model(ModelScope::Fable), &["7d_oi"], until)
}

fn throttled(seconds: Option<u64>) -> Outcome {
    Outcome::Throttled { wait: seconds.map(Duration::from_secs) }
}

fn server_fault(seconds: Option<u64>) -> Outcome {
    Outcome::ServerFault { cause: Cause::Overloaded, wait: seconds.map(Duration::from_secs) }
}

fn figures(readings: &[(&str, f64)], reset: i64) -> QuotaReading {
    let window = |(name, used): &(&str, f64)| WindowReading {
        window: Window::from_name(name),
        utilization: Some(*used),
        reset: Some(wall(reset)),
        status: None,
    };
    QuotaReading { windows: readings.iter().map(window).collect(), ..QuotaReading::default() }
}

fn rejected(name: &str, reset: i64) -> QuotaReading {
    let window = WindowReading {
        window: Window::from_name(name),
        utilization: Some(1.0),
        reset: Some(wall(reset)),
        status: Some(QuotaStatus::Rejected),
    };
    QuotaReading { windows: vec![window], ..QuotaReading::default() }
}

fn poll(answered: i64, readings: &[(&str, f64)], reset: i64) -> UsagePoll {
    UsagePoll { generation: Generation(0), answered_at: at(answered), windows: figures(readings, reset).windows }
}
