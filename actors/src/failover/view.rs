//! One account as admission sees it: its settings, its last standing, and what admission itself keeps of it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::allowance::{Ramp, RampRule};
use super::book::Tally;
use super::demand::{Via, Why};
use super::fault::{Rule, broken};
use super::judgement::{Cap, Judgement, Pressure, judge};
use super::probe::{EndAhead, ProbeSchedule};
use super::provisional::Provisional;
use super::queue::Queue;
use super::rank::Band;
use crate::clock::{Boot, Deadline, Timestamp};
use crate::event::MoveReason;
use crate::id::{CredentialKind, EvidenceSeq, LeaseId, ModelScope};
use crate::outcome::{Cause, HoldScope};
use crate::roster::{AccountSpec, PoolSettings, Switch};
use crate::standing::{CredentialState, Hold, HoldKind, Paused, Standing, Stated};

/// A conversation bound within this time counts as load.
const RECENT: Duration = Duration::from_secs(10 * 60);
/// A hold longer than this moves a conversation.
const LONG_HOLD: Duration = Duration::from_secs(5 * 60);

/// One account.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) spec: AccountSpec,
    /// Whether the roster still has it.
    pub(super) listed: Listed,
    pub(super) standing: Option<Standing>,
    pub(super) provisional: Provisional,
    /// The newest answer that admission has acted upon.
    pub(super) heard: EvidenceSeq,
    pub(super) ramp: Ramp,
    pub(super) probes: ProbeSchedule,
    pub(super) trouble: Trouble,
    pub(super) grants: Grants,
    pub(super) queue: Queue,
    /// What its rendezvous weights are seeded with.
    pub(super) seed: u64,
    bound: VecDeque<Boot>,
    judged: [Cell<Option<(i64, Judgement)>>; 2],
}

/// Whether the roster has an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Yes,
    No,
}

/// How an account stands to one kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Condition {
    /// Not to be used, whatever else is left.
    Removed(Removal),
    /// It can be granted.
    Open(Band),
    /// It takes a breather until then.
    Breather(Deadline),
    /// It is held: only through its probe slot.
    Held(Hold),
}

/// Why an account is no candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Removal {
    Unlisted,
    Disabled,
    Paused,
    NeedsPerson(Cause),
    NeedsLogin,
    Keychain,
    Capped(Option<Deadline>),
    Budget(Hold),
}

impl Removal {
    pub(super) fn why(self) -> Why {
        match self {
            Self::Unlisted | Self::Disabled => Why::Disabled,
            Self::Paused => Why::Paused,
            Self::NeedsPerson(cause) => Why::NeedsPerson(cause),
            Self::NeedsLogin => Why::NeedsLogin,
            Self::Keychain => Why::Keychain,
            Self::Capped(until) => Why::Capped(until),
            Self::Budget(hold) => Why::Held { cause: hold.cause, until: hold.until, stated: hold.stated },
        }
    }

    fn moves(self) -> MoveReason {
        match self {
            Self::Unlisted | Self::Disabled | Self::Paused => MoveReason::Removed,
            Self::NeedsPerson(_) | Self::NeedsLogin | Self::Keychain => MoveReason::Auth,
            Self::Capped(_) | Self::Budget(_) => MoveReason::Limit,
        }
    }
}

/// The account's transient troubles, counted: what tells one detour from the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    pub(super) episode: u64,
    since: Option<Boot>,
}

impl Trouble {
    /// Something that began then: a new episode unless the present one covers it.
    pub(super) fn note(&mut self, began: Timestamp, now: Timestamp) {
        if self.since.is_none_or(|since| began.boot > since) {
            self.episode += 1;
            self.since = Some(now.boot);
        }
    }
}

/// When the account was last granted, in the count of all grants. A grant counts when it is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    sent: u64,
    open: Vec<(LeaseId, u64)>,
}

impl Grants {
    pub(super) fn newest(&self) -> u64 {
        self.open.iter().map(|(_, stamp)| *stamp).max().unwrap_or(0).max(self.sent)
    }

    pub(super) fn granted(&mut self, lease: LeaseId, stamp: u64) {
        self.open.push((lease, stamp));
    }

