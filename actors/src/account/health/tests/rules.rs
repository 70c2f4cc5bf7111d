//! One rule, one sentence.

use super::*;
use HoldKind::{AuthDead, BudgetExhausted, Erroring, RateLimited};

const BROKEN: Close = Close::Broken;

// Quota refusals.

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

fn ended(hold: HoldKind, by: EndedBy) -> EventKind {
    EventKind::HoldEnded { hold, scope: HoldScope::Account, by }
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

// Throttles.

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

// Refused credentials.

/// C09: an organisation's refusal is shown as what it is, and holds the account.
#[test]
fn a_refusal_by_the_organisation_is_an_auth_hold_of_its_own_cause() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::OrgRefused);
    assert_eq!(account.hold(AuthDead).map(|hold| hold.cause), Some(Cause::OrgDisabled));
    assert_eq!(account.state(2), State::AuthDead);
    assert!(account.standing(2).is_out_by_auth(at(2)));
}

#[test]
fn each_strike_doubles_the_auth_hold_up_to_six_hours() {
    let mut account = Subject::default();
    let mut now = 0;
    for minutes in [15, 30, 60, 120, 240, 360, 360] {
        account.answer(now, now, Outcome::Unauthorized);
        assert_eq!(account.until(AuthDead), Some(wait(now, minutes * MINUTE)));
        now += minutes * MINUTE + 1;
        account.tick(now);
    }
    assert_eq!(account.health.strikes(), 7);
}

#[test]
fn parallel_refusals_of_a_credential_are_one_strike() {
    let mut account = Subject::default();
    account.answer(0, 10, Outcome::Unauthorized);
    for sent in [0, 5, 9, 10] {
        account.answer(sent, 11, Outcome::Unauthorized);
    }
    assert_eq!((account.health.strikes(), account.until(AuthDead)), (1, Some(wait(10, 15 * MINUTE))));
    account.answer(8, 20 * MINUTE, Outcome::Unauthorized);
    assert_eq!((account.health.strikes(), account.hold(AuthDead)), (1, None), "even if it comes after the hold");
}

#[test]
fn a_refusal_during_the_hold_adds_no_strike() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unauthorized);
    account.answer(5, 6, Outcome::Unauthorized);
    let probe = HealthEvent::Probed { verdict: Verdict::InvalidToken, generation: Generation(0), sent_at: at(7) };
    account.hears(8, probe);
    assert_eq!((account.health.strikes(), account.until(AuthDead)), (1, Some(wait(1, 15 * MINUTE))));
}

#[test]
fn an_ended_auth_hold_leaves_the_account_on_trial_until_it_serves() {
    let mut account = Subject::default();
    account.answer(0, 0, Outcome::Unauthorized);
    assert!(account.standing(900).is_on_trial(at(900)), "even before the machine was told");
    account.tick(900);
    assert_eq!(
        account.told,
        vec![
            ended(AuthDead, EndedBy::Time),
            EventKind::TrialBegan,
            EventKind::StateChanged { from: State::AuthDead, to: State::Healthy },
        ]
    );
    assert!(account.standing(900).on_trial);
    assert!(!account.standing(900).is_out_by_auth(at(900)));
    assert_eq!(account.health.strikes(), 1, "strikes are kept");
    account.answer(901, 902, Outcome::Served);
    assert!(!account.standing(902).on_trial);
    account.answer(903, 904, Outcome::Unauthorized);
    assert_eq!(account.until(AuthDead), Some(wait(904, 15 * MINUTE)), "healed: it counts from one again");
}

#[test]
fn a_late_success_heals_no_newer_refusal() {
    let mut account = Subject::default();
    account.answer(5, 10, Outcome::Unauthorized);
    account.answer(4, 11, Outcome::Served);
    assert!(account.hold(AuthDead).is_some());
    account.tick(10 + 900);
    account.answer(6, 911, Outcome::Served);
    assert!(account.standing(911).on_trial);
}

