//! The Anthropic Python SDK with its retries off: whatever it does not see, the gateway kept from it.

use std::path::Path;

use duduclaw::sim::{AccountChange, AccountSpec, Fault, FaultRule, SimWindow};
use serde_json::{Value, json};

use crate::installed;
use crate::kin;
use crate::stage::Stage;
use crate::turns::pool_out;

/// Runs these calls in one process, and gives what each came to.
async fn calls(stage: &Stage, calls: &[&str]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/genuine/sdk.py");
    let mut command = kin::program(&installed::python(), &stage.home("python"));
    command.arg(script).args(calls).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("ANTHROPIC_BASE_URL", &stage.url).env("ANTHROPIC_API_KEY", "nobody's");
    let finished = kin::run(command, kin::PATIENCE + pool_out()).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let told: Vec<Value> = finished.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), calls.len(), "{finished:?}");
    told
}

/// Everything that a program does with it, in one process.
async fn all_goes_well(stage: &Stage) {
    let told = calls(stage, &["stream [[words: 30]]", "create [[say: hi]]", "count [[say: hi]]", "models"]).await;
    assert_eq!(told[0]["stop"], "end_turn", "{told:?}");
    assert_eq!(told[0]["text"].as_str().map(|text| text.split(' ').count()), Some(30), "{told:?}");
    assert_eq!(told[1], json!({"text": "hi"}));
    assert!(told[2]["tokens"].as_u64() > Some(0), "{told:?}");
    assert!(told[3]["models"].as_array().is_some_and(|models| models.len() >= 5), "{told:?}");
    // Answers of a stated length are over with their last byte, though nobody comes for their end.
    let ended = stage.story.of("request_ended");
    assert!(ended.iter().all(|told| told.what["close"] == "complete"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_answers_counts_and_models_come_through() {
    let stage = Stage::logins(&["a"]).await;
    all_goes_well(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_window_goes_unnoticed() {
    let stage = Stage::logins(&["a", "b"]).await;
    stage.sim.set_used("a", SimWindow::FiveHours, 1.0).unwrap();
    all_goes_well(&stage).await;
    stage.story.tells("a", "hold_began", |what| what["cause"] == "quota").await;
    stage.story.failed_over("a", "quota").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overloads_go_unnoticed() {
    let stage = Stage::logins(&["a", "b", "c"]).await;
    stage.sim.fault(FaultRule::next("a", 1, Fault::FirstEventError { kind: "overloaded_error".to_owned() }));
    stage.sim.fault(FaultRule::next("b", 1, Fault::Overloaded { retry_after: None }));
    all_goes_well(&stage).await;
    stage.story.failed_over("a", "server_error").await;
    stage.story.failed_over("b", "server_error").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_end_go_unnoticed() {
    let brief = AccountSpec { token_seconds: Some(2), ..AccountSpec::oauth("a") };
    let stage = Stage::of([brief]).start().await;
    all_goes_well(&stage).await;
    stage.sim.change("a", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
    all_goes_well(&stage).await;
    stage.story.wait_for(2, "a", "token_refreshed", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_out_is_waited_for() {
    let stage = Stage::of(["a", "b"].map(AccountSpec::oauth)).tables("[server.pool]\nhold_seconds = 600").start().await;
    let resets_in = Some(i64::try_from(pool_out().as_secs()).expect("a few minutes"));
    for account in ["a", "b"] {
        stage.sim.fault(FaultRule::next(account, 1, Fault::Quota5h { resets_in }));
    }
    all_goes_well(&stage).await;
    stage.story.tells("", "request_held", |_| true).await;
    stage.story.tells_of("request_released").await;
}

/// What had reached the program cannot be taken back: it is told, as the provider would tell it, and nobody is asked
/// a second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_cut_after_output_is_an_error_of_the_protocol() {
    let stage = Stage::logins(&["a", "b"]).await;
    stage.sim.fault(FaultRule::next("a", 1, Fault::CutAfter { events: 6 }));
    let told = calls(&stage, &["stream [[words: 30]]", "stream [[say: again]]"]).await;
    assert_eq!(told[0]["body"]["type"], "error", "{told:?}");
    assert!(told[0]["body"]["error"]["type"].is_string(), "{told:?}");
    assert_eq!(told[1]["text"], "again");
    assert_eq!(stage.messages().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_request_arrive_as_the_provider_worded_them() {
    let stage = Stage::logins(&["a", "b"]).await;
    stage.sim.fault(FaultRule::next("a", 1, Fault::TooLong));
    let told = calls(&stage, &["create [[say: hi]]"]).await;
    assert_eq!((&told[0]["error"], &told[0]["status"]), (&json!("BadRequestError"), &json!(400)));
    let text = told[0]["body"]["error"]["message"].as_str().unwrap_or_default();
    assert!(text.starts_with("prompt is too long: "), "{told:?}");
    assert_eq!(stage.messages().len(), 1, "another account would say the same");
}