    pub(super) fn sent(&mut self, lease: LeaseId) {
        let stamp = self.open.iter().find(|(id, _)| *id == lease).map_or(0, |(_, stamp)| *stamp);
        self.sent = self.sent.max(stamp);
        self.unsent(lease);
    }

    pub(super) fn unsent(&mut self, lease: LeaseId) {
        self.open.retain(|(id, _)| *id != lease);
    }
}

impl View {
    pub(super) fn new(spec: AccountSpec) -> Self {
        let seed = seed_of(&spec);
        Self {
            spec,
            listed: Listed::Yes,
            standing: None,
            provisional: Provisional::default(),
            heard: EvidenceSeq::default(),
            ramp: Ramp::default(),
            probes: ProbeSchedule::default(),
            trouble: Trouble::default(),
            grants: Grants::default(),
            queue: Queue::default(),
            seed,
            bound: VecDeque::new(),
            judged: [Cell::new(None), Cell::new(None)],
        }
    }

    pub(super) fn configure(&mut self, spec: AccountSpec) {
        self.seed = seed_of(&spec);
        self.spec = spec;
        self.listed = Listed::Yes;
        self.forget_judgement();
    }

    /// Takes in what the account says of itself. Whether it is in new trouble.
    pub(super) fn take(&mut self, standing: Standing, rule: RampRule, now: Timestamp) -> bool {
        let before = self.is_held(now);
        let breather = self.breather(now);
        self.provisional.confirm(standing.applied);
        let newest = standing.holds.iter().chain(&standing.fable_hold).filter(|h| self.is_new(h)).map(|h| h.began);
        let newest = newest.max_by_key(|at| at.boot);
        self.standing = Some(standing);
        self.forget_judgement();
        let after = self.is_held(now);
        if after && let Some(began) = newest {
            self.trouble.note(began, now);
            self.probes.refused(began);
        }
        if before != after || (after && newest.is_some()) {
            self.ramp.held(rule);
        }
        if !after {
            self.probes.reset();
        }
        let breathes = self.breather(now).filter(|at| Some(*at) != breather);
        if breathes.is_some() {
            self.trouble.note(now, now);
            self.ramp.refused(rule);
        }
        (after && newest.is_some()) || breathes.is_some()
    }

    /// An attempt that was sent then was refused.
    pub(super) fn refused(&mut self, sent_at: Timestamp, rule: RampRule, now: Timestamp) {
        self.trouble.note(sent_at, now);
        self.ramp.refused(rule);
        self.probes.refused(now);
        if self.is_held(now) {
            self.ramp.held(rule);
        }
    }

    pub(super) fn forget_judgement(&mut self) {
        self.judged = [Cell::new(None), Cell::new(None)];
    }

    /// What its quota means, judged at most once a second.
    pub(super) fn judgement(&self, pool: &PoolSettings, scope: ModelScope, now: Timestamp) -> Judgement {
        let Some(standing) = &self.standing else { return Judgement::default() };
        let second = now.wall.as_secs();
        let cell = &self.judged[scope as usize];
        if let Some((at, judgement)) = cell.get()
            && at == second
        {
            return judgement;
        }
        let judgement = judge(&standing.quota, &self.spec, pool, scope, now);
        cell.set(Some((second, judgement)));
        judgement
    }

    /// How it stands to a request of this scope that comes this way.
    pub(super) fn condition(&self, judgement: &Judgement, scope: ModelScope, via: Via, now: Timestamp) -> Condition {
        if let Some(removal) = self.removal(judgement, via, now) {
            return Condition::Removed(removal);
        }
        if let Some(hold) = self.hold(scope, now) {
            return Condition::Held(hold);
        }
        if let Some(at) = self.breather(now) {
            return Condition::Breather(at);
        }
        Condition::Open(match judgement.pressure {
            Pressure::Below => Band::Usable,
            Pressure::Near => Band::Near,
            Pressure::Over => Band::Over,
        })
    }

    /// Whether it goes last in its band.
    pub(super) fn is_late(&self) -> bool {
        self.standing.as_ref().is_some_and(|s| s.unverified || s.on_trial)
    }

