//! Back-off, and what teaches nothing.

use super::*;

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
    account.ends(0, 1, Close::Broken);
    account.ends(0, 2, Close::Broken);
    assert_eq!(account.hold(Erroring).map(|hold| hold.cause), Some(Cause::Network));
}

#[test]
fn a_stream_that_breaks_was_no_success_between_two_failures() {
    for (second, expected) in [(60, Some(wait(60, 30))), (61, None)] {
        let mut account = Subject::default();
        account.streams(1, 0, 0);
        account.streams(2, second - 1, second);
        assert_eq!(account.until(Erroring), expected);
    }
    let mut account = Subject::default();
    account.streams(1, 0, 1);
    account.answer(2, 2, Outcome::Served);
    account.streams(2, 3, 4);
    assert_eq!(account.hold(Erroring), None, "another success came between");
}

#[test]
fn a_success_that_came_while_a_stream_was_on_its_way_counts_when_it_breaks() {
    let mut account = Subject::default();
    account.streams(1, 0, 1);
    account.lease = LeaseId(2);
    account.answer(2, 3, Outcome::Served);
    account.lease = LeaseId(3);
    account.answer(3, 4, Outcome::Served);
    account.lease = LeaseId(2);
    account.ends(2, 5, Close::Broken);
    assert_eq!(account.hold(Erroring), None);
    account.lease = LeaseId(3);
    account.ends(3, 6, Close::Broken);
    assert_eq!(account.until(Erroring), Some(wait(6, 30)), "nothing was served between these two");
}

#[test]
fn a_stream_that_breaks_does_not_reset_the_doubling() {
    let mut account = Subject::default();
    account.streams(1, 0, 1);
    account.streams(2, 2, 3);
    account.tick(40);
    account.streams(3, 41, 42);
    assert_eq!(account.until(Erroring), Some(wait(42, 60)));
    account.streams(4, 50, 51);
    assert_eq!(account.until(Erroring), Some(wait(51, 120)), "its beginning ended the hold, its end renews it");
    account.tick(200);
    account.streams(5, 200, 261);
    assert_eq!(account.hold(Erroring), None, "a minute of a stream is a success");
}

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
        account.ends(2, 4, Close::Broken);
        assert_eq!(account.health, Subject::default().health);
    }
    let mut account = Subject { call: CallKind::Side, ..Subject::default() };
    account.shows(1, Outcome::Relayed, figures(&[("5h", 0.7)], HOUR));
    assert!(account.health.quota().remaining(ModelScope::Base, at(1)) < 0.5);
    account.answer(2, 3, Outcome::Unauthorized);
    assert_eq!(account.state(3), State::AuthDead);
}
