//! Runs a sequence of events against two machines and checks every answer.
//!
//! The second machine is not asked for leases that are dropped unsent, so that it shows whether such leave a trace, and
//! whether equal inputs give equal plans.

use std::collections::HashMap;
use std::time::Duration;

use super::super::world::*;
use super::model::{ACCOUNTS, LOCAL, Told, fleet, is_left};
use crate::clock::Timestamp;
use crate::failover::Effect;
use crate::failover::book::{Flow, LeaseGuard};
use crate::failover::demand::{Decision, Demand, Exhausted, Gate, Grant, Once, Step, Ticket, Why};
use crate::id::{AccountId, ModelScope};
use crate::outcome::{CallKind, Cause, Outcome};
use crate::standing::{HoldKind, Paused, Stated};

/// One event: what, whom, how.
pub(super) type Step3 = (u8, u8, u8);

type Checked = Result<(), String>;

/// Runs a sequence; the first wrong answer is the error.
pub(super) fn run(steps: &[Step3]) -> Checked {
    let mut run = Run::new(steps.first().map_or(0, |step| step.0));
    for step in steps {
        run.step(*step)?;
    }
    run.finish()
}

/// A lease in hand, on both machines.
struct Held {
    demand: Demand,
    grant: Grant,
    guard: LeaseGuard,
    twin: LeaseGuard,
}

/// What is known of a conversation's home.
#[derive(Clone, Copy, PartialEq)]
enum Home {
    Unknown,
    At(AccountId),
    /// It went elsewhere once: no more is claimed.
    Left,
}

struct Run {
    choice: u8,
    now: Timestamp,
    desk: Desk,
    twin: Desk,
    told: Vec<Told>,
    held: Vec<Held>,
    queued: HashMap<Ticket, (Ticket, Demand, Timestamp)>,
    homes: HashMap<u128, Home>,
    /// Whether one of those answered together was admitted by pace, whatever the allowance said.
    paced: bool,
}

impl Run {
    fn new(choice: u8) -> Self {
        let told: Vec<Told> = (0..ACCOUNTS).map(Told::new).collect();
        let roster = fleet(choice, &told);
        Self {
            choice,
            now: t0(),
            desk: Desk::new(&roster),
            twin: Desk::new(&roster),
            told,
            held: Vec::new(),
            queued: HashMap::new(),
            homes: HashMap::new(),
            paced: false,
        }
    }

    fn step(&mut self, (what, whom, how): Step3) -> Checked {
        match what % 16 {
            0..=3 => self.ask(&wanted(whom, how)),
            4 => self.peek(&wanted(whom, how)),
            5 | 6 => self.retry(whom, how),
            7 => self.on_lease(whom, |held| {
                held.guard.sent();
                held.twin.sent();
            }),
            8 | 9 => self.answer(whom, how),
            10 => self.end(whom),
            11 => self.pass(u64::from(how) * u64::from(how)),
            12 => self.speak(whom, how),
            13 => self.hold(whom, how),
            14 => self.use_share(whom, how),
            _ => self.flip(whom, how),
        }
    }

    fn finish(mut self) -> Checked {
        self.held.clear();
        let tickets: Vec<(Ticket, Ticket)> = self.queued.iter().map(|(main, (twin, ..))| (*main, *twin)).collect();
        for (main, twin) in tickets {
            self.desk.machine.cancel(main);
            self.twin.machine.cancel(twin);
        }
        self.queued.clear();
        self.settle()?;
        self.held.clear();
        let idle = (0..ACCOUNTS).all(|n| self.desk.book.tally(id(n)).is_idle());
        ensure(idle && self.desk.book.is_empty(), || "something is left in flight".to_owned())
    }

    fn ask(&mut self, demand: &Demand) -> Checked {
        let here = self.desk.ask(demand, self.now);
        let there = self.twin.ask(demand, self.now);
        self.take_effects()?;
        self.receive(demand, here, there, None)
    }

    /// Asks and lets go: the other machine never hears of it.
    fn peek(&mut self, demand: &Demand) -> Checked {
        self.settle()?;
        match self.desk.ask(demand, self.now) {
            Decision::Granted(grant) => {
                self.check_grant(demand, &grant, None)?;
                drop(self.desk.book.guard(grant.lease));
            }
            Decision::Queued(ticket) => self.desk.machine.cancel(ticket),
            Decision::NotBefore(_) | Decision::Exhausted(_) => {}
        }
        self.settle()
    }