    pub(super) fn on_trial(&self) -> bool {
        self.standing.as_ref().is_some_and(|s| s.on_trial)
    }

    /// Whether what it has in flight leaves room for one more under every bound but the ramp's.
    pub(super) fn has_room(&self, judgement: &Judgement, tally: Tally) -> bool {
        let trial = !self.on_trial() || tally.slots == 0 || broken(Rule::OneTrialInFlight);
        let guard = judgement.cap != Cap::Guarded || tally.in_flight == 0 || broken(Rule::CapGuardIsOne);
        let local = self.spec.max_concurrent.is_none_or(|most| tally.in_flight < most);
        trial && guard && (local || broken(Rule::ConcurrencyIsBounded))
    }

    /// The hold that ends last among those on requests of this scope.
    pub(super) fn hold(&self, scope: ModelScope, now: Timestamp) -> Option<Hold> {
        let running = self.holds(scope).filter(|h| !h.until.is_due(now));
        running
            .reduce(|one, other| if other.until.as_wall(now) > one.until.as_wall(now) { other } else { one })
            .copied()
    }

    /// Whether a probe is due.
    pub(super) fn probe_is_due(&self, scope: ModelScope, now: Timestamp) -> bool {
        let (end, began) = self.spell(scope, now);
        self.probes.is_due(end, began, now)
    }

    /// When the next probe is due.
    pub(super) fn probe_due_at(&self, scope: ModelScope, now: Timestamp) -> Deadline {
        let (end, began) = self.spell(scope, now);
        self.probes.due_at(end, began)
    }

    /// Why a conversation that is bound here must move; `None` = what keeps it away will pass.
    pub(super) fn hard_reason(
        &self,
        judgement: &Judgement,
        scope: ModelScope,
        via: Via,
        now: Timestamp,
    ) -> Option<MoveReason> {
        match self.condition(judgement, scope, via, now) {
            Condition::Removed(removal) => Some(removal.moves()),
            Condition::Open(Band::Near | Band::Over) => Some(MoveReason::Quota),
            Condition::Open(Band::Usable | Band::Holding) | Condition::Breather(_) => None,
            Condition::Held(hold) => hold_moves(&hold, now),
        }
    }

    pub(super) fn note_bound(&mut self, now: Timestamp) {
        self.bound.push_back(now.boot);
    }

    /// A binding was taken back.
    pub(super) fn note_unbound(&mut self, bound_at: Timestamp) {
        if let Some(at) = self.bound.iter().rposition(|b| *b == bound_at.boot) {
            self.bound.remove(at);
        }
    }

    /// Conversations bound in the last ten minutes.
    pub(super) fn recently_bound(&self, now: Timestamp) -> u32 {
        let old = self.bound.partition_point(|at| now.boot.since(*at) >= RECENT);
        u32::try_from(self.bound.len() - old).unwrap_or(u32::MAX)
    }

    pub(super) fn forget_old_bindings(&mut self, now: Timestamp) {
        while self.bound.front().is_some_and(|at| now.boot.since(*at) >= RECENT) {
            self.bound.pop_front();
        }
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.hold(ModelScope::Fable, now).is_some()
    }

    /// Whether the last standing did not have this hold, or an earlier episode of it.
    fn is_new(&self, hold: &Hold) -> bool {
        let known = self.standing.iter().flat_map(|s| s.holds.iter().chain(&s.fable_hold));
        !known.into_iter().any(|k| k.kind == hold.kind && k.episode == hold.episode && k.began == hold.began)
    }

    fn removal(&self, judgement: &Judgement, via: Via, now: Timestamp) -> Option<Removal> {
        if self.listed == Listed::No {
            return Some(Removal::Unlisted);
        }
        if self.spec.switch == Switch::Off && !broken(Rule::DisabledIsRemoved) {
            return Some(Removal::Disabled);
        }
        if let Some(removal) = self.standing.as_ref().and_then(|s| removal_by(s, now)) {
            return Some(removal);
        }
        if let Some(hold) = self.all_holds(HoldScope::Account).find(|h| removes(h) && !h.until.is_due(now)) {
            return Some(by_hold(hold));
        }
        if self.spec.kind == CredentialKind::Keychain && via == Via::Gateway {
            return Some(Removal::Keychain);
        }
        match judgement.cap {
            Cap::Reached(until) if !broken(Rule::CappedIsRemoved) => Some(Removal::Capped(until.map(Deadline::Wall))),
            Cap::Reached(_) | Cap::Guarded | Cap::Free => None,
        }
    }

