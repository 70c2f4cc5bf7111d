//! What is true of every step of every history.

use proptest::prelude::*;

use super::history::{Step, Told, World};
use super::shadow::{Heard, Shadow};
use super::*;
use crate::account::quota::{KnownWindow, WindowState};
use crate::roster::{BurnRate, WindowCaps};

/// One step: the account just before (what was over has ended), and just after.
pub(super) struct Moment<'a> {
    before: &'a Health,
    after: &'a Health,
    told: &'a Told,
    effects: &'a [Effect],
    now: Timestamp,
}

/// The places of holds, in the order of [`Health::holds`].
const AUTH: usize = 0;
const ERRORING: usize = 1;
const ACCOUNT: usize = 2;
const FABLE: usize = 3;
const BUDGET: usize = 4;
const BALANCE: usize = 5;

type Property = fn(&Moment<'_>) -> bool;

const PROPERTIES: &[(&str, Property)] = &[
    ("nothing that is over stays, no deadline lies in the past", nothing_is_overdue),
    ("no hold is shortened", no_hold_is_shortened),
    ("each hold ends only by its own rule", holds_end_by_their_rule),
    ("a served request ends what it must", a_served_request_ends_what_it_must),
    ("a served request verifies the credential", a_served_request_verifies),
    ("evidence of an older credential changes nothing", old_evidence_changes_nothing),
    ("what is the request's own affair teaches nothing", harmless_outcomes_teach_nothing),
    ("headers count whatever the outcome", headers_always_count),
    ("a refusal holds its scope until its stated end", a_refusal_holds_its_scope),
    ("a throttle holds as long as it says", a_throttle_holds_as_it_says),
    ("a balance and a budget hold for a day at most", money_holds_a_day),
    ("clear ends quota and money holds", clear_ends_what_it_must),
    ("a new credential ends auth holds and forgets figures", a_renewal_forgets),
    ("a stepped clock moves no end", a_step_moves_no_end),
    ("a usage poll touches no status", a_poll_touches_no_status),
    ("older figures change nothing", older_figures_change_nothing),
    ("the effects say what changed", effects_say_what_changed),
];

/// What was seen of an attempt.
struct Seen<'a> {
    outcome: &'a Outcome,
    scope: ModelScope,
    call: CallKind,
    sent_at: Timestamp,
    generation: Generation,
    answered_at: Timestamp,
}

const CUT: Outcome = Outcome::Unreachable { connecting: false };
const NOTHING: Outcome = Outcome::Abandoned;

fn seen<'a>(told: &'a Told, now: Timestamp) -> Option<Seen<'a>> {
    match told {
        Told::Answered(Answered { outcome, scope, call, sent_at, generation, answered_at, .. }) => {
            let (scope, call, sent_at) = (*scope, *call, *sent_at);
            Some(Seen { outcome, scope, call, sent_at, generation: *generation, answered_at: *answered_at })
        }
        Told::Ended(Ended { close, scope, call, sent_at, generation, .. }) => {
            let outcome = match close {
                Close::Broken => &CUT,
                Close::ErrorEvent(Outcome::Served) | Close::Complete | Close::Stalled | Close::ClientGone => &NOTHING,
                Close::ErrorEvent(outcome) => outcome,
            };
            let (scope, call, sent_at) = (*scope, *call, *sent_at);
            Some(Seen { outcome, scope, call, sent_at, generation: *generation, answered_at: now })
        }
        Told::Polled(_) | Told::Other(_) | Told::Restarted { .. } => None,
    }
}

impl Moment<'_> {
    fn seen(&self) -> Option<Seen<'_>> {
        seen(self.told, self.now).filter(|seen| seen.generation == self.before.generation())
    }

    /// An inference call's outcome on the present credential.
    fn inference(&self) -> Option<Seen<'_>> {
        self.seen().filter(|seen| seen.call == CallKind::Inference)
    }

    fn served(&self) -> Option<Seen<'_>> {
        self.inference().filter(|seen| *seen.outcome == Outcome::Served)
    }

    fn event(&self) -> Option<HealthEvent<'_>> {
        self.told.event()
    }

    fn held(&self, slot: usize) -> (Option<&Hold>, Option<&Hold>) {
        (self.before.holds()[slot], self.after.holds()[slot])
    }

    fn renewed(&self) -> bool {
        self.after.generation() > self.before.generation()
    }
}

