//! Cases from the field, each for its kind; the rows of the table have tests of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use duduclaw::sim::{AccountChange, AccountSpec, Ending, Endpoint, Fault, FaultRule, Refusal};
use serde_json::json;

use crate::seen::{got, in_order, refusal};
use crate::support::{World, eventually};

/// C01: a stated wait is a measurement. Nothing asks the account before its end but one probe a minute while nothing
/// else is left, and here another account is.
#[tokio::test]
async fn c01_a_long_stated_wait_is_kept_to_the_second() {
    let world = in_order(&["a", "b"]).await;
    let at = (world.now() + 7999).to_string();
    let headers = [
        ("status", "rejected".to_owned()),
        ("5h-status", "rejected".to_owned()),
        ("5h-reset", at),
        ("7d-status", "allowed".to_owned()),
        ("representative-claim", "five_hour".to_owned()),
    ];
    world.sim.fault(FaultRule::next("a", 1, refusal(&headers, &[("retry-after", "7999")])));
    world.turn("s", false).await.served_by("b");
    for step in [60, 840, 2700, 4300] {
        world.advance(step);
        world.turn("s", false).await.served_by("b");
    }
    assert_eq!(world.hits("a"), 1);
    world.advance(110);
    world.turn("s", false).await.served_by("a");
}

/// C03: what nobody explains is remembered all the same, so that five requests do not cost twenty.
#[tokio::test]
async fn c03_a_bare_429_on_every_account_costs_few_attempts() {
    let world = World::logins(&["a", "b", "c", "d"]).await;
    for account in ["a", "b", "c", "d"] {
        world.sim.fault(FaultRule::standing(account, Fault::ThrottleUnstated));
    }
    for at in 0..5 {
        let refused = world.turn(&format!("s{at}"), false).await;
        assert_eq!(refused.status, 429);
        assert!(refused.text().contains("rate_limit_error"));
    }
    assert!(world.messages().len() <= 5, "{}", world.messages().len());
}

/// C05: what one request may not have is no account's fault.
#[tokio::test]
async fn c05_a_request_that_needs_a_dearer_plan_hurts_nobody_else() {
    let world = World::logins(&["a", "b"]).await;
    for text in [
        "Extra usage is required for long context requests.",
        "Usage credits are required for the 1M context window.",
        "This model is not available on your plan.",
    ] {
        let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": text}}).to_string();
        let headers = vec![("anthropic-ratelimit-unified-status".to_owned(), "allowed".to_owned())];
        for account in ["a", "b"] {
            let fault = Fault::Status { status: 429, headers: headers.clone(), body: body.clone() };
            world.sim.fault(FaultRule::standing(account, fault).for_model("fable"));
        }
        let before = world.messages().len();
        let refused = world.model("claude-fable-5", "big", "[[say: x]]", false).await;
        assert_eq!((refused.status.as_u16(), refused.text()), (429, body));
        assert_eq!(world.messages().len(), before + 1);
        world.sim.clear_faults(None);
        assert_eq!(world.turn("small", false).await.status, 200);
    }
    world.is_well("a").await;
    world.is_well("b").await;
}

/// C07: the cap of one family of models bars that family alone, until its reset.
#[tokio::test]
async fn c07_the_cap_of_one_family_bars_that_family_alone() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::ScopeFable { resets_in: Some(3000) }).for_model("fable"));
    world.model("claude-fable-5", "s", "[[say: x]]", true).await.served_by("b");
    world.model("claude-haiku-4-5", "s", "[[say: x]]", true).await.served_by("a");
    world.model("CLAUDE-FABLE-5".to_lowercase().as_str(), "s", "[[say: x]]", true).await.served_by("b");
    world.advance(3001);
    world.model("claude-fable-5", "s", "[[say: x]]", true).await.served_by("a");
}

/// C08: an overloaded account rests as long as it says and is never shown as out of quota.
#[tokio::test]
async fn c08_overload_is_no_quota() {
    let world = in_order(&["a", "b"]).await;
    let date = std::time::UNIX_EPOCH + Duration::from_secs(world.now() as u64 + 120);
    let fault = Fault::Overloaded { retry_after: Some(httpdate::fmt_http_date(date)) };
    world.sim.fault(FaultRule::next("a", 1, fault));
    world.turn("s", true).await.served_by("b");
    let view = world.until_state("a", "erroring").await;
    assert_eq!((view.cause.as_deref(), view.near_quota), (Some("overloaded"), false));
    assert!((60..=120).contains(&view.cooldown_secs_remaining), "{}", view.cooldown_secs_remaining);
    world.advance(121);
    world.turn("s", true).await.served_by("a");
}

