//! Outages of logins: told once when the last one goes, once when one works again, to whoever the configuration names.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use duduclaw::sim::{AccountSpec, Endpoint, Fault, FaultRule};
use serde_json::Value;

use crate::seen::got;
use crate::support::{World, WorldBuilder, eventually};

/// What a receiver got: the id, the signature, the body.
type Got = (String, String, Value);

/// Someone who takes webhooks, unless told to refuse them.
#[derive(Clone, Default)]
struct Receiver {
    got: Arc<Mutex<Vec<Got>>>,
    refused: Arc<Mutex<u32>>,
    refusing: Arc<Mutex<bool>>,
}

impl Receiver {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/hook", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        format!("http://{address}/hook")
    }

    fn kinds(&self) -> Vec<String> {
        self.got.lock().unwrap().iter().map(|(_, _, body)| body["kind"].as_str().unwrap().to_owned()).collect()
    }

    async fn until(&self, count: usize) -> Vec<Got> {
        eventually(|| Some(self.got.lock().unwrap().clone()).filter(|got| got.len() >= count)).await
    }
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if *receiver.refusing.lock().unwrap() {
        *receiver.refused.lock().unwrap() += 1;
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    let got = (text("x-duduclaw-id"), text("x-duduclaw-signature"), serde_json::from_slice(&body).unwrap());
    receiver.got.lock().unwrap().push(got);
    StatusCode::NO_CONTENT
}

fn told(accounts: impl IntoIterator<Item = AccountSpec>, url: &str) -> WorldBuilder {
    World::with(accounts)
        .tables(
            "[notify]\nchannel = \"webhook\"\ntarget = \"ops\"\n\
             [channels.webhook.ops]\nurl_env = \"OPS_URL\"\nsecret_env = \"OPS_SECRET\"",
        )
        .var("OPS_URL", url)
        .var("OPS_SECRET", "canary-of-the-webhook")
}

async fn kill(world: &World, names: &[&str]) {
    for name in names {
        world.sim.fault(FaultRule::standing(name, Fault::Unauthorized));
        world.sim.fault(FaultRule::standing(name, Fault::Unauthorized).on(Endpoint::Models));
    }
    world.turn("s", false).await;
    for name in names {
        world.until_state(name, "auth_dead").await;
    }
}

#[tokio::test]
async fn an_outage_is_told_once_and_its_end_once() {
    let receiver = Receiver::default();
    let world = told([AccountSpec::setup_token("a"), AccountSpec::setup_token("b")], &receiver.start().await);
    let world = world.start().await;
    kill(&world, &["a", "b"]).await;
    let began = world.events.wait_for("outage_began").await;
    assert_eq!(began["severity"], "error");
    assert_eq!(began["kind"]["accounts"].as_array().unwrap().len(), 2);
    for session in ["t", "u", "v"] {
        world.turn(session, false).await;
    }
    let [(id, signature, body)] = &receiver.until(1).await[..] else { panic!("one message") };
    assert_eq!(body["id"], Value::from(id.as_str()));
    assert_eq!(body["accounts"], serde_json::json!(["anthropic/a", "anthropic/b"]));
    assert!(body["text"].as_str().unwrap().contains("No login or key of provider anthropic works any more"), "{body}");
    assert!(signature.starts_with("sha256=") && signature.len() == 71, "{signature}");

    // Tried again and refused again, it is still the same outage.
    let held = || world.events.of("hold_began").iter().filter(|event| event["kind"]["hold"] == "auth_dead").count();
    let before = held();
    world.advance(16 * 60);
    // Each is asked about once; no question is on its way when the clock jumps.
    eventually(|| (held() >= before + 2).then_some(())).await;
    world.turn("s", false).await;
    world.sim.clear_faults(None);
    world.advance(7 * 3600);
    world.until_well("a").await;
    assert_eq!(world.turn("s", false).await.status, 200);
    world.events.wait_for("outage_ended").await;
    receiver.until(2).await;
    assert_eq!(receiver.kinds(), ["outage_began", "outage_ended"]);
    assert_eq!(world.events.of("outage_began").len(), 1);
}

/// What was told before a restart is not told again after it; numbers of events go on.
#[tokio::test]
async fn an_outage_outlives_a_restart_in_silence_and_its_end_is_told_by_the_next_run() {
    let receiver = Receiver::default();
    let world = told([AccountSpec::setup_token("a"), AccountSpec::setup_token("b")], &receiver.start().await);
    let mut world = world.start().await;
    kill(&world, &["a", "b"]).await;
    receiver.until(1).await;
    let last = world.events.all().last().unwrap().seq;
    world.restart().await;
    world.until_state("a", "auth_dead").await;
    world.turn("t", false).await;
    assert!(world.events.all().last().unwrap().seq > last);
    world.sim.clear_faults(None);
    world.advance(7 * 3600);
    world.until_well("a").await;
    assert_eq!(world.turn("s", false).await.status, 200);
    receiver.until(2).await;
    assert_eq!(receiver.kinds(), ["outage_began", "outage_ended"]);
    let numbers: Vec<u64> = world.events.all().iter().map(|event| event.seq).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "no number is given twice");
}

/// A message that nobody took before a restart is sent after it, under the same id.
#[tokio::test]
async fn a_message_that_was_not_taken_is_sent_by_the_next_run() {
    let receiver = Receiver::default();
    *receiver.refusing.lock().unwrap() = true;
    let mut world = told([AccountSpec::setup_token("a")], &receiver.start().await).start().await;
    kill(&world, &["a"]).await;
    eventually(|| (*receiver.refused.lock().unwrap() >= 1).then_some(())).await;
    world.stop().await;
    *receiver.refusing.lock().unwrap() = false;
    world.restart().await;
    let [(id, _, _)] = &receiver.until(1).await[..] else { panic!("one message") };
    assert!(id.starts_with("outage_began-"), "{id}");
}

