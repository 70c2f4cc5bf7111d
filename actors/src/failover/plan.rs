//! Which account a demand gets: one pass over the upstream's accounts, the least key wins.
//!
//! 1. Accounts that must not be used are passed over, and so are those that the request has tried.
//! 2. The strategy's first choice, if it is usable.
//! 3. The bands in order, each in the common order.
//! 4. A held account only when all better bands are empty, and only through its probe slot.

mod pass;

use self::pass::Pass;
use super::allowance::RampRule;
use super::book::Tally;
use super::conversations::Home;
use super::demand::{Alternatives, Demand, Gate, NotBefore, Once, Step};
use super::fault::{Rule, broken};
use super::rank::{Band, Key, Ordering, Seat, group};
use super::view::{Condition, Digest, View};
use crate::clock::{Deadline, Timestamp};
use crate::id::{AccountId, ConversationKey};
use crate::outcome::{CallKind, Outcome};
use crate::roster::{PoolSettings, UpstreamSpec};

/// One failover unit with what planning needs at hand.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) spec: UpstreamSpec,
    /// Its accounts by group of the strategy, best first.
    pub(super) by_group: Vec<(u32, AccountId)>,
    /// Its accounts in the order of their numbers.
    members: Vec<AccountId>,
}

impl Pool {
    pub(super) fn new(spec: UpstreamSpec, group_of: impl Fn(AccountId) -> u32) -> Self {
        let mut by_group: Vec<_> = spec.accounts.iter().map(|id| (group_of(*id), *id)).collect();
        by_group.sort_by_key(|(group, _)| *group);
        let mut members = spec.accounts.clone();
        members.sort_unstable();
        Self { spec, by_group, members }
    }

    pub(super) fn has(&self, account: AccountId) -> bool {
        self.members.binary_search(&account).is_ok()
    }
}

/// Everything a plan is made from.
pub(super) struct Field<'a> {
    pub(super) demand: &'a Demand,
    pub(super) pool: &'a Pool,
    pub(super) views: &'a [Option<View>],
    pub(super) tallies: &'a [Tally],
    pub(super) settings: &'a PoolSettings,
    pub(super) ramp: RampRule,
    /// The conversation, unless bindings are off or the strategy ignores them.
    pub(super) conversation: Option<ConversationKey>,
    pub(super) home: Option<Home>,
    pub(super) parent: Option<AccountId>,
    pub(super) now: Timestamp,
}

/// What a plan comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Choice {
    Grant(Pick),
    Wait(NotBefore),
    /// The last candidate paces.
    Queue(AccountId),
    /// All that is left is full, and so are the queues.
    Full,
    /// Nothing is left.
    Empty,
}

/// The account to grant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pick {
    pub(super) account: AccountId,
    pub(super) gate: Gate,
    pub(super) band: Band,
}

/// One account, looked at for one demand.
pub(super) struct Look<'a> {
    pub(super) account: AccountId,
    pub(super) view: &'a View,
    pub(super) tally: Tally,
    pub(super) digest: Digest,
}

impl<'a> Field<'a> {
    /// The plan.
    pub(super) fn choose(&self) -> Choice {
        if let Step::Again(account) = self.demand.step
            && let Some(pick) = self.again(account)
        {
            return Choice::Grant(pick);
        }
        if let Some(pick) = self.home_pick() {
            return Choice::Grant(pick);
        }
        if let Some(wait) = self.breather_at_home() {
            return Choice::Wait(wait);
        }
        self.pass().conclude(self)
    }

    /// Whether another account than this one could be granted.
    pub(super) fn alternatives(&self, but: AccountId) -> Alternatives {
        let others = self.pool.spec.accounts.iter().filter(|id| **id != but && !self.is_passed_over(**id));
        let mut open = others.filter_map(|id| self.look(*id)).filter(|l| self.is_open(l) && self.admits(l));
        if open.next().is_some() { Alternatives::Some } else { Alternatives::None }
    }

