//! What a stop and a start leave of a health.

use super::*;

/// Everything at once: a stated end, waits, a ladder, strikes, flags, figures.
fn loaded() -> Subject {
    let mut account = Subject::default();
    account.shows(0, quota_refused(Some(stated(2 * HOUR))), rejected("5h", 2 * HOUR));
    account.answer(0, 0, fable_refused(Some(stated(3 * HOUR))));
    account.answer(0, 0, server_fault(Some(600)));
    account.answer(0, 0, Outcome::Unauthorized);
    account.answer(0, 0, Outcome::BalanceEmpty);
    account.hears(0, HealthEvent::Paused);
    account
}

fn restart(account: &Subject, saved: Timestamp, now: Timestamp) -> Health {
    let kept = serde_json::to_string(&Snapshot::take(&account.health, saved)).expect("a health can be kept");
    let read: Snapshot = serde_json::from_str(&kept).expect("a kept health reads back");
    read.restore(AccountId(7), Settings::default(), now).expect("of this version")
}

/// A machine that was started anew: its steady clock counts from zero again.
fn rebooted(seconds: i64) -> Timestamp {
    Timestamp { wall: wall(seconds), boot: Boot(20_000) }
}

fn left(health: &Health, kind: HoldKind, now: Timestamp) -> Option<Duration> {
    let standing = health.standing(0, EvidenceSeq(0), now);
    standing.holds.iter().find(|hold| hold.kind == kind).map(|hold| hold.until.remaining(now))
}

#[test]
fn a_health_reads_back_as_it_was_kept() {
    let account = loaded();
    assert_eq!(restart(&account, at(1), at(1)), account.health);
}

#[test]
fn another_version_is_refused_with_both_numbers() {
    let kept = serde_json::to_value(Snapshot::take(&loaded().health, at(0))).expect("a health can be kept");
    let mut kept = kept;
    kept["version"] = 9.into();
    let read: Snapshot = serde_json::from_value(kept).expect("the shape is the same");
    let error = read.restore(AccountId(7), Settings::default(), at(0)).expect_err("another version");
    assert_eq!(error.to_string(), "the kept health has version 9, this program reads version 1");
}

#[test]
fn time_that_passed_while_stopped_counts_after_a_new_start_of_the_machine() {
    let now = rebooted(300);
    let health = restart(&loaded(), at(100), now);
    assert_eq!(left(&health, HoldKind::Erroring, now), Some(Duration::from_secs(300)));
    assert_eq!(left(&health, HoldKind::AuthDead, now), Some(Duration::from_secs(600)));
    assert_eq!(left(&health, HoldKind::RateLimited, now), Some(Duration::from_secs(7200 - 300)));
    assert_eq!(health.standing(0, EvidenceSeq(0), now).paused, Paused::Yes);
    assert_eq!(health.strikes(), 1);
}

#[test]
fn a_new_start_of_the_daemon_alone_changes_no_wait() {
    let account = loaded();
    let health = restart(&account, at(100), at(300));
    assert_eq!(left(&health, HoldKind::Erroring, at(300)), Some(Duration::from_secs(300)));
    assert_eq!(left(&health, HoldKind::AuthDead, at(300)), Some(Duration::from_secs(600)));
}

/// A long run of the new start does not hide that the steady clock began anew.
#[test]
fn a_machine_that_ran_longer_than_before_is_known_by_its_civil_clock() {
    let saved = at(100);
    let later = 20 * HOUR;
    let now = Timestamp { wall: wall(100 + later), boot: Boot(saved.boot.0 + 600_000) };
    let health = restart(&loaded(), saved, now);
    assert_eq!(left(&health, HoldKind::BudgetExhausted, now), Some(Duration::from_secs(4 * 3600 - 100)));
}

#[test]
fn a_civil_clock_that_was_stepped_while_stopped_stretches_no_wait() {
    let now = Timestamp { wall: wall(300 - 7200), boot: at(300).boot };
    let health = restart(&loaded(), at(100), now);
    assert_eq!(left(&health, HoldKind::Erroring, now), Some(Duration::from_secs(300)));
    let seen = health.quota().windows.get(&Window::FiveHour).and_then(|window| window.observed_at);
    assert_eq!(seen, Some(wall(-7200)), "the observation is as old as the steady clock says");
}

#[test]
fn what_ended_while_stopped_is_told_by_the_first_tick() {
    let now = rebooted(HOUR);
    let mut health = restart(&loaded(), at(100), now);
    let told = health.apply(HealthEvent::Ticked, now).iter().filter_map(super::told).collect::<Vec<_>>();
    let ended = |hold| EventKind::HoldEnded { hold, scope: HoldScope::Account, by: EndedBy::Time };
    assert!(told.contains(&ended(HoldKind::Erroring)));
    assert!(told.contains(&EventKind::TrialBegan));
    assert!(health.next_deadline(now).is_some_and(|next| !next.is_due(now)));
}

#[test]
fn an_episode_is_remembered_across_a_new_start() {
    let now = rebooted(1000);
    let mut health = restart(&loaded(), at(100), now);
    let late = Subject::default().attempt(-10, 0, Outcome::Unauthorized, QuotaReading::default());
    let late = Answered { sent_at: Timestamp { wall: wall(-10), boot: Boot(20_000 - 1_010_000) }, ..late };
    health.apply(HealthEvent::Answered(&late), now);
    assert_eq!(health.strikes(), 1, "it was under way when the hold began");
    let fresh = Answered { sent_at: Timestamp { wall: wall(999), boot: Boot(19_000) }, ..late };
    health.apply(HealthEvent::Answered(&fresh), now);
    assert_eq!(health.strikes(), 2);
}

#[test]
fn a_second_restore_of_the_same_state_changes_nothing() {
    let now = rebooted(300);
    let once = restart(&loaded(), at(100), now);
    let mut twice = once.clone();
    twice.restore(now, now);
    assert_eq!(twice, once);
}
