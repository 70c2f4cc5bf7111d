//! The control API: who may use it, by which door, and what it says to those who may not or ask for nonsense.

use std::os::unix::fs::PermissionsExt;

use duduclaw::admin::{AccountsView, PoolView};
use duduclaw::sim::AccountSpec;
use serde_json::{Value, json};

use crate::seen::{Got, got};
use crate::support::World;

const ADMIN: &str = "[server.admin]\ntokens_env = \"ADMINS\"\nread_tokens_env = \"READERS\"\n";

/// A world with two logins, an operator who may write and one who may read.
async fn operated(more: &str) -> World {
    World::with(["a", "b"].map(AccountSpec::oauth))
        .tables(&format!("{ADMIN}{more}"))
        .var("ADMINS", "root:write:token")
        .var("READERS", "page:read-token")
        .start()
        .await
}

impl World {
    /// The key in the home.
    pub fn key(&self) -> String {
        std::fs::read_to_string(self.home.path().join("admin-token")).unwrap().trim().to_owned()
    }

    /// A request to the control API, with the home's key.
    pub fn control(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth(self.key())
    }

    /// What a verb comes to in JSON-RPC.
    pub async fn rpc(&self, verb: &str, params: Value) -> Value {
        let asked = json!({"jsonrpc": "2.0", "id": 7, "method": verb, "params": params});
        got(self.control("POST", "/rpc").json(&asked)).await.json()
    }
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

fn is_private(got: &Got) {
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"), "{got:?}");
    assert_eq!(got.header("cache-control"), Some("no-store"), "{got:?}");
}

#[tokio::test]
async fn a_pause_is_seen_at_once_and_ends_with_a_resume() {
    let world = World::logins(&["a", "b"]).await;
    for _ in 0..5 {
        let paused = got(world.control("POST", "/admin/api/accounts/a/pause")).await;
        assert_eq!(paused.status, 200, "{}", paused.text());
        assert_eq!(paused.json()["account"]["paused"], true);
        assert_eq!(paused.json()["account"]["id"], "anthropic/a");
        let seen = world.account("a").await;
        assert!(seen.paused && !seen.available);
        world.turn("s", false).await.served_by("b");
        let resumed = world.rpc("accounts.resume", json!({"account": "anthropic/a"})).await;
        assert_eq!((&resumed["id"], &resumed["result"]["account"]["paused"]), (&json!(7), &json!(false)));
        let seen = world.account("a").await;
        assert!(!seen.paused && seen.available);
    }
    assert_eq!((world.events.of("paused").len(), world.events.of("resumed").len()), (5, 5));
}

#[tokio::test]
async fn a_name_that_several_accounts_have_is_answered_with_both_and_an_unknown_one_with_the_nearest() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n\
        [providers.one]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\nauth = \"claude_oauth\"\n\
        [[providers.one.accounts]]\nname = \"work\"\ncredentials = \"{creds}/a.json\"\n\
        [providers.two]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\nauth = \"claude_oauth\"\n\
        [[providers.two.accounts]]\nname = \"work\"\ncredentials = \"{creds}/b.json\"\n";
    let world = World::with(["a", "b"].map(AccountSpec::oauth)).config(text).start().await;
    let both = got(world.control("POST", "/admin/api/accounts/work/pause")).await;
    assert_eq!(both.status, 409);
    let said = both.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("one/work, two/work"), "{said}");
    assert_eq!(both.json()["error"]["type"], "conflict_error");
    let one = got(world.control("POST", "/admin/api/accounts/two%2Fwork/pause")).await;
    assert_eq!((one.status.as_u16(), &one.json()["account"]["id"]), (200, &json!("two/work")));
    let list: AccountsView =
        serde_json::from_value(world.rpc("accounts.list", json!({})).await["result"].clone()).unwrap();
    let paused: Vec<_> = list.accounts.iter().map(|a| (a.id.as_str(), a.standing.paused)).collect();
    assert_eq!(paused, [("one/work", false), ("two/work", true)]);
    let unknown = got(world.control("POST", "/admin/api/accounts/wrok/pause")).await;
    assert_eq!(unknown.status, 404);
    let hint = unknown.json()["error"]["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("one/work") && hint.contains("two/work"), "{hint}");
    assert!(world.events.of("paused").len() == 1);
}

