//! What is said when nothing can serve.

use super::world::*;
use crate::clock::Deadline;
use crate::failover::demand::{CapsOnly, Decision, Demand, Reason, Remedy, Step, Why};
use crate::id::Window;
use crate::outcome::{Cause, Outcome};
use crate::roster::Switch;
use crate::standing::{CredentialState, HoldKind, Paused, Stated};

/// C11: a pool of one whose token is refused and one that waits for its quota.
#[test]
fn the_answer_says_which_need_a_login_and_which_wait_until_when() {
    let mut desk = Desk::of(2);
    let until = Deadline::Wall(at(7999.0).wall);
    let hold = hold(HoldKind::RateLimited, Cause::Quota, t0(), until, Stated::ByProvider);
    desk.tell(1, t0(), |s| s.holds = vec![hold]);
    let (first, guard) = desk.grant(&demand(), t0());
    assert_eq!(first.account, id(0));
    drop(guard);
    let exhausted = desk.refuse(&next(&demand(), &first, 1, Outcome::Unauthorized, t0()), t0());
    let whys: Vec<_> = exhausted.reasons.iter().map(|r| r.why.clone()).collect();
    let held = Why::Held { cause: Cause::Quota, until, stated: Stated::ByProvider };
    assert_eq!(whys, [Why::NeedsPerson(Cause::InvalidToken), held]);
    let wait = Remedy::Wait { until: Some(until), stated: Stated::ByProvider, caps_only: CapsOnly::No };
    assert_eq!(exhausted.remedy, wait);
}

/// C09: an organisation that refuses is not asked again by the next requests.
#[test]
fn a_refusing_organisation_is_left_alone_from_the_next_choice_on() {
    let mut desk = Desk::of(2);
    let (first, guard) = desk.grant(&demand(), t0());
    guard.sent();
    drop(guard);
    desk.serve(&next(&demand(), &first, 1, Outcome::OrgRefused, t0()), t0());
    for _ in 0..4 {
        assert_ne!(desk.serve(&demand(), at(1.0)).account, first.account);
    }
}

#[test]
fn only_a_person_can_help_where_all_need_a_login() {
    let mut desk = Desk::of(3);
    desk.tell(0, t0(), |s| s.credential = CredentialState::NeedsLogin { access_until: after(0) });
    desk.tell(1, t0(), |s| s.credential = CredentialState::Broken(Cause::Undecryptable));
    desk.tell(2, t0(), |s| s.paused = Paused::Yes);
    assert_eq!(desk.refuse(&demand(), t0()).remedy, Remedy::Person);
}

#[test]
fn an_unknown_upstream_and_an_empty_one_need_a_person() {
    let mut fleet = roster(0);
    let mut desk = Desk::new(&fleet);
    assert_eq!(desk.refuse(&demand(), t0()).remedy, Remedy::Person);
    fleet.upstreams.clear();
    desk.machine.reload(&fleet, t0());
    assert_eq!(desk.refuse(&demand(), t0()).remedy, Remedy::Person);
}

#[test]
fn the_soonest_return_decides_between_waiting_and_backing_off() {
    let mut desk = Desk::of(2);
    desk.tell(0, t0(), |s| s.holds = vec![limited(t0(), 100)]);
    desk.tell(1, t0(), |s| s.holds = vec![erroring(t0(), 50)]);
    assert_eq!(desk.refuse(&demand(), at(0.5)).remedy, Remedy::BackOff { until: after(50) });
    desk.tell(1, t0(), |s| s.holds = vec![erroring(t0(), 150)]);
    let Remedy::Wait { until, .. } = desk.refuse(&demand(), at(0.5)).remedy else { panic!("a wait") };
    assert_eq!(until, Some(after(100)));
}

#[test]
fn a_guessed_return_is_said_to_be_a_guess() {
    let mut desk = Desk::of(1);
    let guessed = hold(HoldKind::RateLimited, Cause::Quota, t0(), after(120), Stated::Guessed);
    desk.tell(0, t0(), |s| s.holds = vec![guessed]);
    let wait = Remedy::Wait { until: Some(after(120)), stated: Stated::Guessed, caps_only: CapsOnly::No };
    assert_eq!(desk.refuse(&demand(), at(0.5)).remedy, wait);
}

