//! Chains of upstreams, in both forms of the configuration, and the names that models have in them.

use duduclaw::sim::{AccountSpec, Endpoint, Fault, FaultRule};
use serde_json::json;

use crate::seen::{Got, events_of, exact_provider, got, in_front_of};
use crate::support::World;

const MODEL: &str = "claude-opus-5-5";

/// Two providers by name, one account in each, both mapped.
async fn by_providers(more: &str) -> World {
    let provider = |name: &str, account: &str| {
        format!(
            "[providers.{name}]\nkind = \"anthropic\"\nbase_url = \"{{sim}}\"\ntoken_url = \"{{sim}}/v1/oauth/token\"\n\
             auth = \"claude_oauth\"\n[[providers.{name}.accounts]]\nname = \"{account}\"\n\
             credentials = \"{{creds}}/{account}.json\"\n"
        )
    };
    let text = format!(
        "[server]\nbind = \"127.0.0.1:0\"\n{more}\n{}{}[[models]]\nid = \"{MODEL}\"\n[models.upstream_model]\n\
         second = \"{MODEL}\"\nfirst = \"{MODEL}\"\n",
        provider("first", "a"),
        provider("second", "b"),
    );
    World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")]).config(&text).start().await
}

/// The same as ordered upstreams.
async fn by_upstreams(more: &str) -> World {
    let upstream = |name: &str, account: &str| {
        format!(
            "[[upstreams]]\nname = \"{name}\"\nkind = \"anthropic\"\nbase_url = \"{{sim}}\"\n\
             token_url = \"{{sim}}/v1/oauth/token\"\nauth = {{ mode = \"claude_oauth\", accounts = \
             [{{ name = \"{account}\", credentials = \"{{creds}}/{account}.json\" }}] }}\n"
        )
    };
    let text = format!(
        "[server]\nbind = \"127.0.0.1:0\"\n{more}\n{}{}[[models]]\nid = \"{MODEL}\"\n[models.upstream_model]\n\
         second = \"{MODEL}\"\nfirst = \"{MODEL}\"\n",
        upstream("first", "a"),
        upstream("second", "b"),
    );
    World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")]).config(&text).start().await
}

fn served_by_second(got: &Got) {
    got.served_by("b");
    assert_eq!(got.header("x-duduclaw-upstream"), Some("second"));
}

async fn goes_on(world: &World, fault: Fault, stream: bool) {
    world.sim.fault(FaultRule::standing("a", fault.clone()));
    let got = world.turn("s", stream).await;
    assert_eq!(got.status, 200, "{fault:?}: {}", got.text());
    served_by_second(&got);
    assert!(!world.sim.hits("a", Endpoint::Messages).is_empty(), "{fault:?}");
}

#[tokio::test]
async fn a_chain_goes_on_after_whatever_another_upstream_may_cure() {
    let faults = [
        Fault::Quota5h { resets_in: None },
        Fault::Throttle { retry_after: "60".to_owned() },
        Fault::ThrottleUnstated,
        Fault::LongContext,
        Fault::Unauthorized,
        Fault::OrgDisabled,
        Fault::Forbidden,
        Fault::NoSuchModel,
        Fault::ServerError,
        Fault::Overloaded { retry_after: None },
        Fault::ResetBeforeHead,
        Fault::BalanceEmpty,
        Fault::FirstEventError { kind: "overloaded_error".to_owned() },
        Fault::Blank,
    ];
    for fault in faults {
        goes_on(&by_providers("").await, fault.clone(), true).await;
        goes_on(&by_upstreams("").await, fault, false).await;
    }
}

#[tokio::test]
async fn what_the_request_itself_did_wrong_is_answered_at_once() {
    let of_status = |status| Fault::Status { status, headers: Vec::new(), body: "{\"odd\": 1}".to_owned() };
    for fault in [Fault::TooLong, Fault::TooLarge, of_status(422), of_status(409)] {
        let world = by_providers("").await;
        world.sim.fault(FaultRule::standing("a", fault));
        let got = world.turn("s", false).await;
        let record = world.last("a");
        assert_eq!((Some(got.status.as_u16()), &got.body), (record.status, &record.response_body()));
        assert_eq!((world.hits("a"), world.hits("b")), (1, 0));
    }
}

