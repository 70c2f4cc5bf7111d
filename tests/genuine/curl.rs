//! curl: the protocol as a script sees it.

use std::path::Path;

use duduclaw::sim::{AccountChange, AccountSpec, Fault, FaultRule, SimWindow};
use serde_json::{Value, json};

use crate::kin::{self, Finished};
use crate::stage::Stage;
use crate::turns::pool_out;

/// Asks for a stream; the status stands in the last line.
async fn ask(stage: &Stage, prompt: &str, more: &[&str]) -> Finished {
    let body = json!({
        "model": "claude-sonnet-5", "max_tokens": 64, "stream": true,
        "messages": [{"role": "user", "content": prompt}],
    });
    let mut command = kin::program(Path::new("curl"), stage.folder.path());
    command.args(["-q", "-sS", "-N", "-w", "\n%{http_code}", "--noproxy", "*", "--max-time", "300"]);
    command.args(["-H", "content-type: application/json", "-H", "anthropic-version: 2023-06-01"]).args(more);
    command.args(["-d", &body.to_string()]).arg(format!("{}/v1/messages", stage.url));
    kin::run(command, kin::PATIENCE + pool_out()).await
}

/// Asks, and sees a whole stream.
async fn served(stage: &Stage) {
    let finished = ask(stage, "[[words: 20]]", &[]).await;
    assert_eq!((finished.code, finished.err.as_str()), (Some(0), ""), "{finished:?}");
    assert!(finished.out.ends_with("\n200"), "{finished:?}");
    assert!(finished.out.starts_with("event: message_start\n"), "{finished:?}");
    assert!(finished.out.contains("event: message_stop\n") && !finished.out.contains("event: error"), "{finished:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_window_an_overload_and_an_ended_token_go_unnoticed() {
    let stage = Stage::logins(&["a", "b", "c", "d"]).await;
    served(&stage).await;
    stage.sim.set_used("a", SimWindow::SevenDays, 1.0).unwrap();
    served(&stage).await;
    stage.sim.fault(FaultRule::next("b", 1, Fault::Overloaded { retry_after: None }));
    served(&stage).await;
    stage.sim.fault(FaultRule::next("c", 1, Fault::FirstEventError { kind: "overloaded_error".to_owned() }));
    served(&stage).await;
    for account in ["b", "c", "d"] {
        stage.sim.change(account, &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
    }
    served(&stage).await;
    stage.story.tells("a", "hold_began", |what| what["cause"] == "quota").await;
    stage.story.failed_over("a", "quota").await;
    let refreshed = crate::story::eventually(|| stage.story.of("token_refreshed").pop()).await;
    assert!(refreshed.is_some());
    let overloaded = |told: &crate::story::Told| told.what["why"] == "server_error";
    assert!(stage.story.of("failed_over").iter().any(overloaded));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_out_is_waited_for() {
    let stage = Stage::of(["a"].map(AccountSpec::oauth)).tables("[server.pool]\nhold_seconds = 600").start().await;
    let resets_in = Some(i64::try_from(pool_out().as_secs()).expect("a few minutes"));
    stage.sim.fault(FaultRule::next("a", 1, Fault::Quota7d { resets_in }));
    served(&stage).await;
    stage.story.tells("", "request_held", |_| true).await;
    stage.story.tells_of("request_released").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_out_without_holding_is_told_with_the_time_of_its_return() {
    let stage = Stage::logins(&["a", "b"]).await;
    stage.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(900) }));
    stage.sim.fault(FaultRule::next("b", 1, Fault::Quota5h { resets_in: Some(300) }));
    let finished = ask(&stage, "[[say: hi]]", &["-i"]).await;
    assert!(finished.out.starts_with("HTTP/1.1 429 ") && finished.out.ends_with("\n429"), "{finished:?}");
    let head = finished.out.to_ascii_lowercase();
    let after = head.lines().find_map(|line| line.strip_prefix("retry-after: ")?.trim().parse::<u64>().ok());
    assert!(after.is_some_and(|seconds| (290..=301).contains(&seconds)), "the soonest return: {finished:?}");
    assert!(!head.contains("x-duduclaw-account"), "{finished:?}");
    stage.story.tells("", "pool_exhausted", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_cut_after_output_ends_with_an_error_event() {
    let stage = Stage::logins(&["a", "b"]).await;
    stage.sim.fault(FaultRule::next("a", 1, Fault::CutAfter { events: 6 }));
    let finished = ask(&stage, "[[words: 30]]", &[]).await;
    let last = finished.out.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap_or_default();
    let event: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{finished:?}"));
    assert_eq!(event["type"], "error", "{finished:?}");
    assert_eq!(stage.messages().len(), 1, "bytes had reached the client");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_request_are_relayed_byte_for_byte() {
    let stage = Stage::logins(&["a", "b"]).await;
    stage.sim.fault(FaultRule::next("a", 1, Fault::TooLong));
    let finished = ask(&stage, "[[say: hi]]", &[]).await;
    let sent = stage.messages()[0].response_body();
    assert_eq!(finished.out, format!("{}\n400", String::from_utf8_lossy(&sent)));
}