/// C10: a request that cannot be served anywhere is asked once, and another session notices nothing.
#[tokio::test]
async fn c10_a_malformed_request_costs_one_call_and_nobody_else() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::TooLong).for_model("opus"));
    let small = world.asking("claude-haiku-4-5", "other", "[[say: x]]", true);
    let (refused, served) = tokio::join!(world.turn("s", false), got(small));
    served.served_by("a");
    assert_eq!(refused.status, 400);
    let record = world.messages().into_iter().find(|record| record.status == Some(400)).unwrap();
    assert_eq!(refused.body, record.response_body());
    assert!(refused.text().contains("prompt is too long: "));
    assert_eq!(world.messages().len(), 2);
    world.is_well("a").await;
}

/// C11: the healthy one of a mixed pool serves, whatever the others are.
#[tokio::test]
async fn c11_one_healthy_account_is_enough() {
    let world = in_order(&["a", "b", "c"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::Unauthorized));
    world.sim.fault(FaultRule::standing("b", Fault::Quota5h { resets_in: Some(3600) }));
    world.turn("s", false).await.served_by("c");
    world.turn("s", false).await.served_by("c");
}

/// C14: newcomers of one instant spread.
#[tokio::test]
async fn c14_a_cold_start_does_not_put_everybody_on_one_account() {
    let world = World::logins(&["a", "b", "c", "d"]).await;
    world.sim.set_pace(5);
    let asks = (0..12).map(|at| got(world.ask(&format!("s{at}"), "[[words: 20]]", true)));
    let mut counts = BTreeMap::new();
    for answer in futures_util::future::join_all(asks).await {
        assert_eq!(answer.status, 200);
        *counts.entry(answer.account().to_owned()).or_insert(0) += 1;
    }
    assert!(counts.values().all(|count| *count <= 6), "{counts:?}");
    assert!(counts.len() >= 3, "{counts:?}");
}

/// C20, C21: a date that has passed, or nonsense, never makes a tight loop.
#[tokio::test]
async fn c21_an_unreadable_wait_makes_no_loop() {
    for nonsense in ["Wed, 99 Foo 2026", "soon", "", "Wed, 21 Oct 2015 07:28:00 GMT"] {
        let world = World::logins(&["a"]).await;
        world.sim.fault(FaultRule::standing("a", Fault::Throttle { retry_after: nonsense.to_owned() }));
        for _ in 0..5 {
            assert_eq!(world.turn("s", false).await.status, 429);
        }
        assert!(world.hits("a") <= 2, "{nonsense:?}: {}", world.hits("a"));
    }
}