#[tokio::test]
async fn the_last_upstream_relays_what_its_table_relays() {
    for (fault, status) in [(Fault::NoSuchModel, 404), (Fault::Forbidden, 403), (Fault::LongContext, 429)] {
        let world = by_upstreams("").await;
        world.sim.fault(FaultRule::standing("a", Fault::NoSuchModel));
        world.sim.fault(FaultRule::standing("b", fault));
        let got = world.turn("s", false).await;
        assert_eq!((got.status.as_u16(), &got.body), (status, &world.last("b").response_body()));
        assert_eq!((world.hits("a"), world.hits("b")), (1, 1));
    }
}

#[tokio::test]
async fn a_late_head_makes_a_chain_go_on_for_streams_only() {
    let timeouts = "[server.timeouts]\nupstream_ttfb = \"1s\"\nupstream_ttfb_nonstream = \"1s\"";
    let world = by_providers(timeouts).await;
    world.sim.fault(FaultRule::standing("a", Fault::StallBeforeHead));
    served_by_second(&world.turn("s", true).await);
    assert_eq!(world.turn("s", false).await.status, 504);
    assert_eq!((world.hits("a"), world.hits("b")), (2, 1));
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_passed_by() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"first\"\nkind = \"anthropic\"\n\
                base_url = \"http://127.0.0.1:1\"\nauth = { mode = \"claude_oauth\", accounts = \
                [{ name = \"a\", credentials = \"{creds}/a.json\" }] }\n[[upstreams]]\nname = \"second\"\n\
                kind = \"anthropic\"\nbase_url = \"{sim}\"\nauth = { mode = \"claude_oauth\", accounts = \
                [{ name = \"b\", credentials = \"{creds}/b.json\" }] }\n[[models]]\nid = \"claude-opus-5-5\"\n\
                [models.upstream_model]\nfirst = \"claude-opus-5-5\"\nsecond = \"claude-opus-5-5\"\n";
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")]).config(text).start().await;
    served_by_second(&world.turn("s", true).await);
    served_by_second(&world.turn("s", true).await);
    assert_eq!(world.until_state("a", "erroring").await.cause.as_deref(), Some("network"));
}

/// Both elements out: the best answer of all of them, and the soonest return of all.
#[tokio::test]
async fn the_final_answer_speaks_for_the_whole_chain() {
    let world = by_providers("").await;
    world.sim.fault(FaultRule::standing("a", Fault::Quota5h { resets_in: Some(7999) }));
    world.sim.fault(FaultRule::standing("b", Fault::Quota5h { resets_in: Some(600) }));
    let got = world.turn("s", false).await;
    assert_eq!(got.status, 429);
    assert!((570..=600).contains(&got.retry_after().unwrap()));
    assert_eq!((world.hits("a"), world.hits("b")), (1, 1));
}

/// Only the elements that a model's entry maps are its chain; a model without an entry has a chain of one.
#[tokio::test]
async fn a_model_without_an_entry_has_a_chain_of_one() {
    let world = by_providers("").await;
    world.sim.fault(FaultRule::standing("a", Fault::ServerError));
    let got = world.model("claude-haiku-4-5", "s", "[[say: x]]", false).await;
    assert_eq!((got.status.as_u16(), world.hits("b")), (500, 0));
}

#[tokio::test]
async fn counting_tokens_asks_the_first_upstream_alone() {
    let world = by_providers("").await;
    world.sim.fault(FaultRule::standing("a", Fault::ServerError).on(Endpoint::CountTokens));
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}]});
    let got = got(world.post("/v1/messages/count_tokens").json(&body)).await;
    assert_eq!(got.status, 500);
    assert_eq!(got.body, world.sim.hits("a", Endpoint::CountTokens).pop().unwrap().response_body());
    assert!(world.sim.hits("b", Endpoint::CountTokens).is_empty());
}

