//! Quota refusals, throttles and breathers.

use super::*;

/// C01: a stated end is a measurement; no guess shortens it.
#[test]
fn a_rate_limit_holds_until_the_stated_reset() {
    let mut account = Subject::default();
    account.answer(0, 1, quota_refused(Some(stated(7999))));
    assert_eq!(account.until(RateLimited), Some(stated(7999)));
    assert_eq!(account.hold(RateLimited).map(|hold| hold.stated), Some(Stated::ByProvider));
    account.tick(7998);
    assert_eq!(account.state(7998), State::RateLimited);
    account.tick(7999);
    assert_eq!(account.state(7999), State::Healthy);
    assert_eq!(account.told[0], ended(RateLimited, EndedBy::Time));
}

#[test]
fn a_weekly_refusal_holds_for_days() {
    let mut account = Subject::default();
    account.answer(0, 1, refused(HoldScope::Account, &["7d"], Some(stated(6 * DAY))));
    account.tick(6 * DAY - 1);
    assert_eq!(account.until(RateLimited), Some(stated(6 * DAY)));
}

#[test]
fn a_refusal_without_a_stated_end_holds_for_the_cooldown() {
    let mut account = Subject::default();
    account.answer(0, 5, quota_refused(None));
    assert_eq!(account.until(RateLimited), Some(wait(5, 120)));
    assert_eq!(account.hold(RateLimited).map(|hold| hold.stated), Some(Stated::Guessed));
    let mut account = Subject::default();
    let cooldown = Duration::from_secs(300);
    account.hears(0, HealthEvent::SettingsChanged(Settings { cooldown, ..Settings::default() }));
    account.answer(0, 5, quota_refused(None));
    assert_eq!(account.until(RateLimited), Some(wait(5, 300)));
}

/// C20: a moment that is already past is as if nothing were stated: the normal least wait, never a tight loop.
#[test]
fn a_stated_end_that_is_past_counts_as_not_stated() {
    let mut account = Subject::default();
    account.answer(0, 5, quota_refused(Some(stated(-3600))));
    assert_eq!(account.until(RateLimited), Some(wait(5, 120)));
}

#[test]
fn a_new_refusal_never_shortens_a_running_hold() {
    let mut account = Subject::default();
    account.answer(0, 1, quota_refused(Some(stated(HOUR))));
    account.answer(2, 3, quota_refused(Some(stated(60))));
    account.answer(4, 5, quota_refused(None));
    account.answer(6, 7, throttled(Some(30)));
    assert_eq!(account.until(RateLimited), Some(stated(HOUR)));
    account.answer(8, 9, quota_refused(Some(stated(2 * HOUR))));
    assert_eq!(account.until(RateLimited), Some(stated(2 * HOUR)));
}

#[test]
fn a_request_sent_after_the_hold_began_and_served_ends_it() {
    let mut account = Subject::default();
    account.answer(0, 10, quota_refused(Some(stated(HOUR))));
    account.answer(5, 12, Outcome::Served);
    assert!(account.hold(RateLimited).is_some(), "sent before: it says nothing of the refusal");
    account.answer(10, 13, Outcome::Served);
    assert!(account.hold(RateLimited).is_some(), "sent in the same instant: not after");
    account.answer(11, 14, Outcome::Served);
    assert_eq!(account.hold(RateLimited), None);
    assert_eq!(account.told[0], ended(RateLimited, EndedBy::Served));
}

#[test]
fn a_late_success_never_ends_a_newer_hold() {
    let mut account = Subject::default();
    account.answer(0, 10, quota_refused(Some(stated(HOUR))));
    let first = account.hold(RateLimited).map(|hold| hold.episode);
    account.answer(20, 21, quota_refused(Some(stated(HOUR))));
    assert!(account.hold(RateLimited).map(|hold| hold.episode) > first, "refused again: begun anew");
    account.answer(15, 30, Outcome::Served);
    assert!(account.hold(RateLimited).is_some());
}

