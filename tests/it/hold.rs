//! `hold_seconds`: clients wait, without a byte, instead of a final refusal that waiting would cure.

mod faults;

use std::time::Duration;

use duduclaw::sim::{AccountSpec, Fault, FaultRule, Refusal};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;

use crate::support::{PATIENCE, World, eventually, read_all, read_until, status};

fn quota(seconds: i64) -> Fault {
    Fault::Quota5h { resets_in: Some(seconds) }
}

/// A pool of one account that is out for so long from its next request on, and waits of at most `hold`.
async fn out(hold: u32, resets_in: i64, server: &str) -> World {
    let world = World::with([AccountSpec::oauth("a")])
        .server(server)
        .tables(&format!("[server.pool]\nhold_seconds = {hold}\n"))
        .start()
        .await;
    world.sim.fault(FaultRule::next("a", 1, quota(resets_in)));
    world
}

fn spawn(request: reqwest::RequestBuilder) -> JoinHandle<reqwest::Response> {
    tokio::spawn(async move { request.send().await.unwrap() })
}

async fn held(world: &World, count: usize) {
    eventually(|| (world.events.of("request_held").len() >= count).then_some(())).await;
}

/// Lets time pass until the request is answered; by how many seconds.
async fn seconds_until(world: &World, request: &JoinHandle<reqwest::Response>) -> u64 {
    for passed in 0..600 {
        if eventually_within(Duration::from_millis(200), || request.is_finished()).await {
            return passed;
        }
        world.advance(1);
    }
    panic!("it is held for good");
}

async fn eventually_within(patience: Duration, done: impl Fn() -> bool) -> bool {
    let look = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(patience, look).await.is_ok()
}

#[tokio::test]
async fn a_pool_that_is_out_for_two_minutes_is_waited_for_without_a_byte() {
    for stream in [true, false] {
        let world = out(300, 120, "").await;
        let body = format!(
            "{{\"model\":\"claude-opus-5-5\",\"max_tokens\":64,\"stream\":{stream},\"messages\":[{{\"role\":\"user\",\"content\":\"[[say: here again]]\"}}]}}"
        );
        let mut connection = world.connect().await;
        let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\nx-claude-code-session-id: s\r\nx-stainless-timeout: 600\r\n";
        connection.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
        held(&world, 1).await;
        world.advance(100);
        world.until_state("a", "rate_limited").await;
        let mut byte = [0];
        let nothing = connection.try_read(&mut byte).unwrap_err();
        assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock, "not a byte while it waits");
        world.advance(21);
        let answer = read_all(&mut connection).await;
        assert_eq!(status(&answer), 200);
        assert!(answer.contains("here again"), "{answer}");
        assert_eq!(world.messages().len(), 2, "one refusal, one answer");
    }
}