/// One model is pinned to one account of the store; all others use the whole store.
fn pinned(strict: bool) -> String {
    let through = if strict { "" } else { "anthropic = \"claude-sonnet-5-5\"\n" };
    let upstream = |name: &str, auth: &str| {
        format!(
            "[[upstreams]]\nname = \"{name}\"\nprovider = \"anthropic\"\nbase_url = \"{{sim}}\"\n\
             token_url = \"{{sim}}/v1/oauth/token\"\nauth = {auth}\n"
        )
    };
    format!(
        "[server]\nbind = \"127.0.0.1:0\"\ndefault_provider = \"anthropic\"\n[secrets]\naccounts_dir = \"{{creds}}/accounts\"\n\
         {}{}[[models]]\nid = \"claude-sonnet-5-5\"\n[models.upstream_model]\nanthropic-sonnet55 = \"claude-sonnet-5-5\"\n{through}",
        upstream("anthropic-sonnet55", "{ mode = \"claude_oauth\", account = \"primary\" }"),
        upstream("anthropic", "\"claude_oauth\""),
    )
}

async fn pinned_world(strict: bool) -> World {
    let accounts = ["backup", "primary", "team"].map(AccountSpec::oauth);
    World::with(accounts).stored().config(&pinned(strict)).start().await
}

#[tokio::test]
async fn a_pinned_model_stays_on_its_account_and_the_others_use_the_whole_store() {
    let world = pinned_world(false).await;
    let mut others = std::collections::BTreeSet::new();
    for at in 0..12 {
        let got = world.model("claude-opus-5-5", &format!("s{at}"), "[[say: x]]", true).await;
        assert_eq!((got.status.as_u16(), got.header("x-duduclaw-upstream")), (200, Some("anthropic")));
        others.insert(got.account().to_owned());
    }
    for at in 0..12 {
        let got = world.model("claude-sonnet-5-5", &format!("s{at}"), "[[say: x]]", true).await;
        got.served_by("primary");
        assert_eq!(got.header("x-duduclaw-upstream"), Some("anthropic-sonnet55"));
    }
    assert_eq!(others.into_iter().collect::<Vec<_>>(), ["backup", "primary", "team"]);
}

#[tokio::test]
async fn a_pin_that_falls_through_uses_the_whole_store_when_its_account_fails() {
    let world = pinned_world(false).await;
    world.sim.fault(FaultRule::standing("primary", Fault::Quota5h { resets_in: Some(7999) }));
    let got = world.model("claude-sonnet-5-5", "s", "[[say: x]]", true).await;
    assert_eq!((got.status.as_u16(), got.header("x-duduclaw-upstream")), (200, Some("anthropic")));
    assert_ne!(got.account(), "primary");
    world.until_state("primary", "rate_limited").await;
    assert_eq!(world.hits("primary"), 1, "one account has one state, in both upstreams");
    let got = world.model("claude-sonnet-5-5", "s", "[[say: x]]", true).await;
    assert_eq!((got.status.as_u16(), world.hits("primary")), (200, 1));
}

/// The chain leads the conversation to another account and back: each time the reasoning it had is lost, and that is said.
#[tokio::test]
async fn a_chain_that_leads_a_thinking_conversation_away_and_back_says_so() {
    let world = pinned_world(false).await;
    let ask = async || world.model("claude-sonnet-5-5", "s", "[[say: x]]", true).await;
    let moved = |got: &Got| got.header("x-duduclaw-session-moved").map(str::to_owned);
    assert_eq!(moved(&ask().await), None);
    world.sim.fault(FaultRule::next("primary", 1, Fault::Throttle { retry_after: "60".to_owned() }));
    let away = ask().await;
    assert_ne!(away.account(), "primary");
    assert_eq!(moved(&away).as_deref(), Some("primary"));
    assert_eq!(world.events.wait_for("detoured").await["kind"]["thinking"], "lost");
    assert_eq!(moved(&ask().await), None, "it is announced once");
    world.advance(61);
    let back = ask().await;
    assert_eq!((back.account(), moved(&back).as_deref()), ("primary", Some(away.account())));
    assert_eq!(world.events.wait_for("returned").await["kind"]["thinking"], "lost");
}

