//! What the control API tells of what happened: the list, and the stream of events with its resumption.

use std::time::Duration;

use duduclaw::admin::ActivityView;
use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use serde_json::{Value, json};

use crate::seen::{got, in_order};
use crate::support::{PATIENCE, World};

/// A stream of events that is read piece by piece.
struct Stream {
    answer: reqwest::Response,
    text: String,
}

/// One event of a stream.
#[derive(Debug)]
struct Told {
    id: Option<u64>,
    name: Option<String>,
    data: Value,
}

impl Stream {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        Self { answer, text: String::new() }
    }

    /// The next block that is no comment; none at the end.
    async fn next(&mut self) -> Option<Told> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let Some(data) = field("data: ") else { continue };
                let id = field("id: ").map(|id| id.parse().unwrap());
                return Some(Told { id, name: field("event: "), data: serde_json::from_str(&data).unwrap() });
            }
            let piece = tokio::time::timeout(PATIENCE, self.answer.chunk()).await.expect("something comes");
            self.text.push_str(std::str::from_utf8(&piece.unwrap()?).unwrap());
        }
    }

    /// The next event of this kind.
    async fn kind(&mut self, kind: &str) -> Told {
        loop {
            let told = self.next().await.unwrap_or_else(|| panic!("{kind} did not come"));
            if told.data["kind"] == kind {
                return told;
            }
        }
    }
}

impl World {
    async fn follow(&self, query: &str) -> Stream {
        Stream::of(self.control("GET", &format!("/admin/api/events{query}"))).await
    }

    async fn activity(&self, query: &str) -> ActivityView {
        let list = got(self.control("GET", &format!("/admin/api/activity{query}"))).await;
        assert_eq!(list.status, 200, "{}", list.text());
        serde_json::from_slice(&list.body).unwrap()
    }
}

#[tokio::test]
async fn what_happens_is_told_as_it_happens_and_what_was_missed_when_one_comes_back() {
    let world = World::logins(&["a", "b"]).await;
    let mut stream = world.follow("").await;
    world.rpc("accounts.pause", json!({"account": "a"})).await;
    let paused = stream.kind("paused").await;
    assert_eq!((paused.id, &paused.data["account"]), (paused.data["seq"].as_u64(), &json!("a")));
    assert_eq!(paused.data["summary"], "a was paused.");
    drop(stream);
    world.rpc("accounts.resume", json!({"account": "a"})).await;
    world.rpc("accounts.pause", json!({"account": "b"})).await;
    let back = world.control("GET", "/admin/api/events").header("last-event-id", paused.id.unwrap().to_string());
    let mut stream = Stream::of(back).await;
    let (first, second) = (stream.next().await.unwrap(), stream.next().await.unwrap());
    assert_eq!((&first.data["kind"], &second.data["kind"]), (&json!("resumed"), &json!("paused")));
    assert!(first.id > paused.id && second.id > first.id);
    world.rpc("accounts.clear", json!({"account": "b"})).await;
    assert_eq!(stream.next().await.unwrap().data["kind"], "cleared", "it goes on live, with nothing twice");
}

#[tokio::test]
async fn a_stream_and_a_list_give_only_what_is_wanted() {
    let world = in_order(&["a", "b"]).await;
    let mut stream = world.follow("?severity=warning&account=a").await;
    world.rpc("accounts.pause", json!({"account": "b"})).await;
    world.rpc("accounts.resume", json!({"account": "b"})).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(600) }));
    world.turn("s", false).await.served_by("b");
    let told = stream.next().await.unwrap();
    assert_eq!((&told.data["account"], &told.data["severity"]), (&json!("a"), &json!("warning")));
    let kinds = |view: ActivityView| view.events.into_iter().map(|event| event.kind).collect::<Vec<_>>();
    assert_eq!(kinds(world.activity("?account=b").await), ["paused", "resumed", "failed_over"]);
    assert_eq!(kinds(world.activity("?account=anthropic%2Fb&kind=resumed").await), ["resumed"]);
    let all = world.activity("?limit=1000").await;
    assert!(all.events.windows(2).all(|pair| pair[0].seq < pair[1].seq) && all.last >= all.events.last().unwrap().seq);
    let newest = world.activity("?limit=2").await;
    assert_eq!(newest.events.last().unwrap().seq, all.events.last().unwrap().seq);
    let since = all.events[2].seq;
    assert_eq!(world.activity(&format!("?since={since}")).await.events.len(), all.events.len() - 3);
    for (query, status) in [("?limit=0", 400), ("?limit=1001", 400), ("?severity=grave", 400), ("?account=nobody", 404)]
    {
        assert_eq!(got(world.control("GET", &format!("/admin/api/activity{query}"))).await.status, status, "{query}");
    }
    let bad = world.control("GET", "/admin/api/events").header("last-event-id", "x");
    assert_eq!(got(bad).await.status, 400);
    assert_eq!(got(world.control("POST", "/admin/api/events")).await.status, 405);
}

