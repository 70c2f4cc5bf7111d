//! Streams that begin with an error, and such as do not come to their end.

use duduclaw::sim::{AccountSpec, Endpoint, Fault, FaultRule};
use duduclaw_actors::outcome::Cause;
use duduclaw_actors::standing::{HoldKind, Stated};

use crate::seen::{Got, events_of, exact_provider, hold, in_front_of, in_order};
use crate::support::World;

fn first(kind: &str) -> Fault {
    Fault::FirstEventError { kind: kind.to_owned() }
}

/// C56: an error that comes first under HTTP 200 fails over like the status it means; nothing of it is shown.
#[tokio::test]
async fn an_error_as_first_event_is_answered_by_the_next_account() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", first("overloaded_error")));
    let got = world.turn("s", true).await;
    got.served_by("b");
    assert_eq!(got.body, world.last("b").response_body());
    assert_eq!(world.account("a").await.state, "healthy");
    world.turn("s", true).await.served_by("b");
    world.held("a", 1, &hold(HoldKind::Erroring, Cause::Overloaded, 30, Stated::Guessed)).await;
    world.turn("s", true).await.served_by("b");
    assert_eq!(world.hits("a"), 2, "repeated cases back off");
}

#[tokio::test]
async fn a_rate_limit_as_first_event_is_a_throttle_that_states_nothing() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, first("rate_limit_error")));
    world.turn("s", true).await.served_by("b");
    world.held("a", 1, &hold(HoldKind::RateLimited, Cause::Throttled, 5, Stated::Guessed)).await;
}

/// An error of the request itself is the client's, also as first event.
#[tokio::test]
async fn an_invalid_request_as_first_event_goes_to_the_client_as_it_is() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, first("invalid_request_error")));
    let got = world.turn("s", true).await;
    assert_eq!((got.status.as_u16(), got.body), (200, world.last("a").response_body()));
    assert_eq!(world.hits("b"), 0);
    world.is_well("a").await;
}

/// Asks for an answer that goes wrong after output: never a second POST.
async fn broken(world: &World, faults: &[Fault]) -> Got {
    let mut rule = FaultRule::next("a", 1, faults[0].clone());
    for more in &faults[1..] {
        rule = rule.and(more.clone());
    }
    world.sim.fault(rule);
    let before = world.messages().len();
    let got = world.turn("s", true).await;
    assert_eq!(got.status, 200);
    assert_eq!(world.messages().len(), before + 1, "nothing is sent again once a byte was relayed");
    got
}

/// Two streams at once go wrong after output: no good answer comes between the two faults.
async fn both_break(world: &World, fault: Fault, kind: &str) {
    world.sim.fault(FaultRule::next("a", 2, fault).and(Fault::SlowTrickle { millis: 200 }));
    let (one, other) = tokio::join!(world.turn("s", true), world.turn("t", true));
    last_is_an_error(&one, kind);
    last_is_an_error(&other, kind);
}

fn last_is_an_error(got: &Got, kind: &str) {
    assert!(got.whole);
    let events = events_of(&got.body);
    let (name, data) = events.last().unwrap();
    assert_eq!(
        (name.as_str(), data["type"].as_str(), data["error"]["type"].as_str()),
        ("error", Some("error"), Some(kind))
    );
    assert!(events.iter().all(|(_, data)| data.is_object()), "every event is whole: {events:?}");
    assert_eq!(events[0].0, "message_start");
}

