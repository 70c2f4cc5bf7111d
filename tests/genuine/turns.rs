//! Claude Code at work while accounts come and go: it never sees an error, and the events explain each move.
//!
//! Every test runs with both versions. A turn of the person is five requests for a model: a tool call, a subagent with a
//! tool call of its own, a last word.

use std::time::Duration;

use duduclaw::sim::{AccountChange, AccountSpec, Fault, FaultRule, Record, SimWindow};

use crate::claude::{Claude, ERRAND, WAITS};
use crate::installed::Version;
use crate::stage::Stage;
use crate::story::Story;

/// What the client says at the end of an errand.
const DONE: &str = "All done.";

/// How long the whole pool is out.
///
/// Claude Code gives up at once on a wait of more than a minute; `DUDUCLAW_TEST_POOL_OUT_SECONDS=120` shows that it
/// sits through longer ones here, and takes that long.
pub fn pool_out() -> Duration {
    let named = std::env::var("DUDUCLAW_TEST_POOL_OUT_SECONDS").ok();
    Duration::from_secs(named.map_or(12, |text| text.parse().expect("DUDUCLAW_TEST_POOL_OUT_SECONDS is a number")))
}

macro_rules! with_both_versions {
    ($($name:ident)*) => {
        mod usual_version {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::Version::Usual).await;
            })*
        }
        mod version_2_1_332 {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::Version::Pinned).await;
            })*
        }
    };
}

with_both_versions! {
    a_quota_refusal_between_two_turns_moves_the_conversation
    an_overload_sends_one_request_elsewhere
    a_stream_cut_after_output_is_asked_for_again_by_the_client_alone
    a_token_that_expires_at_work_is_renewed
    a_token_refused_at_work_is_renewed
    a_pool_that_is_out_keeps_the_client_waiting
    everything_at_once_goes_unnoticed
    localhost_may_be_either_family
    a_dead_proxy_in_the_environment_is_no_way_to_loopback
}

fn accounts(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.account.as_deref().unwrap_or("nobody")).collect()
}

fn served(records: Vec<Record>) -> Vec<Record> {
    records.into_iter().filter(|record| record.status == Some(200) && record.faults.is_empty()).collect()
}

async fn a_quota_refusal_between_two_turns_moves_the_conversation(version: Version) {
    let stage = Stage::logins(&["a", "b"]).await;
    let claude = Claude::new(&stage, version);
    claude.turn(ERRAND, DONE).await;
    assert_eq!(accounts(&stage.messages()), ["a"; 5]);
    stage.sim.set_used("a", SimWindow::FiveHours, 1.0).unwrap();
    claude.turn(ERRAND, DONE).await;

    let second = stage.messages().split_off(5);
    assert_eq!(accounts(&second), ["a", "b", "b", "b", "b", "b"]);
    assert_eq!(second[0].status, Some(429));
    assert!(stage.messages().iter().all(|record| record.session.as_deref() == Some(claude.session())));
    let began = stage.story.tells("a", "hold_began", |what| what["cause"] == "quota").await;
    assert_eq!(began.what["stated"], "by_provider", "{began:?}");
    stage.story.failed_over("a", "quota").await;
    stage.story.tells("b", "conversation_moved", |what| what["why"] == "quota").await;
}

async fn an_overload_sends_one_request_elsewhere(version: Version) {
    let stage = Stage::logins(&["a", "b"]).await;
    let claude = Claude::new(&stage, version);
    stage.sim.fault(FaultRule::next("a", 1, Fault::Overloaded { retry_after: None }).after(1));
    claude.turn(ERRAND, DONE).await;
    // A provider that is overloaded says so in the first event as well.
    let overloaded = Fault::FirstEventError { kind: "overloaded_error".to_owned() };
    stage.sim.fault(FaultRule::next("a", 1, overloaded));
    claude.turn(ERRAND, DONE).await;

    let refused: Vec<Record> = stage.messages().into_iter().filter(|record| !record.faults.is_empty()).collect();
    let by: Vec<&str> = refused.iter().map(|record| record.faults[0].as_str()).collect();
    assert!(by.contains(&"529") && by.contains(&"first_event_error"), "{by:?}");
    assert_eq!(served(stage.messages()).len(), 10, "each request is served once");
    let moves = refused.len();
    let told = stage.story.of("failed_over");
    assert_eq!(told.iter().filter(|told| told.what["why"] == "server_error").count(), moves, "{told:?}");
}