#[test]
fn a_valid_probe_ends_auth_and_connection_holds_and_nothing_else() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unauthorized);
    account.answer(0, 1, quota_refused(Some(stated(HOUR))));
    account.answer(0, 1, Outcome::BalanceEmpty);
    account.answer(2, 3, Outcome::Unreachable { connecting: true });
    account.answer(2, 4, Outcome::Unreachable { connecting: true });
    let probe = |sent| HealthEvent::Probed { verdict: Verdict::Valid, generation: Generation(0), sent_at: at(sent) };
    account.hears(5, probe(0));
    assert!(account.hold(AuthDead).is_some(), "asked before the refusal");
    account.hears(7, probe(6));
    let left = account.standing(7).holds.iter().map(|hold| hold.kind).collect::<Vec<_>>();
    assert_eq!(left, vec![RateLimited, BudgetExhausted]);
    account.answer(8, 9, Outcome::Unreachable { connecting: true });
    assert_eq!(account.until(Erroring), Some(wait(9, 60)), "only a served request resets the doubling");
}

#[test]
fn a_probe_does_not_end_a_back_off_that_the_provider_caused() {
    for outcome in [server_fault(Some(60)), server_fault(None)] {
        let mut account = Subject::default();
        account.answer(0, 1, outcome.clone());
        account.answer(0, 1, outcome);
        let probe = HealthEvent::Probed { verdict: Verdict::Valid, generation: Generation(0), sent_at: at(2) };
        account.hears(3, probe);
        assert!(account.hold(Erroring).is_some());
    }
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unreachable { connecting: true });
    account.answer(0, 1, Outcome::Unreachable { connecting: true });
    account.answer(2, 3, server_fault(None));
    let probe = HealthEvent::Probed { verdict: Verdict::Valid, generation: Generation(0), sent_at: at(4) };
    account.hears(5, probe);
    assert!(account.hold(Erroring).is_some(), "of several causes one is not the connection");
}

#[test]
fn an_undecided_probe_changes_nothing() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided });
    let before = account.health.clone();
    let probe = HealthEvent::Probed { verdict: Verdict::Undecided, generation: Generation(1), sent_at: at(1) };
    assert_eq!(account.hears(2, probe), Vec::new());
    assert_eq!(account.health, before);
}

#[test]
fn a_served_request_or_a_valid_probe_verifies_a_credential() {
    for verdict in [None, Some(Verdict::Valid)] {
        let mut account = Subject { generation: Generation(1), ..Subject::default() };
        account.hears(0, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Undecided });
        assert!(account.standing(0).unverified);
        match verdict {
            None => drop(account.answer(1, 2, Outcome::Served)),
            Some(verdict) => {
                drop(account.hears(2, HealthEvent::Probed { verdict, generation: Generation(1), sent_at: at(1) }));
            }
        }
        assert!(!account.standing(2).unverified);
    }
}

// Back-off.

#[test]
fn one_failure_is_a_strike_and_a_second_within_a_minute_begins_the_back_off() {
    for (second, expected) in [(60, Some(wait(60, 30))), (61, None)] {
        let mut account = Subject::default();
        account.answer(0, 0, server_fault(None));
        assert_eq!(account.hold(Erroring), None);
        account.answer(second, second, Outcome::Blank);
        assert_eq!(account.until(Erroring), expected);
    }
}

#[test]
fn a_success_between_two_failures_forgives_the_first() {
    let mut account = Subject::default();
    account.answer(0, 0, server_fault(None));
    account.answer(1, 2, Outcome::Served);
    account.answer(3, 4, server_fault(None));
    assert_eq!(account.hold(Erroring), None);
}

