//! The bounds: sizes, bytes in memory, requests at once, and bodies that are no good.

use duduclaw::sim::AccountSpec;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::{World, eventually, read_until, status};

const HEAD: &str = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nanthropic-version: 2023-06-01\r\n";

fn kind(answer: &str) -> String {
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    let body = &body[body.find('{').unwrap_or(0)..=body.rfind('}').unwrap_or(0)];
    let value: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {answer:?}"));
    assert_eq!(value["type"], "error");
    value["error"]["type"].as_str().unwrap().to_owned()
}

async fn figure(world: &World, line: &str) -> bool {
    let text = world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    text.lines().any(|found| found == line)
}

/// C68: a body above the limit is refused in the client's protocol, and counted.
#[tokio::test]
async fn a_body_announced_too_large_is_refused_before_it_is_sent() {
    let world = World::logins(&["a"]).await;
    let answer = world.raw(format!("{HEAD}content-length: 33554433\r\n\r\n")).await;
    assert_eq!((status(&answer), kind(&answer).as_str()), (413, "request_too_large"));
    assert!(answer.contains("max_request_bytes"), "{answer}");
    assert!(figure(&world, "duduclaw_refused_total{status=\"413\"} 1").await);
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn a_body_that_grows_too_large_on_the_way_is_refused() {
    let world =
        World::with([AccountSpec::oauth("a")]).tables("[server.limits]\nmax_request_bytes = 4096\n").start().await;
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
    let answer = world.raw(format!("{HEAD}transfer-encoding: chunked\r\n\r\n{chunk}{chunk}")).await;
    assert_eq!((status(&answer), kind(&answer).as_str()), (413, "request_too_large"));
    assert!(world.sim.log().is_empty());
}

/// A client that sends it all before it reads must still be able to read why.
#[tokio::test]
async fn a_client_that_sends_too_much_hears_why_and_not_a_reset() {
    let world = World::logins(&["a"]).await;
    for _ in 0..3 {
        let answer = world.post("/v1/messages").body(vec![b'x'; 34 * 1024 * 1024]).send().await.unwrap();
        assert_eq!(answer.status(), 413);
    }
}

/// C68: two bodies of the field, and one just below the limit, reach the provider whole.
#[tokio::test]
async fn large_bodies_reach_the_provider() {
    let world = World::logins(&["a"]).await;
    for size in [2_100_000, 31 * 1024 * 1024] {
        let image = "A".repeat(size);
        let body = json!({"model": "claude-opus-5-5", "max_tokens": 16, "messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
            {"type": "text", "text": "hi"}]}]});
        let bytes = serde_json::to_vec(&body).unwrap();
        let answer = world.post("/v1/messages").body(bytes.clone()).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{size}");
        let record = world.messages().pop().unwrap();
        assert_eq!(record.body_bytes, bytes.len());
        assert_eq!(record.body_digest, duduclaw::sim::digest(&bytes));
    }
}