fn nothing_is_overdue(moment: &Moment<'_>) -> bool {
    let next = moment.after.next_deadline(moment.now);
    let holds = moment.after.holds();
    next.is_none_or(|next| !next.is_due(moment.now)) && holds.into_iter().flatten().all(|h| !h.until.is_due(moment.now))
}

fn no_hold_is_shortened(moment: &Moment<'_>) -> bool {
    (0..6).all(|slot| match moment.held(slot) {
        (Some(before), Some(after)) => after.until.as_wall(moment.now) >= before.until.as_wall(moment.now),
        (None, _) | (_, None) => true,
    })
}

fn holds_end_by_their_rule(moment: &Moment<'_>) -> bool {
    (0..6).all(|slot| match moment.held(slot) {
        (Some(before), None) => may_end(moment, slot, before),
        (None, _) | (_, Some(_)) => true,
    })
}

fn may_end(moment: &Moment<'_>, slot: usize, hold: &Hold) -> bool {
    let newer = |sent_at: Timestamp| sent_at.boot > hold.began.boot;
    let served = moment.served().filter(|seen| newer(seen.sent_at));
    let valid = match moment.event() {
        Some(HealthEvent::Probed { verdict: Verdict::Valid, sent_at, .. }) => newer(sent_at),
        _ => false,
    };
    let cleared = moment.event() == Some(HealthEvent::Cleared);
    match slot {
        AUTH => served.is_some() || valid || moment.renewed(),
        ERRORING => served.is_some() || valid && hold.cause == Cause::Network,
        ACCOUNT => served.is_some() || cleared || recovered(moment, &moment.before.limits.account),
        FABLE => {
            served.is_some_and(|seen| seen.scope == ModelScope::Fable)
                || cleared
                || recovered(moment, &moment.before.limits.fable)
        }
        BUDGET => cleared || moment.event() == Some(HealthEvent::BudgetRaised),
        _ => cleared,
    }
}

/// Whether every refused window was observed below its threshold since.
fn recovered(moment: &Moment<'_>, limit: &limits::Limit) -> bool {
    let thresholds = moment.after.settings.thresholds;
    let below = |window: &Window| {
        let Some(state) = moment.after.quota().windows.get(window) else { return false };
        let known = KnownWindow::of(window);
        let newer = state.observed_at.is_some_and(|at| at > limit.refused_at);
        newer && known.is_some_and(|known| state.utilization.is_some_and(|used| used < known.limit(&thresholds)))
    };
    !limit.windows.is_empty() && limit.windows.iter().all(below)
}

fn a_served_request_ends_what_it_must(moment: &Moment<'_>) -> bool {
    let Some(seen) = moment.served() else { return true };
    let slots: &[usize] =
        if seen.scope == ModelScope::Fable { &[ERRORING, ACCOUNT, FABLE] } else { &[ERRORING, ACCOUNT] };
    slots.iter().all(|slot| match moment.held(*slot) {
        (Some(before), Some(_)) => seen.sent_at.boot <= before.began.boot,
        (None, _) | (_, None) => true,
    })
}

fn a_served_request_verifies(moment: &Moment<'_>) -> bool {
    moment.served().is_none() || !moment.after.credential.unverified
}

fn old_evidence_changes_nothing(moment: &Moment<'_>) -> bool {
    let generation = match moment.told {
        Told::Answered(answered) => answered.generation,
        Told::Ended(ended) => ended.generation,
        Told::Polled(poll) => poll.generation,
        Told::Other(_) | Told::Restarted { .. } => return true,
    };
    generation >= moment.before.generation() || moment.before == moment.after && moment.effects.is_empty()
}

