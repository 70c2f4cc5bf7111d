//! Removal, bands and the common order.

use super::world::*;
use crate::failover::Place;
use crate::failover::demand::{Alternatives, Demand, Gate, Via};
use crate::id::{CredentialKind, ModelScope, Window};
use crate::outcome::{CallKind, Cause};
use crate::roster::{Strategy, Switch, TieOrder};
use crate::standing::{CredentialState, HoldKind, Paused, Stated};

#[test]
fn an_account_that_is_out_is_never_granted() {
    let auth = hold(HoldKind::AuthDead, Cause::OrgDisabled, t0(), after(900), Stated::Guessed);
    let budget = hold(HoldKind::BudgetExhausted, Cause::Budget, t0(), after(86_400), Stated::Guessed);
    for out in 0..5 {
        let mut desk = Desk::of(2);
        desk.tell(0, t0(), |s| match out {
            0 => s.paused = Paused::Yes,
            1 => s.credential = CredentialState::Broken(Cause::Empty),
            2 => s.credential = CredentialState::NeedsLogin { access_until: after(0) },
            3 => s.holds = vec![auth],
            _ => s.holds = vec![budget],
        });
        for _ in 0..4 {
            assert_eq!(desk.serve(&demand(), at(200.0)).account, id(1), "case {out}");
        }
    }
}

#[test]
fn a_disabled_account_and_a_cli_login_are_not_for_the_gateway() {
    let mut fleet = roster(3);
    fleet.accounts.get_mut(&id(0)).unwrap().switch = Switch::Off;
    fleet.accounts.get_mut(&id(1)).unwrap().kind = CredentialKind::Keychain;
    let mut desk = Desk::new(&fleet);
    for _ in 0..4 {
        assert_eq!(desk.serve(&demand(), t0()).account, id(2));
    }
    let job = Demand { via: Via::Job, ..demand() };
    assert_eq!(desk.look(&job, t0()), 1, "a job uses the CLI's own login");
}

#[test]
fn an_access_token_serves_until_its_end_although_a_login_is_needed() {
    let mut desk = Desk::of(1);
    desk.tell(0, t0(), |s| s.credential = CredentialState::NeedsLogin { access_until: after(60) });
    assert_eq!(desk.look(&demand(), at(59.0)), 0);
    desk.refuse(&demand(), at(60.0));
}

#[test]
fn usable_goes_before_near_before_over() {
    let mut desk = Desk::of(3);
    desk.tell(0, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.99, 600)]));
    desk.tell(1, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.91, 600)]));
    let tried = |tried: &[u32]| Demand { tried: tried.iter().map(|n| id(*n)).collect(), ..demand() };
    assert_eq!(desk.look(&tried(&[]), t0()), 2);
    assert_eq!(desk.look(&tried(&[2]), t0()), 1);
    assert_eq!(desk.look(&tried(&[2, 1]), t0()), 0, "local knowledge never empties the plan");
}

/// C07: a cap for one model family bars the account for that family only.
#[test]
fn a_refused_scope_window_keeps_only_its_scope_away() {
    let mut desk = Desk::of(2);
    desk.tell(0, t0(), |s| {
        s.quota = rejected(Window::WeeklyFable, 9000);
        s.fable_hold = Some(limited(t0(), 9000));
    });
    let fable = Demand { scope: ModelScope::Fable, ..demand() };
    for _ in 0..3 {
        assert_eq!(desk.serve(&fable, at(1.0)).account, id(1));
    }
    assert_eq!(desk.look(&demand(), at(1.0)), 0, "the other models stay");
    assert_eq!(desk.look(&fable, at(9000.0)), 0, "and the scope returns at the reset");
}

#[test]
fn a_refused_unknown_window_puts_the_account_last_for_every_request() {
    let mut desk = Desk::of(2);
    desk.tell(0, t0(), |s| s.quota = rejected(Window::Other("30d_zz".into()), 9000));
    for scope in [ModelScope::Base, ModelScope::Fable] {
        let demand = Demand { scope, ..demand() };
        for _ in 0..3 {
            assert_eq!(desk.serve(&demand, t0()).account, id(1));
        }
    }
}

#[test]
fn the_common_order_is_priority_then_soonest_reset_unknown_first_then_fewest_in_flight() {
    let mut fleet = roster(4);
    fleet.upstreams[0].strategy = Strategy::Priority;
    fleet.accounts.get_mut(&id(3)).unwrap().priority = 200;
    let mut desk = Desk::new(&fleet);
    desk.tell(0, t0(), |s| s.quota = quota(&[(Window::Weekly, 0.1, 90_000)]));
    desk.tell(1, t0(), |s| s.quota = quota(&[(Window::Weekly, 0.1, 80_000)]));
    let order = |desk: &Desk| desk.machine.explain(&demand(), t0()).iter().map(|r| r.account.0).collect::<Vec<_>>();
    assert_eq!(order(&desk), [2, 1, 0, 3]);
    desk.tell(2, t0(), |s| s.quota = quota(&[(Window::Weekly, 0.1, 80_000)]));
    let (_busy, guard) = desk.grant(&Demand { tried: vec![id(2)], ..demand() }, t0());
    assert_eq!(order(&desk), [2, 1, 0, 3], "equal resets: fewest in flight");
    drop(guard);
    desk.settle(t0());
    assert_eq!(order(&desk), [1, 2, 0, 3], "then declaration");
}