#[tokio::test]
async fn a_message_is_sent_until_its_receiver_takes_it_always_under_the_same_id() {
    let receiver = Receiver::default();
    *receiver.refusing.lock().unwrap() = true;
    let world = told([AccountSpec::setup_token("a")], &receiver.start().await).start().await;
    kill(&world, &["a"]).await;
    for times in 1..4 {
        eventually(|| (*receiver.refused.lock().unwrap() >= times).then_some(())).await;
        world.advance(900);
    }
    *receiver.refusing.lock().unwrap() = false;
    world.advance(900);
    let [(id, _, body)] = &receiver.until(1).await[..] else { panic!("one message") };
    assert!(id.starts_with("outage_began-provider:anthropic-"), "{id}");
    assert_eq!(body["kind"], "outage_began");
    assert_eq!(world.events.of("message_delayed").len(), 1, "told once, however often it is tried");
    let arrived = world.events.wait_for("message_arrived").await;
    assert_eq!(
        (&arrived["kind"]["message_id"], &arrived["kind"]["target"]),
        (&serde_json::json!(id), &serde_json::json!("ops"))
    );
}

/// The feed's events of delivery are a list of their own.
#[tokio::test]
async fn what_did_not_arrive_is_listed_and_what_was_given_up_can_be_asked_for_alone() {
    let receiver = Receiver::default();
    *receiver.refusing.lock().unwrap() = true;
    let world = told([AccountSpec::setup_token("a")], &receiver.start().await).start().await;
    let kinds = async |query: &str| -> Vec<String> {
        let said = got(world.control("GET", &format!("/admin/api/failures{query}"))).await.json();
        let events = said["events"].as_array().unwrap().iter();
        events.map(|event| format!("{} {}", event["kind"].as_str().unwrap(), event["detail"]["channel"])).collect()
    };
    assert_eq!(kinds("").await, [""; 0]);
    kill(&world, &["a"]).await;
    world.events.wait_for("message_delayed").await;
    assert_eq!(kinds("").await, ["message_delayed \"webhook\""]);
    world.advance(4 * 24 * 3600);
    world.events.wait_for("message_lost").await;
    let both = ["message_delayed \"webhook\"", "message_lost \"webhook\""];
    assert_eq!(kinds("").await, both);
    assert_eq!(kinds("?lost=true").await, both[1..]);
    assert_eq!(kinds("?limit=1").await, both[1..]);
    let called = world.rpc("failures.list", serde_json::json!({"lost": true})).await;
    assert_eq!(called["result"]["events"].as_array().unwrap().len(), 1);
    assert_eq!(got(world.control("GET", "/admin/api/failures?limit=0")).await.status, 400);
    let named = got(world.control("GET", "/admin/api/activity?kind=message_lost,outage_began")).await.json();
    assert_eq!(named["events"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn one_login_that_works_or_hits_only_its_quota_is_no_outage() {
    let world = World::with([AccountSpec::setup_token("a"), AccountSpec::oauth("b"), AccountSpec::setup_token("c")])
        .account("c", "disabled = true")
        .start()
        .await;
    world.sim.fault(FaultRule::standing("b", Fault::Quota5h { resets_in: None }).on(Endpoint::Messages));
    kill(&world, &["a"]).await;
    world.until_state("b", "rate_limited").await;
    assert!(world.events.of("outage_began").is_empty());
    world.sim.clear_faults(Some("b"));
    world.sim.fault(FaultRule::standing("b", Fault::OrgDisabled));
    world.advance(5 * 3600);
    world.turn("s", false).await;
    world.events.wait_for("outage_began").await;
}

/// The address of a webhook may hold a secret: it stands in no event, no view and no error.
#[tokio::test]
async fn neither_address_nor_key_of_a_webhook_is_told() {
    let receiver = Receiver::default();
    let url = format!("{}?token=canary-in-the-address", receiver.start().await);
    *receiver.refusing.lock().unwrap() = true;
    let world = told([AccountSpec::setup_token("a")], &url).start().await;
    kill(&world, &["a"]).await;
    eventually(|| (*receiver.refused.lock().unwrap() >= 1).then_some(())).await;
    world.advance(4 * 24 * 3600);
    let lost = world.events.wait_for("message_lost").await;
    let all: String = world.events.all().iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    assert!(!all.contains("canary"), "{lost}");
    assert!(lost["kind"]["why"].as_str().unwrap().contains("503"), "{lost}");
}

/// A setup token that ends within a week is warned of once, also after a restart.
#[tokio::test]
async fn a_setup_token_that_ends_soon_is_warned_of() {
    let world = World::with([AccountSpec::oauth("a")]).start().await;
    let path = world.home.path().join("a.json");
    let mut login = crate::support::login(&world.sim, "a");
    login["claudeAiOauth"].as_object_mut().unwrap().remove("refreshToken");
    login["claudeAiOauth"]["expiresAt"] = ((world.now() + 5 * 86_400 + 60) * 1000).into();
    std::fs::write(&path, login.to_string()).unwrap();
    world.reload().await;
    let warned = world.events.wait_for("credential_expiring").await;
    assert_eq!((&warned["kind"]["days"], &warned["severity"]), (&5.into(), &"warning".into()));
    world.reload().await;
    world.turn("s", false).await.served_by("a");
    assert_eq!(world.events.of("credential_expiring").len(), 1);
}