    fn receive(&mut self, demand: &Demand, here: Decision, there: Decision, since: Option<Timestamp>) -> Checked {
        match (here, there) {
            (Decision::Granted(grant), Decision::Granted(other)) => {
                let (guard, twin) = (self.desk.book.guard(grant.lease), self.twin.book.guard(other.lease));
                let same = (grant.account, grant.gate, &grant.moved_from, grant.alternatives)
                    == (other.account, other.gate, &other.moved_from, other.alternatives);
                ensure(same, || format!("equal inputs, two plans: {grant:?} {other:?}"))?;
                let checked = self.check_grant(demand, &grant, since);
                self.held.push(Held { demand: demand.clone(), grant, guard, twin });
                checked
            }
            (Decision::Queued(ticket), Decision::Queued(other)) => {
                self.queued.insert(ticket, (other, demand.clone(), self.now));
                Ok(())
            }
            (Decision::Exhausted(here), Decision::Exhausted(there)) => {
                ensure(here == there, || format!("two verdicts: {here:?} {there:?}"))?;
                self.check_exhausted(demand, &here)
            }
            (Decision::NotBefore(here), Decision::NotBefore(there)) => {
                let breathes = self.told(here.account).breathes(self.now);
                let waits = demand.conversation.is_some() && demand.spent.breather == Once::Unused;
                ensure(here == there && breathes && waits, || format!("a wait without a breather: {here:?}"))
            }
            (here, there) => Err(format!("equal inputs, two answers: {here:?} {there:?}")),
        }
    }

    fn check_grant(&mut self, demand: &Demand, grant: &Grant, queued: Option<Timestamp>) -> Checked {
        let (n, account, scope) = (grant.account.0, grant.account, demand.scope);
        let told = self.told(account);
        let wrong = |what: &str| Err(format!("{what}: {grant:?} for {demand:?}"));
        let again = demand.step == Step::Again(account);
        if told.is_out(n, self.now) {
            return wrong("an account that is out was granted");
        }
        if !is_left(demand, account) && !again {
            return wrong("an account was granted twice");
        }
        let hops = demand.spent.unstated_hops > 0 && demand.step == Step::Next;
        let unstated = |o: &Outcome| matches!(o, Outcome::Throttled { wait: None });
        if hops && demand.last.as_ref().is_some_and(|l| unstated(&l.answered.outcome)) {
            return wrong("a second hop after a 429 that states nothing");
        }
        let holds = told.holds(scope, self.now);
        match grant.gate {
            Gate::Probe => self.check_probe(demand, grant)?,
            Gate::Open | Gate::Trial if !holds.is_empty() => return wrong("a held account serves without a probe"),
            Gate::Open | Gate::Trial if told.breathes(self.now) && !again => return wrong("a breather was disturbed"),
            Gate::Open | Gate::Trial => self.check_order(demand, grant)?,
        }
        self.check_allowance(demand, grant, queued)?;
        self.check_home(demand, grant, queued)
    }

    fn check_probe(&self, demand: &Demand, grant: &Grant) -> Checked {
        let holds = self.told(grant.account).holds(demand.scope, self.now);
        let wrong = |what: &str| Err(format!("{what}: {grant:?} for {demand:?}"));
        let newest = holds.iter().map(|h| h.began.boot).max();
        let stated = holds.iter().any(|h| h.stated == Stated::ByProvider);
        let least = Duration::from_secs(if stated { 60 } else { 1 });
        if newest.is_none_or(|began| self.now.boot.since(began) < least) {
            return wrong("a probe at once");
        }
        if self.desk.book.tally(grant.account).probes > 1 {
            return wrong("two probes in flight");
        }
        if demand.spent.probe == Once::Used {
            return wrong("a request spends two probes");
        }
        let better = self.others(demand).any(|n| self.told[n as usize].is_open(n, demand.scope, self.now));
        if better { wrong("a probe while another account is open") } else { Ok(()) }
    }

    /// No account that is free of every bound stands in a better band.
    fn check_order(&self, demand: &Demand, grant: &Grant) -> Checked {
        if self.has_ramp() || !self.queued.is_empty() || matches!(demand.step, Step::Again(_)) {
            return Ok(());
        }
        let band = self.told(grant.account).band();
        let better = self.others(demand).filter(|n| *n > LOCAL).any(|n| {
            let told = &self.told[n as usize];
            told.is_open(n, demand.scope, self.now) && !told.on_trial(self.now) && told.band() < band
        });
        ensure(!better, || format!("a better band was passed over: {grant:?} for {demand:?}"))
    }

    fn check_allowance(&self, demand: &Demand, grant: &Grant, queued: Option<Timestamp>) -> Checked {
        if (queued.is_some() && self.paced) || demand.call == CallKind::Side || grant.gate == Gate::Probe {
            return Ok(());
        }
        let n = grant.account.0;
        let (told, tally) = (self.told(grant.account), self.desk.book.tally(grant.account));
        let wrong = |what: &str| Err(format!("{what}: {tally:?} {grant:?}"));
        if told.on_trial(self.now) && tally.slots > 1 {
            return wrong("more than one on trial");
        }
        if told.is_guarded(n) && tally.in_flight > 1 {
            return wrong("more than one near a cap");
        }
        if n == LOCAL && tally.in_flight > 2 {
            return wrong("more than a local server can run");
        }
        let cold = self.has_ramp() && !told.served && tally.slots > 2;
        if cold { wrong("a storm on a cold account") } else { Ok(()) }
    }