/// Numbers of a store that is gone are larger than what is given now: everything known is told, after a mark.
#[tokio::test]
async fn a_number_of_an_earlier_life_is_answered_by_a_gap_and_all_that_is_known() {
    let world = World::logins(&["a"]).await;
    world.rpc("accounts.pause", json!({"account": "a"})).await;
    let mut stream = world.follow("?since=999999999999").await;
    let gap = stream.next().await.unwrap();
    assert_eq!((gap.name.as_deref(), &gap.data["after"]), (Some("gap"), &json!(999_999_999_999_u64)));
    stream.kind("started").await;
    stream.kind("paused").await;
}

/// A stop waits for nobody who merely looks on.
#[tokio::test]
async fn a_stream_ends_when_the_daemon_stops() {
    let mut world = World::logins(&["a"]).await;
    let mut stream = world.follow("").await;
    let began = tokio::time::Instant::now();
    let reading = async { while stream.next().await.is_some() {} };
    tokio::join!(reading, world.stop());
    // Idle connections have five seconds, answers that do not end have thirty.
    assert!(began.elapsed() < Duration::from_secs(15), "the stream held the stop up");
}

#[tokio::test]
async fn only_so_many_follow_at_once() {
    let world = World::logins(&["a"]).await;
    let mut streams = Vec::new();
    for _ in 0..duduclaw::admin::FOLLOWERS {
        streams.push(world.follow("").await);
    }
    let refused = got(world.control("GET", "/admin/api/events")).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    drop(streams);
    let looks = async {
        while world.control("GET", "/admin/api/events").send().await.unwrap().status() == 503 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looks).await.expect("places are free again");
}

#[tokio::test]
async fn the_order_of_a_request_is_told_with_every_reason() {
    let world = World::with(["a", "b", "c"].map(AccountSpec::oauth)).provider("strategy = \"priority\"").start().await;
    world.rpc("accounts.pause", json!({"account": "a"})).await;
    world.sim.fault(FaultRule::next("b", 1, Fault::Quota5h { resets_in: Some(600) }));
    world.turn("s", false).await.served_by("c");
    let asked = json!({"model": "claude-opus-5-5", "session": "s"});
    let told = world.rpc("route.explain", asked).await["result"].clone();
    assert_eq!(
        (&told["upstreams"][0]["upstream"], &told["upstreams"][0]["strategy"]),
        (&json!("anthropic"), &json!("priority"))
    );
    let order: Vec<_> = told["upstreams"][0]["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["account"].as_str().unwrap().to_owned(), one["place"].as_str().unwrap().to_owned()))
        .collect();
    let expected = [("anthropic/c", "chosen"), ("anthropic/b", "probe"), ("anthropic/a", "out")];
    assert_eq!(order, expected.map(|(name, place)| (name.to_owned(), place.to_owned())));
    let reasons = told["upstreams"][0]["candidates"].to_string();
    assert!(reasons.contains("a is paused by the operator") && reasons.contains("b waits until"), "{reasons}");
    let homes = world.rpc("conversations.list", json!({"account": "c"})).await["result"].clone();
    assert_eq!(homes["conversations"][0]["homes"][0]["account"], "anthropic/c", "{homes}");
    assert_eq!(world.rpc("conversations.list", json!({"account": "a"})).await["result"]["conversations"], json!([]));
    let unknown = got(world.control("GET", "/admin/api/route?model=x&provider=nowhere")).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("there are anthropic"), "{}", unknown.text());
    assert_eq!(got(world.control("GET", "/admin/api/route")).await.status, 400);
}