fn harmless_outcomes_teach_nothing(moment: &Moment<'_>) -> bool {
    let Some(seen) = moment.seen() else { return true };
    let harmless = match seen.outcome {
        Outcome::Relayed | Outcome::Abandoned | Outcome::HeadTimeout { streaming: false } => true,
        Outcome::Unauthorized | Outcome::OrgRefused => false,
        Outcome::Served
        | Outcome::Quota(_)
        | Outcome::Throttled { .. }
        | Outcome::BalanceEmpty
        | Outcome::ServerFault { .. }
        | Outcome::Unreachable { .. }
        | Outcome::HeadTimeout { .. }
        | Outcome::Blank => seen.call == CallKind::Side,
    };
    let began = (0..6).any(|slot| matches!(moment.held(slot), (None, Some(_))));
    let same = moment.before.auth == moment.after.auth
        && moment.before.erroring == moment.after.erroring
        && moment.before.spend == moment.after.spend
        && moment.before.limits.breather == moment.after.limits.breather;
    !harmless || same && !began
}

fn headers_always_count(moment: &Moment<'_>) -> bool {
    let Told::Answered(answered) = moment.told else { return true };
    if answered.generation != moment.before.generation() {
        return true;
    }
    let mut expected = moment.before.quota().clone();
    if !answered.quota.is_empty() {
        expected.apply(&answered.quota, answered.answered_at, moment.now);
    }
    *moment.after.quota() == expected
}

fn a_refusal_holds_its_scope(moment: &Moment<'_>) -> bool {
    let Some(seen) = moment.inference() else { return true };
    let Outcome::Quota(refusal) = seen.outcome else { return true };
    let (slot, other) = match refusal.scope {
        HoldScope::Model(ModelScope::Fable) => (FABLE, ACCOUNT),
        HoldScope::Account | HoldScope::Model(ModelScope::Base) => (ACCOUNT, FABLE),
    };
    let stated = refusal.until.filter(|until| !until.is_due(moment.now));
    let expected = stated.unwrap_or(Deadline::after(moment.now, Duration::from_secs(120)));
    let (other_before, other_after) = moment.held(other);
    let alone = other_after.is_none() || other_before.is_some();
    let holds = match moment.held(slot) {
        (_, None) => false,
        (None, Some(hold)) => hold.until == expected,
        (Some(_), Some(hold)) => hold.until.as_wall(moment.now) >= expected.as_wall(moment.now),
    };
    alone && holds
}

fn a_throttle_holds_as_it_says(moment: &Moment<'_>) -> bool {
    let Some(seen) = moment.inference() else { return true };
    let Outcome::Throttled { wait: Some(wait) } = *seen.outcome else { return true };
    let until = Deadline::after(seen.answered_at, wait);
    let expected = (!until.is_due(moment.now)).then_some(until);
    if wait <= Duration::from_secs(10) {
        let (before, after) = moment.held(ACCOUNT);
        let breathes = expected.is_none() || moment.after.limits.breather.is_some();
        return breathes && (before.is_some() || after.is_none());
    }
    match moment.held(ACCOUNT) {
        (None, after) => after.map(|hold| hold.until) == expected,
        (Some(_), after) => after.is_some(),
    }
}

fn money_holds_a_day(moment: &Moment<'_>) -> bool {
    let day = Deadline::after(moment.now, Duration::from_secs(86_400));
    let budget = match (moment.event(), moment.held(BUDGET)) {
        (Some(HealthEvent::BudgetReached { cycle_ends }), (None, after)) => {
            let until = day.sooner(cycle_ends, moment.now);
            after.map(|hold| hold.until) == (!until.is_due(moment.now)).then_some(until)
        }
        _ => true,
    };
    let empty = moment.inference().is_some_and(|seen| *seen.outcome == Outcome::BalanceEmpty);
    let balance = match moment.held(BALANCE) {
        (None, after) => after.map(|hold| hold.until) == empty.then_some(day),
        (Some(_), _) => true,
    };
    budget && balance
}

