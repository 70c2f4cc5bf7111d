//! The shown state, effects and time.

use super::*;

#[test]
fn the_gravest_hold_is_shown_and_each_ends_alone() {
    let mut account = Subject::default();
    account.answer(0, 0, server_fault(Some(50)));
    account.answer(0, 0, quota_refused(Some(stated(40))));
    account.hears(0, HealthEvent::BudgetReached { cycle_ends: stated(30) });
    assert_eq!(account.state(0), State::BudgetExhausted);
    for (second, state) in [(30, State::RateLimited), (40, State::Erroring), (50, State::Healthy)] {
        account.tick(second);
        assert_eq!(account.state(second), state);
        let change = account.told.iter().any(|kind| matches!(kind, EventKind::StateChanged { to, .. } if *to == state));
        assert!(change, "told: {state:?}");
    }
}

#[test]
fn a_transition_is_told_with_its_evidence_and_published_and_kept() {
    let mut account = Subject::default();
    let evidence = Evidence { status: Some(429), request_id: Some("r-1".into()), ..Evidence::default() };
    let mut answered = account.attempt(0, 1, quota_refused(Some(stated(HOUR))), QuotaReading::default());
    answered.evidence = evidence.clone();
    let effects = account.hears(1, HealthEvent::Answered(&answered));
    let began = EventKind::HoldBegan {
        hold: RateLimited,
        scope: HoldScope::Account,
        cause: Cause::Quota,
        until: stated(HOUR),
        stated: Stated::ByProvider,
    };
    let changed = EventKind::StateChanged { from: State::Healthy, to: State::RateLimited };
    let emit = |kind| Effect::Emit { kind, severity: Severity::Warning, evidence: evidence.clone() };
    assert_eq!(effects, vec![emit(began), emit(changed), Effect::Publish, Effect::Persist]);
}

#[test]
fn a_strike_is_kept_and_not_published() {
    let mut account = Subject::default();
    assert_eq!(account.answer(0, 1, server_fault(None)), vec![Effect::Persist]);
}

#[test]
fn what_changes_nothing_has_no_effect() {
    let mut account = Subject::default();
    assert_eq!(account.hears(0, HealthEvent::Ticked), Vec::new());
    assert_eq!(account.answer(1, 2, Outcome::Served), Vec::new());
}

#[test]
fn the_next_deadline_is_the_soonest_on_either_clock() {
    let mut account = Subject::default();
    assert_eq!(account.health.next_deadline(at(0)), None);
    account.answer(0, 0, quota_refused(Some(stated(500))));
    account.answer(0, 0, server_fault(Some(400)));
    account.answer(0, 0, fable_refused(Some(stated(300))));
    account.answer(0, 0, throttled(Some(9)));
    for (now, expected) in [(0, wait(0, 9)), (9, stated(300)), (300, wait(0, 400)), (400, stated(500))] {
        account.tick(now);
        assert_eq!(account.health.next_deadline(at(now)), Some(expected));
    }
}

#[test]
fn a_stepped_clock_moves_no_stated_reset_and_no_wait() {
    let mut account = Subject::default();
    account.shows(0, quota_refused(Some(stated(2 * HOUR))), rejected("5h", 2 * HOUR));
    account.answer(0, 0, server_fault(Some(600)));
    let now = Timestamp { wall: wall(HOUR), boot: at(1).boot };
    account.health.apply(HealthEvent::ClockStepped { by_ms: 3_599_000 }, now);
    assert_eq!(account.until(RateLimited), Some(stated(2 * HOUR)));
    assert_eq!(account.until(Erroring), Some(wait(0, 600)));
    let seen = account.health.quota().windows.get(&Window::FiveHour).and_then(|window| window.observed_at);
    assert_eq!(seen, Some(wall(3599)), "the observation is as old as before");
    assert_eq!(account.hold(RateLimited).map(|hold| hold.began.wall), Some(wall(3599)));
}

/// After a step back, an observation that is newer by the steady clock still counts as newer than the refusal.
#[test]
fn a_step_back_does_not_hide_a_newer_observation() {
    let mut account = Subject::default();
    account.shows(0, quota_refused(Some(stated(2 * HOUR))), rejected("5h", 2 * HOUR));
    let now = Timestamp { wall: wall(-1000), boot: at(10).boot };
    account.health.apply(HealthEvent::ClockStepped { by_ms: -1_010_000 }, now);
    let mut poll = poll(0, &[("5h", 0.1)], HOUR);
    poll.answered_at = now;
    account.health.apply(HealthEvent::UsagePolled(&poll), now);
    assert_eq!(account.hold(RateLimited), None);
}