#[test]
fn caps_alone_are_told_with_the_soonest_return() {
    let mut fleet = roster(4);
    for n in 0..3 {
        fleet.accounts.get_mut(&id(n)).unwrap().caps.five_hour = Some(0.5);
    }
    fleet.accounts.get_mut(&id(2)).unwrap().switch = Switch::Off;
    let mut desk = Desk::new(&fleet);
    for n in 0..3 {
        desk.tell(n, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.6, 900 - i64::from(n) * 100)]));
    }
    desk.tell(3, t0(), |s| s.credential = CredentialState::Broken(Cause::Empty));
    let until = Some(Deadline::Wall(at(800.0).wall));
    let wait = |caps_only| Remedy::Wait { until, stated: Stated::ByProvider, caps_only };
    assert_eq!(desk.refuse(&demand(), t0()).remedy, wait(CapsOnly::Yes));
    desk.tell(3, t0(), |s| s.holds = vec![limited(t0(), 9000)]);
    assert_eq!(desk.refuse(&demand(), t0()).remedy, wait(CapsOnly::No), "a held one is still selectable");
    assert_eq!(desk.look(&demand(), at(801.0)), 1, "it returns by its reset");
}

#[test]
fn an_attempt_that_left_no_hold_is_what_the_answer_is_made_of() {
    let mut desk = Desk::of(1);
    let (first, guard) = desk.grant(&demand(), t0());
    guard.sent();
    drop(guard);
    let exhausted = desk.refuse(&next(&demand(), &first, 1, fault(), t0()), t0());
    assert_eq!((exhausted.remedy, &exhausted.reasons[0].why), (Remedy::Spent { returns: None }, &Why::Tried));
}

/// One was tried and is open to others all the same: the request is spent, and knows when the others return.
#[test]
fn a_spent_request_is_told_when_the_soonest_of_the_others_returns() {
    let mut desk = Desk::of(4);
    desk.tell(0, t0(), |s| s.holds = vec![limited(t0(), 900)]);
    desk.tell(1, t0(), |s| s.holds = vec![erroring(t0(), 30)]);
    desk.tell(2, t0(), |s| s.credential = CredentialState::Broken(Cause::Empty));
    let (first, guard) = desk.grant(&demand(), at(0.5));
    guard.sent();
    drop(guard);
    let failed = next(&demand(), &first, 1, fault(), at(0.5));
    let exhausted = desk.refuse(&failed, at(0.5));
    assert_eq!(exhausted.remedy, Remedy::Spent { returns: Some(after(30)) });
    desk.tell(1, at(0.6), |s| s.holds = vec![erroring(t0(), 1200)]);
    assert_eq!(desk.refuse(&failed, at(0.6)).remedy, Remedy::Spent { returns: Some(after(900)) });
    desk.tell(3, at(0.7), |s| s.holds = vec![erroring(t0(), 60)]);
    assert_eq!(desk.refuse(&failed, at(0.7)).remedy, Remedy::BackOff { until: after(60) }, "now all are out");
}

#[test]
fn the_last_answer_counts_at_once_until_the_account_has_spoken() {
    let mut desk = Desk::of(2);
    let (first, guard) = desk.grant(&demand(), t0());
    guard.sent();
    drop(guard);
    desk.serve(&next(&demand(), &first, 5, refusal(Some(after(600))), t0()), t0());
    for _ in 0..3 {
        assert_ne!(desk.serve(&demand(), t0()).account, first.account);
    }
    desk.tell(first.account.0, t0(), |s| s.applied = crate::id::EvidenceSeq(4));
    assert_ne!(desk.look(&demand(), t0()), first.account.0, "this one has not heard of it yet");
    desk.tell(first.account.0, t0(), |s| s.applied = crate::id::EvidenceSeq(5));
    assert_eq!(desk.look(&demand(), t0()), first.account.0, "the account's own word counts");
}

#[test]
fn evidence_of_an_older_credential_is_ignored() {
    let mut desk = Desk::of(2);
    desk.tell(0, t0(), |s| s.generation = crate::id::Generation(2));
    let old = Demand {
        last: Some(last(id(0), 9, Outcome::Unauthorized, t0())),
        tried: vec![id(1)],
        step: Step::Next,
        ..demand()
    };
    assert!(matches!(desk.ask(&old, t0()), Decision::Granted(grant) if grant.account == id(0)));
}

#[test]
fn only_what_passes_by_itself_returns() {
    let mut desk = Desk::of(4);
    desk.tell(0, t0(), |s| s.holds = vec![limited(t0(), 900)]);
    desk.tell(1, t0(), |s| s.breather = Some(after(7)));
    desk.tell(2, t0(), |s| {
        s.holds = vec![hold(HoldKind::AuthDead, Cause::InvalidToken, t0(), after(900), Stated::Guessed)];
    });
    desk.tell(3, t0(), |s| s.paused = Paused::Yes);
    let returns: Vec<_> = desk.refuse(&demand(), at(0.5)).reasons.iter().map(Reason::returns_at).collect();
    assert_eq!(returns, [Some(after(900)), Some(after(7)), None, None]);
}
