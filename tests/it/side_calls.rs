//! Beside inference: `count_tokens`, models, what is passed through, readiness, figures, and the control API's pool.

use duduclaw::sim::{AccountSpec, Endpoint, Fault, FaultRule, Refusal};
use serde_json::{Value, json};

use crate::support::World;

fn count(world: &World) -> reqwest::RequestBuilder {
    let body = json!({"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "hi"}]});
    world.post("/v1/messages/count_tokens?beta=true").header("x-claude-code-session-id", "s").json(&body)
}

async fn get(world: &World, target: &str) -> reqwest::Response {
    world.client.get(format!("{}{target}", world.url)).send().await.unwrap()
}

/// The client's context view asks 26 times at once.
#[tokio::test]
async fn many_counts_at_once_are_under_no_allowance() {
    let world =
        World::with([AccountSpec::oauth("a")]).tables("[server.pool]\nramp_initial_concurrency = 1\n").start().await;
    let rule = FaultRule::standing("a", Fault::DelayHead { millis: 300 }).on(Endpoint::CountTokens);
    world.sim.fault(rule);
    let asked: Vec<_> = (0..26).map(|_| tokio::spawn(count(&world).send())).collect();
    for asked in asked {
        let answer = asked.await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        let said: Value = answer.json().await.unwrap();
        assert!(said["input_tokens"].as_u64().unwrap() > 0);
    }
    let at: Vec<i64> = world.sim.log().iter().map(|record| record.at).collect();
    assert_eq!(at.len(), 26);
    assert!(at.iter().max().unwrap() - at.iter().min().unwrap() < 3000, "one after the other would take 7.8 s");
}

/// C73: a failed count is passed back, and the account serves on.
#[tokio::test]
async fn a_failed_count_is_relayed_and_cools_no_account() {
    for fault in [Fault::ServerError, Fault::Overloaded { retry_after: None }, Fault::ThrottleUnstated] {
        let world = World::logins(&["a"]).await;
        world.sim.fault(FaultRule::standing("a", fault.clone()).on(Endpoint::CountTokens));
        for _ in 0..4 {
            let answer = count(&world).send().await.unwrap();
            let expected = world.sim.log().pop().unwrap();
            assert_eq!(answer.status().as_u16(), expected.status.unwrap(), "{fault:?}");
            assert_eq!(answer.bytes().await.unwrap(), expected.response_body(), "{fault:?}");
            assert!(expected.path.ends_with("?beta=true"));
        }
        let account = world.account("a").await;
        assert_eq!((account.state.as_str(), account.available), ("healthy", true), "{fault:?}");
        assert_eq!(world.ask("s", "hi", false).send().await.unwrap().status(), 200);
    }
}

/// A provider without the endpoint is asked once; a model that is not there is the request's own affair.
#[tokio::test]
async fn a_provider_that_counts_no_tokens_is_remembered_and_the_count_is_estimated() {
    let world = World::logins(&["a"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::NoSuchModel).on(Endpoint::CountTokens));
    assert_eq!(count(&world).send().await.unwrap().status(), 404);
    let body = "<html>404 page not found</html>".to_owned();
    let missing = Fault::Status { status: 404, headers: Vec::new(), body };
    world.sim.fault(FaultRule::standing("a", missing).on(Endpoint::CountTokens));
    for _ in 0..3 {
        let answer = count(&world).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["x-duduclaw-estimated"], "input_tokens");
        let said: Value = answer.json().await.unwrap();
        assert!((5..60).contains(&said["input_tokens"].as_u64().unwrap()), "{said}");
    }
    assert_eq!(world.sim.log().len(), 2, "once it is known, nobody is asked");
}

#[tokio::test]
async fn a_refused_credential_counts_beside_inference_too() {
    let world = World::with([AccountSpec::setup_token("a"), AccountSpec::setup_token("b")]).start().await;
    world.sim.fault(FaultRule::standing("a", Fault::Unauthorized).on(Endpoint::CountTokens));
    world.sim.fault(FaultRule::standing("b", Fault::Unauthorized).on(Endpoint::CountTokens));
    let answer = count(&world).send().await.unwrap();
    assert!(![401, 403].contains(&answer.status().as_u16()), "a client would log its user out");
    assert_eq!(world.until_state("a", "auth_dead").await.state, "auth_dead");
}

#[tokio::test]
async fn models_are_the_providers() {
    let world = World::logins(&["a"]).await;
    let answer = world
        .client
        .get(format!("{}/v1/models?limit=1000", world.url))
        .header("anthropic-version", "2023-06-01")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    let said: Value = answer.json().await.unwrap();
    assert!(said["data"].as_array().unwrap().iter().any(|model| model["id"] == "claude-opus-5-5"), "{said}");
    assert_eq!(world.sim.log()[0].path, "/v1/models?limit=1000");
}

#[tokio::test]
async fn what_is_passed_through_has_one_attempt_and_its_answer_is_relayed() {
    let faults = [
        Fault::ServerError,
        Fault::Overloaded { retry_after: Some("3".to_owned()) },
        Fault::Throttle { retry_after: "5".to_owned() },
        Fault::Quota5h { resets_in: Some(60) },
        Fault::Forbidden,
        Fault::TooLarge,
    ];
    for fault in faults {
        let world = World::logins(&["a", "b"]).await;
        world.sim.fault(FaultRule::standing("a", fault.clone()).for_all().on(Endpoint::Other));
        let answer = world.post("/v1/messages/batches?x=1").body("{\"requests\": []}").send().await.unwrap();
        let log = world.sim.log();
        assert_eq!(log.len(), 1, "{fault:?}");
        assert_eq!(Some(answer.status().as_u16()), log[0].status, "{fault:?}");
        assert_eq!(log[0].path, "/v1/messages/batches?x=1");
        assert_eq!(log[0].request_body().unwrap(), "{\"requests\": []}".as_bytes());
        assert_eq!(answer.bytes().await.unwrap(), log[0].response_body());
    }
}

/// What was passed through may not bear being sent twice.
#[tokio::test]
async fn what_is_passed_through_is_not_sent_again_after_a_reset() {
    let world = World::logins(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::ResetBeforeHead).for_all().on(Endpoint::Other));
    let answer = world.post("/v1/messages/batches").body("{}").send().await.unwrap();
    assert_eq!(answer.status(), 502);
    assert_eq!(world.sim.log().len(), 1);
}

