//! Several faults that meet in one request: its tries are used up, and not every account is out. It is held all the same.

use duduclaw::sim::{AccountSpec, Fault, FaultRule};

use super::{held, quota, seconds_until, spawn};
use crate::support::World;

/// Accounts that are tried in this order, and waits of at most five minutes.
async fn several(names: &[&str]) -> World {
    let world = World::with(names.iter().map(|name| AccountSpec::oauth(name)));
    world.tables("[server.pool]\nhold_seconds = 300\n[rotation]\nstrategy = \"failover\"\n").start().await
}

fn strikes(world: &World, name: &str, times: u32) {
    world.sim.fault(FaultRule::next(name, times, Fault::Overloaded { retry_after: None }));
}

fn by(world: &World) -> Vec<String> {
    world.messages().into_iter().filter_map(|record| record.account).collect()
}

#[tokio::test]
async fn a_request_whose_only_open_account_failed_it_asks_that_one_again_while_the_other_waits_for_its_quota() {
    let world = several(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, quota(7200)));
    strikes(&world, "b", 1);
    let request = spawn(world.ask("s", "hi", true));
    held(&world, 1).await;
    let waited = seconds_until(&world, &request).await;
    assert_eq!(request.await.unwrap().status(), 200);
    assert!(waited < 60, "{waited} s");
    assert_eq!(by(&world), ["a", "b", "b"]);
}

#[tokio::test]
async fn a_request_that_tried_its_open_account_goes_on_when_the_soonest_of_the_others_returns() {
    let world = several(&["a", "b", "c"]).await;
    world.sim.fault(FaultRule::next("a", 1, quota(7200)));
    world.sim.fault(FaultRule::next("b", 1, Fault::Overloaded { retry_after: Some("20".to_owned()) }));
    world.sim.fault(FaultRule::standing("c", Fault::ServerError));
    let request = spawn(world.ask("s", "hi", false));
    held(&world, 1).await;
    let waited = seconds_until(&world, &request).await;
    assert_eq!(request.await.unwrap().status(), 200);
    assert!((17..=29).contains(&waited), "{waited} s");
    let by = by(&world);
    assert_eq!(
        (&by[..4], &by[by.len() - 1]),
        (&["a", "b", "c", "c"].map(str::to_owned)[..], &"b".to_owned()),
        "{by:?}"
    );
    assert!(by.len() <= 9, "c is asked once more, then probed after 1, 2, 4 and 8 s: {by:?}");
    assert!(world.events.of("pool_exhausted").is_empty());
}

#[tokio::test]
async fn a_request_that_failed_everywhere_once_is_not_refused() {
    let world = several(&["a", "b"]).await;
    strikes(&world, "a", 1);
    strikes(&world, "b", 1);
    let request = spawn(world.ask("s", "hi", true));
    held(&world, 1).await;
    seconds_until(&world, &request).await;
    assert_eq!(request.await.unwrap().status(), 200);
    assert_eq!(by(&world), ["a", "b", "a"]);
}

#[tokio::test]
async fn a_request_after_a_429_that_states_nothing_is_held_with_its_hop_made() {
    let world = several(&["a", "b", "c"]).await;
    for name in ["a", "b"] {
        world.sim.fault(FaultRule::next(name, 1, Fault::ThrottleUnstated));
    }
    let request = spawn(world.ask("s", "hi", true));
    held(&world, 1).await;
    assert_eq!(by(&world), ["a", "b"], "one hop, and a rest");
    seconds_until(&world, &request).await;
    assert_eq!(request.await.unwrap().status(), 200);
    assert_eq!(by(&world), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_request_whose_provider_bears_no_further_attempts_waits_until_it_does() {
    let names: Vec<String> = (0..15).map(|n| format!("a{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = several(&names).await;
    names.iter().for_each(|name| strikes(&world, name, 1));
    let request = spawn(world.ask("s", "hi", true));
    held(&world, 1).await;
    assert_eq!(world.messages().len(), 12, "the first, a free move, and ten more");
    let waited = seconds_until(&world, &request).await;
    assert_eq!(request.await.unwrap().status(), 200);
    assert!(waited >= 8, "{waited} s");
    assert_eq!(world.messages().len(), 13);
}

#[tokio::test]
async fn a_request_that_an_open_account_always_fails_asks_it_ever_more_seldom_whatever_else_happens() {
    let world =
        World::with(["a", "b"].map(AccountSpec::oauth)).tables("[server.pool]\nhold_seconds = 300\n").start().await;
    for name in ["a", "b"] {
        world.sim.fault(FaultRule::standing(name, Fault::ServerError).for_model("opus"));
    }
    let others = async |count: usize| {
        for n in 0..count {
            let body = serde_json::json!({"model": "claude-haiku-4-5", "max_tokens": 9,
                "messages": [{"role": "user", "content": format!("[[say: {n}]]")}]});
            assert_eq!(world.post("/v1/messages").json(&body).send().await.unwrap().status(), 200);
        }
    };
    let request = spawn(world.ask("s", "hi", true));
    held(&world, 1).await;
    let failures = || world.messages().iter().filter(|record| record.status == Some(500)).count();
    for _ in 0..18 {
        // All others are served by either, so that neither ever seems to be in trouble.
        others(4).await;
        world.advance(1);
    }
    let seen = failures();
    assert!((6..=10).contains(&seen), "{seen} attempts: at once, and after 1, 3, 7 and 15 s");
    others(40).await;
    assert_eq!(failures(), seen, "what others do wakes nobody whose tries are used up");
    world.sim.clear_faults(None);
    seconds_until(&world, &request).await;
    assert_eq!(request.await.unwrap().status(), 200);
}