#[test]
fn parallel_refusals_are_one_episode_of_the_longest_end() {
    let mut account = Subject::default();
    account.answer(0, 10, quota_refused(Some(stated(HOUR))));
    let first = account.hold(RateLimited).expect("it holds");
    account.answer(5, 11, quota_refused(Some(stated(2 * HOUR))));
    let second = account.hold(RateLimited).expect("it holds");
    assert_eq!((second.episode, second.began, second.until), (first.episode, first.began, stated(2 * HOUR)));
}

/// C07: a refusal for one kind of model leaves the others.
#[test]
fn a_scope_refusal_holds_the_scope_alone() {
    let mut account = Subject::default();
    account.answer(0, 1, fable_refused(Some(stated(HOUR))));
    assert_eq!(account.fable_until(), Some(stated(HOUR)));
    assert_eq!(account.hold(RateLimited), None);
    assert_eq!(account.state(2), State::Healthy);
}

#[test]
fn a_success_outside_the_scope_leaves_the_scopes_hold_and_one_inside_ends_both() {
    let mut account = Subject::default();
    account.answer(0, 1, fable_refused(Some(stated(HOUR))));
    account.answer(0, 1, quota_refused(Some(stated(HOUR))));
    account.answer(2, 3, Outcome::Served);
    assert_eq!((account.hold(RateLimited), account.fable_until()), (None, Some(stated(HOUR))));
    account.answer(4, 5, quota_refused(Some(stated(HOUR))));
    account.in_scope(ModelScope::Fable).answer(6, 7, Outcome::Served);
    assert_eq!((account.hold(RateLimited), account.fable_until()), (None, None));
}

#[test]
fn a_newer_observation_below_every_threshold_ends_the_hold() {
    let mut account = Subject::default();
    let both = refused(HoldScope::Account, &["5h", "7d"], Some(stated(HOUR)));
    account.shows(10, both, figures(&[("5h", 0.5), ("7d", 0.5)], HOUR));
    assert!(account.hold(RateLimited).is_some(), "the refusal's own figures are not newer");
    account.hears(20, HealthEvent::UsagePolled(&poll(20, &[("5h", 0.1)], HOUR)));
    assert!(account.hold(RateLimited).is_some(), "one window of two");
    account.hears(30, HealthEvent::UsagePolled(&poll(30, &[("7d", 0.98)], HOUR)));
    assert!(account.hold(RateLimited).is_some(), "at its threshold is not below it");
    account.hears(40, HealthEvent::UsagePolled(&poll(40, &[("7d", 0.97)], HOUR)));
    assert_eq!(account.hold(RateLimited), None);
    assert_eq!(account.told[0], ended(RateLimited, EndedBy::Observation));
}

#[test]
fn a_raised_threshold_counts_at_once() {
    let mut account = Subject::default();
    let thresholds = WindowLimits::all(0.5);
    account.hears(0, HealthEvent::SettingsChanged(Settings { thresholds, ..Settings::default() }));
    account.answer(0, 1, quota_refused(Some(stated(HOUR))));
    account.hears(20, HealthEvent::UsagePolled(&poll(20, &[("5h", 0.6)], HOUR)));
    assert!(account.hold(RateLimited).is_some());
    account.hears(21, HealthEvent::SettingsChanged(Settings::default()));
    assert_eq!(account.hold(RateLimited), None);
}

#[test]
fn an_observation_that_refuses_again_ends_nothing() {
    let mut account = Subject::default();
    account.answer(0, 1, quota_refused(Some(stated(HOUR))));
    let mut again = rejected("5h", HOUR);
    again.windows[0].utilization = Some(0.1);
    account.shows(20, Outcome::Relayed, again);
    assert!(account.hold(RateLimited).is_some());
}

