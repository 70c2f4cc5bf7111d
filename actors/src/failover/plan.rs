//! Which account a demand gets: one pass over the upstream's accounts, the least key wins.
//!
//! 1. Accounts that must not be used are passed over, and so are those that the request has tried.
//! 2. The strategy's first choice, if it is usable.
//! 3. The bands in order, each in the common order.
//! 4. A held account only when all better bands are empty, and only through its probe slot.

mod pass;

use std::cell::Ref;

use self::pass::Pass;
use super::allowance::RampRule;
use super::book::Tally;
use super::conversations::Home;
use super::demand::{Alternatives, Demand, Gate, NotBefore, Once, Step};
use super::fault::{Rule, broken};
use super::ledger::Money;
use super::rank::{Band, Key, Ordering, Seat};
use super::view::{Brief, Condition, Digest, Removal, Stance, View};
use super::views::Views;
use crate::clock::{Deadline, Timestamp};
use crate::id::{AccountId, ConversationKey};
use crate::outcome::{CallKind, Outcome};
use crate::roster::{Metered, PoolSettings, Strategy, UpstreamSpec};

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

/// What is in flight and what may be spent, for one demand.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) tallies: Vec<Tally>,
    pub(super) money: Money,
}

/// Everything a plan is made from.
pub(super) struct Field<'a> {
    pub(super) demand: &'a Demand,
    pub(super) pool: &'a Pool,
    pub(super) views: &'a Views,
    pub(super) tallies: &'a [Tally],
    pub(super) money: &'a Money,
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

/// One account, glanced at for one demand: what every plan reads.
pub(super) struct Glance<'a> {
    pub(super) account: AccountId,
    pub(super) tally: Tally,
    pub(super) brief: Ref<'a, Brief>,
    pub(super) stance: Stance,
}

