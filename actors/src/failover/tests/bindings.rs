//! Conversations: bound, detoured, moved, returned, remembered.

use super::world::*;
use crate::clock::Timestamp;
use crate::event::{EventKind, MoveReason, ThinkingLoss};
use crate::failover::book::Flow;
use crate::failover::demand::{BindsThinking, Demand, Gate};
use crate::failover::{ConversationRecord, Effect};
use crate::id::{AccountId, ModelScope, Window};
use crate::outcome::{Cause, Outcome};
use crate::roster::{Strategy, UpstreamSpec};
use crate::standing::{CredentialState, HoldKind, Paused, Standing, Stated};

fn events(desk: &mut Desk) -> Vec<EventKind> {
    let event = |effect| match effect {
        Effect::Emit { kind, .. } => Some(kind),
        Effect::Admit(..) | Effect::Remember(_) | Effect::Forget(_) | Effect::Tell(..) | Effect::Rename(_) => None,
    };
    desk.take_effects().into_iter().filter_map(event).collect()
}

fn records(desk: &mut Desk) -> Vec<ConversationRecord> {
    let record = |effect| match effect {
        Effect::Remember(record) => Some(record),
        Effect::Admit(..) | Effect::Emit { .. } | Effect::Forget(_) | Effect::Tell(..) | Effect::Rename(_) => None,
    };
    desk.take_effects().into_iter().filter_map(record).collect()
}

fn hold_erroring(desk: &mut Desk, account: AccountId, now: Timestamp) {
    desk.tell(account.0, now, |s| s.holds = vec![erroring(now, 30)]);
}

#[test]
fn a_conversation_stays_on_its_account_while_that_is_usable() {
    let mut desk = Desk::of(5);
    let home = desk.serve(&conversation(1), t0()).account;
    for key in 2..40 {
        desk.serve(&conversation(key), t0());
    }
    for second in 0..20 {
        assert_eq!(desk.serve(&conversation(1), at(f64::from(second))).account, home);
    }
}

#[test]
fn parallel_first_requests_agree() {
    let mut desk = Desk::of(8);
    let leases: Vec<_> = (0..6).map(|_| desk.grant(&conversation(3), t0())).collect();
    assert!(leases.windows(2).all(|pair| pair[0].0.account == pair[1].0.account));
}

#[test]
fn the_first_good_answer_confirms_or_moves_the_binding() {
    let mut desk = Desk::of(4);
    let (first, guard) = desk.grant(&conversation(3), t0());
    guard.sent();
    let (other, other_guard) = desk.grant(&next(&conversation(3), &first, 1, fault(), t0()), t0());
    assert_ne!(other.account, first.account);
    other_guard.answered(Flow::Stream);
    drop((guard, other_guard));
    assert_eq!(desk.serve(&conversation(3), t0()).account, other.account);
}

#[test]
fn an_unsent_lease_leaves_no_binding() {
    let mut desk = Desk::of(4);
    desk.look(&conversation(3), t0());
    assert_eq!(desk.machine.snapshot(t0()).conversations, 0);
    let home = desk.serve(&conversation(3), t0()).account;
    desk.tell(home.0, at(1.0), |s| s.paused = Paused::Yes);
    desk.look(&conversation(3), at(1.0));
    desk.tell(home.0, at(2.0), |_| ());
    assert_eq!(desk.look(&conversation(3), at(2.0)), home.0, "an unsent move is no move");
}

#[test]
fn a_transient_fault_is_a_detour_and_the_conversation_returns() {
    let mut desk = Desk::of(3);
    let thinking = Demand { binds_thinking: BindsThinking::Yes, ..conversation(1) };
    let home = desk.serve(&thinking, t0());
    hold_erroring(&mut desk, home.account, at(1.0));
    events(&mut desk);
    let away = desk.serve(&thinking, at(2.0));
    assert_eq!(away.moved_from, Some(home.entry.clone()));
    let lost = ThinkingLoss::Lost;
    assert_eq!(events(&mut desk), [EventKind::Detoured { from: home.entry.clone(), thinking: lost }]);
    desk.tell(home.account.0, at(40.0), |_| ());
    let back = desk.serve(&thinking, at(41.0));
    assert_eq!((back.account, back.moved_from.clone()), (home.account, Some(away.entry.clone())));
    assert_eq!(events(&mut desk), [EventKind::Returned { from: away.entry, thinking: lost }]);
    assert_eq!(desk.serve(&thinking, at(42.0)).moved_from, None);
}