#[test]
fn with_a_pool_table_the_largest_headroom_goes_first() {
    let mut fleet = roster(3);
    fleet.pool.order = TieOrder::Headroom;
    fleet.upstreams[0].strategy = Strategy::Priority;
    let mut desk = Desk::new(&fleet);
    desk.tell(0, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.5, 9000)]));
    desk.tell(1, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.2, 9000)]));
    desk.tell(2, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.8, 9000)]));
    let order: Vec<u32> = desk.machine.explain(&demand(), t0()).iter().map(|r| r.account.0).collect();
    assert_eq!(order, [1, 0, 2]);
}

#[test]
fn unverified_and_on_trial_go_last_in_their_band() {
    let mut desk = Desk::of(3);
    desk.tell(0, t0(), |s| s.unverified = true);
    desk.tell(1, t0(), |s| s.on_trial = true);
    for key in 0..8 {
        assert_eq!(desk.look(&conversation(key), t0()), 2);
        assert_eq!(desk.look(&demand(), t0()), 2);
    }
    desk.tell(2, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.95, 600)]));
    assert_eq!(desk.look(&demand(), t0()), 0, "a usable band goes before a near one all the same");
}

#[test]
fn a_trial_is_one_request_at_a_time() {
    let mut desk = Desk::of(1);
    desk.tell(0, t0(), |s| s.on_trial = true);
    let (grant, guard) = desk.grant(&demand(), t0());
    assert_eq!(grant.gate, Gate::Trial);
    assert!(matches!(desk.ask(&demand(), t0()), crate::failover::demand::Decision::Queued(_)));
    drop(guard);
}

#[test]
fn an_account_whose_credential_is_renewed_is_granted_only_if_nothing_else_is() {
    let mut desk = Desk::of(2);
    let renewing = Demand { renewing: vec![id(0)], ..demand() };
    assert_eq!(desk.look(&renewing, t0()), 1);
    desk.tell(1, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.95, 600)]));
    assert_eq!(desk.look(&renewing, t0()), 1, "even a near one is preferred");
    desk.tell(1, t0(), |s| s.paused = Paused::Yes);
    let (grant, _guard) = desk.grant(&renewing, t0());
    assert_eq!((grant.account, grant.alternatives), (id(0), Alternatives::None), "waiting for the refresh is right");
}

#[test]
fn alternatives_tell_whether_another_account_could_be_granted() {
    let mut desk = Desk::of(2);
    assert_eq!(desk.serve(&demand(), t0()).alternatives, Alternatives::Some);
    desk.tell(1, t0(), |s| s.holds = vec![limited(t0(), 600)]);
    assert_eq!(desk.serve(&demand(), t0()).alternatives, Alternatives::None);
}

#[test]
fn a_capped_account_is_removed_for_what_its_cap_binds() {
    let mut fleet = roster(2);
    fleet.accounts.get_mut(&id(0)).unwrap().caps.fable = Some(0.5);
    let mut desk = Desk::new(&fleet);
    desk.tell(0, t0(), |s| s.quota = quota(&[(Window::WeeklyFable, 0.5, 9000)]));
    let fable = Demand { scope: ModelScope::Fable, tried: vec![id(1)], ..demand() };
    desk.refuse(&fable, t0());
    assert_eq!(desk.look(&Demand { tried: vec![id(1)], ..demand() }, t0()), 0);
}

#[test]
fn near_a_cap_one_request_at_a_time_is_admitted_and_others_go_on() {
    let mut fleet = roster(2);
    fleet.accounts.get_mut(&id(0)).unwrap().caps.five_hour = Some(0.5);
    fleet.upstreams[0].strategy = Strategy::Failover;
    let mut desk = Desk::new(&fleet);
    desk.tell(0, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.485, 9000)]));
    let (first, guard) = desk.grant(&demand(), t0());
    assert_eq!((first.account, desk.look(&demand(), t0())), (id(0), 1));
    drop(guard);
    assert_eq!(desk.look(&demand(), t0()), 0);
}

#[test]
fn explain_tells_the_whole_order_with_reasons() {
    let mut desk = Desk::of(4);
    desk.tell(1, t0(), |s| s.paused = Paused::Yes);
    desk.tell(2, t0(), |s| s.holds = vec![erroring(t0(), 30)]);
    desk.tell(3, t0(), |s| s.quota = quota(&[(Window::FiveHour, 0.95, 600)]));
    let rows = desk.machine.explain(&demand(), t0());
    let order: Vec<u32> = rows.iter().map(|r| r.account.0).collect();
    assert_eq!(order, [0, 3, 2, 1]);
    assert!(matches!(rows[0].place, Place::Chosen(_)) && matches!(rows[1].place, Place::Ready(_)), "{rows:?}");
    assert!(matches!(rows[2].place, Place::Probe { due, .. } if due == after(1)), "{rows:?}");
    assert!(matches!(rows[3].place, Place::Out(_)), "{rows:?}");
}

#[test]
fn calls_beside_inference_are_outside_allowances() {
    let mut fleet = roster(1);
    fleet.accounts.get_mut(&id(0)).unwrap().max_concurrent = Some(1);
    let mut desk = Desk::new(&fleet);
    let (_grant, _guard) = desk.grant(&demand(), t0());
    let side = Demand { call: CallKind::Side, ..demand() };
    assert_eq!(desk.look(&side, t0()), 0);
    assert_eq!(desk.book.tally(id(0)).in_flight, 1);
}