    /// An account of this upstream as it stands to the demand.
    pub(super) fn look(&self, account: AccountId) -> Option<Look<'a>> {
        let view = self.view(account)?;
        let digest = view.digest(self.settings, self.demand.scope, self.demand.via, self.now);
        let tally = self.tallies.get(account.0 as usize).copied().unwrap_or_default();
        Some(Look { account, view, tally, digest })
    }

    pub(super) fn has_tried(&self, account: AccountId) -> bool {
        self.demand.tried.contains(&account) && !broken(Rule::TriedIsExcluded)
    }

    /// The place of a candidate among the others.
    pub(super) fn key(&self, look: &Look<'_>, band: Band, declared: usize) -> Key {
        let order = Ordering {
            strategy: self.pool.spec.strategy,
            spec: &look.view.spec,
            judgement: &look.digest.judgement,
            in_flight: look.tally.in_flight,
            declared,
        };
        Key::new(band, self.seat(look, band), &order)
    }

    /// Whether the allowances leave room for one more.
    pub(super) fn admits(&self, look: &Look<'_>) -> bool {
        look.view.queue.is_empty() && self.has_room(look)
    }

    /// The same, for one that waits in the account's own queue.
    pub(super) fn has_room(&self, look: &Look<'_>) -> bool {
        if self.demand.call == CallKind::Side {
            return true;
        }
        let sent = look.tally.in_flight - look.tally.unsent;
        look.tally.slots < look.view.ramp.limit(self.ramp, sent, self.now)
            && look.view.has_room(&look.digest, look.tally)
    }

    fn view(&self, account: AccountId) -> Option<&'a View> {
        self.views.get(account.0 as usize).and_then(Option::as_ref)
    }

    fn seat(&self, look: &Look<'_>, band: Band) -> Seat {
        if self.demand.renewing.contains(&look.account) && band != Band::Holding {
            Seat::Renewing
        } else if band != Band::Usable && self.home.is_some_and(|h| h.account() == look.account) {
            Seat::Home
        } else if look.digest.late {
            Seat::Late
        } else {
            Seat::Common
        }
    }

    fn is_passed_over(&self, account: AccountId) -> bool {
        self.has_tried(account) || self.demand.renewing.contains(&account)
    }

    fn is_open(&self, look: &Look<'_>) -> bool {
        matches!(look.digest.condition, Condition::Open(_))
    }

    fn pick(&self, look: &Look<'_>, band: Band) -> Pick {
        let gate = if look.digest.on_trial { Gate::Trial } else { Gate::Open };
        Pick { account: look.account, gate, band }
    }

    /// The same account once more, unless it is held by now.
    fn again(&self, account: AccountId) -> Option<Pick> {
        let look = self.look(account).filter(|l| self.pool.has(l.account))?;
        match look.digest.condition {
            Condition::Open(band) if self.admits(&look) => Some(self.pick(&look, band)),
            Condition::Breather(_) if self.admits(&look) => Some(self.pick(&look, Band::Usable)),
            Condition::Open(_) | Condition::Breather(_) | Condition::Held(_) | Condition::Removed(_) => None,
        }
    }

    /// The conversation's own account, if it is usable and no better group is.
    fn home_pick(&self) -> Option<Pick> {
        let home = self.home?.account();
        if self.is_passed_over(home) || !self.pool.has(home) || broken(Rule::BoundComesFirst) {
            return None;
        }
        let look = self.look(home)?;
        let usable = look.digest.condition == Condition::Open(Band::Usable);
        (usable && self.admits(&look) && !self.better_group_is_open(&look)).then(|| self.pick(&look, Band::Usable))
    }

    fn better_group_is_open(&self, home: &Look<'_>) -> bool {
        let own = group(self.pool.spec.strategy, &home.view.spec);
        let better = self.pool.by_group.iter().take_while(|(group, _)| *group < own);
        let mut looks = better.filter(|(_, id)| !self.is_passed_over(*id)).filter_map(|(_, id)| self.look(*id));
        looks.any(|l| l.digest.condition == Condition::Open(Band::Usable) && !l.digest.late && self.admits(&l))
    }

    /// The end of the breather that the conversation's account takes, if this request is to wait it out.
    fn breather_at_home(&self) -> Option<NotBefore> {
        let home = self.home?.account();
        let waits = self.demand.spent.breather == Once::Unused && self.pool.has(home);
        if !waits || (self.has_tried(home) && !self.was_told_to_wait_by(home)) {
            return None;
        }
        match self.look(home)?.digest.condition {
            Condition::Breather(at) => Some(NotBefore { account: home, at }),
            Condition::Removed(_) | Condition::Open(_) | Condition::Held(_) => None,
        }
    }

    fn was_told_to_wait_by(&self, account: AccountId) -> bool {
        let told = |outcome: &Outcome| matches!(outcome, Outcome::Throttled { wait: Some(_) });
        self.demand.last.as_ref().is_some_and(|l| l.account == account && told(&l.answered.outcome))
    }

    fn pass(&self) -> Pass {
        let mut pass = Pass::default();
        for (declared, account) in self.pool.spec.accounts.iter().enumerate() {
            if self.has_tried(*account) {
                continue;
            }
            if let Some(look) = self.look(*account) {
                pass.see(self, &look, declared);
            }
        }
        pass
    }

    fn may_probe(&self, look: &Look<'_>) -> bool {
        let unspent = self.demand.spent.probe == Once::Unused || broken(Rule::OneProbePerRequest);
        let free = look.tally.probes == 0 || broken(Rule::OneProbeInFlight);
        unspent
            && free
            && self.demand.call == CallKind::Inference
            && look.view.probe_is_due(self.demand.scope, self.now)
    }

    /// Whether the strategy's first choice is still to be made: a request that comes back goes by the common order.
    fn chooses_first(&self) -> bool {
        self.demand.tried.is_empty() && self.demand.renewing.is_empty()
    }
}

/// When the soonest of two possible moments comes.
pub(super) fn soonest(one: Option<Deadline>, other: Option<Deadline>, now: Timestamp) -> Option<Deadline> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.sooner(other, now)),
        (one, other) => one.or(other),
    }
}
