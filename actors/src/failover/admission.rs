//! The admission machine: turns demands into leases.
//!
//! It is told of rosters, standings and the phases of leases; it answers demands and returns effects. What it keeps is
//! small and can be lost: allowances start cold again, conversations come back from their records, leases stand in the
//! book. `now` is always an argument.

pub(super) mod budgets;
mod grant;
mod settle;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use self::budgets::BudgetNews;
use super::allowance::RampRule;
use super::book::LeaseBook;
use super::conversations::Conversations;
use super::conversations::record::{ConversationRecord, Names};
use super::demand::{Decision, Demand, Exhausted, LastAnswer, Remedy, Step, Ticket};
use super::exhausted::{Barrier, exhausted};
use super::fault::{Rule, broken};
use super::judgement::Judgement;
use super::ledger::Renamed;
use super::plan::{Choice, Field, Pick, Pool, Sight};
use super::provisional::{belief, is_refusal};
use super::rank::Merits;
use super::retry_budget::{RetryBudget, draws};
use super::view::View;
use super::views::Views;
use crate::clock::{Deadline, Timestamp};
use crate::event::{EventKind, Severity};
use crate::id::{AccountId, ConversationKey, EntryId, IdentityKey, UpstreamId};
use crate::outcome::{CallKind, Outcome};
use crate::roster::{Affinity, PoolSettings, Roster, RotationSettings, Strategy};
use crate::standing::Standing;

/// What the shell does for the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Answers an asker that was queued. A granted lease needs its guard even if the asker has gone, so that it is
    /// returned.
    Admit(Ticket, Decision),
    /// Reports what happened to a conversation.
    Emit {
        /// What.
        kind: EventKind,
        /// The account that serves now.
        account: EntryId,
        /// How much it matters.
        severity: Severity,
    },
    /// Keeps a conversation.
    Remember(ConversationRecord),
    /// Drops a conversation that was kept.
    Forget(ConversationKey),
    /// Tells an account of its budget.
    Tell(AccountId, BudgetNews),
    /// Keeps that a budget has another name.
    Rename(Renamed),
}

/// The machine.
#[derive(Debug)]
pub struct Admission {
    pub(super) book: Arc<LeaseBook>,
    epoch: u64,
    pub(super) settings: PoolSettings,
    rotation: RotationSettings,
    pub(super) pools: BTreeMap<UpstreamId, Pool>,
    pub(super) views: Views,
    accounts: HashMap<IdentityKey, AccountId>,
    pub(super) conversations: Conversations,
    budgets: HashMap<Arc<str>, RetryBudget>,
    waiting: BTreeSet<AccountId>,
    tickets: u64,
    grants: u64,
    sight: Sight,
    /// Accounts whose budget may have to be told of.
    budgeted: BTreeSet<AccountId>,
}

impl Admission {
    /// A machine over this roster and the leases that are in flight already.
    #[must_use]
    pub fn new(roster: &Roster, book: Arc<LeaseBook>, now: Timestamp) -> Self {
        let epoch = book.begin_epoch();
        let mut machine = Self {
            book,
            epoch,
            settings: PoolSettings::default(),
            rotation: RotationSettings::default(),
            pools: BTreeMap::new(),
            views: Views::default(),
            accounts: HashMap::new(),
            conversations: Conversations::default(),
            budgets: HashMap::new(),
            waiting: BTreeSet::new(),
            tickets: 0,
            grants: 0,
            sight: Sight::default(),
            budgeted: BTreeSet::new(),
        };
        // An account that is new to the ledger has no other name there.
        let _ = machine.adopt(roster, now);
        machine
    }

    /// Takes in conversations that were kept.
    pub fn restore(&mut self, records: Vec<ConversationRecord>, now: Timestamp) {
        let mut conversations = std::mem::take(&mut self.conversations);
        conversations.restore_all(records, self, now);
        self.conversations = conversations;
    }

    /// Takes in a new roster: what is known of an account, its leases and its conversations survive.
    pub fn reload(&mut self, roster: &Roster, now: Timestamp) -> Vec<Effect> {
        let mut effects: Vec<Effect> = self.adopt(roster, now).into_iter().map(Effect::Rename).collect();
        self.tell_all_budgets(now, &mut effects);
        for account in self.waiting.clone() {
            self.plan_anew(account, now, &mut effects);
        }
        effects
    }