/// C118: what comes from outside comes back as text of JSON, labelled as that.
#[tokio::test]
async fn a_name_full_of_markup_comes_back_as_json_text() {
    let world = World::logins(&["a"]).await;
    for name in ["<img src=x onerror=alert(1)>", "a\"onclick=\"x", "</script><script>1</script>"] {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let told = got(world.control("POST", &format!("/admin/api/accounts/{encoded}/pause"))).await;
        assert_eq!((told.status.as_u16(), told.header("content-type")), (404, Some("application/json")), "{name}");
        is_private(&told);
        let said = told.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains(name) || said.contains(&name.replace('"', "\\\"")), "{said}");
        let told = world.rpc("accounts.pause", json!({"account": name})).await;
        assert_eq!(told["error"]["code"], -32004, "{told}");
    }
}

#[tokio::test]
async fn whoever_may_only_read_changes_nothing() {
    let world = operated("").await;
    let as_reader = |request: reqwest::RequestBuilder| {
        let (client, request) = request.build_split();
        let mut request = request.unwrap();
        request.headers_mut().insert("authorization", "Bearer read-token".parse().unwrap());
        reqwest::RequestBuilder::from_parts(client, request)
    };
    let read = got(as_reader(world.control("GET", "/admin/api/pool"))).await;
    assert_eq!(read.status, 200);
    serde_json::from_slice::<PoolView>(&read.body).unwrap();
    for (method, path) in [("POST", "/admin/api/accounts/a/pause"), ("POST", "/admin/api/accounts/nobody/clear")] {
        let refused = got(as_reader(world.control(method, path))).await;
        assert_eq!((refused.status.as_u16(), &refused.json()["error"]["type"]), (403, &json!("permission_error")));
        is_private(&refused);
    }
    let pause = json!({"jsonrpc": "2.0", "id": 1, "method": "accounts.pause", "params": {"account": "a"}});
    let look = json!({"jsonrpc": "2.0", "id": 2, "method": "health"});
    let refused = got(as_reader(world.control("POST", "/rpc").json(&pause))).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]["code"]), (403, &json!(-32003)));
    let both = got(as_reader(world.control("POST", "/rpc").json(&json!([pause, look])))).await;
    assert_eq!(both.status, 200);
    assert_eq!((&both.json()[0]["error"]["code"], &both.json()[1]["result"]["status"]), (&json!(-32003), &json!("ok")));
    assert!(!world.account("a").await.paused);
    let written = world.client.post(format!("{}/admin/api/accounts/a/pause", world.url));
    assert_eq!(got(written.header("x-duduclaw-admin-token", "write:token")).await.status, 200);
    assert!(world.account("a").await.paused);
}

#[tokio::test]
async fn tokens_of_operators_open_no_inference_and_tokens_of_clients_no_control() {
    let world = World::with([AccountSpec::oauth("a")])
        .tables(&format!("{ADMIN}[server.auth]\ntokens_env = \"CLIENTS\"\n"))
        .var("ADMINS", "root:write-token")
        .var("READERS", "page:read-token")
        .var("CLIENTS", "laptop:client-token")
        .start()
        .await;
    for token in ["write-token", "read-token"] {
        for slot in ["authorization", "x-api-key", "x-duduclaw-token"] {
            assert_eq!(got(world.ask("s", "hi", false).header(slot, token)).await.status, 401, "{slot}");
        }
    }
    for (path, method) in [("/admin/api/pool", "GET"), ("/rpc", "POST"), ("/admin/api/openapi.json", "GET")] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let ask = |token: &str| world.client.request(method.clone(), format!("{}{path}", world.url)).bearer_auth(token);
        for token in ["client-token", "", "wrong"] {
            let refused = got(ask(token)).await;
            assert_eq!(refused.status, 401, "{path} {token}");
            is_private(&refused);
        }
    }
    assert!(world.sim.log().is_empty());
}