#[tokio::test]
async fn what_is_passed_through_keeps_its_method_and_goes_to_the_conversations_account() {
    let world = World::logins(&["a", "b"]).await;
    let first = world.ask("s", "hi", false).send().await.unwrap();
    let home = first.headers()["x-duduclaw-account"].to_str().unwrap().to_owned();
    for method in [reqwest::Method::DELETE, reqwest::Method::GET, reqwest::Method::PUT, reqwest::Method::PATCH] {
        let request = world.client.request(method.clone(), format!("{}/v1/files/f1", world.url));
        request.header("x-claude-code-session-id", "s").send().await.unwrap();
        let record = world.sim.log().pop().unwrap();
        assert_eq!((record.method.as_str(), record.account.as_deref()), (method.as_str(), Some(home.as_str())));
    }
}

#[tokio::test]
async fn ready_is_whether_an_account_can_serve() {
    let world = World::logins(&["a"]).await;
    assert_eq!(get(&world, "/readyz").await.status(), 200);
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(600) }));
    world.ask("s", "hi", false).send().await.unwrap();
    world.until_state("a", "rate_limited").await;
    assert_eq!(get(&world, "/readyz").await.status(), 503);
    assert_eq!(get(&world, "/healthz").await.status(), 200);
    world.advance(601);
    world.until_state("a", "healthy").await;
    assert_eq!(get(&world, "/readyz").await.status(), 200);
}

#[tokio::test]
async fn figures_are_text_that_every_collector_reads() {
    let world = World::logins(&["a"]).await;
    world.ask("s", "hi", false).send().await.unwrap().text().await.unwrap();
    world.post("/v1/nothing/../x").send().await.unwrap();
    world.events.wait_for("request_ended").await;
    let answer = get(&world, "/metrics").await;
    assert!(
        answer.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text; version=1.0.0")
    );
    let text = answer.text().await.unwrap();
    assert!(text.ends_with("# EOF\n"));
    let mut typed = std::collections::HashMap::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(typed.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
        let name = series.split('{').next().unwrap();
        let family = typed.keys().find(|family| {
            name.strip_prefix(family.as_str())
                .is_some_and(|rest| ["", "_total", "_bucket", "_sum", "_count"].contains(&rest))
        });
        assert!(family.is_some(), "{line} has no type");
        if let Some((_, labels)) = series.split_once('{') {
            assert!(labels.ends_with("\"}") && !labels.contains("\"a\""), "{line}");
        }
    }
    assert!(text.contains("duduclaw_requests_total{status=\"200\",close=\"complete\"} 1"), "{text}");
    assert!(typed.contains_key("duduclaw_actor_messages"));
}