    fn adopt(&mut self, roster: &Roster, now: Timestamp) -> Vec<Renamed> {
        self.settings = roster.pool;
        self.rotation = roster.rotation;
        self.views.each_mut().for_each(View::unlist);
        for (id, spec) in &roster.accounts {
            let view = self.views.slot(*id);
            match view {
                Some(view) => view.configure(spec.clone()),
                None => *view = Some(View::new(spec.clone())),
            }
            self.accounts.insert(spec.identity.clone(), *id);
        }
        let pool = |spec: &crate::roster::UpstreamSpec| {
            let nothing_used = Judgement::default();
            let group_of = |id: AccountId| {
                roster.accounts.get(&id).map_or(0, |account| Merits::of(account, &nothing_used).group(spec.strategy))
            };
            (spec.id, Pool::new(spec.clone(), group_of))
        };
        self.pools = roster.upstreams.iter().map(pool).collect();
        self.book.ledger().configure(roster, now.wall)
    }

    /// Takes in what an account says of its health.
    pub fn learn(&mut self, standing: Standing, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.read_book(now, &mut effects);
        let rule = self.ramp_rule();
        let account = standing.account;
        let Some(view) = self.view_mut(account) else { return effects };
        if view.standing.as_ref().is_some_and(|known| known.seq >= standing.seq) {
            return effects;
        }
        let troubled = view.take(standing, rule, now);
        self.tell_budget(account, now, &mut effects);
        if troubled {
            self.plan_anew(account, now, &mut effects);
        }
        self.pump(account, now, &mut effects);
        effects
    }

    /// Answers a demand. Of a granted lease exactly one guard is to be made ([`LeaseBook::guard`]).
    pub fn lease(&mut self, demand: &Demand, now: Timestamp) -> (Decision, Vec<Effect>) {
        let mut effects = Vec::new();
        self.read_book(now, &mut effects);
        // Before anyone is admitted to the place that a refused attempt has left.
        if let Some(last) = &demand.last {
            self.hear(last, now, &mut effects);
        }
        self.pump_all(now, &mut effects);
        self.count_request(demand, now);
        let decision = self.decide(demand, now, None);
        (decision, effects)
    }