/// One account, looked at in detail.
pub(super) struct Look<'a> {
    pub(super) glance: Glance<'a>,
    pub(super) view: &'a View,
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
        let mut open = others.filter_map(|id| self.glance(*id)).filter(|l| self.is_open(l) && self.admits(l));
        if open.next().is_some() { Alternatives::Some } else { Alternatives::None }
    }

    /// An account of this upstream as it stands to the demand.
    pub(super) fn glance(&self, account: AccountId) -> Option<Glance<'a>> {
        let brief = self.views.brief(account, self.demand.scope, self.settings, self.now)?;
        let tally = self.tallies.get(account.0 as usize).copied().unwrap_or_default();
        let kept = self.money.affords(account, brief.metered);
        let stance = if kept { brief.stance(self.demand.via) } else { Stance::Removed };
        Some(Glance { account, tally, brief, stance })
    }

    /// The same with all details.
    pub(super) fn look(&self, account: AccountId) -> Option<Look<'a>> {
        let view = self.view(account)?;
        let mut digest = view.digest(self.settings, self.demand.scope, self.demand.via, self.now);
        digest.condition = self.within_budget(view, digest.condition);
        Some(Look { glance: self.glance(account)?, view, digest })
    }

    /// How an account stands to the demand, and nothing else of it.
    pub(super) fn condition(&self, account: AccountId) -> Option<(&'a View, Condition)> {
        let view = self.view(account)?;
        let condition = view.condition_for(self.settings, self.demand.scope, self.demand.via, self.now);
        Some((view, self.within_budget(view, condition)))
    }

    /// How an account stands once money is thought of. That it is at its cap says less than which cap, and until when.
    fn within_budget(&self, view: &View, condition: Condition) -> Condition {
        let graver = match condition {
            Condition::Removed(Removal::Budget(_)) => false,
            Condition::Removed(_) => true,
            Condition::Open(_) | Condition::Breather(_) | Condition::Held(_) => false,
        };
        let exceeded = self.money.exceeded(&view.spec).filter(|_| !graver);
        exceeded.map_or(condition, |over| Condition::Removed(Removal::OverBudget(over)))
    }

    /// Requests in flight and conversations bound of late.
    fn load(&self, account: AccountId) -> u32 {
        let in_flight = self.tallies.get(account.0 as usize).map_or(0, |tally| tally.in_flight);
        let bound = self.view(account).map_or(0, |view| view.recently_bound(self.now));
        in_flight.saturating_add(bound)
    }

    pub(super) fn has_tried(&self, account: AccountId) -> bool {
        self.demand.tried.contains(&account) && !broken(Rule::TriedIsExcluded)
    }

    /// The place of a candidate among the others.
    pub(super) fn key(&self, look: &Glance<'_>, band: Band, declared: usize) -> Key {
        let metered = look.brief.metered == Metered::Yes;
        let order = Ordering {
            strategy: self.pool.spec.strategy,
            merits: &look.brief.merits,
            left: metered.then(|| self.money.left(look.account).money),
            in_flight: look.tally.in_flight,
            declared,
        };
        Key::new(band, self.seat(look, band), &order)
    }

    /// Whether the allowances leave room for one more.
    pub(super) fn admits(&self, look: &Glance<'_>) -> bool {
        look.brief.is_unwaited() && self.has_room(look)
    }

    /// The same, for one that waits in the account's own queue.
    pub(super) fn has_room(&self, look: &Glance<'_>) -> bool {
        self.demand.call == CallKind::Side || look.brief.has_room(look.tally, self.ramp, self.now)
    }

    fn view(&self, account: AccountId) -> Option<&'a View> {
        self.views.get(account)
    }

    fn seat(&self, look: &Glance<'_>, band: Band) -> Seat {
        if self.demand.renewing.contains(&look.account) && band != Band::Holding {
            Seat::Renewing
        } else if band != Band::Usable && self.home.is_some_and(|h| h.account() == look.account) {
            Seat::Home
        } else if look.brief.late {
            Seat::Late
        } else {
            Seat::Common
        }
    }

    fn is_passed_over(&self, account: AccountId) -> bool {
        self.has_tried(account) || self.demand.renewing.contains(&account)
    }

    fn is_open(&self, look: &Glance<'_>) -> bool {
        matches!(look.stance, Stance::Open(_))
    }

    fn pick(&self, look: &Glance<'_>, band: Band) -> Pick {
        let gate = if look.brief.on_trial { Gate::Trial } else { Gate::Open };
        Pick { account: look.account, gate, band }
    }

    /// The same account once more, unless it is held by now.
    fn again(&self, account: AccountId) -> Option<Pick> {
        let look = self.glance(account).filter(|l| self.pool.has(l.account))?;
        match look.stance {
            Stance::Open(band) if self.admits(&look) => Some(self.pick(&look, band)),
            Stance::Breather if self.admits(&look) => Some(self.pick(&look, Band::Usable)),
            Stance::Open(_) | Stance::Breather | Stance::Held | Stance::Removed => None,
        }
    }

    /// The conversation's own account, if it is usable and no better group is.
    fn home_pick(&self) -> Option<Pick> {
        let home = self.home?.account();
        if self.is_passed_over(home) || !self.pool.has(home) || broken(Rule::BoundComesFirst) {
            return None;
        }
        let look = self.glance(home)?;
        let usable = look.stance == Stance::Open(Band::Usable);
        (usable && self.admits(&look) && !self.better_group_is_open(&look)).then(|| self.pick(&look, Band::Usable))
    }

    fn better_group_is_open(&self, home: &Glance<'_>) -> bool {
        let own = home.brief.merits.group(self.pool.spec.strategy);
        let better = self.pool.by_group.iter().take_while(|(group, _)| *group < own);
        let mut looks = better.filter(|(_, id)| !self.is_passed_over(*id)).filter_map(|(_, id)| self.glance(*id));
        looks.any(|l| l.stance == Stance::Open(Band::Usable) && !l.brief.late && self.admits(&l))
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
            if let Some(look) = self.glance(*account) {
                pass.see(self, &look, declared);
            }
        }
        pass
    }

    fn may_probe(&self, look: &Glance<'_>) -> bool {
        let unspent = self.demand.spent.probe == Once::Unused || broken(Rule::OneProbePerRequest);
        let free = look.tally.probes == 0 || broken(Rule::OneProbeInFlight);
        unspent
            && free
            && self.demand.call == CallKind::Inference
            && self.view(look.account).is_some_and(|view| view.probe_is_due(self.demand.scope, self.now))
    }

    /// Whether the strategy has a first choice of its own among usable accounts, before the common order.
    fn has_first_choice(&self) -> bool {
        match (self.pool.spec.strategy, self.conversation) {
            (Strategy::Failover, _) | (Strategy::Priority | Strategy::LeastCost, None) => false,
            (Strategy::RoundRobin, _) | (Strategy::Priority | Strategy::LeastCost, Some(_)) => true,
        }
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
