//! A small fleet to decide about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::account::quota::Quota;
use crate::clock::{Deadline, Timestamp, Wall};
use crate::failover::book::{Flow, LeaseBook, LeaseGuard};
use crate::failover::demand::{
    BindsThinking, Decision, Demand, Exhausted, Grant, LastAnswer, NotBefore, Spent, Step, Via,
};
use crate::failover::{Admission, Effect};
use crate::id::{
    AccountId, ConversationKey, CredentialKind, EntryId, EvidenceSeq, Family, Generation, IdentityKey, LeaseId,
    ModelScope, Principal, UpstreamId, Window,
};
use crate::outcome::{
    Answered, CallKind, Cause, Evidence, HoldScope, Outcome, QuotaReading, QuotaRefusal, QuotaStatus, WindowReading,
};
use crate::roster::{
    AccountSpec, Cap, PoolSettings, Roster, RotationSettings, Strategy, Switch, UpstreamSpec, WindowCaps, WindowLimits,
};
use crate::standing::{CredentialState, Hold, HoldKind, Paused, Standing, Stated};

pub(super) const T0: i64 = 1_800_000_000_000;
pub(super) const MAIN: UpstreamId = UpstreamId(0);

pub(super) fn t0() -> Timestamp {
    Timestamp::at_millis(T0)
}

pub(super) fn at(seconds: f64) -> Timestamp {
    Timestamp::at_millis(T0 + (seconds * 1000.0).round() as i64)
}

pub(super) fn after(seconds: u64) -> Deadline {
    Deadline::after(t0(), Duration::from_secs(seconds))
}

pub(super) fn id(n: u32) -> AccountId {
    AccountId(n)
}

pub(super) fn account(n: u32) -> AccountSpec {
    AccountSpec {
        id: id(n),
        identity: IdentityKey::Verified { family: Family::Claude, uuid: format!("u-{n}"), organization: None },
        entry: EntryId { provider: "anthropic".into(), name: format!("a{n}").into() },
        family: Family::Claude,
        kind: CredentialKind::Oauth,
        priority: 100,
        switch: Switch::On,
        thresholds: WindowLimits::all(0.9),
        caps: WindowCaps::default(),
        budget: Cap::default(),
        max_concurrent: None,
    }
}

pub(super) fn upstream(accounts: &[u32]) -> UpstreamSpec {
    UpstreamSpec {
        id: MAIN,
        name: "anthropic".into(),
        provider: "anthropic".into(),
        family: Family::Claude,
        strategy: Strategy::RoundRobin,
        accounts: accounts.iter().map(|n| id(*n)).collect(),
    }
}

pub(super) fn roster(count: u32) -> Roster {
    let accounts: BTreeMap<_, _> = (0..count).map(|n| (id(n), account(n))).collect();
    let all: Vec<u32> = (0..count).collect();
    Roster {
        revision: 1,
        upstreams: vec![upstream(&all)],
        accounts,
        pool: PoolSettings::default(),
        rotation: RotationSettings::default(),
        ..Roster::default()
    }
}

pub(super) fn standing(n: u32) -> Standing {
    Standing {
        account: id(n),
        seq: 0,
        applied: EvidenceSeq(0),
        generation: Generation(1),
        credential: CredentialState::Usable,
        paused: Paused::No,
        unverified: false,
        on_trial: false,
        holds: Vec::new(),
        fable_hold: None,
        breather: None,
        quota: Quota::default(),
    }
}

pub(super) fn hold(kind: HoldKind, cause: Cause, began: Timestamp, until: Deadline, stated: Stated) -> Hold {
    Hold { kind, cause, began, until, stated, episode: u64::try_from(began.boot.0).unwrap_or(0) }
}

/// A rate-limit hold that begins now, with a stated end so many seconds ahead.
pub(super) fn limited(began: Timestamp, seconds: u64) -> Hold {
    let until = Deadline::after(began, Duration::from_secs(seconds));
    hold(HoldKind::RateLimited, Cause::Quota, began, until, Stated::ByProvider)
}

/// An error back-off that begins now.
pub(super) fn erroring(began: Timestamp, seconds: u64) -> Hold {
    let until = Deadline::after(began, Duration::from_secs(seconds));
    hold(HoldKind::Erroring, Cause::ServerError, began, until, Stated::Guessed)
}

/// Quota with these shares used, each with a reset so many seconds ahead of T0.
pub(super) fn quota(windows: &[(Window, f64, i64)]) -> Quota {
    let reading = |(window, used, reset): &(Window, f64, i64)| WindowReading {
        window: window.clone(),
        utilization: Some(*used),
        reset: Some(Wall(T0 + reset * 1000)),
        status: None,
    };
    let windows = windows.iter().map(reading).collect();
    let mut quota = Quota::default();
    quota.apply(&QuotaReading { windows, ..QuotaReading::default() }, t0(), t0());
    quota
}

/// Quota whose window so named is refused until so many seconds after T0.
pub(super) fn rejected(window: Window, reset: i64) -> Quota {
    let reset = Some(Wall(T0 + reset * 1000));
    let reading = WindowReading { window, utilization: None, reset, status: Some(QuotaStatus::Rejected) };
    let mut quota = Quota::default();
    quota.apply(&QuotaReading { windows: vec![reading], ..QuotaReading::default() }, t0(), t0());
    quota
}