/// C51: a conversation bound to an account that is exhausted, switched off or out of balance moves at once, and stays.
#[test]
fn a_hard_reason_moves_the_conversation_for_good() {
    type Change = fn(&mut Standing);
    let cases: [(Change, MoveReason); 6] = [
        (|s| s.holds = vec![limited(t0(), 600)], MoveReason::Quota),
        (|s| s.quota = quota(&[(Window::FiveHour, 0.95, 600)]), MoveReason::Quota),
        (|s| s.paused = Paused::Yes, MoveReason::Removed),
        (|s| s.credential = CredentialState::Broken(Cause::Empty), MoveReason::Auth),
        (
            |s| s.holds = vec![hold(HoldKind::BudgetExhausted, Cause::Balance, t0(), after(86_400), Stated::Guessed)],
            MoveReason::Limit,
        ),
        (|s| s.holds = vec![erroring(t0(), 301)], MoveReason::LongHold),
    ];
    for (change, why) in cases {
        let mut desk = Desk::of(3);
        let home = desk.serve(&conversation(1), t0());
        desk.tell(home.account.0, t0(), change);
        events(&mut desk);
        let moved = desk.serve(&conversation(1), at(0.5));
        assert_ne!(moved.account, home.account);
        assert_eq!(moved.moved_from, Some(home.entry.clone()), "{why:?}");
        let expected = EventKind::ConversationMoved { from: home.entry.clone(), why, thinking: ThinkingLoss::None };
        assert_eq!(events(&mut desk), [expected]);
        desk.tell(home.account.0, at(1.0), |_| ());
        assert_eq!(desk.serve(&conversation(1), at(2.0)).account, moved.account, "it does not return by itself");
    }
}

#[test]
fn three_detours_in_different_episodes_within_ten_minutes_move_the_conversation() {
    for (gap, moves) in [(100.0, true), (400.0, false)] {
        let mut desk = Desk::of(3);
        let home = desk.serve(&conversation(1), t0()).account;
        for episode in 1..=3 {
            let now = at(gap * f64::from(episode));
            hold_erroring(&mut desk, home, now);
            for _ in 0..4 {
                assert_ne!(desk.serve(&conversation(1), now).account, home, "many detours of one episode count once");
            }
            desk.tell(home.0, at(gap * f64::from(episode) + 40.0), |_| ());
        }
        let now = desk.serve(&conversation(1), at(gap * 3.0 + 60.0)).account;
        assert_eq!(now != home, moves, "{gap}");
    }
}

#[test]
fn parallel_failures_of_one_trouble_are_one_episode() {
    let mut desk = Desk::of(4);
    let home = desk.serve(&conversation(1), t0()).account;
    let leases: Vec<_> = (0..3).map(|_| desk.grant(&conversation(1), at(1.0))).collect();
    for (at_once, (grant, guard)) in leases.iter().enumerate() {
        assert_eq!(grant.account, home);
        guard.sent();
        let evidence = at_once as u64 + 1;
        desk.serve(&next(&conversation(1), grant, evidence, fault(), at(1.0)), at(1.5));
    }
    drop(leases);
    assert_eq!(desk.serve(&conversation(1), at(2.0)).account, home);
}

#[test]
fn a_conversation_that_overflowed_to_a_worse_group_goes_back_when_the_better_is_usable() {
    let mut fleet = roster(3);
    fleet.upstreams[0].strategy = Strategy::Priority;
    fleet.accounts.get_mut(&id(1)).unwrap().priority = 1;
    let mut desk = Desk::new(&fleet);
    desk.tell(1, t0(), |s| s.holds = vec![limited(t0(), 600)]);
    let overflow = desk.serve(&conversation(1), t0());
    assert_ne!(overflow.account, id(1));
    events(&mut desk);
    desk.tell(1, at(1.0), |_| ());
    let back = desk.serve(&conversation(1), at(1.0));
    assert_eq!((back.account, back.moved_from), (id(1), Some(overflow.entry.clone())));
    let why = MoveReason::BetterGroup;
    let moved = EventKind::ConversationMoved { from: overflow.entry, why, thinking: ThinkingLoss::None };
    assert_eq!(events(&mut desk), [moved]);
}

/// C07: a move for one model scope leaves the conversation's other models where they are.
#[test]
fn a_scope_starts_on_the_conversations_account_and_moves_alone() {
    let mut desk = Desk::of(5);
    let fable = Demand { scope: ModelScope::Fable, ..conversation(1) };
    let home = desk.serve(&conversation(1), t0()).account;
    assert_eq!(desk.serve(&fable, t0()).account, home);
    desk.tell(home.0, t0(), |s| s.fable_hold = Some(limited(t0(), 9000)));
    assert_ne!(desk.serve(&fable, at(1.0)).account, home);
    assert_eq!(desk.serve(&conversation(1), at(1.0)).account, home);
}

