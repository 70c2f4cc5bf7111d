//! What the feed says of a request's end, and of a wait.

use duduclaw::sim::{Fault, FaultRule};

use crate::support::{World, eventually};

/// A body of known length is over with its last byte: nobody asks for more, and nobody went away.
#[tokio::test]
async fn a_whole_answer_ends_complete_whether_or_not_it_is_a_stream() {
    let world = World::logins(&["a"]).await;
    for stream in [false, true] {
        let answer = world.ask("s", "[[words: 400]]", stream).send().await.unwrap();
        assert!(!answer.bytes().await.unwrap().is_empty());
    }
    let ended = eventually(|| Some(world.events.of("request_ended")).filter(|ended| ended.len() == 2)).await;
    let closes: Vec<_> = ended.iter().map(|event| event["kind"]["close"].as_str().unwrap().to_owned()).collect();
    assert_eq!(closes, ["complete", "complete"]);
}

/// One event when the wait begins, one when it is over, both of the same request.
#[tokio::test]
async fn a_client_that_waited_is_told_of_when_it_waits_and_when_it_goes_on() {
    let world =
        World::with([duduclaw::sim::AccountSpec::oauth("a")]).tables("[server.pool]\nhold_seconds = 300").start();
    let world = world.await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(120) }));
    let asking = world.ask("s", "[[say: hello]]", true).send();
    let moving = async {
        let held = world.events.wait_for("request_held").await;
        assert!(world.events.of("request_released").is_empty(), "it still waits");
        world.advance(121);
        held
    };
    let (answer, held) = tokio::join!(asking, moving);
    assert_eq!(answer.unwrap().status(), 200);
    let released = world.events.wait_for("request_released").await;
    assert_eq!(released["evidence"]["request_id"], held["evidence"]["request_id"]);
    assert_eq!((world.events.of("request_held").len(), world.events.of("request_released").len()), (1, 1));
}