#[test]
fn every_kind_of_failure_counts() {
    let failures = [
        (server_fault(None), Cause::Overloaded),
        (Outcome::ServerFault { cause: Cause::ServerError, wait: None }, Cause::ServerError),
        (Outcome::Unreachable { connecting: true }, Cause::Network),
        (Outcome::Unreachable { connecting: false }, Cause::Network),
        (Outcome::HeadTimeout { streaming: true }, Cause::Timeout),
        (Outcome::Blank, Cause::Blank),
    ];
    for (outcome, cause) in failures {
        let mut account = Subject::default();
        account.answer(0, 0, outcome.clone());
        account.answer(1, 1, outcome);
        assert_eq!(account.hold(Erroring).map(|hold| hold.cause), Some(cause));
    }
}

/// C08: an overloaded provider that states its wait rests the account that long; it is not out of quota.
#[test]
fn a_stated_wait_begins_the_back_off_at_once_and_wins() {
    let mut account = Subject::default();
    account.answer(0, 1, server_fault(Some(20)));
    let hold = account.hold(Erroring).expect("it holds");
    assert_eq!((hold.until, hold.stated), (wait(1, 20), Stated::ByProvider));
    assert_eq!(account.state(2), State::Erroring);
    let mut account = Subject::default();
    account.answer(0, 1, server_fault(Some(7200)));
    assert_eq!(account.until(Erroring), Some(wait(1, 7200)), "longer than any guess");
}

#[test]
fn the_back_off_doubles_per_failure_up_to_a_quarter_of_an_hour() {
    let mut account = Subject::default();
    account.answer(0, 0, server_fault(None));
    let mut now = 1;
    for seconds in [30, 60, 120, 240, 480, 900, 900] {
        account.answer(now, now, server_fault(None));
        assert_eq!(account.until(Erroring), Some(wait(now, seconds)));
        now += seconds + 1;
        account.tick(now);
    }
    account.answer(now, now + 1, Outcome::Served);
    account.answer(now + 2, now + 2, server_fault(None));
    assert_eq!(account.hold(Erroring), None, "served: it counts from the first again");
}

#[test]
fn parallel_failures_double_nothing() {
    let mut account = Subject::default();
    for _ in 0..20 {
        account.answer(0, 1, server_fault(None));
    }
    assert_eq!(account.until(Erroring), Some(wait(1, 30)));
    account.answer(0, 40, server_fault(None));
    assert_eq!(account.hold(Erroring), None, "nor one that comes after the hold");
    account.answer(41, 41, server_fault(None));
    assert_eq!(account.until(Erroring), Some(wait(41, 60)));
}

#[test]
fn a_failure_during_the_back_off_doubles_it() {
    let mut account = Subject::default();
    account.answer(0, 1, server_fault(None));
    account.answer(0, 1, server_fault(None));
    account.answer(5, 6, server_fault(None));
    assert_eq!(account.until(Erroring), Some(wait(6, 60)));
}

#[test]
fn only_a_request_sent_after_the_back_off_began_ends_it_and_resets_the_doubling() {
    let mut account = Subject::default();
    account.answer(5, 10, server_fault(None));
    account.answer(5, 10, server_fault(None));
    account.answer(6, 11, Outcome::Served);
    assert!(account.hold(Erroring).is_some());
    account.tick(41);
    account.answer(7, 42, Outcome::Served);
    account.answer(43, 43, server_fault(None));
    assert_eq!(account.until(Erroring), Some(wait(43, 60)));
    account.answer(44, 45, Outcome::Served);
    assert_eq!(account.hold(Erroring), None);
}

/// C44: connect time-outs are no quota; the account's own hold stays what it is.
#[test]
fn an_outage_of_the_network_leaves_a_quota_hold_as_it_is() {
    let mut account = Subject::default();
    account.answer(0, 0, quota_refused(Some(stated(HOUR))));
    let before = account.hold(RateLimited);
    for second in 1..120 {
        account.answer(second, second, Outcome::Unreachable { connecting: true });
    }
    assert_eq!(account.hold(RateLimited), before);
    account.answer(1000, 1001, Outcome::Served);
    assert_eq!(account.state(1001), State::Healthy);
}