pub(super) fn demand() -> Demand {
    Demand {
        upstream: MAIN,
        principal: Arc::new(Principal::default()),
        conversation: None,
        parent: None,
        scope: ModelScope::Base,
        call: CallKind::Inference,
        via: Via::Gateway,
        tried: Vec::new(),
        renewing: Vec::new(),
        last: None,
        step: Step::First,
        binds_thinking: BindsThinking::No,
        spent: Spent::default(),
        ask: None,
    }
}

pub(super) fn conversation(key: u128) -> Demand {
    Demand { conversation: Some(ConversationKey(key)), ..demand() }
}

/// The demand after an attempt on this account came to this.
pub(super) fn next(demand: &Demand, grant: &Grant, evidence: u64, outcome: Outcome, now: Timestamp) -> Demand {
    let mut tried = demand.tried.clone();
    tried.push(grant.account);
    let last = Some(last(grant.account, evidence, outcome, now));
    Demand { tried, last, step: Step::Next, ..demand.clone() }
}

pub(super) fn last(account: AccountId, evidence: u64, outcome: Outcome, now: Timestamp) -> LastAnswer {
    let answered = Answered {
        lease: LeaseId(0),
        call: CallKind::Inference,
        scope: ModelScope::Base,
        generation: Generation(1),
        sent_at: now,
        answered_at: now,
        outcome,
        quota: QuotaReading::default(),
        evidence: Evidence::default(),
    };
    LastAnswer { account, evidence: EvidenceSeq(evidence), answered: Arc::new(answered) }
}

pub(super) fn fault() -> Outcome {
    Outcome::ServerFault { cause: Cause::ServerError, wait: None }
}

pub(super) fn throttled(seconds: Option<u64>) -> Outcome {
    Outcome::Throttled { wait: seconds.map(Duration::from_secs) }
}

pub(super) fn refusal(until: Option<Deadline>) -> Outcome {
    Outcome::Quota(QuotaRefusal { scope: HoldScope::Account, windows: vec![Window::FiveHour], until })
}

/// A machine with its book, and short words for what a test does with it.
pub(super) struct Desk {
    pub(super) machine: Admission,
    pub(super) book: Arc<LeaseBook>,
    pub(super) effects: Vec<Effect>,
    seq: u64,
}

impl Desk {
    pub(super) fn new(roster: &Roster) -> Self {
        let book = LeaseBook::new(|| {});
        let machine = Admission::new(roster, Arc::clone(&book), t0());
        Self { machine, book, effects: Vec::new(), seq: 0 }
    }

    pub(super) fn of(count: u32) -> Self {
        Self::new(&roster(count))
    }

    pub(super) fn learn(&mut self, mut standing: Standing, now: Timestamp) {
        self.seq += 1;
        standing.seq = self.seq;
        let effects = self.machine.learn(standing, now);
        self.effects.extend(effects);
    }

    /// Tells of an account that is as new but for what `change` does to it.
    pub(super) fn tell(&mut self, n: u32, now: Timestamp, change: impl FnOnce(&mut Standing)) {
        let mut told = standing(n);
        change(&mut told);
        self.learn(told, now);
    }

    pub(super) fn ask(&mut self, demand: &Demand, now: Timestamp) -> Decision {
        let (decision, effects) = self.machine.lease(demand, now);
        self.effects.extend(effects);
        decision
    }

    pub(super) fn grant(&mut self, demand: &Demand, now: Timestamp) -> (Grant, LeaseGuard) {
        match self.ask(demand, now) {
            Decision::Granted(grant) => {
                let guard = self.book.guard(grant.lease);
                (grant, guard)
            }
            other @ (Decision::NotBefore(_) | Decision::Exhausted(_) | Decision::Queued(_)) => {
                panic!("not granted: {other:?}")
            }
        }
    }

    /// The account that is granted; the lease is dropped unsent.
    pub(super) fn look(&mut self, demand: &Demand, now: Timestamp) -> u32 {
        let (grant, guard) = self.grant(demand, now);
        drop(guard);
        self.settle(now);
        grant.account.0
    }

    /// One request that is served to its end.
    pub(super) fn serve(&mut self, demand: &Demand, now: Timestamp) -> Grant {
        let (grant, guard) = self.grant(demand, now);
        guard.answered(Flow::Stream);
        guard.ended();
        self.settle(now);
        grant
    }

    pub(super) fn refuse(&mut self, demand: &Demand, now: Timestamp) -> Exhausted {
        match self.ask(demand, now) {
            Decision::Exhausted(exhausted) => exhausted,
            other @ (Decision::Granted(_) | Decision::NotBefore(_) | Decision::Queued(_)) => {
                panic!("not exhausted: {other:?}")
            }
        }
    }

    pub(super) fn wait(&mut self, demand: &Demand, now: Timestamp) -> NotBefore {
        match self.ask(demand, now) {
            Decision::NotBefore(wait) => wait,
            other @ (Decision::Granted(_) | Decision::Exhausted(_) | Decision::Queued(_)) => {
                panic!("not told to wait: {other:?}")
            }
        }
    }

    pub(super) fn settle(&mut self, now: Timestamp) {
        let effects = self.machine.settle(now);
        self.effects.extend(effects);
    }

    pub(super) fn tick(&mut self, now: Timestamp) {
        let effects = self.machine.tick(now);
        self.effects.extend(effects);
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}
