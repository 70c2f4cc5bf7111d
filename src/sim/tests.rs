//! The simulator over real sockets.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn start(config: SimConfig) -> SimHandle {
    let clock = Arc::new(ManualClock::at(Timestamp::at_millis(1_800_000_000_000)));
    Sim::start(config, clock, LOOPBACK).await.expect("loopback has a free port")
}

async fn one_key() -> SimHandle {
    start(SimConfig::with([AccountSpec::api_key("k")])).await
}

fn request(sim: &SimHandle, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let key = sim.credentials("k").map(|held| held.token).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: sim\r\nx-api-key: {key}\r\nanthropic-version: 2023-06-01\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

async fn begin(sim: &SimHandle, method: &str, path: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(sim.address()).await.expect("it listens");
    stream.write_all(&request(sim, method, path, body)).await.expect("it reads");
    stream
}

/// The raw answer, chunk framing included, and whether the connection ended without an error.
async fn exchange(sim: &SimHandle, method: &str, path: &str, body: &[u8]) -> (String, bool) {
    let mut stream = begin(sim, method, path, body).await;
    let mut raw = Vec::new();
    let ended = stream.read_to_end(&mut raw).await;
    (String::from_utf8_lossy(&raw).into_owned(), ended.is_ok())
}

async fn control(sim: &SimHandle, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (raw, _) = exchange(sim, method, path, body.to_string().as_bytes()).await;
    let (head, body) = raw.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn ask(prompt: &str, stream: bool) -> Vec<u8> {
    let message = json!({"role": "user", "content": prompt});
    json!({"model": "claude-sonnet-5", "max_tokens": 5000, "stream": stream, "messages": [message]})
        .to_string()
        .into_bytes()
}

async fn asked(sim: &SimHandle, prompt: &str) -> (String, bool) {
    exchange(sim, "POST", "/v1/messages?beta=true", &ask(prompt, true)).await
}

async fn ended(sim: &SimHandle, id: u64) -> Record {
    sim.until(|log| log.iter().any(|record| record.id == id && record.ending != Ending::Open)).await;
    sim.log().into_iter().find(|record| record.id == id).expect("it has ended")
}

#[tokio::test]
async fn a_stream_comes_event_by_event_and_its_bytes_are_kept() {
    let sim = one_key().await;
    let (raw, clean) = asked(&sim, "[[say: 北京😀]]").await;
    assert!(clean && raw.starts_with("HTTP/1.1 200 OK\r\n"));
    let record = ended(&sim, 1).await;
    assert_eq!((record.ending, record.status, record.stream), (Ending::Complete, Some(200), true));
    let sent = String::from_utf8(record.response_body().to_vec()).expect("UTF-8");
    assert!(
        sent.starts_with("event: message_start\n")
            && sent.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
    );
    for event in sent.split_inclusive("\n\n") {
        assert!(raw.contains(&format!("\r\n{:X}\r\n{event}\r\n", event.len())), "a chunk of its own: {event}");
    }
    assert_eq!(record.body_digest, digest(&ask("[[say: 北京😀]]", true)));
}

#[tokio::test]
async fn an_answer_without_stream_states_its_length() {
    let sim = one_key().await;
    let (raw, _) = exchange(&sim, "POST", "/v1/messages", &ask("hi", false)).await;
    let (head, body) = raw.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert_eq!(serde_json::from_str::<Value>(body).expect("JSON")["stop_reason"], "end_turn");
}

/// Field case C62: when a client goes away is known at once, mid-stream and before the head.
#[tokio::test]
async fn a_client_that_goes_away_is_seen() {
    let sim = one_key().await;
    for fault in [Fault::StallAfter { events: 2 }, Fault::StallBeforeHead] {
        sim.clear_log();
        sim.fault(FaultRule::next("k", 1, fault));
        let mut stream = begin(&sim, "POST", "/v1/messages", &ask("hi", true)).await;
        sim.until(|log| log.len() == 1).await;
        let record = sim.log().remove(0);
        if record.status.is_some() {
            let mut first = [0; 16];
            stream.read_exact(&mut first).await.expect("the head came");
        }
        assert_eq!(sim.log()[0].ending, Ending::Open);
        drop(stream);
        assert_eq!(ended(&sim, record.id).await.ending, Ending::ClientClosed);
    }
}

#[tokio::test]
async fn a_cut_stream_ends_without_its_last_chunk() {
    let sim = one_key().await;
    sim.fault(FaultRule::next("k", 1, Fault::CutAfter { events: 3 }));
    let (raw, _) = asked(&sim, "hi").await;
    assert_eq!(raw.matches("event: ").count(), 3);
    assert!(!raw.ends_with("0\r\n\r\n"));
    assert_eq!(ended(&sim, 1).await.ending, Ending::Broken);
}

#[tokio::test]
async fn connections_can_be_reset_closed_or_refused() {
    let sim = one_key().await;
    sim.fault(FaultRule::next("k", 1, Fault::ResetBeforeHead));
    assert_eq!(asked(&sim, "hi").await, (String::new(), false), "reset");
    sim.fault(FaultRule::next("k", 1, Fault::RefuseConnection));
    assert_eq!(asked(&sim, "hi").await, (String::new(), true), "closed");
    sim.fault(FaultRule::next("k", 1, Fault::ResetAfter { events: 1 }));
    assert!(!asked(&sim, "hi").await.1, "reset in the middle");
    sim.refuse_connections(Refusal::Refusing);
    let mut stream = TcpStream::connect(sim.address()).await.expect("the listener is there");
    assert!(!matches!(stream.read(&mut [0; 1]).await, Ok(1..)));
    sim.refuse_connections(Refusal::Accepting);
    assert!(asked(&sim, "hi").await.0.starts_with("HTTP/1.1 200"));
}

/// Field case C59: the same bytes, one by one.
#[tokio::test]
async fn packets_can_be_of_one_byte() {
    let sim = one_key().await;
    sim.fault(FaultRule::next("k", 1, Fault::Split { sizes: vec![1], pause_millis: 0 }));
    let (raw, _) = asked(&sim, "[[say: 北京]]").await;
    let sent = ended(&sim, 1).await.sent_bytes;
    assert_eq!(raw.matches("\r\n1\r\n").count(), sent);
}

/// Field case C66: the label lies.
#[tokio::test]
async fn a_false_gzip_label_stands_over_plain_bytes() {
    let sim = one_key().await;
    sim.fault(FaultRule::next("k", 1, Fault::NoSuchModel).and(Fault::FalseGzip));
    let (raw, _) = asked(&sim, "hi").await;
    assert!(raw.starts_with("HTTP/1.1 404") && raw.contains("content-encoding: gzip\r\n"));
    assert!(raw.contains("\"not_found_error\""));
}

/// Field case C68.
#[tokio::test]
async fn a_body_of_31_mebibytes_is_taken_and_33_are_too_many() {
    let sim = one_key().await;
    for (mebibytes, status) in [(31, "HTTP/1.1 200"), (33, "HTTP/1.1 413")] {
        let image = json!({"type": "image", "source": {"type": "base64", "data": "A".repeat(mebibytes << 20)}});
        let message = json!({"role": "user", "content": [image]});
        let body = json!({"model": "claude-sonnet-5", "max_tokens": 10, "messages": [message]}).to_string();
        let (raw, _) = exchange(&sim, "POST", "/v1/messages", body.as_bytes()).await;
        assert!(raw.starts_with(status), "{}", raw.lines().next().unwrap_or_default());
        assert_eq!(sim.log().pop().map(|record| record.body_bytes), Some(body.len()));
    }
}

#[tokio::test]
async fn the_controls_do_over_http_what_the_handle_does() {
    let sim = start(SimConfig::with([AccountSpec::api_key("k"), AccountSpec::oauth("a")])).await;
    let rule = json!({"account": "k", "times": 1, "faults": [{"fault": "529", "retry_after": "3"}]});
    assert_eq!(control(&sim, "POST", "/_sim/faults", &rule).await.0, 200);
    assert!(asked(&sim, "hi").await.0.starts_with("HTTP/1.1 529"));
    let used = control(&sim, "POST", "/_sim/accounts/a", &json!({"used": {"5h": 0.5}})).await;
    assert_eq!(used.1["windows"][0]["utilization"], 0.5);
    assert_eq!(control(&sim, "POST", "/_sim/clock", &json!({"advance_seconds": 18_000})).await.0, 200);
    assert_eq!(sim.accounts()[1].windows[0].utilization, 0.0);
    let (_, log) = control(&sim, "GET", "/_sim/log?since=0", &Value::Null).await;
    assert_eq!(
        (log.as_array().map(Vec::len), &log[0]["faults"][0]),
        (Some(1), &json!("529")),
        "controls are not logged"
    );
    let (raw, _) = exchange(&sim, "GET", "/_sim/log/1/request", b"").await;
    assert!(raw.ends_with(&String::from_utf8_lossy(&ask("hi", true)).into_owned()));
    assert_eq!(control(&sim, "POST", "/_sim/accounts", &json!({"name": "b", "kind": "oauth"})).await.0, 200);
    assert!(sim.credentials("b").is_some());
    control(&sim, "POST", "/_sim/reset", &Value::Null).await;
    assert!(sim.log().is_empty() && sim.credentials("b").is_none());
}

#[tokio::test]
async fn a_control_that_makes_no_sense_says_why() {
    let sim = one_key().await;
    for (path, body, part) in [
        ("/_sim/accounts/x", json!({}), "no account"),
        ("/_sim/accounts/k", json!({"used": {"9h": 1.0}}), "no window"),
        ("/_sim/accounts", json!({"name": "k"}), "name of its own"),
        ("/_sim/faults", json!({"faults": [{"fault": "sunday"}]}), "sunday"),
        ("/_sim/faults", json!({"faults": [{"fault": "status", "status": 7}]}), "200 to 599"),
        ("/_sim/nothing", json!({}), "no such control"),
    ] {
        let (status, answer) = control(&sim, "POST", path, &body).await;
        assert!(status >= 400 && answer["error"].as_str().is_some_and(|text| text.contains(part)), "{path}: {answer}");
    }
    assert!(matches!(
        Sim::start(SimConfig::default(), Arc::new(SystemClock::default()), ([0, 0, 0, 0], 0).into()).await,
        Err(SimError::NotLoopback(_))
    ));
}

#[tokio::test]
async fn a_clock_that_is_not_ours_is_not_moved() {
    let clock: SharedClock = Arc::new(SystemClock::default());
    let sim = Sim::start(SimConfig::default(), clock, LOOPBACK).await.expect("loopback has a free port");
    assert!(matches!(sim.advance(Duration::from_secs(1)), Err(SimError::FixedClock)));
}

#[tokio::test]
async fn stopping_closes_every_connection() {
    let sim = one_key().await;
    sim.fault(FaultRule::standing("k", Fault::StallBeforeHead));
    let mut stream = begin(&sim, "POST", "/v1/messages", &ask("hi", true)).await;
    sim.until(|log| log.len() == 1).await;
    assert_eq!(sim.connections(), Connections { accepted: 1, open: 1 });
    sim.stop().await;
    assert!(!matches!(stream.read(&mut [0; 1]).await, Ok(1..)));
}