/// C56: an error as the first event is no success, and repeated ones back off.
#[test]
fn an_error_event_after_the_head_counts_as_what_it_means() {
    let mut account = Subject::default();
    for sent in [0, 1] {
        account.ends(sent, sent, Close::ErrorEvent(server_fault(None)));
    }
    assert_eq!(account.until(Erroring), Some(wait(1, 30)));
    let mut account = Subject::default();
    account.ends(0, 1, Close::ErrorEvent(quota_refused(Some(stated(HOUR)))));
    assert_eq!(account.until(RateLimited), Some(stated(HOUR)));
    account.ends(2, 3, Close::ErrorEvent(Outcome::Served));
    assert!(account.hold(RateLimited).is_some(), "an error event is never a success");
}

#[test]
fn a_broken_body_is_a_failure_of_the_network() {
    let mut account = Subject::default();
    account.ends(0, 1, BROKEN);
    account.ends(0, 2, BROKEN);
    assert_eq!(account.hold(Erroring).map(|hold| hold.cause), Some(Cause::Network));
}

// What teaches nothing.

/// C05: what is the request's own affair holds nobody.
#[test]
fn client_errors_and_hang_ups_make_no_transition_and_end_no_hold() {
    let mut account = Subject::default();
    for outcome in [quota_refused(Some(stated(HOUR))), Outcome::BalanceEmpty, Outcome::Unauthorized] {
        account.answer(0, 1, outcome);
    }
    account.answer(0, 1, server_fault(Some(600)));
    for mut account in [account, Subject::default()] {
        account.tick(2);
        let before = account.health.clone();
        for outcome in [Outcome::Relayed, Outcome::Abandoned, Outcome::HeadTimeout { streaming: false }] {
            assert_eq!(account.answer(3, 4, outcome), Vec::new());
        }
        for close in [Close::Complete, Close::Stalled, Close::ClientGone] {
            account.ends(3, 5, close);
        }
        assert_eq!(account.health, before);
    }
}

#[test]
fn quota_headers_of_a_relayed_answer_count() {
    let mut account = Subject::default();
    account.shows(1, Outcome::Relayed, figures(&[("5h", 0.7)], HOUR));
    assert_eq!(account.health.quota().remaining(ModelScope::Base, at(1)), 1.0 - 0.7);
}

/// C73: a failing side call holds nobody; what it says of quota and credential counts.
#[test]
fn a_call_beside_inference_teaches_quota_and_credential_alone() {
    let harmless = [
        Outcome::Served,
        quota_refused(None),
        throttled(None),
        throttled(Some(5)),
        throttled(Some(600)),
        Outcome::BalanceEmpty,
        server_fault(Some(600)),
        Outcome::Unreachable { connecting: true },
        Outcome::HeadTimeout { streaming: true },
        Outcome::Blank,
    ];
    for outcome in harmless {
        let mut account = Subject { call: CallKind::Side, ..Subject::default() };
        account.answer(0, 1, outcome.clone());
        account.answer(2, 3, outcome.clone());
        account.ends(2, 4, Close::ErrorEvent(outcome));
        account.ends(2, 4, BROKEN);
        assert_eq!(account.health, Subject::default().health);
    }
    let mut account = Subject { call: CallKind::Side, ..Subject::default() };
    account.shows(1, Outcome::Relayed, figures(&[("5h", 0.7)], HOUR));
    assert!(account.health.quota().remaining(ModelScope::Base, at(1)) < 0.5);
    account.answer(2, 3, Outcome::Unauthorized);
    assert_eq!(account.state(3), State::AuthDead);
}

// Generations.

#[test]
fn evidence_of_an_older_credential_is_ignored() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Passed });
    let before = account.health.clone();
    account.shows(1, Outcome::Unauthorized, rejected("5h", HOUR));
    account.answer(1, 2, quota_refused(Some(stated(HOUR))));
    account.ends(1, 3, BROKEN);
    account.ends(1, 3, BROKEN);
    account.hears(4, HealthEvent::UsagePolled(&poll(4, &[("5h", 1.0)], HOUR)));
    let probe = HealthEvent::Probed { verdict: Verdict::OrgRefused, generation: Generation(0), sent_at: at(1) };
    account.hears(5, probe);
    assert_eq!(account.health, before);
}

