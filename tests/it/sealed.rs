//! Stored logins at rest: sealed when they are written, opened with the right key alone.

use std::path::PathBuf;

use duduclaw::sim::AccountSpec;
use serde_json::Value;

use crate::support::World;

/// Two logins of the store, known by their names alone.
async fn stored(more: &str) -> World {
    let text = format!(
        "[server]\nbind = \"127.0.0.1:0\"\n{more}\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{{sim}}\"\n\
         token_url = \"{{sim}}/v1/oauth/token\"\nauth = \"claude_oauth\"\nstrategy = \"failover\"\n\
         [[providers.anthropic.accounts]]\nname = \"a\"\n[[providers.anthropic.accounts]]\nname = \"b\"\n"
    );
    World::with(["a", "b"].map(AccountSpec::oauth)).stored().config(&text).start().await
}

fn file(world: &World, name: &str) -> PathBuf {
    world.home.path().join(format!("accounts/claude/{name}.json"))
}

fn text(world: &World, name: &str) -> String {
    std::fs::read_to_string(file(world, name)).unwrap()
}

/// Lets the tokens end and a request renew the first account's.
async fn renew(world: &World) {
    world.advance(9 * 3600);
    world.turn("s", false).await.served_by("a");
}

#[tokio::test]
async fn a_stored_login_is_sealed_when_it_is_renewed_and_serves_after_a_restart() {
    let mut world = stored("").await;
    let plain = text(&world, "a");
    assert!(plain.contains("sk-ant-oat01-"), "plain values are taken as they are: {plain}");
    renew(&world).await;
    let sealed = text(&world, "a");
    assert!(!sealed.contains("sk-ant-"), "{sealed}");
    let login: Value = serde_json::from_str(&sealed).unwrap();
    assert_eq!(login["claudeAiOauth"]["subscriptionType"], "max", "other fields stay readable");
    world.restart().await;
    world.turn("t", false).await.served_by("a");
    renew(&world).await;
}

/// The wrong key breaks the account, names it, overwrites nothing, and the right one heals.
#[tokio::test]
async fn a_wrong_key_breaks_one_account_and_the_right_one_heals_it() {
    let mut world = stored("").await;
    renew(&world).await;
    let sealed = text(&world, "a");
    let (key, aside) = (world.home.path().join("key"), world.home.path().join("aside"));
    world.stop().await;
    std::fs::rename(&key, &aside).unwrap();
    std::fs::write(&key, [7; 32]).unwrap();
    world.restart().await;
    let a = world.until_state("a", "broken").await;
    assert_eq!(a.cause.as_deref(), Some("undecryptable"));
    world.turn("s", false).await.served_by("b");
    assert_eq!(text(&world, "a"), sealed, "never overwritten");
    assert!(text(&world, "b").contains("sk-ant-"), "and nothing is sealed with the wrong key");
    std::fs::rename(&aside, &key).unwrap();
    world.reload().await;
    world.until_state("a", "healthy").await;
    world.turn("t", false).await.served_by("a");
}

#[tokio::test]
async fn where_sealing_is_off_other_programs_can_go_on_reading() {
    let world = stored("[secrets]\nseal = false").await;
    renew(&world).await;
    assert!(text(&world, "a").contains("sk-ant-oat01-"));
    assert!(!world.home.path().join("key").exists());
}