fn clear_ends_what_it_must(moment: &Moment<'_>) -> bool {
    let ended = [ACCOUNT, FABLE, BUDGET, BALANCE].iter().all(|slot| moment.held(*slot).1.is_none());
    moment.event() != Some(HealthEvent::Cleared)
        || ended && !moment.after.quota().rejected(ModelScope::Fable, moment.now)
}

fn a_renewal_forgets(moment: &Moment<'_>) -> bool {
    let known = |(_, state): (Window, &WindowState)| state.utilization.is_some() || state.status.is_some();
    let Some(HealthEvent::CredentialRenewed { .. }) = moment.event() else { return true };
    let auth = moment.held(AUTH).1.is_none() && !moment.after.auth.on_trial && moment.after.strikes() == 0;
    !moment.renewed() || auth && !moment.after.quota().windows.iter().any(known)
}

fn a_step_moves_no_end(moment: &Moment<'_>) -> bool {
    let Some(HealthEvent::ClockStepped { .. }) = moment.event() else { return true };
    (0..6).all(|slot| moment.held(slot).0.map(|hold| hold.until) == moment.held(slot).1.map(|hold| hold.until))
}

fn a_poll_touches_no_status(moment: &Moment<'_>) -> bool {
    let Told::Polled(_) = moment.told else { return true };
    let statuses = |health: &Health| -> Vec<_> {
        let all = health.quota().windows.iter();
        all.filter(|(_, state)| state.status.is_some())
            .map(|(window, state)| (window, state.status.clone(), state.status_boundary, state.status_observed_at))
            .collect()
    };
    moment.renewed() || statuses(moment.before) == statuses(moment.after)
}

fn older_figures_change_nothing(moment: &Moment<'_>) -> bool {
    let Told::Answered(answered) = moment.told else { return true };
    let dated = Deadline::Boot(answered.answered_at.boot).as_wall(moment.now);
    answered.quota.windows.iter().all(|reading| {
        let before = moment.before.quota().windows.get(&reading.window);
        let newer = before.and_then(|state| state.observed_at.map(|at| (at, state.utilization)));
        let after = moment.after.quota().windows.get(&reading.window).and_then(|state| state.utilization);
        moment.renewed() || newer.is_none_or(|(at, used)| at <= dated || after == used)
    })
}

fn effects_say_what_changed(moment: &Moment<'_>) -> bool {
    let standing = |health: &Health| health.standing(0, EvidenceSeq(0), moment.now);
    let published = moment.effects.contains(&Effect::Publish) || standing(moment.before) == standing(moment.after);
    let kept = moment.effects.contains(&Effect::Persist) || moment.before == moment.after;
    published && kept && moment.after.shown.0 == standing(moment.after).state(moment.now)
}

/// Lives through a history; the first thing that is not as it must be.
pub(super) fn live(steps: &[Step]) -> Result<(), String> {
    let mut world = World::new();
    let mut shadow = Shadow::default();
    let mut health = Health::new(AccountId(1), Settings::default());
    for step in steps {
        let Some(told) = world.step(*step) else { continue };
        let now = world.now;
        if let Told::Restarted { saved_at } = told {
            health = restarted(&health, saved_at, now)?;
        }
        let mut before = health.clone();
        before.apply(HealthEvent::Ticked, now);
        let stepped = matches!(told.event(), Some(HealthEvent::ClockStepped { .. }));
        if !stepped && judged(health.quota(), now) != judged(before.quota(), now) {
            return Err(format!("a judgement needs no write first: {:?} at {now:?}", health.quota()));
        }
        let effects = happen(&mut health, &before, &told, now)?;
        let moment = Moment { before: &before, after: &health, told: &told, effects: &effects, now };
        if let Some((name, _)) = PROPERTIES.iter().find(|(_, holds)| !holds(&moment)) {
            return Err(format!("{name}: {told:?}\nbefore: {before:?}\nafter: {health:?}"));
        }
        follow(&mut shadow, &before, &told, &world);
        agree(&shadow, &before, &health, &world).map_err(|name| format!("{name}: {told:?}\n{shadow:?}\n{health:?}"))?;
    }
    Ok(())
}