/// C43: after a new login the old figures keep nobody out; what the provider stated does.
#[test]
fn a_new_credential_ends_auth_holds_and_forgets_figures_and_keeps_the_rest() {
    let mut account = Subject::default();
    account.shows(0, quota_refused(Some(stated(HOUR))), rejected("5h", HOUR));
    account.answer(0, 1, Outcome::BalanceEmpty);
    account.answer(0, 1, Outcome::Unauthorized);
    account.answer(0, 1, server_fault(Some(600)));
    account.hears(2, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Passed });
    let left = account.standing(2).holds.iter().map(|hold| hold.kind).collect::<Vec<_>>();
    assert_eq!(left, vec![Erroring, RateLimited, BudgetExhausted]);
    assert_eq!(account.health.strikes(), 0);
    assert!(!account.health.quota().rejected(ModelScope::Base, at(2)));
    assert_eq!(account.health.quota().remaining(ModelScope::Base, at(2)), 1.0);
}

#[test]
fn a_new_credential_ends_a_trial() {
    let mut account = Subject::default();
    account.answer(0, 0, Outcome::Unauthorized);
    account.tick(900);
    account.hears(901, HealthEvent::CredentialRenewed { generation: Generation(1), check: Check::Passed });
    assert_eq!((account.standing(901).on_trial, account.health.strikes()), (false, 0));
}

#[test]
fn evidence_of_a_newer_credential_tells_that_it_was_renewed() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unauthorized);
    account.generation = Generation(3);
    account.answer(2, 3, Outcome::Served);
    assert_eq!((account.health.generation(), account.state(3)), (Generation(3), State::Healthy));
}

// The secret and the refresh grant.

#[test]
fn a_broken_secret_is_the_gravest_until_its_source_reads_again() {
    let mut account = Subject::default();
    account.answer(0, 1, Outcome::Unauthorized);
    account.hears(2, HealthEvent::CredentialBroke { cause: Cause::Undecryptable });
    assert_eq!(account.state(2), State::Broken);
    account.hears(3, HealthEvent::CredentialBroke { cause: Cause::Undecryptable });
    assert_eq!(account.told, Vec::new(), "the same again is no news");
    account.hears(4, HealthEvent::CredentialRead { generation: Generation(0) });
    assert_eq!(account.state(4), State::AuthDead, "the other holds are untouched");
    account.hears(5, HealthEvent::CredentialBroke { cause: Cause::Empty });
    account.hears(6, HealthEvent::CredentialRead { generation: Generation(1) });
    assert_eq!(account.state(6), State::Healthy, "a new secret was read");
}

#[test]
fn an_account_whose_grant_is_gone_serves_while_its_access_token_lives() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::GrantLost { access_until: stated(HOUR) });
    assert_eq!(account.told, vec![EventKind::LoginNeeded]);
    assert_eq!((account.state(1), account.standing(1).is_out_by_auth(at(1))), (State::Healthy, false));
    assert_eq!(account.health.next_deadline(at(1)), Some(stated(HOUR)));
    assert!(account.standing(HOUR).is_out_by_auth(at(HOUR)));
    account.tick(HOUR);
    assert_eq!(account.health.next_deadline(at(HOUR)), None, "told once");
    account.hears(HOUR + 1, HealthEvent::GrantRegained);
    assert!(!account.standing(HOUR + 1).is_out_by_auth(at(HOUR + 1)));
}

// Money.