#[tokio::test]
async fn a_strict_pin_gets_its_accounts_own_error() {
    let world = pinned_world(true).await;
    world.sim.fault(FaultRule::standing("primary", Fault::Quota5h { resets_in: Some(7999) }));
    let got = world.model("claude-sonnet-5-5", "s", "[[say: x]]", true).await;
    assert_eq!((got.status.as_u16(), &got.body), (429, &world.last("primary").response_body()));
    assert!((7900..=7999).contains(&got.retry_after().unwrap()));
    assert_eq!(world.messages().len(), 1);
    assert_eq!(world.model("claude-opus-5-5", "s", "[[say: x]]", true).await.status, 200);
}

/// Models by other names than the provider's.
fn mapped() -> String {
    "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
     auth = \"claude_oauth\"\n[[providers.anthropic.accounts]]\nname = \"a\"\ncredentials = \"{creds}/a.json\"\n\
     [[models]]\nid = \"the \\\"fast\\\" one\"\n[models.upstream_model]\nanthropic = \"claude-haiku-4-5\"\n"
        .to_owned()
}

const ALIAS: &str = "the \"fast\" one";

async fn renaming() -> World {
    World::with([AccountSpec::oauth("a")]).config(&mapped()).start().await
}

fn with_name(provider: &[u8], theirs: &str, ours: &str) -> String {
    let text = String::from_utf8(provider.to_vec()).unwrap();
    let (from, to) = (json!(theirs).to_string(), json!(ours).to_string());
    assert_eq!(text.matches(&from).count(), 1, "{text}");
    text.replace(&from, &to)
}

#[tokio::test]
async fn a_reply_shows_the_model_by_the_clients_name_and_nothing_else_of_it_changes() {
    let world = renaming().await;
    for (asked, sent) in [
        (ALIAS, "claude-haiku-4-5"),
        ("claude-opus-5-5[1m]", "claude-opus-5-5"),
        ("claude-opus-5-5[1M]", "claude-opus-5-5"),
    ] {
        for fault in
            [Fault::Split { sizes: vec![1], pause_millis: 0 }, Fault::Split { sizes: vec![1 << 20], pause_millis: 0 }]
        {
            world.sim.fault(FaultRule::next("a", 2, fault));
            let stream = world.model(asked, "s", "[[say: claude]]", true).await;
            assert_eq!(world.last("a").model.as_deref(), Some(sent));
            assert_eq!(stream.text(), with_name(&world.last("a").response_body(), sent, asked));
            assert_eq!(events_of(&stream.body)[0].1["message"]["model"], asked);
            let whole = world.model(asked, "s", "[[say: claude]]", false).await;
            assert_eq!(whole.text(), with_name(&world.last("a").response_body(), sent, asked));
            assert_eq!(whole.header("content-length"), Some(&*whole.body.len().to_string()));
            assert_eq!(world.last("a").header("accept-encoding"), Some("identity"));
            assert_eq!(whole.header("x-duduclaw-model"), Some(sent));
        }
    }
}

#[tokio::test]
async fn odd_framing_is_no_hindrance_to_the_clients_name() {
    let world = renaming().await;
    for size in [1, 5, 1 << 20] {
        let cut = Fault::Split { sizes: vec![size], pause_millis: 0 };
        world
            .sim
            .fault(FaultRule::next("a", 1, Fault::OddFraming).and(cut).and(Fault::Pings { count: 2, every_millis: 0 }));
        let stream = world.model(ALIAS, "s", "[[say: claude]]", true).await;
        assert_eq!(stream.text(), with_name(&world.last("a").response_body(), "claude-haiku-4-5", ALIAS));
    }
}

