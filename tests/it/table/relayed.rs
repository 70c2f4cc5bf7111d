//! What goes to the client byte for byte: refusals that are its own affair, and every good answer.

use bytes::Bytes;
use duduclaw::sim::{Fault, FaultRule, Record};

use crate::seen::{Got, exact_provider, got, in_front_of, in_order};
use crate::support::World;

#[tokio::test]
async fn refusals_that_are_the_requests_own_affair_are_relayed_byte_for_byte() {
    let world = in_order(&["a", "b"]).await;
    let odd =
        "{ \"type\":\"error\",\n\t\"error\" : {\"type\":\"invalid_request_error\",\"message\":\"\u{5317}\u{4eac}\"}}\n";
    let exact = |status, body: &str| Fault::Status {
        status,
        headers: vec![("request-id".to_owned(), "req_odd".to_owned()), ("x-odd".to_owned(), "1".to_owned())],
        body: body.to_owned(),
    };
    let faults = [
        Fault::TooLong,
        Fault::NoSuchModel,
        Fault::TooLarge,
        exact(422, odd),
        exact(400, "not json at all"),
        exact(409, ""),
        exact(418, odd),
    ];
    let count = faults.len();
    for fault in faults {
        for stream in [false, true] {
            world.sim.fault(FaultRule::next("a", 1, fault.clone()));
            let got = world.turn("s", stream).await;
            let record = world.last("a");
            assert_eq!((Some(got.status.as_u16()), &got.body), (record.status, &record.response_body()));
            if let Fault::Status { .. } = fault {
                assert_eq!((got.header("request-id"), got.header("x-odd")), (Some("req_odd"), Some("1")));
            }
        }
    }
    world.turn("s", false).await.served_by("a");
    assert_eq!((world.hits("a"), world.hits("b")), (2 * count + 1, 0));
    world.is_well("a").await;
}

/// What the provider sent for an answer.
fn sent(world: &World, got: &Got) -> Record {
    world.sim.record(got.header("request-id").unwrap()).unwrap()
}

async fn is_the_providers(world: &World, faults: &[Fault], stream: bool) -> Bytes {
    let mut rule = FaultRule::next("a", 1, faults[0].clone());
    for more in &faults[1..] {
        rule = rule.and(more.clone());
    }
    world.sim.fault(rule);
    let got = got(world.ask("s", "[[say: \u{5317}\u{4eac}\u{1f600} [x] \u{e9}]][[words: 9]]", stream)).await;
    assert_eq!(got.status, 200, "{faults:?} {}", got.text());
    let record = sent(world, &got);
    assert!(got.whole, "{faults:?}");
    assert_eq!(got.body, record.response_body(), "{faults:?}, stream: {stream}");
    if let Some(length) = got.header("content-length") {
        assert_eq!(length, got.body.len().to_string());
    }
    let coded = faults.iter().any(|fault| matches!(fault, Fault::Gzip | Fault::FalseGzip));
    assert_eq!(got.header("content-encoding"), coded.then_some("gzip"));
    got.body
}

fn packets(sizes: &[usize], pause_millis: u64) -> Fault {
    Fault::Split { sizes: sizes.to_vec(), pause_millis }
}

/// C59, C60, C66: however an answer is framed, coded and cut into packets, the client gets the provider's bytes.
#[tokio::test]
async fn an_answer_is_relayed_byte_for_byte_however_it_is_coded_and_cut() {
    let world = in_order(&["a"]).await;
    let codings: [&[Fault]; 6] = [
        &[],
        &[Fault::Gzip],
        &[Fault::FalseGzip],
        &[Fault::OddFraming],
        &[Fault::OddFraming, Fault::Gzip],
        &[Fault::OddFraming, Fault::FalseGzip],
    ];
    for coding in codings {
        for sizes in [&[1][..], &[2], &[3], &[7], &[64], &[1, 5, 300], &[4096]] {
            for stream in [false, true] {
                let faults = [coding, &[packets(sizes, 0)]].concat();
                is_the_providers(&world, &faults, stream).await;
            }
        }
    }
    world.is_well("a").await;
}

/// C59: a packet's end at every place of the answer, in the middle of characters and of line ends.
#[tokio::test]
async fn an_answer_is_relayed_byte_for_byte_at_every_split() {
    let world = in_order(&["a"]).await;
    for coding in [&[][..], &[Fault::OddFraming], &[Fault::Gzip]] {
        let whole = is_the_providers(&world, &[coding, &[packets(&[1 << 20], 0)]].concat(), true).await;
        let step = if coding.is_empty() { 1 } else { 5 };
        for at in (1..whole.len()).step_by(step) {
            is_the_providers(&world, &[coding, &[packets(&[at, 1 << 20], 1)]].concat(), true).await;
        }
    }
}

/// C66: also where the answer is a refusal.
#[tokio::test]
async fn a_refusal_is_relayed_byte_for_byte_whatever_its_label_says() {
    let world = in_order(&["a"]).await;
    for refusal in [Fault::NoSuchModel, Fault::TooLong, Fault::LongContext] {
        for coding in [Fault::Gzip, Fault::FalseGzip] {
            world.sim.fault(FaultRule::next("a", 1, refusal.clone()).and(coding));
            let got = world.turn("s", false).await;
            let record = world.last("a");
            assert_eq!((Some(got.status.as_u16()), &got.body), (record.status, &record.response_body()));
            assert_eq!(got.header("content-encoding"), Some("gzip"));
            assert_eq!(got.header("content-length"), Some(&*got.body.len().to_string()));
        }
    }
    world.is_well("a").await;
}

/// A compressed error is understood all the same: the refused account is left.
#[tokio::test]
async fn a_compressed_refusal_is_understood() {
    for coding in [Fault::Gzip, Fault::FalseGzip] {
        let world = in_order(&["a", "b"]).await;
        world.sim.fault(FaultRule::next("a", 1, Fault::BalanceEmpty).and(coding.clone()));
        world.turn("s", false).await.served_by("b");
        world.until_state("a", "budget_exhausted").await;
        let kind = "overloaded_error".to_owned();
        world.sim.fault(FaultRule::next("b", 1, Fault::FirstEventError { kind }).and(coding));
        let got = world.turn("s", true).await;
        assert_eq!(got.status, 529, "{}", got.text());
        assert!(got.text().contains("overloaded_error"), "readable: {}", got.text());
        assert_eq!(got.header("content-encoding"), None);
    }
}

#[tokio::test]
async fn a_status_that_http_does_not_have_for_answers_is_a_502_that_says_so() {
    let heads = [
        ("101", "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
        ("600", "HTTP/1.1 600 Beyond\r\ncontent-length: 2\r\n\r\n{}"),
        ("999", "HTTP/1.1 999 Denied\r\ncontent-length: 0\r\n\r\n"),
    ];
    for (status, head) in heads {
        for stream in [false, true] {
            let world = in_front_of(&exact_provider(head.to_owned()).await).await;
            let got = got(world.ask("s", "hi", stream)).await;
            assert_eq!(got.status, 502, "{status}");
            assert!(got.text().contains(status) && got.text().contains("api_error"), "{}", got.text());
            world.is_well("a").await;
        }
    }
}