#[test]
fn our_budget_holds_for_a_day_or_until_the_next_cycle() {
    for (cycle, expected) in [(30 * DAY, wait(1, DAY)), (HOUR, stated(HOUR))] {
        let mut account = Subject::default();
        account.hears(1, HealthEvent::BudgetReached { cycle_ends: stated(cycle) });
        let hold = account.hold(BudgetExhausted).expect("it holds");
        assert_eq!((hold.cause, hold.until), (Cause::Budget, expected));
    }
}

#[test]
fn a_budget_that_is_still_over_holds_again_after_its_day() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::BudgetReached { cycle_ends: stated(30 * DAY) });
    account.hears(HOUR, HealthEvent::BudgetReached { cycle_ends: stated(30 * DAY) });
    assert_eq!(account.until(BudgetExhausted), Some(wait(0, DAY)));
    account.tick(DAY);
    assert_eq!(account.hold(BudgetExhausted), None);
    account.hears(DAY, HealthEvent::BudgetReached { cycle_ends: stated(30 * DAY) });
    assert_eq!(account.until(BudgetExhausted), Some(wait(DAY, DAY)));
}

#[test]
fn a_raised_cap_ends_our_hold_and_not_the_providers() {
    let mut account = Subject::default();
    account.answer(0, 0, Outcome::BalanceEmpty);
    account.hears(0, HealthEvent::BudgetReached { cycle_ends: stated(HOUR) });
    account.hears(1, HealthEvent::BudgetRaised);
    let hold = account.hold(BudgetExhausted).expect("the balance is still empty");
    assert_eq!((hold.cause, hold.until), (Cause::Balance, wait(0, DAY)));
    account.answer(2, 3, Outcome::Served);
    assert!(account.hold(BudgetExhausted).is_some(), "a served request says nothing of the balance");
    account.hears(4, HealthEvent::Cleared);
    assert_eq!(account.hold(BudgetExhausted), None);
}

#[test]
fn of_two_money_holds_the_longer_is_shown() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::BudgetReached { cycle_ends: stated(30 * DAY) });
    account.answer(9, 10, Outcome::BalanceEmpty);
    assert_eq!(account.hold(BudgetExhausted).map(|hold| hold.cause), Some(Cause::Balance));
    let mut account = Subject::default();
    account.answer(0, 0, Outcome::BalanceEmpty);
    account.hears(10, HealthEvent::BudgetReached { cycle_ends: stated(30 * DAY) });
    assert_eq!(account.hold(BudgetExhausted).map(|hold| hold.cause), Some(Cause::Budget));
}

// The operator.

#[test]
fn clear_ends_quota_and_budget_holds_and_forgets_their_figures() {
    let mut account = Subject::default();
    account.shows(0, quota_refused(Some(stated(HOUR))), rejected("5h", HOUR));
    account.answer(0, 0, fable_refused(Some(stated(HOUR))));
    account.answer(0, 0, throttled(Some(9)));
    account.hears(0, HealthEvent::BudgetReached { cycle_ends: stated(HOUR) });
    account.answer(0, 0, Outcome::Unauthorized);
    account.answer(0, 0, server_fault(Some(600)));
    account.hears(1, HealthEvent::Cleared);
    let left = account.standing(1).holds.iter().map(|hold| hold.kind).collect::<Vec<_>>();
    assert_eq!(left, vec![Erroring, AuthDead], "what a check or a served request must show stays");
    assert_eq!((account.fable_until(), account.standing(1).breather), (None, None));
    assert!(!account.health.quota().rejected(ModelScope::Base, at(1)));
}

#[test]
fn a_paused_account_stays_paused_and_is_told_once() {
    let mut account = Subject::default();
    account.hears(0, HealthEvent::Paused);
    assert_eq!(account.told, vec![EventKind::Paused]);
    assert_eq!(account.hears(1, HealthEvent::Paused), Vec::new());
    account.answer(2, 3, Outcome::Served);
    assert_eq!(account.standing(3).paused, Paused::Yes);
    account.hears(4, HealthEvent::Resumed);
    assert_eq!(account.standing(4).paused, Paused::No);
}

// The shown state, effects, time.

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