#[test]
fn an_upstream_that_lacks_the_account_neither_uses_nor_changes_the_binding() {
    let mut fleet = roster(4);
    let other = crate::id::UpstreamId(1);
    let accounts = vec![id(2), id(3)];
    fleet.upstreams.push(UpstreamSpec { id: other, name: "second".into(), accounts, ..upstream(&[]) });
    fleet.upstreams[0].accounts = vec![id(0), id(1)];
    let mut desk = Desk::new(&fleet);
    let home = desk.serve(&conversation(1), t0()).account;
    let elsewhere = Demand { upstream: other, ..conversation(1) };
    let there = desk.serve(&elsewhere, t0());
    assert!(there.account.0 >= 2 && there.moved_from.is_some(), "another account answers, whatever is bound");
    assert_eq!(desk.serve(&conversation(1), t0()).account, home);
}

#[test]
fn if_none_is_usable_the_bound_account_is_first_in_its_band() {
    let mut desk = Desk::of(4);
    let home = desk.serve(&conversation(1), t0()).account;
    for n in 0..4 {
        desk.tell(n, t0(), |s| {
            s.quota = quota(&[(Window::FiveHour, 0.95, 600), (Window::Weekly, 0.1, 9000 + i64::from(n))])
        });
    }
    for _ in 0..3 {
        let grant = desk.serve(&conversation(1), t0());
        assert_eq!((grant.account, grant.gate, grant.moved_from), (home, Gate::Open, None));
    }
}

#[test]
fn conversations_are_written_when_bound_or_moved_and_their_use_once_a_minute() {
    let mut desk = Desk::of(3);
    desk.serve(&conversation(1), t0());
    assert_eq!(records(&mut desk).len(), 1);
    for second in 1..60 {
        desk.serve(&conversation(1), at(f64::from(second)));
    }
    assert_eq!(records(&mut desk).len(), 0);
    desk.serve(&conversation(1), at(61.0));
    assert_eq!(records(&mut desk).len(), 1);
}

#[test]
fn conversations_survive_a_restart_by_stable_names() {
    let mut desk = Desk::of(9);
    let homes: Vec<_> = (0..20).map(|key| desk.serve(&conversation(key), t0()).account).collect();
    let kept: Vec<String> = records(&mut desk).iter().map(|r| serde_json::to_string(r).unwrap()).collect();
    let kept: Vec<ConversationRecord> = kept.iter().map(|r| serde_json::from_str(r).unwrap()).collect();
    let mut later = Desk::of(9);
    later.machine.restore(kept, at(3000.0));
    for (key, home) in homes.iter().enumerate() {
        assert_eq!(later.look(&conversation(key as u128), at(3000.0)), home.0);
    }
    later.tick(at(3600.0));
    assert_eq!(later.machine.snapshot(at(3600.0)).conversations, 0, "the time that passed meanwhile counts");
}

#[test]
fn a_conversation_is_forgotten_an_hour_after_its_last_use() {
    let mut desk = Desk::of(3);
    desk.serve(&conversation(1), t0());
    desk.serve(&conversation(2), at(10.0));
    desk.take_effects();
    desk.tick(at(3605.0));
    assert_eq!(desk.take_effects(), [Effect::Forget(conversation(1).conversation.unwrap())]);
}

#[test]
fn at_most_65536_conversations_are_remembered_and_the_least_recently_used_go() {
    let mut desk = Desk::of(2);
    for key in 0..65_537 {
        desk.serve(&conversation(key), t0());
        if key == 10 {
            desk.serve(&conversation(0), t0());
        }
    }
    let forgotten = |effect: &Effect| matches!(effect, Effect::Forget(key) if key.0 == 1);
    let gone: Vec<_> = desk.take_effects().into_iter().filter(|e| matches!(e, Effect::Forget(_))).collect();
    assert!(gone.len() == 1 && gone.iter().all(forgotten), "{gone:?}");
}

#[test]
fn the_answer_of_an_attempt_from_before_a_move_does_not_take_it_back() {
    let mut desk = Desk::of(3);
    let home = desk.serve(&conversation(1), t0()).account;
    let (_, old) = desk.grant(&conversation(1), at(1.0));
    old.sent();
    desk.tell(home.0, at(2.0), |s| s.holds = vec![limited(at(2.0), 600)]);
    let (moved, new) = desk.grant(&conversation(1), at(3.0));
    new.sent();
    old.answered(Flow::Stream);
    desk.settle(at(3.0));
    new.answered(Flow::Stream);
    desk.settle(at(3.0));
    desk.tell(home.0, at(4.0), |_| ());
    assert_eq!(desk.look(&conversation(1), at(4.0)), moved.account.0);
}

#[test]
fn a_quota_refusal_moves_the_conversation_within_the_same_request() {
    let mut desk = Desk::of(3);
    desk.serve(&conversation(1), t0());
    let (first, guard) = desk.grant(&conversation(1), at(1.0));
    guard.sent();
    drop(guard);
    let outcome: Outcome = refusal(Some(after(7999)));
    let moved = desk.serve(&next(&conversation(1), &first, 1, outcome, at(1.0)), at(1.0));
    assert_eq!(desk.serve(&conversation(1), at(2.0)).account, moved.account);
}