#[tokio::test]
async fn a_wait_longer_than_the_clients_patience_is_cut_into_slices_and_ends_with_the_truth() {
    let world = out(150, 7200, "").await;
    world.sim.clear_faults(None);
    world.sim.fault(FaultRule::standing("a", quota(7200)));
    let ask = || world.ask("s", "hi", true).header("x-stainless-timeout", "90");
    let first = spawn(ask());
    held(&world, 1).await;
    world.advance(61);
    let slice = first.await.unwrap();
    assert_eq!((slice.status().as_u16(), &slice.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    let second = spawn(ask());
    held(&world, 2).await;
    world.advance(61);
    assert_eq!(second.await.unwrap().headers()["retry-after"], "1");
    let last = spawn(ask());
    held(&world, 3).await;
    world.advance(40);
    let truth = last.await.unwrap();
    assert_eq!(truth.status(), 429);
    let wait: u64 = truth.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((7000..=7200).contains(&wait), "{wait}");
    assert_eq!(truth.headers()["anthropic-ratelimit-unified-status"], "rejected");
}

#[tokio::test]
async fn who_waits_asks_an_account_whose_return_is_a_guess_when_its_probe_is_due() {
    let world = out(300, 120, "").await;
    world.sim.clear_faults(None);
    world.sim.fault(FaultRule::next("a", 1, Fault::AggregateRejected { resets_in: None, retry_after: None }));
    let waiting = spawn(world.ask("s", "hi", false));
    held(&world, 1).await;
    world.advance(2);
    let answer = tokio::time::timeout(PATIENCE, waiting).await.expect("long before the two minutes that we guessed");
    assert_eq!(answer.unwrap().status(), 200);
    assert_eq!(world.messages().len(), 2);
}

/// Its own probes fail while the network is out, and each makes the back-off longer.
#[tokio::test]
async fn who_waits_through_an_outage_of_the_network_is_served_soon_after_it() {
    let world = World::with(["a", "b"].map(AccountSpec::oauth));
    let world = world.tables("[server.pool]\nhold_seconds = 600\n").start().await;
    world.sim.refuse_connections(Refusal::Refusing);
    let waiting = spawn(world.ask("s", "hi", false));
    held(&world, 1).await;
    for _ in 0..100 {
        world.advance(1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!waiting.is_finished());
    world.sim.refuse_connections(Refusal::Accepting);
    world.advance(61);
    let answer = tokio::time::timeout(PATIENCE / 2, waiting).await.expect("a probe is due within a minute");
    assert_eq!(answer.unwrap().status(), 200);
    assert!(world.events.of("pool_exhausted").is_empty());
}

#[tokio::test]
async fn a_wait_that_no_time_would_cure_is_not_begun() {
    let world =
        World::with([AccountSpec::setup_token("a")]).tables("[server.pool]\nhold_seconds = 300\n").start().await;
    world.sim.fault(FaultRule::standing("a", Fault::OrgDisabled));
    let answer = world.ask("s", "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["x-should-retry"], "false");
    assert!(world.events.of("request_held").is_empty());
}

#[tokio::test]
async fn at_most_half_of_the_places_wait() {
    let world = out(300, 120, "max_concurrent_requests = 4").await;
    let mut waiting = Vec::new();
    for n in 0..2 {
        waiting.push(spawn(world.ask(&format!("s{n}"), "hi", false)));
        held(&world, n + 1).await;
    }
    let third = world.ask("s3", "hi", false).send().await.unwrap();
    assert_eq!(third.status(), 429, "no place to wait is left");
    assert!(third.headers().contains_key("retry-after"));
    world.advance(121);
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_waits_frees_its_place() {
    let world = out(300, 120, "max_concurrent_requests = 2").await;
    let mut leaving = world.connect().await;
    let body = "{\"model\":\"claude-opus-5-5\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nanthropic-version: 2023-06-01\r\n";
    leaving.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    held(&world, 1).await;
    assert_eq!(world.ask("t", "hi", false).send().await.unwrap().status(), 429);
    drop(leaving);
    eventually(|| world.events.of("request_ended").into_iter().find(|event| event["kind"]["close"] == "client_gone"))
        .await;
    let next = spawn(world.ask("t", "hi", false));
    held(&world, 2).await;
    world.advance(121);
    assert_eq!(next.await.unwrap().status(), 200);
    assert_eq!(world.messages().len(), 2, "nothing was sent for the one that left");
}

#[tokio::test]
async fn those_who_waited_are_let_out_one_by_one_first() {
    let world = out(300, 120, "").await;
    let mut waiting = Vec::new();
    for n in 0..6 {
        waiting.push(spawn(world.ask(&format!("s{n}"), "hi", false)));
        held(&world, n + 1).await;
    }
    let refused = world.messages().len();
    world.sim.fault(FaultRule::standing("a", Fault::DelayHead { millis: 150 }));
    world.advance(121);
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status(), 200);
    }
    let sent: Vec<_> = world.messages().split_off(refused);
    assert_eq!(sent.len(), 6);
    assert!(sent[1].at >= sent[0].at + 140, "the second went out {} ms after the first", sent[1].at - sent[0].at);
}

#[tokio::test]
async fn a_stop_answers_those_who_wait() {
    let mut world = out(300, 120, "shutdown_timeout_seconds = 0").await;
    let waiting = spawn(world.ask("s", "hi", true));
    held(&world, 1).await;
    let stopped = tokio::time::timeout(Duration::from_secs(10), world.stop());
    let (stopped, answer) = tokio::join!(stopped, waiting);
    stopped.expect("it stops in time");
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 429);
    assert!(answer.headers().contains_key("retry-after"));
    assert!(answer.text().await.unwrap().contains("rate_limit_error"));
}

#[tokio::test]
async fn beside_inference_nobody_waits() {
    let world = out(300, 120, "").await;
    let held_one = spawn(world.ask("s", "hi", false));
    held(&world, 1).await;
    let models = world.client.get(format!("{}/v1/models", world.url)).send().await.unwrap();
    assert!(models.status().is_client_error() || models.status().is_success());
    assert_eq!(world.events.of("request_held").len(), 1);
    world.advance(121);
    assert_eq!(held_one.await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_held_connection_can_be_used_again() {
    let world = out(300, 60, "").await;
    let mut connection = world.connect().await;
    let body = "{\"model\":\"claude-opus-5-5\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"[[say: ok]]\"}]}";
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    held(&world, 1).await;
    world.advance(61);
    assert_eq!(status(&read_until(&mut connection, "ok").await), 200);
    connection.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status(&read_until(&mut connection, "ok").await), 200);
}
