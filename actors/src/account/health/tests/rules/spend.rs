//! Money, and the operator.

use super::*;

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