    /// A conversation whose home is usable goes there.
    fn check_home(&mut self, demand: &Demand, grant: &Grant, queued: Option<Timestamp>) -> Checked {
        let Some(key) = demand.conversation.filter(|_| demand.scope == ModelScope::Base) else { return Ok(()) };
        let home = self.homes.get(&key.0).copied().unwrap_or(Home::Unknown);
        let Home::At(account) = home else { return Ok(()) };
        if account == grant.account {
            return Ok(());
        }
        self.homes.insert(key.0, Home::Left);
        let told = self.told(account);
        let usable = told.is_open(account.0, demand.scope, self.now) && told.band() == 0;
        let free = !matches!(demand.step, Step::Again(_))
            && account.0 > LOCAL
            && !told.on_trial(self.now)
            && !self.has_ramp()
            && queued.is_none();
        let sticks =
            self.choice.is_multiple_of(4) && usable && free && is_left(demand, account) && self.queued.is_empty();
        ensure(!sticks, || format!("a bound conversation left {account:?}: {grant:?}"))
    }

    fn check_exhausted(&self, demand: &Demand, exhausted: &Exhausted) -> Checked {
        let has = |why: &Why| exhausted.reasons.iter().any(|r| r.why == *why);
        if has(&Why::RetryBudget) || has(&Why::HopLimit) {
            return ensure(demand.step != Step::First, || format!("a first attempt was refused: {exhausted:?}"));
        }
        let open = self.others(demand).any(|n| self.told[n as usize].is_open(n, demand.scope, self.now));
        ensure(!open, || format!("local knowledge emptied the plan: {exhausted:?} for {demand:?}"))
    }

    fn retry(&mut self, whom: u8, how: u8) -> Checked {
        let Some(at) = self.pick(whom) else { return Ok(()) };
        let held = self.held.swap_remove(at);
        held.guard.sent();
        held.twin.sent();
        let Held { demand, grant, guard, twin } = held;
        drop((guard, twin));
        let outcome = match how % 6 {
            0 | 1 => fault(),
            2 => refusal(None),
            3 => throttled(Some(7)),
            4 => throttled(None),
            _ => Outcome::Unauthorized,
        };
        let outcome = if let Outcome::Quota(mut refused) = outcome {
            refused.until = Some(crate::clock::Deadline::after(self.now, Duration::from_secs(600)));
            Outcome::Quota(refused)
        } else {
            outcome
        };
        let mut after = next(&demand, &grant, 0, outcome.clone(), self.now);
        if demand.call == CallKind::Side {
            return Ok(());
        }
        let evidence = self.told[grant.account.0 as usize].answer(&outcome, self.now);
        after.last = Some(last(grant.account, evidence, outcome, self.now));
        after.spent.unstated_hops += u8::from(demand.step == Step::Next);
        after.spent.probe = if grant.gate == Gate::Probe { Once::Used } else { demand.spent.probe };
        if how & 64 != 0 {
            after.spent.breather = Once::Used;
            after.step = if how & 128 != 0 { Step::Again(grant.account) } else { Step::Next };
        }
        self.ask(&after)
    }

    fn answer(&mut self, whom: u8, how: u8) -> Checked {
        let Some(at) = self.pick(whom) else { return Ok(()) };
        let flow = if how & 1 == 0 { Flow::Stream } else { Flow::Whole };
        let held = &self.held[at];
        held.guard.answered(flow);
        held.twin.answered(flow);
        let (account, conversation) = (held.grant.account, held.demand.conversation);
        let counts = held.demand.call == CallKind::Inference && held.demand.scope == ModelScope::Base;
        self.told[account.0 as usize].served = true;
        if let Some(key) = conversation.filter(|_| counts) {
            self.homes.entry(key.0).or_insert(Home::At(account));
        }
        self.settle()
    }

    fn end(&mut self, whom: u8) -> Checked {
        if let Some(at) = self.pick(whom) {
            self.held.swap_remove(at);
        }
        self.settle()
    }

    fn pass(&mut self, seconds_or_so: u64) -> Checked {
        self.now = self.now.plus(Duration::from_millis(seconds_or_so * 3));
        self.desk.tick(self.now);
        self.twin.tick(self.now);
        self.take_effects()
    }

    fn speak(&mut self, whom: u8, how: u8) -> Checked {
        let now = self.now;
        self.tell(whom, |told| {
            told.speak(|s| {
                s.holds.clear();
                s.fable_hold = None;
                s.breather = (how % 4 == 1).then(|| crate::clock::Deadline::after(now, Duration::from_secs(7)));
                s.on_trial = how % 4 == 2;
                s.paused = Paused::No;
            })
        })
    }

