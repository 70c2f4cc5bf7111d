//! Clients that hang up: at every stage the provider sees it at once, the lease comes back, and no account is blamed.

use std::time::Duration;

use duduclaw::sim::{AccountSpec, Ending, Fault, FaultRule, Record};
use serde_json::Value;
use tokio::time::timeout;

use crate::storm::calm;
use crate::support::{World, eventually};

/// The provider must see a closed connection within this.
const AT_ONCE: Duration = Duration::from_secs(1);

async fn provider_saw_the_end(world: &World) {
    let closed = |log: &[Record]| log.last().is_some_and(|record| record.ending == Ending::ClientClosed);
    timeout(AT_ONCE, world.sim.until(closed)).await.expect("the provider sees that nobody listens");
}

/// The one request's end, as it was told: the client is gone.
async fn was_told_gone(world: &World) -> Value {
    let ended = world.events.wait_for("request_ended").await;
    assert_eq!(ended["kind"]["close"], "client_gone", "{ended}");
    ended
}

async fn nobody_is_blamed(world: &World) {
    calm(world).await;
    for account in &world.pool().await.providers[0].accounts {
        assert_eq!((account.state.as_str(), account.cause.as_deref()), ("healthy", None), "{}", account.name);
    }
    assert!(world.events.of("hold_began").is_empty());
}

async fn until_arrived(world: &World, count: usize) {
    timeout(Duration::from_secs(10), world.sim.until(move |log| log.len() >= count)).await.expect("it is sent");
}

/// Asks, waits until the provider has it, and hangs up before a head came.
async fn hangs_up_before_the_head(stream: bool) {
    let world = World::logins(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::StallBeforeHead).for_all());
    let asked = tokio::spawn(world.ask("s", "[[say: hi]]", stream).send());
    until_arrived(&world, 1).await;
    asked.abort();
    provider_saw_the_end(&world).await;
    was_told_gone(&world).await;
    nobody_is_blamed(&world).await;
    assert_eq!(world.messages().len(), 1, "no further attempt");
}

#[tokio::test]
async fn a_client_that_hangs_up_before_the_head_of_a_stream_is_gone_at_once() {
    hangs_up_before_the_head(true).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_before_an_answer_without_a_stream_is_gone_at_once() {
    hangs_up_before_the_head(false).await;
}

/// C62: the client reads two events and closes; the provider would go on for twenty seconds.
#[tokio::test]
async fn a_client_that_hangs_up_in_the_middle_of_a_stream_stops_it_and_what_it_used_is_booked() {
    let world = World::logins(&["a"]).await;
    let mut answer = world.ask("s", "[[pace: 100]] [[words: 200]]", true).send().await.unwrap();
    let mut read = String::new();
    while read.matches("event: content_block_delta").count() < 2 {
        read.push_str(&String::from_utf8_lossy(&answer.chunk().await.unwrap().expect("it goes on")));
    }
    drop(answer);
    provider_saw_the_end(&world).await;
    let ended = was_told_gone(&world).await;
    assert_eq!(ended["kind"]["status"], 200);
    assert!(ended["kind"]["usage"]["input"].as_u64().unwrap() > 0, "{ended}");
    nobody_is_blamed(&world).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_is_held_starts_no_further_attempt() {
    let world = World::with([AccountSpec::oauth("a")]).tables("[server.pool]\nhold_seconds = 600").start().await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(120) }));
    let asked = tokio::spawn(world.ask("s", "[[say: hi]]", true).send());
    world.events.wait_for("request_held").await;
    asked.abort();
    was_told_gone(&world).await;
    calm(&world).await;
    world.advance(130);
    world.until_state("a", "healthy").await;
    assert_eq!(world.messages().len(), 1, "nobody waits any more");
    assert_eq!(world.ask("s", "[[say: hi]]", true).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_streams_leave_nothing_behind() {
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")])
        .tables("[server.pool]\nramp_initial_concurrency = 64")
        .start()
        .await;
    let gateway = std::sync::Arc::clone(&world.running.as_ref().unwrap().gateway);
    // A first round, so that whatever is kept for good is there.
    abort_streams(&world, 100).await;
    let before = gateway.tasks.len();
    abort_streams(&world, 500).await;
    eventually(|| (gateway.tasks.len() <= before + 2).then_some(())).await;
    eventually(|| (world.sim.connections().open == 0).then_some(())).await;
    let ended = || world.events.of("request_ended");
    eventually(|| (ended().len() >= 600).then_some(())).await;
    assert!(ended().iter().all(|event| event["kind"]["close"] == "client_gone"));
    nobody_is_blamed(&world).await;
}

/// Streams that their clients leave after the first bytes.
async fn abort_streams(world: &World, count: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..20 {
        let asks: Vec<_> = (0..count / 20)
            .map(|n| world.ask(&format!("lane-{lane}-{n}"), "[[say: hi]] [[pause: 60000]]", true))
            .collect();
        tasks.spawn(async move {
            for ask in asks {
                let mut answer = ask.send().await.unwrap();
                assert_eq!(answer.status(), 200);
                answer.chunk().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}