    fn spell(&self, scope: ModelScope, now: Timestamp) -> (EndAhead, Timestamp) {
        let running = || self.holds(scope).filter(|h| !h.until.is_due(now));
        let stated = running().any(|h| h.stated == Stated::ByProvider);
        let began = running().map(|h| h.began).max_by_key(|at| at.boot).unwrap_or(now);
        (if stated { EndAhead::Stated } else { EndAhead::Guessed }, began)
    }

    fn holds(&self, scope: ModelScope) -> impl Iterator<Item = &Hold> {
        let fable = (scope == ModelScope::Fable).then(|| self.all_holds(HoldScope::Model(ModelScope::Fable)));
        self.all_holds(HoldScope::Account).chain(fable.into_iter().flatten())
    }

    fn all_holds(&self, scope: HoldScope) -> impl Iterator<Item = &Hold> {
        let own: &[Hold] = match (&self.standing, scope) {
            (None, _) => &[],
            (Some(standing), HoldScope::Model(ModelScope::Fable)) => standing.fable_hold.as_slice(),
            (Some(standing), HoldScope::Account | HoldScope::Model(ModelScope::Base)) => &standing.holds,
        };
        own.iter().chain(self.provisional.holds().filter(move |(s, _)| *s == scope).map(|(_, hold)| hold))
    }

    /// When its breather ends, if it takes one.
    pub(super) fn breather(&self, now: Timestamp) -> Option<Deadline> {
        let own = self.standing.as_ref().and_then(|s| s.breather);
        let all = own.into_iter().chain(self.provisional.breathers());
        all.filter(|at| !at.is_due(now)).reduce(|one, other| one.later(other, now))
    }
}

fn removal_by(standing: &Standing, now: Timestamp) -> Option<Removal> {
    if standing.paused == Paused::Yes && !broken(Rule::PausedIsRemoved) {
        return Some(Removal::Paused);
    }
    match standing.credential {
        CredentialState::Usable => None,
        CredentialState::Broken(cause) => Some(Removal::NeedsPerson(cause)),
        CredentialState::NeedsLogin { access_until } => access_until.is_due(now).then_some(Removal::NeedsLogin),
    }
}

/// A hold that leaves nothing to probe: a refused credential, and our own cap on spend.
fn removes(hold: &Hold) -> bool {
    match hold.kind {
        HoldKind::AuthDead => !broken(Rule::DeadAuthIsRemoved),
        HoldKind::BudgetExhausted => hold.cause == Cause::Budget,
        HoldKind::Erroring | HoldKind::RateLimited => false,
    }
}

fn by_hold(hold: &Hold) -> Removal {
    match hold.kind {
        HoldKind::AuthDead => Removal::NeedsPerson(hold.cause),
        HoldKind::BudgetExhausted | HoldKind::Erroring | HoldKind::RateLimited => Removal::Budget(*hold),
    }
}

fn hold_moves(hold: &Hold, now: Timestamp) -> Option<MoveReason> {
    match hold.kind {
        HoldKind::AuthDead => return Some(MoveReason::Auth),
        HoldKind::BudgetExhausted => return Some(MoveReason::Limit),
        HoldKind::RateLimited if hold.cause == Cause::Quota => return Some(MoveReason::Quota),
        HoldKind::RateLimited | HoldKind::Erroring => {}
    }
    let length = hold.until.as_wall(now).since(hold.began.wall);
    (length > LONG_HOLD).then_some(MoveReason::LongHold)
}

fn seed_of(spec: &AccountSpec) -> u64 {
    xxh3_64(format!("{:?}", spec.identity).as_bytes())
}
