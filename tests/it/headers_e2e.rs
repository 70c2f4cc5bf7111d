//! Headers and bodies on both legs: what is taken out, what is put in, what the pool says, and where we listen.

use duduclaw::sim::{AccountChange, AccountSpec, Fault, FaultRule, SimWindow};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::binary::{Setting, ask, client};
use crate::support::{World, read_all, status};

fn text<'a>(answer: &'a reqwest::Response, name: &str) -> &'a str {
    answer.headers().get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
}

fn body() -> String {
    json!({"model": "claude-opus-5-5", "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}).to_string()
}

#[tokio::test]
async fn the_connections_own_headers_and_ours_stay_on_their_leg_and_all_others_pass_in_order() {
    let world = World::logins(&["a"]).await;
    let body = body();
    let lines = "host: localhost\r\nanthropic-version: 2099-01-01\r\nconnection: close, x-hop, X-Named\r\nx-hop: 1\r\nx-named: 2\r\n\
        keep-alive: timeout=5\r\nproxy-connection: keep-alive\r\nproxy-authorization: Basic x\r\nte: trailers\r\ncookie: c=1\r\n\
        x-duduclaw-secret: 3\r\nx-duduclaw-account: forged\r\nx-kept: one\r\nx-kept: two\r\nx-app: cli\r\n\
        anthropic-beta: first-beta\r\nanthropic-beta: second-beta, third-beta\r\nuser-agent: genuine/1.0\r\nx-stainless-timeout: NOT_GIVEN\r\n";
    let request =
        format!("POST /v1/messages?beta=true&x=%2F HTTP/1.1\r\n{lines}content-length: {}\r\n\r\n{body}", body.len());
    assert_eq!(status(&world.raw(request).await), 200);
    let record = world.messages().pop().unwrap();
    assert_eq!(record.path, "/v1/messages?beta=true&x=%2F");
    for gone in [
        "x-hop",
        "x-named",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "cookie",
        "x-duduclaw-secret",
        "x-duduclaw-account",
    ] {
        assert!(record.header(gone).is_none(), "{gone}: {:?}", record.headers);
    }
    let kept: Vec<_> =
        record.headers.iter().filter(|(name, _)| name == "x-kept").map(|(_, value)| value.as_str()).collect();
    assert_eq!(kept, ["one", "two"]);
    assert_eq!(record.header("x-app"), Some("cli"));
    assert_eq!(record.header("user-agent"), Some("genuine/1.0"));
    assert_eq!(record.header("x-stainless-timeout"), Some("NOT_GIVEN"));
    assert_eq!(record.header("anthropic-version"), Some("2099-01-01"));
    let betas: String = record
        .headers
        .iter()
        .filter(|(name, _)| name == "anthropic-beta")
        .map(|(_, v)| v.as_str())
        .collect::<Vec<_>>()
        .join(",");
    for beta in ["first-beta", "second-beta", "third-beta", "oauth-2025-04-20"] {
        assert!(betas.contains(beta), "{betas}");
    }
}

#[tokio::test]
async fn an_answer_says_how_it_came_about_and_no_provider_can_say_it_for_us() {
    let mut account = AccountSpec::oauth("a");
    for (name, value) in [
        ("x-duduclaw-account", "forged"),
        ("x-duduclaw-anything", "forged"),
        ("x-request-cost", "7"),
        ("keep-alive", "timeout=1"),
        ("set-cookie", "c=1"),
    ] {
        account.headers.push((name.to_owned(), value.to_owned()));
    }
    let world = World::with([account]).start().await;
    for stream in [true, false] {
        let answer = world.ask("s", "hi", stream).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(text(&answer, "x-duduclaw-account"), "a");
        assert_eq!(text(&answer, "x-duduclaw-upstream"), "anthropic");
        assert_eq!(text(&answer, "x-duduclaw-model"), "claude-opus-5-5");
        assert_eq!(text(&answer, "x-duduclaw-attempts"), "1");
        assert_eq!(text(&answer, "x-duduclaw-request-id").len(), 32);
        assert_eq!(text(&answer, "x-request-cost"), "7");
        assert!(answer.headers().contains_key("request-id"), "the provider's own id is kept");
        assert!(!answer.headers().contains_key("x-duduclaw-anything") && !answer.headers().contains_key("keep-alive"));
    }
}

#[tokio::test]
async fn the_account_header_has_the_name_that_is_asked_for() {
    let world = World::with([AccountSpec::oauth("a")]).server("account_header = \"x-shunt-account\"").start().await;
    let answer = world.ask("s", "hi", false).send().await.unwrap();
    assert_eq!(text(&answer, "x-shunt-account"), "a");
    assert!(!answer.headers().contains_key("x-duduclaw-account"));
}

#[tokio::test]
async fn accounts_that_are_not_exposed_are_named_nowhere() {
    let accounts = [AccountSpec::oauth("secret-one"), AccountSpec::oauth("secret-two")];
    let world = World::with(accounts).server("expose_accounts = false").start().await;
    let served = world.ask("s", "hi", false).send().await.unwrap();
    world.sim.fault(FaultRule::standing("secret-one", Fault::Quota5h { resets_in: Some(100) }));
    let moved = world.ask("s", "hi", false).send().await.unwrap();
    let again = world.ask("s", "hi", false).send().await.unwrap();
    for answer in [&served, &moved, &again] {
        let told = format!("{:?}", answer.headers());
        assert!(!told.contains("secret-"), "{told}");
    }
}

#[tokio::test]
async fn a_final_refusal_names_no_account() {
    let world = World::logins(&["a"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::Quota5h { resets_in: Some(100) }));
    let answer = world.ask("s", "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 429);
    assert!(!answer.headers().contains_key("x-duduclaw-account"));
    assert!(answer.headers().contains_key("x-duduclaw-request-id"));
}

async fn served(world: &World, session: &str) -> (String, Option<f64>, Option<String>) {
    let answer = world.ask(session, "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let used = answer.headers().get("anthropic-ratelimit-unified-5h-utilization");
    let claim = answer.headers().get("anthropic-ratelimit-unified-representative-claim");
    let claim = claim.map(|claim| claim.to_str().unwrap().to_owned());
    (text(&answer, "x-duduclaw-account").to_owned(), used.map(|used| used.to_str().unwrap().parse().unwrap()), claim)
}

/// What the client shows its user is how near the pool is to its end, not how near one account is.
#[tokio::test]
async fn quota_headers_can_tell_of_the_pool() {
    for (setting, expected) in [("account", 0.8), ("pool", 0.2)] {
        let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")])
            .server(&format!("quota_headers = \"{setting}\""))
            .start()
            .await;
        let mut sessions = std::collections::BTreeMap::new();
        for session in ["s", "t"] {
            sessions.insert(served(&world, session).await.0, session);
        }
        world.sim.set_used("a", SimWindow::FiveHours, 0.8).unwrap();
        world.sim.set_used("a", SimWindow::SevenDays, 0.1).unwrap();
        world.sim.set_used("b", SimWindow::FiveHours, 0.2).unwrap();
        world.sim.set_used("b", SimWindow::SevenDays, 0.3).unwrap();
        served(&world, sessions["b"]).await;
        world.until_used("b", "5h", 0.2).await;
        let (account, used, claim) = served(&world, sessions["a"]).await;
        assert_eq!(account, "a");
        let used = used.unwrap();
        assert!((used - expected).abs() < 0.01, "{setting}: {used}");
        if setting == "pool" {
            assert_eq!(claim.as_deref(), Some("seven_day"), "of the best account the fullest window decides");
            world.sim.fault(FaultRule::next("b", 1, Fault::Quota5h { resets_in: Some(900) }));
            served(&world, sessions["b"]).await;
            world.until_state("b", "rate_limited").await;
            let (account, used, _) = served(&world, sessions["a"]).await;
            assert_eq!(account, "a");
            assert!((used.unwrap() - 0.8).abs() < 0.01, "an account that is out promises nothing");
        }
    }
}

impl World {
    async fn until_used(&self, name: &str, window: &str, share: f64) {
        for _ in 0..1000 {
            let used = self.account(name).await.windows.get(window).and_then(|window| window.utilization);
            if used.is_some_and(|used| (used - share).abs() < 0.01) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{name} never showed {share}");
    }
}

#[tokio::test]
async fn the_account_uuid_in_the_metadata_is_that_of_the_account_that_serves() {
    let uuid = "11111111-2222-3333-4444-555555555555";
    let world = World::with([AccountSpec::oauth("a")]).account("a", &format!("uuid = \"{uuid}\"")).start().await;
    let user = |account: &str| {
        format!("{{\\\"device_id\\\":\\\"d\\\",\\\"account_uuid\\\":\\\"{account}\\\",\\\"session_id\\\":\\\"s\\\"}}")
    };
    let with = |user: String| {
        format!(
            "{{\"model\":\"claude-opus-5-5\", \"max_tokens\":1.6e1,\"metadata\" : {{\"user_id\":\"{user}\"}},\"messages\":[{{\"role\":\"user\",\"content\":\"h\\u0069\"}}]}}"
        )
    };
    for account in ["", "99999999-0000-0000-0000-000000000000"] {
        let sent = with(user(account));
        world.post("/v1/messages").body(sent).send().await.unwrap();
        let got = world.messages().pop().unwrap().request_body().unwrap();
        assert_eq!(String::from_utf8_lossy(&got), with(user(uuid)), "nothing else is touched");
    }
    for untouched in [with("plain".to_owned()), with("{\\\"device_id\\\":\\\"d\\\"}".to_owned()), body()] {
        world.post("/v1/messages").body(untouched.clone()).send().await.unwrap();
        assert_eq!(world.messages().pop().unwrap().request_body().unwrap(), untouched.as_bytes());
    }
}

/// C108: both families are listened on, and what is printed is an address that is bound.
#[tokio::test]
async fn localhost_is_both_families_on_one_port() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("this machine has no IPv6; nothing is tested");
        return;
    }
    for (bind, count) in [("localhost:0", 2), ("[::1]:0", 1), ("127.0.0.1:0", 1)] {
        let setting = Setting::with(&["a"], &format!("bind = \"{bind}\"\n")).await;
        let mut daemon = setting.serve().await;
        assert_eq!(daemon.addresses.len(), count, "{:?}", daemon.addresses);
        for url in &daemon.addresses {
            let answer = ask(&client(), url, "hi", false).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{url}");
        }
        let (code, printed, _) = setting.run(&["env"]).await;
        assert_eq!(code, 0);
        assert!(daemon.addresses.iter().any(|url| printed.contains(url.as_str())), "{printed}");
        assert_eq!(setting.run(&["status"]).await.0, 0);
        assert_eq!(daemon.stop().await, Some(0));
    }
}

/// C109: a proxy of the environment swallows nothing that runs on this machine.
#[tokio::test]
async fn a_proxy_in_the_environment_is_not_asked_for_this_machine() {
    let setting = Setting::with(&["a"], "").await;
    let dead = format!("http://127.0.0.1:{}", crate::binary::free_port());
    let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let with_proxy = |arguments: &[&str]| {
        let mut command = setting.command(arguments);
        names.iter().for_each(|name| {
            command.env(name, &dead);
        });
        command
    };
    let mut daemon = crate::binary::Daemon::of(with_proxy(&["serve"])).await;
    let answer = ask(&client(), daemon.url(), "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let (code, _, said) = crate::binary::run(with_proxy(&["status"])).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// C109: nor is it asked for the token endpoint of a loopback provider.
#[tokio::test]
async fn a_refresh_on_this_machine_asks_no_proxy() {
    let setting = Setting::with(&["a"], "").await;
    let text = std::fs::read_to_string(setting.home.path().join("config.toml")).unwrap();
    let text = text.replace("auth =", &format!("token_url = \"{}\"\nauth =", setting.sim.token_url()));
    std::fs::write(setting.home.path().join("config.toml"), text).unwrap();
    setting.sim.change("a", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
    let mut command = setting.command(&["serve"]);
    command.env("HTTP_PROXY", format!("http://127.0.0.1:{}", crate::binary::free_port()));
    let mut daemon = crate::binary::Daemon::of(command).await;
    let answer = ask(&client(), daemon.url(), "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", daemon.said());
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_unix_socket_serves_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.sock");
    let setting = Setting::with(&["a"], &format!("bind = \"unix:{}\"\n", path.display())).await;
    let mut daemon = setting.serve().await;
    let mut connection = tokio::net::UnixStream::connect(&path).await.unwrap();
    let body = body();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let answer = read_all(&mut connection).await;
    assert_eq!(status(&answer), 200, "{answer}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_client_that_looks_into_the_body_finds_the_providers_json() {
    let world = World::logins(&["a"]).await;
    let answer = world.ask("s", "[[say: plain]]", false).send().await.unwrap();
    let value: Value = answer.json().await.unwrap();
    assert_eq!(value["content"][0]["text"], "plain");
    let record = world.messages().pop().unwrap();
    let sent: Value = serde_json::from_slice(&record.response_body()).unwrap_or_default();
    assert!(sent.is_null() || sent == value);
}