fn expired(world: &World, account: &str) {
    world.sim.change(account, &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
}

/// C32: only the token endpoint's own words prove that a login is over; anything else is a hiccup.
#[tokio::test]
async fn c32_a_hiccup_at_the_token_endpoint_costs_no_login() {
    let page = Fault::Status {
        status: 403,
        headers: vec![("content-type".to_owned(), "text/html".to_owned())],
        body: "<html>firewall</html>".to_owned(),
    };
    let of = |status| Fault::Status { status, headers: Vec::new(), body: String::new() };
    for hiccup in [of(503), of(429), of(408), page, Fault::ResetBeforeHead] {
        let world = in_order(&["a", "b"]).await;
        expired(&world, "a");
        world.sim.fault(FaultRule::standing("a", hiccup.clone()).for_all().on(Endpoint::Token));
        world.turn("s", false).await.served_by("b");
        assert!(!world.account("a").await.needs_login, "{hiccup:?}");
        assert!(world.events.of("login_needed").is_empty(), "{hiccup:?}");
    }
}

/// C32, C34: a grant that is lost is known to be, and its token is never shown again; a new login works without a restart.
#[tokio::test]
async fn c34_a_dead_grant_is_shown_to_the_token_endpoint_once() {
    let dead = [
        Fault::InvalidGrant,
        Fault::Status { status: 200, headers: Vec::new(), body: "{\"error\":\"bad_refresh_token\"}".to_owned() },
    ];
    for fault in dead {
        let world = in_order(&["a", "b"]).await;
        expired(&world, "a");
        world.sim.fault(FaultRule::next("a", 1, fault).for_all().on(Endpoint::Token));
        for _ in 0..10 {
            world.turn("", false).await.served_by("b");
            world.advance(1000);
        }
        let tokens = || world.sim.log().iter().filter(|record| record.endpoint == Endpoint::Token).count();
        let of_a = world.sim.hits("a", Endpoint::Token).len();
        assert!(of_a <= 1 && tokens() >= 1, "{of_a} of {}", tokens());
        assert!(world.account("a").await.needs_login);
        let login = world.sim.change("a", &AccountChange { log_in: true, ..AccountChange::default() }).unwrap();
        let held = login.credentials;
        let document = json!({"claudeAiOauth": {
            "accessToken": held.token, "refreshToken": held.refresh_token, "expiresAt": held.expires_at,
            "scopes": ["user:inference"], "subscriptionType": "max",
        }});
        std::fs::write(world.home.path().join("a.json"), document.to_string()).unwrap();
        world.until("a", |a| !a.needs_login).await;
        world.advance(4000);
        world.turn("", false).await.served_by("a");
    }
}

/// C44: a network that is away teaches nothing about quota; with it the pool returns, and a stated hold stays.
#[tokio::test]
async fn c44_an_outage_of_the_network_is_over_when_it_is_over() {
    let world = World::with(["a", "b", "c"].map(AccountSpec::oauth)).provider("strategy = \"failover\"").start().await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Throttle { retry_after: "3600".to_owned() }));
    world.turn("s", true).await.served_by("b");
    world.until_state("a", "rate_limited").await;
    for account in ["a", "b", "c"] {
        world.sim.fault(FaultRule::standing(account, Fault::ResetBeforeHead));
    }
    world.sim.refuse_connections(Refusal::Refusing);
    for _ in 0..4 {
        let refused = world.turn("s", true).await;
        assert!([502, 429].contains(&refused.status.as_u16()), "{}", refused.status);
        world.advance(30);
    }
    for account in ["b", "c"] {
        assert_ne!(world.account(account).await.state, "rate_limited");
    }
    world.sim.refuse_connections(Refusal::Accepting);
    world.sim.clear_faults(None);
    world.advance(120);
    let served = world.turn("s", true).await;
    assert_eq!(served.status, 200);
    assert_ne!(served.account(), "a", "its own hold stands");
}

/// C48: one person in two organisations is two accounts.
#[tokio::test]
async fn c48_two_organisations_of_one_person_are_two_accounts() {
    let of = |name: &str, organisation: &str| AccountSpec {
        uuid: Some("11111111-2222-4333-8444-555555555555".to_owned()),
        organization: Some(organisation.to_owned()),
        ..AccountSpec::oauth(name)
    };
    let world =
        World::with([of("personal", "o-1"), of("team", "o-2")]).provider("strategy = \"failover\"").start().await;
    world.sim.fault(FaultRule::next("personal", 1, Fault::Quota5h { resets_in: Some(3600) }));
    world.turn("s", false).await.served_by("team");
    world.until_state("personal", "rate_limited").await;
    assert_eq!(world.account("team").await.state, "healthy");
}

/// C50: an account that was declared and never logged in is passed over; the client gets the other one's true answer.
#[tokio::test]
async fn c50_an_account_without_a_login_is_passed_over() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
                auth = \"claude_oauth\"\n[[providers.anthropic.accounts]]\nname = \"main\"\n\
                credentials = \"{creds}/main.json\"\n[[providers.anthropic.accounts]]\nname = \"backup\"\n\
                credentials = \"{creds}/nowhere.json\"\n";
    let world = World::with([AccountSpec::oauth("main")]).config(text).start().await;
    assert_eq!(world.account("backup").await.state, "broken");
    world.sim.fault(FaultRule::standing("main", Fault::Quota5h { resets_in: Some(3600) }));
    let refused = world.turn("s", false).await;
    assert_eq!((refused.status.as_u16(), &refused.body), (429, &world.last("main").response_body()));
    assert!((3500..=3600).contains(&refused.retry_after().unwrap()));
    assert!(!refused.text().contains("nowhere"), "{}", refused.text());
}

/// C60: however a stream is framed or coded, its tokens are counted.
#[tokio::test]
async fn c60_tokens_are_counted_in_every_framing_and_coding() {
    let world = World::logins(&["a"]).await;
    for (nth, fault) in [Fault::OddFraming, Fault::Gzip, Fault::FalseGzip, Fault::Pings { count: 1, every_millis: 0 }]
        .into_iter()
        .enumerate()
    {
        let cut = Fault::Split { sizes: vec![3], pause_millis: 0 };
        world.sim.fault(FaultRule::next("a", 2, fault).and(cut));
        for (at, stream) in [true, false].into_iter().enumerate() {
            assert_eq!(world.turn("s", stream).await.status, 200);
            let ended = eventually(|| world.events.of("request_ended").get(2 * nth + at).cloned()).await;
            let (record, usage) = (world.last("a"), &ended["kind"]["usage"]);
            assert!(record.output_tokens > 0);
            assert_eq!(usage["output"], record.output_tokens, "{usage}");
            assert_eq!(usage["input"], record.usage.unwrap().input, "{usage}");
        }
    }
}