const KEYS: [&str; 24] = [
    "name",
    "state",
    "cause",
    "available",
    "near_quota",
    "capped",
    "capped_scopes",
    "paused",
    "disabled",
    "needs_login",
    "unverified",
    "priority",
    "cooldown_secs_remaining",
    "scope_cooldowns",
    "windows",
    "max_utilization_5h",
    "max_utilization_7d",
    "max_utilization_fable",
    "spend",
    "plan",
    "expires_at",
    "last_probe",
    "requests",
    "mean_latency_ms",
];

async fn raw_pool(world: &World) -> Value {
    let key = std::fs::read_to_string(world.home.path().join("admin-token")).unwrap();
    let request = world.client.get(format!("{}/admin/api/pool", world.url)).bearer_auth(key.trim());
    request.send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn the_pool_shows_every_key_of_every_account_known_or_not() {
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::api_key("k")])
        .account("a", "max_utilization_5h = 0.9")
        .start()
        .await;
    for asked in [false, true] {
        if asked {
            world.ask("s", "hi", false).send().await.unwrap().text().await.unwrap();
        }
        let pool = raw_pool(&world).await;
        assert_eq!(pool["providers"][0]["name"], "anthropic");
        assert_eq!(pool["providers"][0]["family"], "claude");
        assert_eq!(pool["providers"][0]["auth"], "claude_oauth");
        for account in pool["providers"][0]["accounts"].as_array().unwrap() {
            let account = account.as_object().unwrap();
            for key in KEYS {
                assert!(account.contains_key(key), "{key} is missing in {account:?}");
            }
            for key in ["month", "cap", "reserved"] {
                assert!(account["spend"].as_object().unwrap().contains_key(key));
            }
            for key in ["attempted", "succeeded", "failed", "cancelled"] {
                assert!(account["requests"][key].is_u64(), "{key}");
            }
            for window in account["windows"].as_object().unwrap().values() {
                for key in ["utilization", "reset", "status", "threshold", "max_utilization"] {
                    assert!(window.as_object().unwrap().contains_key(key), "{key}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_pool_tells_the_gravest_holds_rest_and_never_a_secret() {
    let world = World::logins(&["a"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(600) }));
    world.ask("s", "hi", false).send().await.unwrap();
    world.until_state("a", "rate_limited").await;
    let pool = raw_pool(&world).await;
    let account = &pool["providers"][0]["accounts"][0];
    assert_eq!((&account["cause"], &account["available"]), (&json!("quota"), &json!(false)));
    assert!((590..=600).contains(&account["cooldown_secs_remaining"].as_u64().unwrap()));
    assert_eq!(account["windows"]["5h"]["status"], "rejected");
    let held = world.sim.credentials("a").unwrap();
    let text = pool.to_string();
    assert!(!text.contains(&held.token) && !text.contains(held.refresh_token.as_deref().unwrap()));
    assert!(!text.contains("ey") || !text.contains("sk-ant"));
}

#[tokio::test]
async fn the_control_api_says_what_it_does_not_have() {
    let world = World::logins(&["a"]).await;
    let key = std::fs::read_to_string(world.home.path().join("admin-token")).unwrap();
    let ask = |method: reqwest::Method, target: &str| {
        world.client.request(method, format!("{}{target}", world.url)).bearer_auth(key.trim()).send()
    };
    assert_eq!(ask(reqwest::Method::GET, "/admin/api/nothing").await.unwrap().status(), 404);
    assert_eq!(ask(reqwest::Method::POST, "/admin/api/pool").await.unwrap().status(), 405);
    let pool = ask(reqwest::Method::GET, "/admin/api/pool").await.unwrap();
    assert_eq!(pool.headers()["cache-control"], "no-store");
    assert_eq!(pool.headers()["content-type"], "application/json");
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_is_said() {
    let world = World::logins(&["a"]).await;
    world.sim.refuse_connections(Refusal::Refusing);
    let answer = count(&world).send().await.unwrap();
    assert_eq!(answer.status(), 502);
    let answer = world.post("/v1/messages/batches").body("{}").send().await.unwrap();
    assert_eq!(answer.status(), 502);
    let said: Value = answer.json().await.unwrap();
    assert_eq!(said["error"]["type"], "api_error");
    world.sim.refuse_connections(Refusal::Accepting);
    assert_eq!(count(&world).send().await.unwrap().status(), 200);
}
