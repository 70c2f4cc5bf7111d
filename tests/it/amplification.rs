//! With every account dead, clients get the truth, and the provider is not stormed.

use std::time::Duration;

use duduclaw::sim::{AccountSpec, Fault, FaultRule, Refusal};

use crate::storm::{Seen, calm, requests, storm};
use crate::support::{World, eventually};

const REQUESTS: usize = 1200;
/// Those that are held take their time.
const HELD: usize = 300;

/// How many attempts were made, by what the events of ended requests tell.
async fn attempts(world: &World, requests: usize) -> u64 {
    eventually(|| (world.events.of("request_ended").len() >= requests).then_some(())).await;
    let ended = world.events.of("request_ended");
    assert_eq!(ended.len(), requests);
    ended.iter().map(|event| event["kind"]["attempts"].as_u64().unwrap()).sum()
}

/// The outage lasts ten minutes: time goes on while the requests come.
async fn outage(world: &World) -> Vec<Seen> {
    let clock = world.clock.clone();
    let step = move |done: usize| {
        if done.is_multiple_of(40) {
            clock.advance(Duration::from_secs(20));
        }
    };
    storm(64, requests(world, REQUESTS), step).await
}

async fn recovers(world: &World) {
    world.advance(16 * 60);
    let seen = storm(8, requests(world, 24), |_| ()).await;
    assert!(seen.iter().all(Seen::is_whole), "{seen:?}");
    for name in ["a", "b", "c"] {
        world.until_state(name, "healthy").await;
    }
    calm(world).await;
}

async fn with_everybody_answering(fault: Fault, status: u16) {
    let world = World::logins(&["a", "b", "c"]).await;
    for name in ["a", "b", "c"] {
        world.sim.fault(FaultRule::standing(name, fault.clone()));
    }
    let seen = outage(&world).await;
    let odd: Vec<&Seen> = seen.iter().filter(|s| s.status != Some(status) && s.status != Some(502)).collect();
    assert!(odd.is_empty(), "{} odd answers, the first: {:?}", odd.len(), odd[0]);
    assert!(seen.iter().all(|s| s.body.contains("\"type\":\"error\"") || s.body.contains("\"type\": \"error\"")));
    assert!(seen.iter().any(|s| s.status == Some(status)), "the provider's own words are passed on");
    let attempts = attempts(&world, REQUESTS).await;
    assert_eq!(attempts, world.messages().len() as u64, "the events tell of every attempt");
    assert!(attempts * 10 <= REQUESTS as u64 * 12, "{attempts} attempts for {REQUESTS} requests");
    world.sim.clear_faults(None);
    recovers(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_provider_is_not_stormed() {
    with_everybody_answering(Fault::Overloaded { retry_after: None }, 529).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_provider_is_not_stormed() {
    with_everybody_answering(Fault::ServerError, 500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_takes_no_connection_is_not_stormed() {
    let world = World::logins(&["a", "b", "c"]).await;
    world.sim.refuse_connections(Refusal::Refusing);
    let seen = outage(&world).await;
    assert!(seen.iter().all(|s| s.status == Some(502)), "{:?}", seen.iter().find(|s| s.status != Some(502)));
    let attempts = attempts(&world, REQUESTS).await;
    assert!(attempts * 10 <= REQUESTS as u64 * 12, "{attempts} attempts for {REQUESTS} requests");
    world.sim.refuse_connections(Refusal::Accepting);
    recovers(&world).await;
}

/// The outage lasts as long as it takes: clients that are held get their answers as time goes on.
async fn held_outage(world: &World, requests: Vec<reqwest::RequestBuilder>) -> Vec<Seen> {
    let storm = storm(64, requests, |_| ());
    let time = async {
        loop {
            tokio::time::sleep(Duration::from_millis(4)).await;
            world.clock.advance(Duration::from_millis(500));
        }
    };
    tokio::select! {
        seen = storm => seen,
        () = time => unreachable!("time does not end"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_held_do_not_storm_a_dead_provider() {
    for fault in [Fault::Overloaded { retry_after: None }, Fault::ThrottleUnstated, Fault::Quota5h { resets_in: None }]
    {
        let names = ["a", "b", "c"];
        let world =
            World::with(names.map(AccountSpec::oauth)).tables("[server.pool]\nhold_seconds = 40\n").start().await;
        for name in names {
            world.sim.fault(FaultRule::standing(name, fault.clone()));
        }
        let seen = held_outage(&world, requests(&world, HELD)).await;
        let odd: Vec<&Seen> = seen.iter().filter(|s| ![Some(429), Some(502), Some(529)].contains(&s.status)).collect();
        assert!(odd.is_empty(), "{} odd answers, the first: {:?}", odd.len(), odd[0]);
        let attempts = attempts(&world, HELD).await;
        assert_eq!(attempts, world.messages().len() as u64, "the events tell of every attempt");
        assert!(attempts * 10 <= HELD as u64 * 12, "{attempts} attempts for {HELD} requests of {fault:?}");
        calm(&world).await;
    }
}