/// C64: every event goes on at once, a ping too.
#[tokio::test]
async fn c64_a_ping_is_passed_on_while_nothing_else_comes() {
    let world = World::logins(&["a"]).await;
    let stall =
        FaultRule::next("a", 1, Fault::Pings { count: 1, every_millis: 0 }).and(Fault::StallAfter { events: 2 });
    world.sim.fault(stall);
    let mut answer = world.ask("s", "[[say: x]]", true).send().await.unwrap();
    let mut text = String::new();
    while !text.contains("event: ping") {
        text.push_str(&String::from_utf8_lossy(&answer.chunk().await.unwrap().unwrap()));
    }
    assert!(text.starts_with("event: message_start"), "{text}");
}

/// C62: a client that leaves takes its request with it, and the account is none the worse.
#[tokio::test]
async fn c62_a_client_that_leaves_ends_the_upstreams_answer_too() {
    let world = in_order(&["a", "b"]).await;
    world.sim.set_pace(20);
    let mut answer = world.ask("s", "[[words: 4000]]", true).send().await.unwrap();
    answer.chunk().await.unwrap().unwrap();
    assert_eq!(world.account("a").await.in_flight, 1);
    drop(answer);
    world.sim.until(|log| log.iter().any(|record| record.ending == Ending::ClientClosed)).await;
    world.until("a", |a| a.in_flight == 0).await;
    world.sim.set_pace(0);
    world.turn("s", true).await.served_by("a");
    world.is_well("a").await;
    assert_eq!(world.messages().len(), 2, "no further attempt is made for it");
}

/// C62: the same before there is a head.
#[tokio::test]
async fn c62_a_client_that_leaves_before_the_head_ends_the_attempt() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::StallBeforeHead));
    let asked = tokio::spawn(got(world.ask("s", "[[say: x]]", true)));
    eventually(|| (world.hits("a") == 1).then_some(())).await;
    asked.abort();
    world.sim.until(|log| log.iter().any(|record| record.ending == Ending::ClientClosed)).await;
    world.until("a", |a| a.in_flight == 0).await;
    world.turn("s", true).await.served_by("a");
    assert_eq!(world.messages().len(), 2);
    world.is_well("a").await;
}

