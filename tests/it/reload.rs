//! A changed configuration or store: what acts with the next lease, what survives, and what is refused.

use duduclaw::sim::{AccountChange, AccountSpec, Fault, FaultRule, SimWindow};
use serde_json::Value;

use crate::support::{World, eventually, login};

fn account(answer: &reqwest::Response) -> String {
    answer.headers()["x-duduclaw-account"].to_str().unwrap().to_owned()
}

async fn served_by(world: &World, session: &str) -> String {
    let answer = world.ask(session, "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    account(&answer)
}

async fn refused(world: &World) -> Value {
    world.events.wait_for("config_refused").await
}

/// Without the account's table.
fn without(text: String, name: &str) -> String {
    let mut tables: Vec<&str> = text.split("[[providers.anthropic.accounts]]").collect();
    tables.retain(|table| !table.contains(&format!("name = \"{name}\"")));
    tables.join("[[providers.anthropic.accounts]]")
}

#[tokio::test]
async fn a_bad_configuration_leaves_the_old_one_in_force_and_says_why() {
    let bad = [
        ("[server", "config.toml"),
        ("[server]\nbnd = 1\n", "bind"),
        ("[server.pool]\ndefault_threshold = 7\n", "default_threshold"),
        (
            "[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"https://anthropic.evil.example\"\nauth = \"claude_oauth\"\n",
            "evil.example",
        ),
    ];
    for (text, why) in bad {
        let world = World::logins(&["a"]).await;
        world.rewrite(|_| text.to_owned());
        world.reload().await;
        let detail = refused(&world).await["kind"]["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(why), "{detail}");
        assert_eq!(served_by(&world, "s").await, "a");
    }
}

#[tokio::test]
async fn a_configuration_that_vanished_leaves_the_old_one_in_force() {
    let world = World::logins(&["a"]).await;
    std::fs::remove_file(world.home.path().join("config.toml")).unwrap();
    world.reload().await;
    assert_eq!(served_by(&world, "s").await, "a");
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let world = World::logins(&["a", "b"]).await;
    world.rewrite(|text| without(text, "a"));
    world.events.wait_for("config_reloaded").await;
    for session in ["s", "t", "u"] {
        assert_eq!(served_by(&world, session).await, "b");
    }
}

#[tokio::test]
async fn a_file_that_was_replaced_by_another_is_noticed() {
    let world = World::logins(&["a", "b"]).await;
    let path = world.home.path().join("config.toml");
    let fresh = world.home.path().join("config.toml.new");
    std::fs::write(&fresh, without(std::fs::read_to_string(&path).unwrap(), "a")).unwrap();
    std::fs::rename(fresh, path).unwrap();
    world.events.wait_for("config_reloaded").await;
    assert_eq!(served_by(&world, "s").await, "b");
}

#[tokio::test]
async fn a_removed_account_finishes_its_stream_and_gets_no_new_lease() {
    let world = World::logins(&["a", "b"]).await;
    world.sim.set_pace(20);
    let mut streams = Vec::new();
    for session in ["s", "t"] {
        streams.push(world.ask(session, "[[words: 60]]", true).send().await.unwrap());
    }
    assert!(streams.iter().any(|stream| account(stream) == "a"));
    world.rewrite(|text| without(text, "a"));
    world.reload().await;
    world.sim.set_pace(0);
    let hits = world.hits("a");
    for session in ["s", "t", "u", "v"] {
        assert_eq!(served_by(&world, session).await, "b");
    }
    for stream in streams {
        assert!(stream.text().await.unwrap().contains("message_stop"));
    }
    assert_eq!(world.hits("a"), hits);
    let names: Vec<_> = world.pool().await.providers[0].accounts.iter().map(|account| account.name.clone()).collect();
    assert_eq!(names, ["b"]);
}

#[tokio::test]
async fn a_disabled_account_gets_no_new_lease_until_it_is_enabled() {
    let world = World::logins(&["a", "b"]).await;
    let home = served_by(&world, "s").await;
    let mark = format!("name = \"{home}\"\n");
    world.rewrite(|text| text.replace(&mark, &format!("{mark}disabled = true\n")));
    world.reload().await;
    assert!(world.account(&home).await.disabled);
    for session in ["s", "t", "u"] {
        assert_ne!(served_by(&world, session).await, home);
    }
    world.rewrite(|text| text.replace("disabled = true\n", ""));
    world.reload().await;
    assert!(!world.account(&home).await.disabled);
    let mut seen = Vec::new();
    for session in ["v", "w", "x"] {
        seen.push(served_by(&world, session).await);
    }
    assert!(seen.contains(&home), "{seen:?}");
}

#[tokio::test]
async fn a_cap_acts_with_the_next_lease() {
    let world = World::logins(&["a", "b"]).await;
    let home = served_by(&world, "s").await;
    world.sim.set_used(&home, SimWindow::FiveHours, 0.5).unwrap();
    served_by(&world, "s").await;
    let mark = format!("name = \"{home}\"\n");
    world.rewrite(|text| text.replace(&mark, &format!("{mark}max_utilization_5h = 0.4\n")));
    world.reload().await;
    assert!(world.account(&home).await.capped);
    assert_ne!(served_by(&world, "s").await, home);
    world.rewrite(|text| text.replace("max_utilization_5h = 0.4\n", ""));
    world.reload().await;
    assert!(!world.account(&home).await.capped);
}

#[tokio::test]
async fn a_threshold_acts_with_the_next_lease() {
    let world = World::logins(&["a", "b"]).await;
    let home = served_by(&world, "s").await;
    world.sim.set_used(&home, SimWindow::FiveHours, 0.5).unwrap();
    served_by(&world, "s").await;
    assert!(!world.account(&home).await.near_quota);
    let mark = format!("name = \"{home}\"\n");
    world.rewrite(|text| text.replace(&mark, &format!("{mark}threshold_5h = 0.4\n")));
    world.reload().await;
    assert!(world.account(&home).await.near_quota);
    for session in ["t", "u"] {
        assert_ne!(served_by(&world, session).await, home, "a new conversation prefers the one with room");
    }
}

#[tokio::test]
async fn holds_figures_and_conversations_survive() {
    let world = World::logins(&["a", "b", "c"]).await;
    let out = served_by(&world, "s").await;
    world.sim.fault(FaultRule::next(&out, 1, Fault::Quota5h { resets_in: Some(7999) }));
    let home = served_by(&world, "s").await;
    assert_ne!(home, out);
    world.until_state(&out, "rate_limited").await;
    let before = (world.account(&out).await, world.account(&home).await);
    world.rewrite(|text| {
        text.replace("[providers.anthropic]", "[server.pool]\nhard_threshold = 0.97\n[providers.anthropic]")
    });
    world.reload().await;
    let after = (world.account(&out).await, world.account(&home).await);
    assert_eq!(after.0.state, "rate_limited");
    assert_eq!(after.0.cause, before.0.cause);
    assert!(after.0.cooldown_secs_remaining > 7900);
    assert_eq!(after.1.windows["5h"].utilization, before.1.windows["5h"].utilization);
    assert_eq!(after.1.requests, before.1.requests);
    assert_eq!(after.1.conversations, before.1.conversations);
    for _ in 0..3 {
        assert_eq!(served_by(&world, "s").await, home);
    }
}

const WHOLE_STORE: &str = "[server]\nbind = \"127.0.0.1:0\"\n[secrets]\naccounts_dir = \"{creds}/store\"\n[providers.anthropic]\n\
    kind = \"anthropic\"\nbase_url = \"{sim}\"\nauth = \"claude_oauth\"\n";

/// A world whose pool is the whole store, which the test fills.
async fn whole_store(names: &[&str]) -> World {
    let accounts: Vec<_> = names.iter().map(|name| AccountSpec::oauth(name)).collect();
    World::with(accounts).config(WHOLE_STORE).start().await
}

fn put(world: &World, name: &str) {
    let folder = world.home.path().join("store/claude");
    std::fs::create_dir_all(&folder).unwrap();
    let fresh = folder.join(format!("{name}.tmp"));
    std::fs::write(&fresh, login(&world.sim, name).to_string()).unwrap();
    std::fs::rename(fresh, folder.join(format!("{name}.json"))).unwrap();
}

async fn until_account(world: &World, name: &str) {
    let mut tries = 0;
    loop {
        let pool = world.pool().await;
        if pool
            .providers
            .iter()
            .flat_map(|provider| &provider.accounts)
            .any(|account| account.name == name && account.available)
        {
            return;
        }
        tries += 1;
        assert!(tries < 1000, "{name} does not appear");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// C45: an account that is dropped into the store while the gateway runs serves the next request, in the right style.
#[tokio::test]
async fn an_account_dropped_into_the_store_is_used_without_a_restart_and_with_its_own_kind_of_credential() {
    let world = whole_store(&["a", "b"]).await;
    for name in ["a", "b"] {
        put(&world, name);
        until_account(&world, name).await;
        world.sim.clear_log();
        assert_eq!(served_by(&world, name).await, name);
        let record = world.messages().pop().unwrap();
        assert_eq!(record.account.as_deref(), Some(name));
        assert!(record.header("authorization").unwrap().starts_with("Bearer"), "{:?}", record.headers);
        assert!(record.header("anthropic-beta").unwrap().contains("oauth-2025-04-20"));
        assert!(record.header("x-api-key").is_none());
        if name == "a" {
            world.sim.fault(FaultRule::standing("a", Fault::Quota5h { resets_in: Some(9000) }));
        }
    }
}

#[tokio::test]
async fn an_account_taken_out_of_the_store_is_used_no_more() {
    let world = whole_store(&["a", "b"]).await;
    put(&world, "a");
    put(&world, "b");
    until_account(&world, "a").await;
    until_account(&world, "b").await;
    std::fs::remove_file(world.home.path().join("store/claude/a.json")).unwrap();
    let gone = async || world.pool().await.providers[0].accounts.iter().all(|account| account.name != "a");
    for _ in 0..1000 {
        if gone().await {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    for session in ["s", "t", "u"] {
        assert_eq!(served_by(&world, session).await, "b");
    }
}

#[tokio::test]
async fn a_login_that_another_program_renewed_is_adopted() {
    let world = World::logins(&["a"]).await;
    served_by(&world, "s").await;
    let old = world.messages()[0].credential.clone();
    world.sim.change("a", &AccountChange { log_in: true, ..AccountChange::default() }).unwrap();
    world.write_login("a", &world.home.path().join("a.json"));
    eventually(|| {
        let news = ["token_adopted", "credential_renewed", "token_refreshed"];
        news.iter().any(|kind| !world.events.of(kind).is_empty()).then_some(())
    })
    .await;
    served_by(&world, "s").await;
    assert_ne!(world.messages()[1].credential, old);
}

#[tokio::test]
async fn a_reload_with_the_same_text_changes_nothing() {
    let world = World::logins(&["a", "b"]).await;
    let home = served_by(&world, "s").await;
    for _ in 0..3 {
        world.reload().await;
    }
    assert_eq!(served_by(&world, "s").await, home);
    assert_eq!(world.account(&home).await.requests.succeeded, 2);
    assert!(world.events.of("config_refused").is_empty());
}

/// The fleet may give an account to a request as soon as it knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_comes_in_has_its_secret_from_its_first_request() {
    let world = World::logins(&["a", "b", "c"]).await;
    let mut full = String::new();
    world.rewrite(|text| {
        full.clone_from(&text);
        text
    });
    for round in 0..5 {
        world.rewrite(|text| without(without(text, "b"), "c"));
        world.reload().await;
        world.rewrite(|_| full.clone());
        let requests = async {
            for n in 0..30 {
                served_by(&world, &format!("{round}-{n}")).await;
            }
        };
        tokio::join!(world.reload(), requests);
    }
    assert!(world.events.of("failed_over").is_empty(), "{:?}", world.events.of("failed_over"));
}