#[tokio::test]
async fn headers_and_urls_are_bounded() {
    let world = World::logins(&["a"]).await;
    let line = |bytes: usize| format!("host: localhost\r\nx-big: {}\r\n", "h".repeat(bytes));
    let ask = async |target: &str, lines: &str| {
        world.raw(format!("GET {target} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n")).await
    };
    assert_eq!(status(&ask("/readyz", &line(60_000)).await), 200);
    let refused = ask("/readyz", &line(70_000)).await;
    assert_eq!((status(&refused), kind(&refused).as_str()), (431, "invalid_request_error"));
    assert_eq!(status(&ask("/readyz", &line(400_000)).await), 431);
    assert_eq!(status(&ask(&format!("/readyz?{}", "q".repeat(8000)), "host: localhost\r\n").await), 200);
    let refused = ask(&format!("/readyz?{}", "q".repeat(8192)), "host: localhost\r\n").await;
    assert_eq!((status(&refused), kind(&refused).as_str()), (414, "invalid_request_error"));
    assert_eq!(status(&ask(&format!("/readyz?{}", "q".repeat(70_000)), "host: localhost\r\n").await), 414);
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn all_bodies_in_memory_together_are_bounded() {
    let world = World::with([AccountSpec::oauth("a")])
        .tables("[server.limits]\nmax_request_bytes = 65536\nmax_buffered_bytes = 69632\n")
        .start()
        .await;
    let mut slow = world.connect().await;
    let most = "x".repeat(65_000);
    slow.write_all(format!("{HEAD}content-length: 65536\r\n\r\n{most}").as_bytes()).await.unwrap();
    let ask = || world.ask("s", &"x".repeat(9000), false).send();
    let refused = refused_eventually(&ask).await;
    assert_eq!(refused.headers()["retry-after"], "1");
    let body: Value = refused.json().await.unwrap();
    assert_eq!(body["error"]["type"], "overloaded_error");
    drop(slow);
    served_eventually(&ask).await;
}

#[tokio::test]
async fn uploads_that_are_only_announced_keep_nobody_out() {
    let tables = "[server.limits]\nmax_request_bytes = 65536\nmax_buffered_bytes = 69632\n";
    let world = World::with([AccountSpec::oauth("a")]).tables(tables).start().await;
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut upload = world.connect().await;
        let head = format!("{HEAD}expect: 100-continue\r\ncontent-length: 65536\r\n\r\n");
        upload.write_all(head.as_bytes()).await.unwrap();
        // The go-ahead shows that its body is being read.
        assert_eq!(status(&read_until(&mut upload, "\r\n\r\n").await), 100);
        upload.write_all(b"{").await.unwrap();
        stalled.push(upload);
    }
    let answer = world.ask("s", &"x".repeat(9000), false).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

async fn refused_eventually<F: Future<Output = reqwest::Result<reqwest::Response>>>(
    ask: &impl Fn() -> F,
) -> reqwest::Response {
    for _ in 0..200 {
        let answer = ask().await.unwrap();
        if answer.status() == 503 {
            return answer;
        }
        answer.text().await.unwrap();
    }
    panic!("the room was never full");
}

async fn served_eventually<F: Future<Output = reqwest::Result<reqwest::Response>>>(ask: &impl Fn() -> F) {
    for _ in 0..2000 {
        if ask().await.unwrap().status() == 200 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the room did not become free");
}

#[tokio::test]
async fn requests_at_once_are_bounded_until_the_last_byte() {
    let world = World::with([AccountSpec::oauth("a")]).server("max_concurrent_requests = 1").start().await;
    world.sim.set_pace(20);
    let first = world.ask("s", "[[words: 40]]", true).send().await.unwrap();
    let second = world.ask("t", "hi", false).send().await.unwrap();
    assert_eq!((second.status().as_u16(), &second.headers()["retry-after"]), (503, &"1".parse().unwrap()));
    let body: Value = second.json().await.unwrap();
    assert_eq!(body["error"]["type"], "overloaded_error");
    first.text().await.unwrap();
    world.sim.set_pace(0);
    served_eventually(&|| world.ask("t", "hi", false).send()).await;
}

#[tokio::test]
async fn no_bound_means_none() {
    let world = World::with([AccountSpec::oauth("a")]).server("max_concurrent_requests = 0").start().await;
    assert_eq!(world.ask("s", "hi", false).send().await.unwrap().status(), 200);
}

const UNREADABLE: [&str; 4] = [
    "{\"model\": \"claude-opus-5-5\", ",
    "[1, 2]",
    "{\"model\": \"claude-opus-5-5\", \"model\": \"claude-haiku-4-5\", \"max_tokens\": 1, \"messages\": []}",
    "not json at all",
];

#[tokio::test]
async fn what_cannot_be_read_goes_to_the_provider_as_it_is() {
    let world = World::logins(&["a"]).await;
    for body in UNREADABLE {
        world.post("/v1/messages").body(body).send().await.unwrap();
        let record = world.messages().pop().unwrap();
        assert_eq!(record.request_body().unwrap(), body.as_bytes());
    }
    assert_eq!(world.messages().len(), UNREADABLE.len());
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_where_a_limit_must_be_kept() {
    let tables = "[server.auth]\n[[server.auth.clients]]\nname = \"c\"\ntoken_env = \"C\"\nmodels = [\"claude-*\"]\n";
    let world = World::with([AccountSpec::oauth("a")]).tables(tables).var("C", "limited-token").start().await;
    for body in UNREADABLE {
        let answer = world.post("/v1/messages").header("x-api-key", "limited-token").body(body).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{body}");
        let said: Value = answer.json().await.unwrap();
        assert_eq!(said["error"]["type"], "invalid_request_error");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn a_badly_framed_body_is_refused() {
    let world = World::logins(&["a"]).await;
    for chunks in ["zz\r\nxx\r\n0\r\n\r\n", "5\r\nabcdeXX0\r\n\r\n", "ffffffffffffffffff\r\nx\r\n"] {
        let answer = world.raw(format!("{HEAD}transfer-encoding: chunked\r\n\r\n{chunks}")).await;
        assert_eq!(status(&answer), 400, "{chunks:?}");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_sends_costs_nothing_and_frees_its_place() {
    let world = World::with([AccountSpec::oauth("a")]).server("max_concurrent_requests = 1").start().await;
    let mut leaving = world.connect().await;
    leaving.write_all(format!("{HEAD}content-length: 1000\r\n\r\n{{\"model\"").as_bytes()).await.unwrap();
    refused_eventually(&|| world.ask("s", "hi", false).send()).await;
    let served = world.messages().len();
    drop(leaving);
    served_eventually(&|| world.ask("s", "hi", false).send()).await;
    assert_eq!(world.messages().len(), served + 1);
    let ended = eventually(|| {
        let ended = world.events.of("request_ended");
        ended.into_iter().find(|event| event["kind"]["attempts"] == 0)
    });
    assert_eq!(ended.await["kind"]["close"], "client_gone");
}

#[tokio::test]
async fn a_client_that_waits_for_a_go_ahead_gets_it() {
    let world = World::logins(&["a"]).await;
    let body = json!({"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
        .to_string();
    let mut connection = world.connect().await;
    let head = format!("{HEAD}connection: close\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n", body.len());
    connection.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(status(&read_until(&mut connection, "\r\n\r\n").await), 100);
    connection.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(status(&crate::support::read_all(&mut connection).await), 200);
}