/// C66: the label and the length are those of the bytes, on every path.
#[tokio::test]
async fn c66_label_and_length_match_the_bytes_on_every_path() {
    let world = World::logins(&["a"]).await;
    for coding in [Fault::Gzip, Fault::FalseGzip] {
        for endpoint in [Endpoint::CountTokens, Endpoint::Models] {
            world.sim.fault(FaultRule::next("a", 1, coding.clone()).on(endpoint));
            let body = json!({"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "x"}]});
            let request = if endpoint == Endpoint::Models {
                world.client.get(format!("{}/v1/models", world.url)).header("anthropic-version", "2023-06-01")
            } else {
                world.post("/v1/messages/count_tokens").json(&body)
            };
            let answer = got(request).await;
            let record = world.sim.hits("a", endpoint).pop().unwrap();
            assert_eq!((answer.status.as_u16(), &answer.body), (200, &record.response_body()));
            assert_eq!(answer.header("content-encoding"), Some("gzip"));
            assert_eq!(answer.header("content-length"), Some(&*answer.body.len().to_string()));
        }
    }
}

/// C68: what the provider takes, we take; above our own limit the refusal is in the client's protocol.
#[tokio::test]
async fn c68_large_bodies_reach_the_provider_and_larger_ones_get_a_plain_413() {
    let world = World::logins(&["a"]).await;
    for size in [2_100_000, 31 * 1024 * 1024] {
        let answer = world.model("claude-opus-5-5", "s", &"x".repeat(size), false).await;
        assert_eq!(answer.status, 200, "{size}");
        assert!(world.last("a").body_bytes > size);
    }
    let refused = world.model("claude-opus-5-5", "s", &"x".repeat(33 * 1024 * 1024), false).await;
    assert_eq!(refused.status, 413);
    let body: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!((body["type"].as_str(), body["error"]["type"].as_str()), (Some("error"), Some("request_too_large")));
    assert_eq!(world.messages().len(), 2);
}

/// C70: the login's beta joins the client's; each stands once, in order.
#[tokio::test]
async fn c70_the_logins_beta_joins_the_clients() {
    let world = World::logins(&["a"]).await;
    let cases: [(&[&str], &str); 4] = [
        (
            &["prompt-caching-scope-2026-01-05, context-management-2025-06-27"],
            "prompt-caching-scope-2026-01-05,context-management-2025-06-27,oauth-2025-04-20",
        ),
        (&["one-2025-01-01", "two-2025-01-01"], "one-2025-01-01,two-2025-01-01,oauth-2025-04-20"),
        (&["oauth-2025-04-20,one-2025-01-01"], "oauth-2025-04-20,one-2025-01-01"),
        (&[], "oauth-2025-04-20"),
    ];
    for (sent, expected) in cases {
        let request = world.ask("s", "[[say: x]]", false);
        let request = sent.iter().fold(request, |request, value| request.header("Anthropic-Beta", *value));
        assert_eq!(got(request).await.status, 200);
        let record = world.last("a");
        let seen: Vec<String> = record
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("anthropic-beta"))
            .flat_map(|(_, value)| value.split(',').map(|beta| beta.trim().to_owned()).collect::<Vec<_>>())
            .collect();
        assert_eq!(seen.join(","), expected);
    }
}

/// C72: what the client shows to us is not shown to the provider, in no slot.
#[tokio::test]
async fn c72_no_credential_of_the_client_goes_upstream() {
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::api_key("k")])
        .var("TOKENS", "me:local-key")
        .tables("[server.auth]\ntokens_env = \"TOKENS\"")
        .provider("strategy = \"failover\"")
        .start()
        .await;
    for account in ["a", "k"] {
        for (key, bearer) in [("local-key", "sk-ant-oat01-desktop"), ("sk-ant-api03-other", "local-key")] {
            let request = world.ask("s", "[[say: x]]", false).header("x-api-key", key).bearer_auth(bearer);
            let request = request.header("cookie", "c=local-key").header("x-duduclaw-token", "local-key");
            got(request).await.served_by(account);
            let record = world.last(account);
            let shown = ["authorization", "x-api-key"].iter().filter(|name| record.header(name).is_some()).count();
            assert_eq!((shown, record.header("cookie"), record.header("x-duduclaw-token")), (1, None, None));
        }
        world.sim.fault(FaultRule::standing("a", Fault::Quota5h { resets_in: None }));
        if account == "a" {
            let request = world.ask("s", "[[say: x]]", false).header("x-api-key", "local-key");
            got(request).await.served_by("k");
        }
    }
}

/// C73: counting tokens that fails says nothing of the account.
#[tokio::test]
async fn c73_a_failure_to_count_tokens_is_passed_back_and_forgotten() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::ServerError).on(Endpoint::CountTokens));
    let body = json!({"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "x"}]});
    for _ in 0..4 {
        let answer = got(world.post("/v1/messages/count_tokens?beta=true").json(&body)).await;
        let record = world.sim.hits("a", Endpoint::CountTokens).pop().unwrap();
        assert_eq!((answer.status.as_u16(), answer.body), (500, record.response_body()));
        assert_eq!(record.path, "/v1/messages/count_tokens?beta=true");
    }
    assert!(world.sim.hits("b", Endpoint::CountTokens).is_empty());
    world.turn("s", true).await.served_by("a");
    world.is_well("a").await;
}

/// C75: the suffix that asks for the long context is for us; the provider gets the model's name and the beta.
#[tokio::test]
async fn c75_the_long_contexts_suffix_never_reaches_the_provider() {
    let world = World::logins(&["a"]).await;
    for (asked, sent) in [("claude-x-4-6[1m]", "claude-x-4-6"), ("claude-x-4-6[1M]", "claude-x-4-6")] {
        assert_eq!(world.model(asked, "s", "[[say: x]]", true).await.status, 200);
        let record = world.last("a");
        assert_eq!(record.model.as_deref(), Some(sent));
        let betas = record.header("anthropic-beta").unwrap();
        assert!(betas.contains("context-1m-2025-08-07") && betas.contains("oauth-2025-04-20"), "{betas}");
    }
    let answer = world.model("claude-[1m]-x", "s", "[[say: x]]", true).await;
    assert_eq!((answer.status.as_u16(), world.last("a").model.as_deref()), (404, Some("claude-[1m]-x")));
}