    /// Does what time alone brings about.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = self.settle(now);
        effects.extend(self.forget_old(now));
        self.views.each_mut().for_each(|view| view.forget_old_bindings(now));
        effects
    }

    /// When [`Self::tick`] has something to do that nothing else brings about.
    #[must_use]
    pub fn next_deadline(&self, now: Timestamp) -> Option<Deadline> {
        let heads = self.waiting.iter().filter_map(|id| self.view(*id)?.queue.paced_at(now));
        let month = (!self.budgeted.is_empty()).then(|| Deadline::Wall(self.book.ledger().month(now.wall).ends));
        heads.chain(month).reduce(|one, other| one.sooner(other, now))
    }

    pub(super) fn view(&self, account: AccountId) -> Option<&View> {
        self.views.get(account)
    }

    fn view_mut(&mut self, account: AccountId) -> Option<&mut View> {
        self.views.get_mut(account)
    }

    fn ramp_rule(&self) -> RampRule {
        RampRule::of(&self.settings, &self.rotation)
    }

    /// The last answer counts at once, before the account itself has said what it makes of it.
    fn hear(&mut self, last: &LastAnswer, now: Timestamp, effects: &mut Vec<Effect>) {
        let rule = self.ramp_rule();
        let cooldown = self.rotation.cooldown;
        let Some(view) = self.view_mut(last.account) else { return };
        let known = view.standing.as_ref();
        let generation = known.map_or(last.answered.generation, |s| s.generation);
        if last.answered.generation < generation || broken(Rule::LastAnswerCountsAtOnce) {
            return;
        }
        if known.is_none_or(|s| s.applied < last.evidence)
            && let Some(belief) = belief(&last.answered, cooldown, now)
        {
            view.believe(last.evidence, belief);
        }
        if view.heard >= last.evidence || last.answered.call == CallKind::Side || !is_refusal(&last.answered.outcome) {
            return;
        }
        view.heard = last.evidence;
        view.refused(last.answered.sent_at, rule, now);
        self.plan_anew(last.account, now, effects);
    }

    fn count_request(&mut self, demand: &Demand, now: Timestamp) {
        if demand.step == Step::First
            && demand.call == CallKind::Inference
            && let Some(pool) = self.pools.get(&demand.upstream)
        {
            let provider = Arc::clone(&pool.spec.provider);
            self.budgets.entry(provider).or_default().count_request(now);
        }
    }

    /// Plans one demand. A waiter that is planned anew keeps its ticket and its time.
    fn decide(&mut self, demand: &Demand, now: Timestamp, waiter: Option<(Ticket, Timestamp)>) -> Decision {
        self.look_about(demand, now);
        let planned = self.plan(demand, &self.sight, now);
        match planned {
            Planned::Grant(pick) => Decision::Granted(self.grant(demand, pick, now)),
            Planned::Queue(account) => Decision::Queued(self.enqueue(account, demand, now, waiter)),
            Planned::Answer(decision) => decision,
        }
    }

    /// Looks what is in flight, and what this demand may spend.
    fn look_about(&mut self, demand: &Demand, now: Timestamp) {
        let mut sight = std::mem::take(&mut self.sight);
        self.see(demand, &mut sight, now);
        self.sight = sight;
    }

    pub(super) fn see(&self, demand: &Demand, sight: &mut Sight, now: Timestamp) {
        self.book.copy_tallies(&mut sight.tallies);
        let (ask, counted) = (demand.ask.as_deref(), demand.spent.counted);
        self.book.ledger().inform(&mut sight.money, &demand.principal, ask, counted, now.wall);
    }

    fn plan(&self, demand: &Demand, sight: &Sight, now: Timestamp) -> Planned {
        let Some(field) = self.field(demand, sight, now) else {
            let nothing = Exhausted { reasons: Vec::new(), remedy: Remedy::Person, probe: None };
            return Planned::Answer(Decision::Exhausted(nothing));
        };
        let none = |barrier| Planned::Answer(Decision::Exhausted(exhausted(&field, barrier)));
        if made_its_hop(demand) {
            return none(Barrier::HopLimit);
        }
        let choice = field.choose();
        match choice {
            Choice::Grant(pick) if !self.can_afford(&field, Some(pick)) => none(Barrier::RetryBudget),
            Choice::Queue(_) if !self.can_afford(&field, None) => none(Barrier::RetryBudget),
            Choice::Grant(pick) => Planned::Grant(pick),
            Choice::Queue(account) => Planned::Queue(account),
            Choice::Wait(wait) => Planned::Answer(Decision::NotBefore(wait)),
            Choice::Full | Choice::Empty => none(Barrier::Busy),
        }
    }

    /// What a plan for this demand is made from; none if there is no such upstream.
    pub(super) fn field<'a>(&'a self, demand: &'a Demand, sight: &'a Sight, now: Timestamp) -> Option<Field<'a>> {
        let pool = self.pools.get(&demand.upstream)?;
        let conversation = self.bound_by(demand, pool);
        let home = conversation.and_then(|key| self.conversations.home(key, demand.upstream, demand.scope));
        let parent = demand.parent.filter(|_| home.is_none() && conversation.is_some());
        let parent = parent.and_then(|key| self.conversations.home(key, demand.upstream, demand.scope));
        Some(Field {
            demand,
            pool,
            views: &self.views,
            tallies: &sight.tallies,
            money: &sight.money,
            settings: &self.settings,
            ramp: self.ramp_rule(),
            conversation,
            home,
            parent: parent.map(|home| home.account()),
            now,
        })
    }

    /// The conversation whose bindings count for this demand.
    fn bound_by(&self, demand: &Demand, pool: &Pool) -> Option<ConversationKey> {
        let binds = self.rotation.affinity == Affinity::Bind && pool.spec.strategy != Strategy::Failover;
        demand.conversation.filter(|_| binds)
    }

    /// Whether the provider's retry budget bears this attempt.
    fn can_afford(&self, field: &Field<'_>, pick: Option<Pick>) -> bool {
        if !draws(field.demand, pick) || broken(Rule::RetryBudgetBounds) {
            return true;
        }
        self.budgets.get(&field.pool.spec.provider).is_none_or(|budget| budget.allows(field.now))
    }
}

enum Planned {
    Grant(Pick),
    Queue(AccountId),
    Answer(Decision),
}

/// Whether the last answer was a 429 that stated nothing, and the one hop after such was made already.
fn made_its_hop(demand: &Demand) -> bool {
    let unstated = |outcome: &Outcome| matches!(outcome, Outcome::Throttled { wait: None });
    let last = demand.last.as_ref().is_some_and(|l| unstated(&l.answered.outcome));
    last && demand.spent.unstated_hops > 0 && demand.step == Step::Next && !broken(Rule::OneHopUnstated)
}

impl Names for Admission {
    fn upstream_name(&self, id: UpstreamId) -> Option<Arc<str>> {
        self.pools.get(&id).map(|pool| Arc::clone(&pool.spec.name))
    }

    fn upstream_id(&self, name: &str) -> Option<UpstreamId> {
        self.pools.values().find(|pool| &*pool.spec.name == name).map(|pool| pool.spec.id)
    }

    fn identity(&self, id: AccountId) -> Option<IdentityKey> {
        self.view(id).map(|view| view.spec.identity.clone())
    }

    fn account(&self, identity: &IdentityKey) -> Option<AccountId> {
        self.accounts.get(identity).copied()
    }
}