#[tokio::test]
async fn without_a_change_of_name_the_bytes_are_the_providers() {
    let world = renaming().await;
    for stream in [true, false] {
        let got = world.model("claude-haiku-4-5", "s", "[[say: claude]]", stream).await;
        assert_eq!(got.body, world.last("a").response_body());
    }
    assert_eq!(world.last("a").header("accept-encoding"), Some("gzip, identity"));
}

#[tokio::test]
async fn what_comes_compressed_all_the_same_is_relayed_raw() {
    let world = renaming().await;
    for fault in [Fault::Gzip, Fault::FalseGzip] {
        for stream in [true, false] {
            world.sim.fault(FaultRule::next("a", 1, fault.clone()));
            let got = world.model(ALIAS, "s", "[[say: claude]]", stream).await;
            assert_eq!((got.status.as_u16(), got.body), (200, world.last("a").response_body()));
        }
    }
}

#[tokio::test]
async fn a_renamed_message_that_breaks_off_is_broken_off() {
    let url = exact_provider(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"model\":\"claude-haiku-4-5\",\"x"
            .to_owned(),
    );
    let world = in_front_of(&url.await).await;
    match world.asking("fast", "s", "x", false).send().await {
        Ok(answer) => assert!(answer.bytes().await.is_err(), "half a message is no answer"),
        Err(error) => assert!(error.is_request(), "{error}"),
    }
}

/// C71: headers are made anew for each attempt: nothing of the login's attempt reaches the key's.
#[tokio::test]
async fn a_key_behind_logins_serves_with_headers_of_its_own() {
    let world = World::with([AccountSpec::oauth("login"), AccountSpec::api_key("metered")])
        .account("login", "priority = 1")
        .account("metered", "priority = 2")
        .provider("strategy = \"failover\"")
        .start()
        .await;
    world.sim.fault(FaultRule::next("login", 1, Fault::Quota5h { resets_in: None }));
    let ask = || world.ask("s", "[[say: x]]", true).header("anthropic-beta", "mine-2025-01-01");
    got(ask()).await.served_by("metered");
    let (first, second) = (world.last("login"), world.last("metered"));
    assert_eq!(first.header("anthropic-beta"), Some("mine-2025-01-01,oauth-2025-04-20"));
    assert!(first.header("authorization").is_some() && first.header("x-api-key").is_none());
    assert_eq!(second.header("anthropic-beta"), Some("mine-2025-01-01"));
    assert!(second.header("authorization").is_none() && second.header("x-api-key").is_some());
    got(ask()).await.served_by("metered");
    assert_eq!(world.last("metered").header("anthropic-beta"), Some("mine-2025-01-01"));
}

/// Asked for one model, answered by another: that is told, each time, and not where the model is the same.
#[tokio::test]
async fn another_model_that_answers_is_told() {
    let text = format!(
        "[server]\nbind = \"127.0.0.1:0\"\n\
         [[upstreams]]\nname = \"first\"\nkind = \"anthropic\"\nbase_url = \"{{sim}}\"\n\
         auth = {{ mode = \"claude_oauth\", accounts = [{{ name = \"a\", credentials = \"{{creds}}/a.json\" }}] }}\n\
         [[upstreams]]\nname = \"second\"\nkind = \"anthropic\"\nbase_url = \"{{sim}}\"\n\
         auth = {{ mode = \"claude_oauth\", accounts = [{{ name = \"b\", credentials = \"{{creds}}/b.json\" }}] }}\n\
         [[models]]\nid = \"{MODEL}\"\n[models.upstream_model]\nfirst = \"{MODEL}\"\nsecond = \"claude-haiku-4-5\"\n"
    );
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")]).config(&text).start().await;
    world.turn("s", false).await.served_by("a");
    assert!(world.events.of("model_substituted").is_empty());
    world.sim.fault(FaultRule::standing("a", Fault::Unauthorized));
    let got = world.turn("s", false).await;
    served_by_second(&got);
    let told = world.events.wait_for("model_substituted").await;
    assert_eq!(
        told["kind"],
        json!({"kind": "model_substituted", "wanted": MODEL, "served": "claude-haiku-4-5", "upstream": "second"})
    );
    assert_eq!(told["account"]["name"], "b");
}