/// Every judgement of both scopes.
fn judged(quota: &Quota, now: Timestamp) -> Vec<impl PartialEq> {
    let limits = WindowLimits { five_hour: 0.5, weekly: 0.4, fable: 0.3 };
    let caps = WindowCaps { five_hour: Some(0.6), weekly: Some(0.5), fable: Some(0.4) };
    let judge = |scope| {
        (
            (quota.governing(scope, now), quota.near(scope, &limits, BurnRate::Avoid, now), quota.rejected(scope, now)),
            (quota.over_hard(scope, 0.9, now), quota.headroom(scope, &limits, now), quota.remaining(scope, now)),
            (quota.weekly_reset(scope, now), quota.capped(scope, &caps, now), quota.near_cap(scope, &caps, 0.02, now)),
        )
    };
    [ModelScope::Base, ModelScope::Fable].into_iter().map(judge).collect()
}

/// Tells the account, once just after a tick and once without: equal inputs give equal outputs, and what is over has
/// ended whoever comes first.
fn happen(health: &mut Health, before: &Health, told: &Told, now: Timestamp) -> Result<Vec<Effect>, String> {
    let event = told.event().unwrap_or(HealthEvent::Ticked);
    let mut twin = std::mem::replace(health, before.clone());
    let effects = health.apply(event, now);
    let twice = twin.apply(event, now);
    if *health == twin && emitted(&twice).ends_with(&emitted(&effects)) {
        Ok(effects)
    } else {
        Err(format!("equal inputs give equal outputs: {effects:?} {twice:?}"))
    }
}

/// What is told; a change of the shown state may be told in one step or two.
fn emitted(effects: &[Effect]) -> Vec<EventKind> {
    let changed = |kind: &EventKind| matches!(kind, EventKind::StateChanged { .. });
    effects.iter().filter_map(super::told).filter(|kind| !changed(kind)).collect()
}

/// Every wait is as much shorter as time passed; strikes and stated ends are as they were.
fn restarted(health: &Health, saved_at: Timestamp, now: Timestamp) -> Result<Health, String> {
    let kept = serde_json::to_vec(&Snapshot::take(health, saved_at)).map_err(|error| error.to_string())?;
    let kept: Snapshot = serde_json::from_slice(&kept).map_err(|error| error.to_string())?;
    let after = kept.restore(AccountId(1), health.settings, now).map_err(|error| error.to_string())?;
    let passed = now.wall.since(saved_at.wall);
    let as_much = health.holds().into_iter().zip(after.holds()).all(|pair| match pair {
        (Some(before), Some(after)) => {
            before.until.remaining(saved_at).saturating_sub(passed) == after.until.remaining(now)
        }
        (before, after) => before == after,
    });
    if as_much && health.strikes() == after.strikes() { Ok(after) } else { Err("time that passed counts".to_owned()) }
}

/// Tells the shadow the same.
fn follow(shadow: &mut Shadow, before: &Health, told: &Told, world: &World) {
    let ago = |at: Timestamp| world.real - (world.now.boot.0 - at.boot.0);
    shadow.pass(world.real);
    if let Some(seen) = seen(told, world.now).filter(|seen| seen.generation == before.generation()) {
        let stated = if let Outcome::ServerFault { wait: Some(wait), .. } = seen.outcome {
            Some(ago(seen.answered_at) + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX) - world.real)
        } else {
            None
        };
        let inference = seen.call == CallKind::Inference;
        shadow.hear(&Heard { outcome: seen.outcome, inference, sent: ago(seen.sent_at), now: world.real, stated });
    }
    match told.event() {
        Some(HealthEvent::Cleared) => shadow.clear(),
        Some(HealthEvent::CredentialRenewed { generation, .. } | HealthEvent::CredentialRead { generation })
            if generation > before.generation() =>
        {
            shadow.renew();
        }
        Some(HealthEvent::Probed { verdict, generation, sent_at }) if generation == before.generation() => {
            shadow.probe(verdict, before.erroring.connecting, ago(sent_at), world.real);
        }
        _ => {}
    }
}

