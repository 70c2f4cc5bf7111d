//! Conversations: each stays on its account, leaves it for a reason, and is told when its reasoning is lost by it.

use std::collections::BTreeMap;

use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use serde_json::{Value, json};

use crate::seen::{Got, got, hold};
use crate::support::World;
use duduclaw_actors::outcome::Cause;
use duduclaw_actors::standing::{HoldKind, Stated};

const THINKER: &str = "claude-sonnet-5-5";

async fn by_priority(accounts: [AccountSpec; 2]) -> World {
    World::with(accounts)
        .tables("[rotation]\nstrategy = \"priority\"")
        .account("a", "priority = 1")
        .account("b", "priority = 2")
        .start()
        .await
}

fn logins() -> [AccountSpec; 2] {
    [AccountSpec::oauth("a"), AccountSpec::oauth("b")]
}

#[tokio::test]
async fn a_conversation_stays_on_its_account_and_many_of_them_spread() {
    let world = World::logins(&["a", "b", "c"]).await;
    let mut homes = BTreeMap::new();
    for turn in 0..3 {
        for session in 0..12 {
            let got = world.turn(&format!("s{session}"), turn % 2 == 0).await;
            assert_eq!(got.status, 200);
            let home: &mut String = homes.entry(session).or_insert_with(|| got.account().to_owned());
            assert_eq!(got.account(), home, "session {session}, turn {turn}");
        }
    }
    let spread: std::collections::BTreeSet<&String> = homes.values().collect();
    assert_eq!(spread.len(), 3, "{homes:?}");
    assert!(world.events.of("conversation_moved").is_empty());
}

/// The id is the session's; a subagent of it has its own binding, and begins where its parent is.
#[tokio::test]
async fn a_subagent_begins_on_its_parents_account() {
    let world = World::logins(&["a", "b", "c", "d"]).await;
    for session in ["s1", "s2", "s3", "s4"] {
        let home = world.turn(session, false).await.account().to_owned();
        for agent in ["x", "y", "z"] {
            let request = world.ask(session, "[[say: x]]", true).header("x-claude-code-agent-id", agent);
            got(request).await.served_by(&home);
            assert_eq!(world.last(&home).agent.as_deref(), Some(agent), "the header goes on to the provider");
        }
    }
}

/// A transient fault is a detour; three of them in ten minutes are a move.
#[tokio::test]
async fn a_transient_fault_is_a_detour_and_the_conversation_comes_back() {
    let world = World::logins(&["a", "b"]).await;
    let home = world.turn("s", false).await.account().to_owned();
    world.sim.fault(FaultRule::next(&home, 1, Fault::Overloaded { retry_after: None }));
    let away = world.turn("s", false).await;
    assert_eq!(away.status, 200);
    assert_ne!(away.account(), home);
    assert_eq!(world.events.wait_for("detoured").await["kind"]["from"]["name"], home.as_str());
    world.turn("s", false).await.served_by(&home);
    assert_eq!(world.events.of("returned").len(), 1);
    assert!(world.events.of("conversation_moved").is_empty());
}

#[tokio::test]
async fn three_detours_in_ten_minutes_move_the_conversation() {
    let world = World::logins(&["a", "b"]).await;
    let home = world.turn("s", false).await.account().to_owned();
    for _ in 0..3 {
        world.sim.fault(FaultRule::next(&home, 1, Fault::Overloaded { retry_after: Some("20".to_owned()) }));
        assert_ne!(world.turn("s", false).await.account(), home);
        world.until_state(&home, "erroring").await;
        world.advance(61);
        world.until_state(&home, "healthy").await;
    }
    let moved = world.events.wait_for("conversation_moved").await;
    assert_eq!(
        (moved["kind"]["why"].as_str(), moved["kind"]["from"]["name"].as_str()),
        (Some("detours"), Some(&*home))
    );
    assert_ne!(world.turn("s", false).await.account(), home, "it stays where it went");
}

