//! Who may come in: tokens, limits of named clients, host names, pages of other origins, and what is open to all.

use duduclaw::sim::{AccountSpec, Endpoint};
use serde_json::{Value, json};

use crate::support::{World, eventually, read_until, status};

const TOKEN: &str = "a-client-token:with-a-colon";

/// A gateway that knows `laptop`, and `limited` with these lines.
async fn guarded(limits: &str) -> World {
    let tables = format!(
        "[server.auth]\ntokens_env = \"TOKENS\"\n[[server.auth.clients]]\nname = \"limited\"\ntoken_env = \"LIMITED\"\n{limits}"
    );
    let accounts = [AccountSpec::oauth("a"), AccountSpec::oauth("b")];
    World::with(accounts)
        .server("default_provider = \"anthropic\"")
        .tables(&tables)
        .var("TOKENS", &format!("laptop:{TOKEN}"))
        .var("LIMITED", "limited-token")
        .start()
        .await
}

fn body(model: &str) -> Value {
    json!({"model": model, "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]})
}

async fn error_of(answer: reqwest::Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (status, body["error"]["type"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_token_is_taken_in_every_slot_and_goes_no_further() {
    let world = guarded("").await;
    let bearer = format!("Bearer {TOKEN}");
    let slots = [
        ("x-duduclaw-token", TOKEN),
        ("authorization", bearer.as_str()),
        ("authorization", TOKEN),
        ("x-api-key", TOKEN),
        ("x-goog-api-key", TOKEN),
    ];
    for (slot, value) in slots {
        let answer = world.ask("s", "hi", false).header(slot, value).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{slot}");
    }
    let shown = duduclaw::sim::fingerprint(TOKEN);
    for record in world.messages() {
        assert!(record.account.is_some());
        let leaked = record.headers.iter().any(|(_, value)| value.contains(TOKEN) || value.contains(&shown));
        assert!(!leaked, "{:?}", record.headers);
        assert!(record.header("x-duduclaw-token").is_none() && record.header("x-goog-api-key").is_none());
    }
}

#[tokio::test]
async fn the_slot_for_tokens_can_be_named() {
    let tables = "[server.auth]\nheader = \"x-team-token\"\ntokens_env = \"TOKENS\"\n";
    let world = World::with([AccountSpec::oauth("a")]).tables(tables).var("TOKENS", "t:one-token").start().await;
    let ask = |slot: &str| world.ask("s", "hi", false).header(slot, "one-token").send();
    assert_eq!(ask("x-team-token").await.unwrap().status(), 200);
    assert_eq!(ask("x-duduclaw-token").await.unwrap().status(), 401);
    assert!(world.messages()[0].header("x-team-token").is_none());
}

#[tokio::test]
async fn a_missing_or_wrong_token_is_refused_for_good_and_nothing_is_sent() {
    let world = guarded("").await;
    for shown in ["", "wrong", "laptop", "a-client-token", "a-client-token:with-a-colon2", "Bearer"] {
        let mut requests = vec![world.ask("s", "hi", true)];
        requests.push(world.post("/v1/messages/count_tokens").json(&body("claude-opus-5-5")));
        requests.push(world.client.get(format!("{}/v1/models", world.url)));
        requests.push(world.client.get(format!("{}/v1/files", world.url)));
        for request in requests {
            let request =
                if shown.is_empty() { request } else { request.header("authorization", format!("Bearer {shown}")) };
            let answer = request.send().await.unwrap();
            assert_eq!(answer.headers()["x-should-retry"], "false");
            assert_eq!(error_of(answer).await, (401, "authentication_error".to_owned()), "{shown:?}");
        }
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn an_ended_jobs_token_is_refused_on_an_open_gateway_too() {
    let open = World::logins(&["a"]).await;
    let closed = guarded("").await;
    for world in [&open, &closed] {
        for slot in ["authorization", "x-api-key", "x-goog-api-key", "x-duduclaw-token"] {
            let answer = world.ask("s", "hi", false).header(slot, "ddj_0123456789").send().await.unwrap();
            assert_eq!(answer.headers()["x-should-retry"], "false", "{slot}");
            assert_eq!(error_of(answer).await.0, 401, "{slot}");
        }
        assert!(world.sim.log().is_empty());
    }
}

#[tokio::test]
async fn the_admin_key_opens_the_control_api_alone_and_client_tokens_do_not() {
    for world in [World::logins(&["a"]).await, guarded("").await] {
        let key = std::fs::read_to_string(world.home.path().join("admin-token")).unwrap();
        for slot in ["authorization", "x-api-key", "x-duduclaw-token"] {
            let answer = world.ask("s", "hi", false).header(slot, key.trim()).send().await.unwrap();
            assert_eq!(answer.status(), 401, "{slot}");
        }
        let pool = |slot: &str, token: &str| {
            world.client.get(format!("{}/admin/api/pool", world.url)).header(slot, token.to_owned()).send()
        };
        assert_eq!(pool("x-duduclaw-admin-token", key.trim()).await.unwrap().status(), 200);
        assert_eq!(pool("authorization", &format!("Bearer {}", key.trim())).await.unwrap().status(), 200);
        for (slot, token) in [("authorization", TOKEN), ("x-duduclaw-token", key.trim()), ("x-api-key", key.trim())] {
            let answer = pool(slot, token).await.unwrap();
            assert_eq!(error_of(answer).await.0, 401, "{slot}");
        }
        assert!(world.sim.log().is_empty());
    }
}

#[tokio::test]
async fn a_client_limited_to_models_uses_no_other_not_even_by_a_tool() {
    let world = guarded("models = [\"claude-haiku-*\"]\n").await;
    let ask = |body: Value| world.post("/v1/messages").header("x-api-key", "limited-token").json(&body).send();
    assert_eq!(ask(body("claude-haiku-4-5")).await.unwrap().status(), 200);
    assert_eq!(ask(body("claude-haiku-4-5[1m]")).await.unwrap().status(), 200);
    let mut by_tool = body("claude-haiku-4-5");
    by_tool["tools"] = json!([{"type": "advisor", "name": "advisor", "model": "claude-opus-5-5"}]);
    for refused in [body("claude-opus-5-5"), by_tool] {
        assert_eq!(error_of(ask(refused).await.unwrap()).await, (403, "permission_error".to_owned()));
    }
    let count = world.post("/v1/messages/count_tokens").header("x-api-key", "limited-token");
    assert_eq!(error_of(count.json(&body("claude-opus-5-5")).send().await.unwrap()).await.0, 403);
    let unnamed = json!({"max_tokens": 1, "messages": []});
    assert_eq!(error_of(ask(unnamed).await.unwrap()).await, (400, "invalid_request_error".to_owned()));
    assert_eq!(world.messages().len(), 2);
}

#[tokio::test]
async fn a_client_limited_to_other_providers_is_not_served() {
    let elsewhere = "[providers.elsewhere]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:9\"\nauth = \"none\"\n";
    let world = guarded(&format!("providers = [\"elsewhere\"]\n{elsewhere}")).await;
    let answer = world.ask("s", "hi", false).header("x-api-key", "limited-token").send().await.unwrap();
    assert_eq!(error_of(answer).await, (403, "permission_error".to_owned()));
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn a_clients_requests_at_once_are_bounded_until_the_body_ends_and_no_one_elses() {
    let world = guarded("max_concurrent_requests = 1\n").await;
    world.sim.set_pace(30);
    let ask = |token: &'static str| world.ask("", "[[words: 40]]", true).header("x-api-key", token).send();
    let first = ask("limited-token").await.unwrap();
    assert_eq!(first.status(), 200);
    let second = ask("limited-token").await.unwrap();
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!(error_of(second).await, (429, "rate_limit_error".to_owned()));
    assert_eq!(ask(TOKEN).await.unwrap().status(), 200);
    first.text().await.unwrap();
    world.sim.set_pace(0);
    assert_eq!(ask("limited-token").await.unwrap().status(), 200);
}

#[tokio::test]
async fn paths_beside_inference_are_open_to_named_clients_that_may() {
    let get = |world: &World, token: &str| {
        world.client.get(format!("{}/v1/files?limit=3", world.url)).header("x-api-key", token.to_owned()).send()
    };
    let world = guarded("passthrough = true\n").await;
    get(&world, "limited-token").await.unwrap();
    assert_eq!(world.sim.log().len(), 1);
    let refused = get(&world, TOKEN).await.unwrap();
    assert_eq!(error_of(refused).await, (403, "permission_error".to_owned()));
    assert_eq!(world.sim.log().len(), 1);
    let narrow = guarded("passthrough = true\nmodels = [\"claude-*\"]\n").await;
    assert_eq!(get(&narrow, "limited-token").await.unwrap().status(), 403);
    assert!(narrow.sim.log().is_empty());
}

#[tokio::test]
async fn a_host_name_that_is_not_ours_is_misdirected_on_loopback_too() {
    let world = World::with([AccountSpec::oauth("a")]).server("hosts = [\"Gate.Example\", \"10.9.8.7\"]").start().await;
    let port = world.address().port();
    let ours = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.0.0.1",
        "127.8.9.1",
        "[::1]",
        "gate.example",
        "GATE.example",
        "10.9.8.7",
    ];
    for host in ours {
        for named in [host.to_owned(), format!("{host}:{port}"), format!("{host}:1")] {
            assert_eq!(world.status_of("/readyz", &format!("host: {named}\r\n")).await, 200, "{named}");
        }
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "192.0.2.1",
        "[2001:db8::1]",
        "",
        "a b",
        "user@evil.example",
        "gate.example.evil",
    ] {
        for target in ["/readyz", "/", "/v1/models", "/admin/api/pool"] {
            assert_eq!(world.status_of(target, &format!("host: {host}\r\n")).await, 421, "{host:?} {target}");
        }
    }
    assert_eq!(world.status_of("http://evil.example/readyz", "host: localhost\r\n").await, 421);
    let doubled = world.status_of("/readyz", "host: localhost\r\nhost: evil.example\r\n").await;
    assert!([400, 421].contains(&doubled), "{doubled}");
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn the_misdirected_learn_what_to_do() {
    let world = World::logins(&["a"]).await;
    let answer = world.raw("GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await;
    assert!(answer.contains("\"permission_error\"") && answer.contains("[server] hosts"), "{answer}");
    assert!(answer.contains("evil.example"));
}

/// What stands between may have read the other one.
#[tokio::test]
async fn a_request_has_one_host() {
    let world = World::logins(&["a"]).await;
    for second in ["localhost", "127.0.0.1"] {
        let request =
            format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\nhost: {second}\r\nconnection: close\r\n\r\n");
        let answer = world.raw(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("one Host header"), "{answer}");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn web_pages_of_other_origins_are_refused() {
    let world = World::logins(&["a"]).await;
    let host = world.address().to_string();
    let refused = [
        "sec-fetch-site: cross-site\r\n".to_owned(),
        "sec-fetch-site: same-site\r\n".to_owned(),
        "origin: https://evil.example\r\n".to_owned(),
        "origin: null\r\n".to_owned(),
        "origin: http://127.0.0.1:1\r\n".to_owned(),
        format!("origin: http://{host}\r\nsec-fetch-site: cross-site\r\n"),
    ];
    for lines in &refused {
        assert_eq!(world.status_of("/readyz", &format!("host: {host}\r\n{lines}")).await, 403, "{lines}");
    }
    let allowed = [
        String::new(),
        "sec-fetch-site: none\r\n".to_owned(),
        "sec-fetch-site: same-origin\r\n".to_owned(),
        format!("origin: http://{host}\r\n"),
    ];
    for lines in &allowed {
        assert_eq!(world.status_of("/readyz", &format!("host: {host}\r\n{lines}")).await, 200, "{lines}");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn clients_may_look_whether_anybody_is_there_without_a_token() {
    let world = guarded("").await;
    for target in ["/", "/api/hello", "/?beta=true", "/healthz"] {
        let answer = world.client.head(format!("{}{target}", world.url)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{target}");
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn alive_is_answered_when_every_place_is_taken() {
    let world = World::with([AccountSpec::oauth("a")]).server("max_concurrent_requests = 1").start().await;
    world.sim.set_pace(30);
    let taken = world.ask("s", "[[words: 40]]", true).send().await.unwrap();
    assert_eq!(world.ask("t", "hi", false).send().await.unwrap().status(), 503);
    let alive = world.client.get(format!("{}/healthz", world.url)).send().await.unwrap();
    assert_eq!(alive.status(), 200);
    taken.text().await.unwrap();
}

#[tokio::test]
async fn a_web_socket_on_responses_is_told_to_take_http_at_once() {
    let world = World::logins(&["a"]).await;
    let mut connection = world.connect().await;
    let request = "GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut connection, request.as_bytes()).await.unwrap();
    assert_eq!(status(&read_until(&mut connection, "\r\n\r\n").await), 426);
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn one_client_cannot_steer_anothers_conversation() {
    let world = guarded("").await;
    let ask = |token: &'static str| world.ask("shared", "hi", false).header("x-api-key", token).send();
    let account = |answer: &reqwest::Response| answer.headers()["x-duduclaw-account"].to_str().unwrap().to_owned();
    let (mine, theirs) = (account(&ask(TOKEN).await.unwrap()), account(&ask("limited-token").await.unwrap()));
    assert_ne!(mine, theirs, "two clients' first conversations spread over two accounts");
    for _ in 0..3 {
        assert_eq!(account(&ask(TOKEN).await.unwrap()), mine);
        assert_eq!(account(&ask("limited-token").await.unwrap()), theirs);
    }
    let hits = eventually(|| Some(world.sim.hits("a", Endpoint::Messages).len())).await;
    assert_eq!(hits, 4);
}