    fn hold(&mut self, whom: u8, how: u8) -> Checked {
        let now = self.now;
        let dead = |seconds| {
            let until = crate::clock::Deadline::after(now, Duration::from_secs(seconds));
            hold(HoldKind::AuthDead, Cause::InvalidToken, now, until, Stated::Guessed)
        };
        self.tell(whom, |told| {
            told.speak(|s| match how % 4 {
                0 => s.fable_hold = Some(limited(now, u64::from(how))),
                1 => s.holds = vec![limited(now, 30 + u64::from(how))],
                2 => s.holds = vec![erroring(now, 10 + u64::from(how))],
                _ => s.holds = vec![dead(60)],
            })
        })
    }

    fn use_share(&mut self, whom: u8, how: u8) -> Checked {
        self.tell(whom, |told| told.use_share(how))
    }

    fn flip(&mut self, whom: u8, how: u8) -> Checked {
        let n = u32::from(whom) % ACCOUNTS;
        if how & 1 == 0 {
            return self.tell(whom, |told| told.speak(|s| s.paused = Paused::Yes));
        }
        self.told[n as usize].disabled = how & 2 == 0;
        let roster = fleet(self.choice, &self.told);
        let effects = self.desk.machine.reload(&roster, self.now);
        self.desk.effects.extend(effects);
        let effects = self.twin.machine.reload(&roster, self.now);
        self.twin.effects.extend(effects);
        self.take_effects()
    }

    fn tell(&mut self, whom: u8, say: impl FnOnce(&mut Told) -> crate::standing::Standing) -> Checked {
        let n = u32::from(whom) % ACCOUNTS;
        let said = say(&mut self.told[n as usize]);
        self.desk.learn(said.clone(), self.now);
        self.twin.learn(said, self.now);
        self.take_effects()
    }

    fn on_lease(&mut self, whom: u8, act: impl FnOnce(&Held)) -> Checked {
        if let Some(at) = self.pick(whom) {
            act(&self.held[at]);
        }
        self.settle()
    }

    fn settle(&mut self) -> Checked {
        self.desk.settle(self.now);
        self.twin.settle(self.now);
        self.take_effects()
    }

    /// Answers to those who waited, from both machines in step.
    fn take_effects(&mut self) -> Checked {
        let mut here = admissions(&mut self.desk);
        let mut there: HashMap<Ticket, Decision> = admissions(&mut self.twin).into_iter().collect();
        here.sort_by_key(|(ticket, _)| *ticket);
        let since = |ticket: &Ticket| self.queued.get(ticket).map_or(self.now, |waiter| waiter.2);
        self.paced = here.iter().any(|(ticket, _)| self.now.since(since(ticket)) >= Duration::from_secs(10));
        for (ticket, decision) in here {
            let Some((twin, demand, since)) = self.queued.remove(&ticket) else {
                return Err("someone was answered who did not wait".to_owned());
            };
            let Some(other) = there.remove(&twin) else { return Err(format!("only one machine answers {demand:?}")) };
            self.receive(&demand, decision, other, Some(since))?;
        }
        ensure(there.is_empty(), || "only the other machine answers".to_owned())
    }

    fn pick(&self, whom: u8) -> Option<usize> {
        (!self.held.is_empty()).then(|| usize::from(whom) % self.held.len())
    }

    fn told(&self, account: AccountId) -> &Told {
        &self.told[account.0 as usize]
    }

    fn has_ramp(&self) -> bool {
        fleet_has_ramp(self.choice)
    }

    fn others(&self, demand: &Demand) -> impl Iterator<Item = u32> + use<> {
        let tried = demand.tried.clone();
        (0..ACCOUNTS).filter(move |n| !tried.contains(&id(*n)))
    }
}

fn fleet_has_ramp(choice: u8) -> bool {
    choice & 4 != 0
}

fn wanted(whom: u8, how: u8) -> Demand {
    let mut demand = if whom & 1 == 0 { demand() } else { conversation(u128::from(whom >> 1) % 4) };
    demand.scope = if how.is_multiple_of(5) { ModelScope::Fable } else { ModelScope::Base };
    demand.call = if how.is_multiple_of(11) { CallKind::Side } else { CallKind::Inference };
    demand
}

fn admissions(desk: &mut Desk) -> Vec<(Ticket, Decision)> {
    let admission = |effect| match effect {
        Effect::Admit(ticket, decision) => Some((ticket, decision)),
        Effect::Emit { .. } | Effect::Remember(_) | Effect::Forget(_) | Effect::Tell(..) | Effect::Rename(_) => None,
    };
    desk.take_effects().into_iter().filter_map(admission).collect()
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}