fn rung_is_kept(shadow: &Shadow, before: &Health, health: &Health, world: &World) -> bool {
    match (shadow.throttle, before.limits.account.hold, health.limits.account.hold) {
        (Some(length), None, Some(hold)) => hold.until.remaining(world.now).as_millis() == length.unsigned_abs().into(),
        (Some(_), before, after) => before.is_some() && after.is_some(),
        (None, before, after) => !shadow.joined || after.is_none() || before == after,
    }
}

fn agree(shadow: &Shadow, before: &Health, health: &Health, world: &World) -> Result<(), &'static str> {
    let left = |hold: Option<Hold>| hold.map(|hold| hold.until.remaining(world.now));
    let expected = |until: Option<i64>| until.map(|at| Duration::from_millis((at - world.real).unsigned_abs()));
    let checks = [
        ("strikes are counted once", health.strikes() == shadow.auth.times),
        ("an auth hold lasts by its strikes", left(health.auth.hold) == expected(shadow.auth.until)),
        ("an ended auth hold is a trial until it is served", health.auth.on_trial == shadow.trial),
        ("a back-off lasts by its failures", left(health.erroring.hold) == expected(shadow.errors.until)),
        ("failures are counted once", health.erroring.failures == shadow.errors.times),
        ("a bare throttle holds by its rung", rung_is_kept(shadow, before, health, world)),
    ];
    checks.into_iter().find(|(_, holds)| !holds).map_or(Ok(()), |(name, _)| Err(name))
}

/// Any history, and such as repeat themselves.
fn histories() -> impl Strategy<Value = Vec<Step>> {
    let motif = prop::collection::vec(any::<Step>(), 3..6).prop_map(|steps| steps.repeat(6));
    prop_oneof![3 => prop::collection::vec(any::<Step>(), 4..28), 1 => motif]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_step_of_every_history_is_as_the_rules_say(steps in histories()) {
        if let Err(violation) = live(&steps) {
            return Err(TestCaseError::fail(violation));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn absurd_moments_and_figures_do_no_harm(
        moments in prop::collection::vec((any::<i64>(), any::<i64>()), 6),
        share in any::<f64>(),
        seconds in any::<u64>(),
        choice in any::<u8>(),
        generation in any::<u64>(),
    ) {
        let at = |n: usize| Timestamp { wall: Wall(moments[n].0), boot: Boot(moments[n].1) };
        let wait = Some(Duration::from_secs(seconds));
        let outcomes = [
            Outcome::Quota(QuotaRefusal { scope: HoldScope::Account, windows: vec![], until: Some(Deadline::Boot(at(0).boot)) }),
            Outcome::Throttled { wait },
            Outcome::ServerFault { cause: Cause::Overloaded, wait },
            Outcome::Served,
        ];
        let mut quota = figures(&[("5h", share), ("zz", share)], 0);
        quota.windows[0].reset = Some(at(1).wall);
        let mut account = Subject { generation: Generation(generation), ..Subject::default() };
        account.generation = Generation(generation);
        let mut answered = account.attempt(0, 0, outcomes[usize::from(choice % 4)].clone(), quota);
        (answered.sent_at, answered.answered_at) = (at(2), at(3));
        account.health.apply(HealthEvent::Answered(&answered), at(4));
        account.health.apply(HealthEvent::ClockStepped { by_ms: moments[0].0 }, at(5));
        account.health.restore(at(4), at(5));
        account.health.apply(HealthEvent::Ticked, at(5));
        let next = account.health.next_deadline(at(5));
        prop_assert!(next.is_none_or(|next| !next.is_due(at(5))));
        let quota = account.health.quota();
        prop_assert!(!quota.headroom(ModelScope::Fable, &WindowLimits::all(0.9), at(5)).is_nan());
    }
}