#[tokio::test]
async fn whoever_asks_for_nonsense_is_told_what_is_wrong_and_keeps_no_copy() {
    let world = World::logins(&["a"]).await;
    let pause = "/admin/api/accounts/a/pause";
    let large = format!("{{\"account\": \"{}\"}}", "x".repeat(70_000));
    let json_body =
        |text: &str| world.control("POST", pause).header("content-type", "application/json").body(text.to_owned());
    let cases = [
        (json_body("{"), 400),
        (json_body("[]"), 400),
        (json_body("{\"account\": \"b\"}"), 400),
        (json_body("{\"until\": 3}"), 400),
        (world.control("POST", "/rpc").header("content-type", "application/json").body(large), 413),
        (world.control("POST", pause).header("content-type", "text/plain").body("{}"), 415),
        (world.control("POST", pause).body("{}"), 415),
        (world.control("GET", pause), 405),
        (world.control("GET", "/rpc"), 405),
        (world.control("POST", "/admin/api/openapi.json"), 405),
        (world.control("GET", "/admin/api/pool?since=1"), 400),
        (world.control("GET", "/admin/api/nothing"), 404),
        (world.control("GET", "/admin/api/pool/"), 404),
        (world.control("GET", "/admin"), 404),
        (world.control("GET", "/rpc/x"), 404),
        (world.control("GET", "/admin/api/pool").header("host", "evil.example"), 421),
        (world.control("POST", pause).header("origin", "https://evil.example"), 403),
    ];
    for (request, status) in cases {
        let told = got(request).await;
        assert_eq!(told.status, status, "{}", told.text());
        is_private(&told);
        assert_eq!(told.json()["type"], "error");
        assert!(told.json()["error"]["message"].is_string() && told.json()["request_id"].is_string());
    }
    let method = got(world.control("PUT", pause)).await;
    assert_eq!(method.header("allow"), Some("POST"));
    assert!(!world.account("a").await.paused);
}

#[tokio::test]
async fn json_rpc_answers_batches_in_order_and_notifications_not_at_all() {
    let world = World::logins(&["a"]).await;
    let post = |body: Value| got(world.control("POST", "/rpc").json(&body));
    let note = json!({"jsonrpc": "2.0", "method": "accounts.pause", "params": {"account": "a"}});
    let quiet = post(note.clone()).await;
    assert_eq!((quiet.status.as_u16(), quiet.body.len()), (204, 0));
    assert!(world.account("a").await.paused, "it was done all the same");
    assert_eq!(post(json!([note, note])).await.status, 204);
    let batch = post(json!([
        {"jsonrpc": "2.0", "id": "x", "method": "accounts.resume", "params": {"account": "a"}},
        note,
        {"jsonrpc": "2.0", "id": 2, "method": "accounts.fly"},
        {"jsonrpc": "2.0", "id": 3, "method": "accounts.pause", "params": ["a"]},
        {"jsonrpc": "2.0", "id": 4, "method": "accounts.pause"},
        1,
        {"jsonrpc": "2.0", "id": null, "method": "accounts.pause", "params": {"account": "nobody"}},
    ]))
    .await;
    let told: Vec<_> =
        batch.json().as_array().unwrap().iter().map(|a| (a["id"].clone(), a["error"]["code"].clone())).collect();
    let expected = json!([["x", null], [2, -32601], [3, -32602], [4, -32602], [null, -32600], [null, -32004]]);
    let expected: Vec<_> = expected.as_array().unwrap().iter().map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    assert_eq!(told, expected);
    let refused = batch.json()[5]["error"]["data"].clone();
    assert_eq!((&refused["type"], &refused["status"]), (&json!("not_found_error"), &json!(404)));
    assert!(refused["hint"].as_str().unwrap().contains("anthropic/a"));
    let broken =
        got(world.control("POST", "/rpc").header("content-type", "application/json").body("{\"jsonrpc\"")).await;
    assert_eq!((broken.status.as_u16(), &broken.json()["error"]["code"]), (200, &json!(-32700)));
}

#[tokio::test]
async fn the_document_describes_what_is_there() {
    let world = World::logins(&["a"]).await;
    let document = got(world.control("GET", "/admin/api/openapi.json")).await;
    assert_eq!((document.status.as_u16(), document.header("content-type")), (200, Some("application/json")));
    is_private(&document);
    let document = document.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap().iter();
    // The stream of events has no end.
    for (path, methods) in paths.filter(|(path, _)| *path != "/admin/api/events") {
        for method in methods.as_object().unwrap().keys() {
            let there = got(world.control(&method.to_uppercase(), &path.replace("{account}", "nobody"))).await;
            assert!(![401, 403, 405].contains(&there.status.as_u16()), "{method} {path}: {}", there.text());
            if !path.contains("{account}") {
                assert_ne!(there.status, 404, "{method} {path}: {}", there.text());
            }
        }
    }
}