/// C51: health beats affinity, at once and for good.
#[tokio::test]
async fn a_hard_reason_moves_the_conversation_and_it_does_not_return_by_itself() {
    for (fault, why, wait) in [
        (Fault::Quota5h { resets_in: Some(600) }, "quota", 601),
        (Fault::Unauthorized, "auth", 1000),
        (Fault::SpendLimit, "limit", 90_000),
        (Fault::Throttle { retry_after: "900".to_owned() }, "long_hold", 901),
    ] {
        let world = World::with([AccountSpec::setup_token("a"), AccountSpec::setup_token("b")]).start().await;
        let home = world.turn("s", false).await.account().to_owned();
        world.sim.fault(FaultRule::next(&home, 1, fault));
        let moved = world.turn("s", false).await;
        assert_eq!(moved.status, 200);
        let away = moved.account().to_owned();
        assert_ne!(away, home);
        let event = world.events.wait_for("conversation_moved").await;
        assert_eq!((event["kind"]["why"].as_str(), event["kind"]["from"]["name"].as_str()), (Some(why), Some(&*home)));
        world.advance(wait);
        world.turn("s", false).await.served_by(&away);
        assert_eq!(world.events.of("conversation_moved").len(), 1);
    }
}

/// A model's turn in a conversation with everything said so far.
async fn think(world: &World, session: &str, history: &mut Vec<Value>, prompt: &str) -> Got {
    history.push(json!({"role": "user", "content": prompt}));
    let body = json!({
        "model": THINKER, "max_tokens": 4096, "stream": false, "messages": history,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
    });
    let got = got(world.post("/v1/messages").json(&body).header("x-claude-code-session-id", session)).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let answer: Value = serde_json::from_slice(&got.body).unwrap();
    history.push(json!({"role": "assistant", "content": answer["content"]}));
    got
}

fn lost(world: &World, account: &str) -> (usize, usize) {
    let record = world.last(account);
    (record.dropped_thinking, record.seen_thinking)
}

#[tokio::test]
async fn a_move_that_loses_the_models_reasoning_is_announced() {
    for (server, shown) in [("", "a"), ("expose_accounts = false", "1")] {
        let world = World::with(logins())
            .server(server)
            .tables("[rotation]\nstrategy = \"priority\"")
            .account("a", "priority = 1")
            .account("b", "priority = 2")
            .start()
            .await;
        let mut history = Vec::new();
        let first = think(&world, "s", &mut history, "[[think: one]][[say: x]]").await;
        assert_eq!(first.header("x-duduclaw-session-moved"), None);
        let second = think(&world, "s", &mut history, "[[think: two]][[say: x]]").await;
        assert_eq!((second.header("x-duduclaw-session-moved"), lost(&world, "a")), (None, (0, 1)));
        world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(600) }));
        let moved = think(&world, "s", &mut history, "[[recall]]").await;
        assert_eq!(moved.header("x-duduclaw-session-moved"), Some(shown));
        assert_eq!(lost(&world, "b"), (2, 0), "the provider dropped what a's model thought");
        let event = world.events.wait_for("conversation_moved").await;
        assert_eq!((event["kind"]["why"].as_str(), event["kind"]["thinking"].as_str()), (Some("quota"), Some("lost")));
        let third = think(&world, "s", &mut history, "[[think: three]][[say: x]]").await;
        assert_eq!(third.header("x-duduclaw-session-moved"), None, "it is announced once");
    }
}

