//! The main job in its smallest form.

use duduclaw::sim::{Fault, FaultRule};

use crate::support::{World, eventually};

#[tokio::test]
async fn a_request_is_served_by_an_account_of_the_pool() {
    let world = World::logins(&["a"]).await;
    let answer = world.ask("s", "[[say: hello]]", false).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["x-duduclaw-account"], "a");
    assert!(answer.text().await.unwrap().contains("hello"));
}

#[tokio::test]
async fn a_quota_refusal_moves_the_conversation_and_is_never_seen_by_the_client() {
    let world = World::logins(&["a", "b"]).await;
    let first = world.ask("s", "one", true).send().await.unwrap();
    let home = first.headers()["x-duduclaw-account"].to_str().unwrap().to_owned();
    first.text().await.unwrap();
    world.sim.fault(FaultRule::next(&home, 1, Fault::Quota5h { resets_in: Some(7999) }));
    let second = world.ask("s", "two", true).send().await.unwrap();
    assert_eq!(second.status(), 200);
    assert_ne!(second.headers()["x-duduclaw-account"], home.as_str());
    assert_eq!(world.until_state(&home, "rate_limited").await.cause.as_deref(), Some("quota"));
    world.events.wait_for("conversation_moved").await;
}

#[tokio::test]
async fn an_answer_that_the_client_got_whole_is_not_taken_for_one_it_gave_up() {
    let world = World::logins(&["a"]).await;
    for stream in [false, true] {
        world.ask("s", "[[say: hello]]", stream).send().await.unwrap().text().await.unwrap();
    }
    let ended = eventually(|| Some(world.events.of("request_ended")).filter(|ended| ended.len() == 2)).await;
    for event in ended {
        assert_eq!(event["kind"]["close"], "complete", "{event}");
    }
}
