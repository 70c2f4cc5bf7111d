//! Random lives of an account, judged at every step.

use proptest::prelude::*;

use super::history::{Step, Told, World};
use super::properties::{Moment, Seen, broken, seen};
use super::shadow::{Heard, Shadow};
use super::*;
use crate::roster::{BurnRate, WindowCaps};

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
        if let Some(name) = broken(&moment) {
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
    if let Told::Restarted { .. } = told {
        shadow.restart();
    }
    if let Some(seen) = seen(told, world.now).filter(|seen| seen.generation == before.generation()) {
        let stated = if let Outcome::ServerFault { wait: Some(wait), .. } = seen.outcome {
            Some(ago(seen.answered_at) + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX) - world.real)
        } else {
            None
        };
        let inference = seen.call == CallKind::Inference;
        let ended = matches!(told, Told::Ended(_));
        let Seen { lease, outcome, sent_at, .. } = seen;
        shadow.hear(&Heard { lease, ended, outcome, inference, sent: ago(sent_at), now: world.real, stated });
    }
    match told.event() {
        Some(HealthEvent::Cleared) => shadow.clear(),
        Some(HealthEvent::CredentialRenewed { generation, .. } | HealthEvent::CredentialRead { generation })
            if generation > before.generation() =>
        {
            shadow.renew();
        }
        Some(HealthEvent::Probed { verdict, generation, sent_at, .. }) if generation == before.generation() => {
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