#[tokio::test]
async fn operators_may_have_a_listener_of_their_own_which_serves_no_client() {
    let world = operated("bind = \"127.0.0.1:0\"\n").await;
    let own = world
        .running
        .as_ref()
        .unwrap()
        .control
        .iter()
        .find_map(|address| Some(address.to_string()).filter(|address| address.starts_with("http://")));
    let own = own.expect("it has an address of its own");
    assert_ne!(own, world.url);
    for path in ["/admin/api/pool", "/admin/api/openapi.json", "/rpc"] {
        assert_eq!(got(world.control("GET", path)).await.status, 404, "{path} at the clients' address");
    }
    let at_own = |path: &str| got(world.client.get(format!("{own}{path}")).bearer_auth(world.key()));
    assert_eq!(at_own("/admin/api/pool").await.status, 200);
    assert_eq!(at_own("/healthz").await.status, 200);
    let body = json!({"model": "claude-opus-5-5", "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]});
    let refused = got(world.client.post(format!("{own}/v1/messages")).json(&body)).await;
    assert_eq!(refused.status, 404);
    assert_eq!(world.turn("s", false).await.status, 200);
}

fn over(socket: &std::path::Path) -> reqwest::Client {
    reqwest::Client::builder().no_proxy().unix_socket(socket).build().unwrap()
}

#[tokio::test]
async fn the_control_socket_asks_for_no_token_and_is_the_owners_alone() {
    let world = operated("").await;
    let socket = world.home.path().join("control.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let paused = got(over(&socket).post("http://localhost/admin/api/accounts/a/pause")).await;
    assert_eq!((paused.status.as_u16(), &paused.json()["account"]["paused"]), (200, &json!(true)));
    let elsewhere = got(over(&socket).post("http://localhost/v1/messages").json(&json!({}))).await;
    assert_eq!(elsewhere.status, 404, "no client comes in here");
    let record = std::fs::read_to_string(world.home.path().join("daemon.json")).unwrap();
    assert!(record.contains("control.sock"), "{record}");
}

#[tokio::test]
async fn a_service_of_the_machine_has_its_socket_where_its_manager_made_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let world = World::with([AccountSpec::oauth("a")]).var("RUNTIME_DIRECTORY", &path).start().await;
    let socket = folder.path().join("control.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!(got(over(&socket).get("http://localhost/admin/api/health")).await.status, 200);
    assert!(!world.home.path().join("control.sock").exists());
}

/// A socket that nobody answers on is left from a daemon that was killed; one that somebody answers on is somebody's.
#[tokio::test]
async fn a_stale_control_socket_is_replaced_and_a_live_one_is_not() {
    let setting = crate::binary::Setting::with(&["a"], "").await;
    let socket = setting.home.path().join("control.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let (code, _, said) = setting.run(&["serve"]).await;
    assert_eq!(code, 1);
    assert!(said.contains("control.sock is taken"), "{said}");
    drop(listener);
    assert!(socket.exists(), "it is left as it was");
    let mut daemon = setting.serve().await;
    let (code, out, _) = setting.run(&["status"]).await;
    assert_eq!(code, 0, "{out}");
    assert_eq!(daemon.stop().await, Some(0));
    assert!(!socket.exists());
}

/// Without the socket the way is the address, with the key; without either, nobody is there.
#[tokio::test]
async fn commands_go_over_the_socket_and_without_it_to_the_address_with_the_key() {
    let setting = crate::binary::Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    let token = setting.home.path().join("admin-token");
    let aside = setting.home.path().join("aside");
    std::fs::rename(&token, &aside).unwrap();
    assert_eq!(setting.run(&["status"]).await.0, 0, "no key is needed over the socket");
    std::fs::rename(&aside, &token).unwrap();
    std::fs::remove_file(setting.home.path().join("control.sock")).unwrap();
    assert_eq!(setting.run(&["status"]).await.0, 0);
    std::fs::rename(&token, &aside).unwrap();
    let (code, _, said) = setting.run(&["status"]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("admin-token"), "{said}");
    assert_eq!(daemon.stop().await, Some(0));
    let (code, _, said) = setting.run(&["status"]).await;
    assert_eq!(code, 4, "{said}");
}
