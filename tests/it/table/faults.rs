//! The provider's own faults, the way to it, and answers that never come.

use std::time::{Duration, UNIX_EPOCH};

use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use duduclaw_actors::outcome::Cause;
use duduclaw_actors::standing::{HoldKind, Stated};

use crate::seen::{got, hold, in_order};
use crate::support::World;

/// The first such fault is a strike, the second within a minute begins a back-off; each time the next account serves.
async fn strikes(fault: Fault, stream: bool, cause: Cause, attempts: usize) {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", fault));
    world.turn("s", stream).await.served_by("b");
    assert_eq!(world.account("a").await.state, "healthy");
    world.turn("s", stream).await.served_by("b");
    world.held("a", 1, &hold(HoldKind::Erroring, cause, 30, Stated::Guessed)).await;
    assert_eq!(world.until_state("a", "erroring").await.cause.as_deref(), Some(cause.as_str()));
    assert_eq!(world.hits("a"), 2 * attempts);
    world.turn("s", stream).await.served_by("b");
    assert_eq!((world.hits("a"), world.hits("b")), (2 * attempts, 3), "nothing goes to a while it is held");
    assert_eq!(world.holds("a").len(), 1);
}

#[tokio::test]
async fn a_second_5xx_within_a_minute_begins_a_back_off() {
    strikes(Fault::ServerError, false, Cause::ServerError, 1).await;
    strikes(Fault::Overloaded { retry_after: None }, true, Cause::Overloaded, 1).await;
}

#[tokio::test]
async fn a_second_blank_answer_within_a_minute_begins_a_back_off() {
    strikes(Fault::Blank, false, Cause::Blank, 1).await;
    strikes(Fault::Blank, true, Cause::Blank, 1).await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_a_head_is_tried_once_more_at_once_and_then_elsewhere() {
    strikes(Fault::ResetBeforeHead, false, Cause::Network, 2).await;
    strikes(Fault::RefuseConnection, true, Cause::Network, 2).await;
}

#[tokio::test]
async fn one_broken_connection_is_not_even_noticed() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::ResetBeforeHead));
    let got = world.turn("s", true).await;
    got.served_by("a");
    assert_eq!((got.header("x-duduclaw-attempts"), world.hits("a")), (Some("2"), 2));
    world.is_well("a").await;
}

#[tokio::test]
async fn a_success_between_two_faults_takes_the_first_strike_away() {
    let world = in_order(&["a", "b"]).await;
    for _ in 0..3 {
        world.sim.fault(FaultRule::next("a", 1, Fault::ServerError));
        world.turn("s", false).await.served_by("b");
        world.turn("s", false).await.served_by("a");
    }
    world.is_well("a").await;
}

#[tokio::test]
async fn a_back_off_doubles_with_each_failed_try_and_ends_with_a_served_one() {
    let world = in_order(&["a"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::ServerError));
    assert_eq!(world.turn("s", false).await.status, 500);
    for (nth, seconds) in [30, 60, 120].into_iter().enumerate() {
        assert_eq!(world.turn("s", false).await.status, 500);
        world.held("a", nth + 1, &hold(HoldKind::Erroring, Cause::ServerError, seconds, Stated::Guessed)).await;
        world.advance(seconds + 1);
    }
    world.sim.clear_faults(None);
    world.turn("s", false).await.served_by("a");
    world.sim.fault(FaultRule::standing("a", Fault::ServerError));
    world.turn("s", false).await;
    world.turn("s", false).await;
    world.held("a", 4, &hold(HoldKind::Erroring, Cause::ServerError, 30, Stated::Guessed)).await;
}

/// C08: a stated wait holds at once, in seconds or as a date; the quota figures stay.
#[tokio::test]
async fn a_stated_wait_holds_at_once() {
    let probe = in_order(&["a"]).await;
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(probe.now() as u64 + 600));
    let stated = |text: &str| Some(text.to_owned());
    for (fault, seconds, cause) in [
        (Fault::Overloaded { retry_after: stated("20") }, 20, Cause::Overloaded),
        (Fault::Unavailable { retry_after: "45".to_owned() }, 45, Cause::ServerError),
        (Fault::Overloaded { retry_after: stated(&date) }, 600, Cause::Overloaded),
    ] {
        let world = in_order(&["a", "b"]).await;
        world.sim.fault(FaultRule::next("a", 1, fault));
        world.turn("s", false).await.served_by("b");
        world.held("a", 1, &hold(HoldKind::Erroring, cause, seconds, Stated::ByProvider)).await;
        let view = world.until_state("a", "erroring").await;
        assert!(view.windows.values().all(|window| window.status.as_deref() != Some("rejected")));
        assert_eq!(world.failed_over("a"), ["server_error"]);
        world.advance(seconds + 1);
        world.turn("t", false).await.served_by("a");
    }
}

fn late(names: &[&str], server: &str) -> impl Future<Output = World> {
    let accounts = names.iter().map(|name| AccountSpec::oauth(name)).collect::<Vec<_>>();
    World::with(accounts).provider("strategy = \"failover\"").tables(server).start()
}

#[tokio::test]
async fn a_stream_whose_head_is_late_goes_to_the_next_account_once() {
    let world = late(&["a", "b", "c"], "[server.timeouts]\nupstream_ttfb = \"1s\"").await;
    world.sim.fault(FaultRule::standing("a", Fault::StallBeforeHead));
    world.turn("s", true).await.served_by("b");
    assert_eq!(world.hits("a"), 1);
    assert_eq!(world.failed_over("a"), ["timeout"]);
    world.sim.fault(FaultRule::standing("b", Fault::StallBeforeHead));
    let got = world.turn("s", true).await;
    assert_eq!(got.status, 504, "{}", got.text());
    assert_eq!((world.hits("a"), world.hits("b"), world.hits("c")), (2, 2, 0));
    world.held("a", 1, &hold(HoldKind::Erroring, Cause::Timeout, 30, Stated::Guessed)).await;
}

#[tokio::test]
async fn any_other_request_whose_head_is_late_gets_504_and_is_never_sent_again() {
    let world = late(&["a", "b"], "[server.timeouts]\nupstream_ttfb_nonstream = \"1s\"").await;
    world.sim.fault(FaultRule::next("a", 2, Fault::StallBeforeHead));
    for _ in 0..2 {
        let got = world.turn("s", false).await;
        assert_eq!(got.status, 504);
        assert!(got.text().contains("\"timeout_error\""), "{}", got.text());
    }
    world.turn("s", false).await.served_by("a");
    assert_eq!((world.hits("a"), world.hits("b")), (3, 0));
    world.is_well("a").await;
}

#[tokio::test]
async fn the_clients_own_time_out_bounds_the_wait_for_a_head_if_it_is_a_number() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::StallBeforeHead));
    let request = world.ask("s", "[[say: x]]", false).header("x-stainless-timeout", "11");
    assert_eq!(got(request).await.status, 504);
    assert_eq!((world.hits("a"), world.hits("b")), (1, 0));
    let request = world.ask("s", "[[say: x]]", false).header("x-stainless-timeout", "NOT_GIVEN");
    got(request).await.served_by("a");
    world.is_well("a").await;
}