#[test]
fn an_observation_ends_no_hold_that_no_window_explains() {
    for outcome in [throttled(Some(600)), refused(HoldScope::Account, &[], Some(stated(600)))] {
        let mut account = Subject::default();
        account.answer(0, 1, outcome);
        account.hears(20, HealthEvent::UsagePolled(&poll(20, &[("5h", 0.1), ("7d", 0.1)], HOUR)));
        assert!(account.hold(RateLimited).is_some());
    }
    let mut account = Subject::default();
    account.answer(0, 1, refused(HoldScope::Account, &["30d_zz"], Some(stated(600))));
    account.hears(20, HealthEvent::UsagePolled(&poll(20, &[("30d_zz", 0.1)], HOUR)));
    assert!(account.hold(RateLimited).is_some(), "no threshold is set for an unknown window");
}

/// Of a throttle and a window's refusal the one that ends last says what an observation must show.
#[test]
fn a_longer_throttle_keeps_a_hold_that_an_observation_would_end() {
    let mut account = Subject::default();
    account.answer(0, 1, quota_refused(Some(stated(600))));
    account.answer(0, 2, throttled(Some(3600)));
    account.hears(20, HealthEvent::UsagePolled(&poll(20, &[("5h", 0.1)], HOUR)));
    assert_eq!(account.until(RateLimited), Some(wait(2, 3600)));
    let mut account = Subject::default();
    account.answer(0, 1, throttled(Some(60)));
    account.answer(0, 2, quota_refused(Some(stated(600))));
    account.hears(20, HealthEvent::UsagePolled(&poll(20, &[("5h", 0.1)], HOUR)));
    assert_eq!(account.hold(RateLimited), None);
}

#[test]
fn a_short_stated_throttle_is_a_breather_and_no_hold() {
    let mut account = Subject::default();
    account.answer(0, 1, throttled(Some(10)));
    assert_eq!(account.standing(2).breather, Some(wait(1, 10)));
    assert_eq!((account.hold(RateLimited), account.state(2)), (None, State::Healthy));
    account.answer(2, 3, throttled(Some(2)));
    assert_eq!(account.standing(3).breather, Some(wait(1, 10)), "a shorter one leaves the longer");
    account.tick(11);
    assert_eq!(account.standing(11).breather, None);
}

#[test]
fn a_longer_stated_throttle_holds_that_long_and_leaves_the_figures() {
    let mut account = Subject::default();
    account.shows(0, Outcome::Served, figures(&[("5h", 0.3)], HOUR));
    let before = account.health.quota().clone();
    account.answer(0, 1, throttled(Some(11)));
    let hold = account.hold(RateLimited).expect("it holds");
    assert_eq!((hold.cause, hold.until, hold.stated), (Cause::Throttled, wait(1, 11), Stated::ByProvider));
    assert_eq!(account.health.quota(), &before);
    account.answer(2, 3, throttled(Some(7200)));
    assert_eq!(account.until(RateLimited), Some(wait(3, 7200)), "however long");
}

/// C03, C21: a bare 429 leaves a mark of a few seconds, longer each time it comes again, a minute at most.
#[test]
fn bare_throttles_climb_a_ladder() {
    let mut account = Subject::default();
    let mut now = 0;
    for seconds in [5, 15, 30, 60, 60] {
        account.answer(now, now, throttled(None));
        assert_eq!(account.until(RateLimited), Some(wait(now, seconds)));
        now += seconds + 1;
        account.tick(now);
    }
    now += 60;
    account.answer(now, now, throttled(None));
    assert_eq!(account.until(RateLimited), Some(wait(now, 5)), "a quiet minute later it begins anew");
}

#[test]
fn parallel_bare_throttles_are_one() {
    let mut account = Subject::default();
    for n in 0..8 {
        account.answer(0, 1 + n % 3, throttled(None));
    }
    assert_eq!(account.until(RateLimited), Some(wait(1, 5)));
}