async fn a_stream_cut_after_output_is_asked_for_again_by_the_client_alone(version: Version) {
    let stage = Stage::logins(&["a", "b"]).await;
    let claude = Claude::new(&stage, version);
    claude.turn(ERRAND, DONE).await;
    // The last word of a turn is forty words long; the answer ends among them.
    stage.sim.fault(FaultRule::next("a", 1, Fault::CutAfter { events: 12 }).after(4));
    claude.turn(ERRAND, DONE).await;

    let messages = stage.messages();
    let second = &messages[5..];
    assert_eq!(accounts(second), ["a"; 6], "the same conversation, the same account");
    assert_eq!(second[4].faults, ["cut_after"]);
    assert!(second[5].faults.is_empty() && second[5].status == Some(200));
    let cut = stage.story.tells("", "request_ended", |what| what["close"] == "cut").await;
    assert_eq!(cut.what["attempts"], 1, "bytes had reached the client, so the gateway asks nobody else");
}

async fn a_token_that_expires_at_work_is_renewed(version: Version) {
    let brief = AccountSpec { token_seconds: Some(3), ..AccountSpec::oauth("a") };
    let stage = Stage::of([brief]).start().await;
    let claude = Claude::new(&stage, version);
    let prompt = format!(r#"[[tool:Bash {{"command":"sleep 3.5"}}]] {ERRAND}"#);
    claude.turn(&prompt, DONE).await;

    stage.story.wait_for(2, "a", "token_refreshed", |_| true).await;
    assert!(served(stage.messages()).len() >= 6);
    let mut credentials: Vec<_> = served(stage.messages()).into_iter().map(|record| record.credential).collect();
    credentials.dedup();
    assert!(credentials.len() >= 2, "the turn began with one token and ended with another: {credentials:?}");
}

async fn a_token_refused_at_work_is_renewed(version: Version) {
    let stage = Stage::logins(&["a"]).await;
    let claude = Claude::new(&stage, version);
    let prompt = format!("{WAITS} {ERRAND}");
    let (turn, ()) = tokio::join!(claude.ask(&prompt), async {
        stage.answered(1).await;
        // Nobody told the gateway that this token ends now.
        stage.sim.change("a", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
        claude.go();
    });
    assert_eq!(turn, DONE);

    stage.story.tells("a", "token_refreshed", |_| true).await;
    let messages = stage.messages();
    let refused: Vec<_> = messages.iter().filter(|record| record.status == Some(401)).collect();
    assert_eq!(refused.len(), 1, "a refused token is not tried again: {:?}", accounts(&messages));
    assert_eq!(served(messages).len(), 6);
}

async fn a_pool_that_is_out_keeps_the_client_waiting(version: Version) {
    let out = pool_out();
    let stage = Stage::of(["a", "b"].map(AccountSpec::oauth)).tables("[server.pool]\nhold_seconds = 600").start().await;
    let claude = Claude::new(&stage, version).waiting(out);
    let prompt = format!("{WAITS} {ERRAND}");
    let (turn, ()) = tokio::join!(claude.ask(&prompt), async {
        stage.answered(1).await;
        let resets_in = Some(i64::try_from(out.as_secs()).expect("a few minutes"));
        for account in ["a", "b"] {
            stage.sim.fault(FaultRule::next(account, 1, Fault::Quota5h { resets_in }));
        }
        claude.go();
    });
    assert_eq!(turn, DONE);

    assert_eq!(served(stage.messages()).len(), 6, "{:?}", accounts(&stage.messages()));
    assert_eq!(stage.messages().len(), 8, "while nothing can serve, nobody is asked");
    for account in ["a", "b"] {
        stage.story.tells(account, "hold_began", |what| what["cause"] == "quota").await;
    }
    stage.story.tells("", "request_held", |what| !what["until"].is_null()).await;
    stage.story.tells_of("request_released").await;
    let waited = |what: &serde_json::Value| what["total_ms"].as_u64() >= Some(out.as_secs().saturating_sub(2) * 1000);
    let ended = stage.story.tells("", "request_ended", waited).await;
    assert_eq!(ended.what["status"], 200);
    assert!(stage.story.of("pool_exhausted").is_empty());
}

/// Two clients are at work when one account's token ends, its window fills, another is overloaded and hangs up amid an
/// answer, and all are out for a while.
async fn everything_at_once_goes_unnoticed(version: Version) {
    let stage =
        Stage::of(["a", "b", "c"].map(AccountSpec::oauth)).tables("[server.pool]\nhold_seconds = 600").start().await;
    let other = Version::BOTH.into_iter().find(|other| *other != version).expect("there are two");
    let (claude, beside) = (Claude::new(&stage, version), Claude::new(&stage, other));
    let prompt = format!("{WAITS} {ERRAND} {ERRAND}");
    let (turn, second, ()) = tokio::join!(claude.ask(&prompt), beside.ask(&prompt), async {
        stage.answered(2).await;
        go_wrong(&stage);
        claude.go();
        beside.go();
    });
    assert_eq!((turn.as_str(), second.as_str()), (DONE, DONE));

    let story = &stage.story;
    story.tells("a", "token_refreshed", |_| true).await;
    story.tells("b", "token_refreshed", |_| true).await;
    for account in ["a", "b", "c"] {
        story.tells(account, "hold_began", |what| what["cause"] == "quota").await;
    }
    story.tells("", "request_held", |_| true).await;
    story.tells_of("request_released").await;
    assert!(some_move(story, "quota") && some_move(story, "server_error"), "{:?}", story.of("failed_over"));
    assert!(story.of("pool_exhausted").is_empty(), "{:?}", story.of("pool_exhausted"));
    let sessions = [claude.session(), beside.session()];
    for session in sessions {
        let own = served(stage.messages()).into_iter().filter(|record| record.session.as_deref() == Some(session));
        assert!(own.count() >= 10, "two errands and the call before them");
    }
}

/// The first request of each ended token is refused for that; then come the faults.
fn go_wrong(stage: &Stage) {
    let expired = AccountChange { expire_tokens: true, ..AccountChange::default() };
    stage.sim.change("a", &expired).unwrap();
    stage.sim.change("b", &expired).unwrap();
    let full = |seconds| Fault::Quota5h { resets_in: Some(seconds) };
    let first_event = Fault::FirstEventError { kind: "overloaded_error".to_owned() };
    stage.sim.fault(FaultRule::next("a", 2, full(12)).after(1));
    stage.sim.fault(FaultRule::next("b", 1, Fault::Overloaded { retry_after: None }).after(1));
    stage.sim.fault(FaultRule::next("b", 1, first_event));
    stage.sim.fault(FaultRule::next("b", 2, full(9)));
    stage.sim.fault(FaultRule::next("c", 1, Fault::CutAfter { events: 4 }));
    stage.sim.fault(FaultRule::next("c", 2, full(6)));
}

fn some_move(story: &Story, why: &str) -> bool {
    story.of("failed_over").iter().any(|told| told.what["why"] == why)
}

/// C108: where `localhost` is ::1 first, a client that is told so reaches the gateway as well.
async fn localhost_may_be_either_family(version: Version) {
    let stage = Stage::of([AccountSpec::oauth("a")]).bind("localhost:0").start().await;
    let port = stage.url.rsplit(':').next().unwrap_or_default();
    Claude::new(&stage, version).at(&format!("http://localhost:{port}")).turn(ERRAND, DONE).await;
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        Claude::new(&stage, version)
            .afresh("second")
            .at(&format!("http://[::1]:{port}"))
            .turn("[[say: Here.]]", "Here.")
            .await;
    }
}

/// C109: neither the client's way to the gateway nor the gateway's to a provider on loopback is through a proxy.
async fn a_dead_proxy_in_the_environment_is_no_way_to_loopback(version: Version) {
    let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let dead = names.map(|name| (name, "http://127.0.0.1:1"));
    let plan = dead.iter().fold(Stage::of([AccountSpec::oauth("a")]), |plan, (name, value)| plan.var(name, value));
    let stage = plan.start().await;
    let told = stage.env(&dead).await;
    let told = told.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let vars = dead.into_iter().chain(told);
    vars.fold(Claude::new(&stage, version), |claude, (name, value)| claude.var(name, value)).turn(ERRAND, DONE).await;
}
