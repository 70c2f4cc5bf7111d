//! 429s in which no window refuses.

use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use duduclaw_actors::outcome::Cause;
use duduclaw_actors::standing::{HoldKind, Stated};

use crate::seen::{got, hold, in_order};
use crate::support::{World, eventually};

fn throttle(seconds: &str) -> Fault {
    Fault::Throttle { retry_after: seconds.to_owned() }
}

/// A conversation that is bound to a; b is there too.
async fn bound_to_a() -> World {
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")])
        .tables("[rotation]\nstrategy = \"priority\"")
        .account("a", "priority = 1")
        .account("b", "priority = 2")
        .start()
        .await;
    world.turn("s", false).await.served_by("a");
    world
}

#[tokio::test]
async fn a_breather_is_waited_out_once_by_the_conversation_that_is_bound_to_the_account() {
    let world = bound_to_a().await;
    world.sim.fault(FaultRule::next("a", 1, throttle("9")));
    let waiting = tokio::spawn(got(world.ask("s", "[[say: again]]", false)));
    world.events.wait_for("breather_taken").await;
    assert!(!waiting.is_finished());
    world.turn("other", false).await.served_by("b");
    assert!(!waiting.is_finished());
    world.advance(10);
    let got = waiting.await.unwrap();
    got.served_by("a");
    assert_eq!(got.header("x-duduclaw-attempts"), Some("2"));
    assert_eq!((world.hits("a"), world.hits("b")), (3, 1));
    world.is_well("a").await;
    assert!(world.events.of("conversation_moved").is_empty());
}

#[tokio::test]
async fn after_one_breather_the_same_again_sends_the_request_elsewhere_and_the_conversation_stays() {
    let world = bound_to_a().await;
    world.sim.fault(FaultRule::next("a", 2, throttle("9")));
    let waiting = tokio::spawn(got(world.ask("s", "[[say: again]]", false)));
    world.events.wait_for("breather_taken").await;
    world.advance(10);
    waiting.await.unwrap().served_by("b");
    assert_eq!(world.hits("a"), 3);
    world.advance(10);
    world.turn("s", false).await.served_by("a");
    assert!(world.events.of("conversation_moved").is_empty());
    world.is_well("a").await;
}

#[tokio::test]
async fn a_breather_sends_unbound_requests_elsewhere_at_once() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, throttle("9")));
    world.turn("", false).await.served_by("b");
    assert_eq!(world.failed_over("a"), ["rate_limit"]);
    world.turn("", false).await.served_by("b");
    assert_eq!(world.hits("a"), 1, "not during the breather");
    world.advance(10);
    world.turn("", false).await.served_by("a");
    world.is_well("a").await;
}

#[tokio::test]
async fn where_nothing_else_is_usable_an_unbound_request_gets_the_429_with_the_breathers_wait() {
    let world = in_order(&["a"]).await;
    world.sim.fault(FaultRule::next("a", 1, throttle("9")));
    let got = world.turn("", false).await;
    assert_eq!(got.status, 429);
    assert_eq!(got.body, world.last("a").response_body());
    assert!((8..=9).contains(&got.retry_after().unwrap()), "{:?}", got.retry_after());
    assert_eq!(world.hits("a"), 1);
    world.is_well("a").await;
    world.advance(10);
    world.turn("", false).await.served_by("a");
}

#[tokio::test]
async fn a_longer_stated_wait_holds_the_account_as_throttled_and_leaves_its_figures() {
    let world = in_order(&["a", "b"]).await;
    world.turn("s", false).await.served_by("a");
    world.until("a", |a| a.windows.len() >= 2 && a.windows.values().all(|window| window.reset.is_some())).await;
    let before = windows(&world.account("a").await);
    world.sim.fault(FaultRule::next("a", 1, throttle("300")));
    world.turn("s", false).await.served_by("b");
    world.held("a", 1, &hold(HoldKind::RateLimited, Cause::Throttled, 300, Stated::ByProvider)).await;
    let view = world.until_state("a", "rate_limited").await;
    assert_eq!(view.cause.as_deref(), Some("throttled"));
    assert_eq!(windows(&view), before);
    world.advance(301);
    world.turn("t", false).await.served_by("a");
}

fn windows(view: &duduclaw::admin::PoolAccount) -> Vec<(String, Option<i64>, Option<String>)> {
    view.windows.iter().map(|(name, window)| (name.clone(), window.reset, window.status.clone())).collect()
}

#[tokio::test]
async fn a_throttle_that_states_nothing_costs_one_hop_and_promises_nothing() {
    let world = in_order(&["a", "b", "c"]).await;
    for account in ["a", "b", "c"] {
        world.sim.fault(FaultRule::standing(account, Fault::ThrottleUnstated));
    }
    let got = world.turn("s", false).await;
    assert_eq!(got.status, 429);
    assert_eq!(got.retry_after(), None);
    assert_eq!(got.body, world.last("a").response_body());
    assert_eq!([world.hits("a"), world.hits("b"), world.hits("c")], [1, 1, 0]);
    world.held("a", 1, &hold(HoldKind::RateLimited, Cause::Throttled, 5, Stated::Guessed)).await;
}

#[tokio::test]
async fn a_throttle_that_states_nothing_again_and_again_rests_the_account_longer_up_to_a_minute() {
    let world = in_order(&["a"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::ThrottleUnstated));
    for (at, seconds) in [5, 15, 30, 60].into_iter().enumerate() {
        assert_eq!(world.turn("s", false).await.status, 429);
        assert_eq!(world.hits("a"), at + 1);
        world.held("a", at + 1, &hold(HoldKind::RateLimited, Cause::Throttled, seconds, Stated::Guessed)).await;
        world.advance(seconds + 1);
    }
}

/// C20, C21: a date counts as the wait until it; what cannot be read counts as nothing stated.
#[tokio::test]
async fn a_date_is_a_wait_and_nonsense_is_none() {
    let world = in_order(&["a", "b"]).await;
    let date =
        httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(world.now() as u64 + 600));
    world.sim.fault(FaultRule::next("a", 1, throttle(&date)));
    world.turn("s", false).await.served_by("b");
    let held = eventually(|| world.holds("a").first().cloned()).await;
    assert!((570..=600).contains(&held.seconds) && held.stated == Stated::ByProvider, "{held:?}");
    for nonsense in
        ["Wed, 99 Foo 2026", "soon", "", "-5", "0", "NaN", "inf", "9999999999", "Wed, 21 Oct 2015 07:28:00 GMT"]
    {
        let world = in_order(&["a", "b"]).await;
        world.sim.fault(FaultRule::next("a", 1, throttle(nonsense)));
        world.turn("s", false).await.served_by("b");
        world.held("a", 1, &hold(HoldKind::RateLimited, Cause::Throttled, 5, Stated::Guessed)).await;
    }
}