#[tokio::test]
async fn an_error_event_after_output_reaches_the_client_as_it_is_and_counts_as_its_status() {
    let world = in_order(&["a", "b"]).await;
    let overloaded = Fault::ErrorEventAfter { events: 3, kind: "overloaded_error".to_owned() };
    let got = broken(&world, std::slice::from_ref(&overloaded)).await;
    assert_eq!(got.body, world.last("a").response_body());
    last_is_an_error(&got, "overloaded_error");
    both_break(&world, overloaded, "overloaded_error").await;
    world.held("a", 1, &hold(HoldKind::Erroring, Cause::Overloaded, 30, Stated::Guessed)).await;
    let world = in_order(&["a", "b"]).await;
    broken(&world, &[Fault::ErrorEventAfter { events: 3, kind: "rate_limit_error".to_owned() }]).await;
    world.held("a", 1, &hold(HoldKind::RateLimited, Cause::Throttled, 5, Stated::Guessed)).await;
    let world = in_order(&["a", "b"]).await;
    for _ in 0..3 {
        broken(&world, &[Fault::ErrorEventAfter { events: 3, kind: "api_error".to_owned() }]).await;
    }
    world.turn("s", true).await.served_by("a");
    world.is_well("a").await;
}

#[tokio::test]
async fn a_stream_that_breaks_after_output_ends_with_an_error_event_between_two_events() {
    for cut in [Fault::CutAfter { events: 4 }, Fault::ResetAfter { events: 4 }] {
        let world = in_order(&["a", "b"]).await;
        last_is_an_error(&broken(&world, std::slice::from_ref(&cut)).await, "api_error");
        both_break(&world, cut, "api_error").await;
        world.held("a", 1, &hold(HoldKind::Erroring, Cause::Network, 30, Stated::Guessed)).await;
        assert_eq!(world.hits("b"), 0);
    }
}

/// Each began well, which is no success when it breaks.
#[tokio::test]
async fn streams_that_break_one_after_another_begin_a_back_off() {
    let world = in_order(&["a", "b"]).await;
    for _ in 0..2 {
        broken(&world, &[Fault::CutAfter { events: 4 }]).await;
    }
    world.held("a", 1, &hold(HoldKind::Erroring, Cause::Network, 30, Stated::Guessed)).await;
    world.turn("s", true).await.served_by("b");
}

#[tokio::test]
async fn a_break_in_the_middle_of_an_event_shows_nothing_of_it() {
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{}}}\n\n";
    let half = "event: content_block_delta\ndata: {\"type\":\"content_bl";
    let url = exact_provider(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9000\r\n\r\n{start}{half}"
    ));
    let world = in_front_of(&url.await).await;
    let got = world.turn("s", true).await;
    last_is_an_error(&got, "api_error");
    assert!(got.text().starts_with(start) && !got.text().contains("content_bl"), "{}", got.text());
}

/// A compressed stream has no place for an event of ours: it is broken off as it broke.
#[tokio::test]
async fn a_compressed_stream_that_breaks_is_broken_off() {
    let world = in_order(&["a", "b"]).await;
    let got = broken(&world, &[Fault::Gzip, Fault::CutAfter { events: 4 }]).await;
    assert!(!got.whole);
    assert!(world.last("a").response_body().starts_with(&got.body));
}

#[tokio::test]
async fn a_stream_in_which_nothing_comes_for_too_long_ends_with_an_error_event_and_teaches_nothing() {
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")])
        .provider("strategy = \"failover\"")
        .tables("[server.timeouts]\nstream_idle = \"1s\"")
        .start()
        .await;
    for _ in 0..2 {
        last_is_an_error(&broken(&world, &[Fault::StallAfter { events: 3 }]).await, "timeout_error");
    }
    world.turn("s", true).await.served_by("a");
    world.is_well("a").await;
}

/// C64: pings count as life, and are passed on.
#[tokio::test]
async fn pings_keep_a_quiet_stream_alive_and_reach_the_client() {
    let world = World::with([AccountSpec::oauth("a")]).tables("[server.timeouts]\nstream_idle = \"1s\"").start().await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Pings { count: 8, every_millis: 250 }));
    let got = world.turn("s", true).await;
    assert_eq!(got.body, world.last("a").response_body());
    assert_eq!(events_of(&got.body).iter().filter(|(name, _)| name == "ping").count(), 9);
    assert_eq!(world.sim.hits("a", Endpoint::Messages).len(), 1);
}