#[tokio::test]
async fn a_detour_and_the_return_from_it_are_announced_too() {
    let world = by_priority(logins()).await;
    let mut history = Vec::new();
    think(&world, "s", &mut history, "[[think: one]][[say: x]]").await;
    world.sim.fault(FaultRule::next("a", 1, Fault::ServerError));
    let away = think(&world, "s", &mut history, "[[think: two]][[say: x]]").await;
    away.served_by("b");
    assert_eq!((away.header("x-duduclaw-session-moved"), lost(&world, "b")), (Some("a"), (1, 0)));
    assert_eq!(world.events.wait_for("detoured").await["kind"]["thinking"], "lost");
    let back = think(&world, "s", &mut history, "[[recall]]").await;
    back.served_by("a");
    assert_eq!((back.header("x-duduclaw-session-moved"), lost(&world, "a")), (Some("b"), (1, 1)));
    assert_eq!(world.events.wait_for("returned").await["kind"]["thinking"], "lost");
}

#[tokio::test]
async fn models_whose_reasoning_is_free_move_without_an_announcement() {
    let world = by_priority(logins()).await;
    world.turn("s", false).await.served_by("a");
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(600) }));
    let moved = world.turn("s", false).await;
    moved.served_by("b");
    assert_eq!(moved.header("x-duduclaw-session-moved"), None);
    assert_eq!(world.events.wait_for("conversation_moved").await["kind"]["thinking"], "none");
}

#[tokio::test]
async fn a_conversation_that_overflowed_goes_back_to_the_better_group_with_its_next_request() {
    let world = by_priority(logins()).await;
    world.turn("s", false).await.served_by("a");
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(600) }));
    world.turn("s", false).await.served_by("b");
    world.turn("s", false).await.served_by("b");
    world.advance(601);
    world.turn("s", false).await.served_by("a");
    let moves = world.events.of("conversation_moved");
    assert_eq!(moves.last().unwrap()["kind"]["why"], "better_group");
}

#[tokio::test]
async fn least_cost_uses_subscriptions_first_and_comes_back_to_them() {
    let world = World::with([AccountSpec::api_key("a"), AccountSpec::oauth("b")]).start().await;
    world.turn("s", false).await.served_by("b");
    world.sim.fault(FaultRule::next("b", 1, Fault::Quota5h { resets_in: Some(600) }));
    world.turn("s", false).await.served_by("a");
    world.turn("new", false).await.served_by("a");
    world.advance(601);
    world.turn("s", false).await.served_by("b");
    world.turn("new", false).await.served_by("b");
}

#[tokio::test]
async fn failover_gives_everything_to_the_first_and_ignores_bindings() {
    let world = crate::seen::in_order(&["a", "b"]).await;
    for session in ["s", "t", ""] {
        world.turn(session, false).await.served_by("a");
    }
    world.sim.fault(FaultRule::next("a", 1, Fault::Throttle { retry_after: "60".to_owned() }));
    world.turn("s", false).await.served_by("b");
    world.held("a", 1, &hold(HoldKind::RateLimited, Cause::Throttled, 60, Stated::ByProvider)).await;
    world.turn("t", false).await.served_by("b");
    world.advance(61);
    for session in ["s", "t", ""] {
        world.turn(session, false).await.served_by("a");
    }
}

#[tokio::test]
async fn round_robin_takes_turns_where_there_is_no_session() {
    let world = World::logins(&["a", "b", "c"]).await;
    for _ in 0..9 {
        assert_eq!(world.turn("", false).await.status, 200);
    }
    assert_eq!([world.hits("a"), world.hits("b"), world.hits("c")], [3, 3, 3]);
}

#[tokio::test]
async fn priority_prefers_the_lowest_number_and_spreads_within_it() {
    let world = World::with(["a", "b", "c"].map(AccountSpec::oauth))
        .tables("[rotation]\nstrategy = \"priority\"")
        .account("a", "priority = 5")
        .account("b", "priority = 1")
        .account("c", "priority = 1")
        .start()
        .await;
    for session in 0..12 {
        assert_eq!(world.turn(&format!("s{session}"), false).await.status, 200);
    }
    assert_eq!(world.hits("a"), 0);
    assert!(world.hits("b") > 1 && world.hits("c") > 1, "{} {}", world.hits("b"), world.hits("c"));
}
