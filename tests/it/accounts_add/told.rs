//! What is said of a saved account besides: another kind than before, another way to choose, an id that is none.

use serde_json::{Value, json};

use super::{WHOLE_STORE, world};
use crate::binary::Setting;

const MIXES: &str = "mixes subscriptions and metered keys now: subscriptions serve first, by strategy = \"least_cost\" \
                     in place of \"round_robin\", unless the configuration says strategy";

fn notes(said: &Value) -> String {
    said["notes"].to_string().replace("\\\"", "\"")
}

#[tokio::test]
async fn a_key_among_subscriptions_changes_the_choice_and_that_is_said_once() {
    let world = world(WHOLE_STORE).await;
    let token = world.add(json!({"name": "backup", "secret": world.secret("token")})).await.json();
    assert!(!notes(&token).contains("strategy"), "{token}");
    let key = world.add(json!({"name": "metered", "secret": world.secret("key")})).await.json();
    assert!(notes(&key).contains(&format!("anthropic {MIXES}")), "{key}");
    let again = json!({"name": "metered", "secret": world.secret("key"), "replace": true});
    let again = world.add(again).await.json();
    assert!(!notes(&again).contains("strategy") && !notes(&again).contains("before"), "{again}");
    // A pool that says how it chooses goes on so.
    let said = super::world(&format!("{WHOLE_STORE}strategy = \"priority\"\n")).await;
    said.add(json!({"name": "backup", "secret": said.secret("token")})).await;
    let key = said.add(json!({"name": "metered", "secret": said.secret("key")})).await.json();
    assert!(!notes(&key).contains("strategy"), "{key}");
}

#[tokio::test]
async fn another_kind_than_before_is_said() {
    let world = world(WHOLE_STORE).await;
    let login = crate::support::login(&world.sim, "first").to_string();
    world.add(json!({"name": "work", "kind": "oauth", "secret": login})).await;
    let key = world.rpc("accounts.replace", json!({"account": "work", "secret": world.secret("key")})).await;
    assert!(notes(&key["result"]).contains("the account was a login before, and is an API key now"), "{key}");
    let token = world.add(json!({"name": "work", "secret": world.secret("token"), "replace": true})).await.json();
    assert!(notes(&token).contains("the account was an API key before, and is a setup token now"), "{token}");
}

/// Without a daemon the same is said of the files.
#[tokio::test]
async fn without_a_daemon_the_same_is_said() {
    let setting = crate::login::setting(&["first"]).await;
    setting.sim.add_account(duduclaw::sim::AccountSpec::api_key("key")).unwrap();
    let add = ["accounts", "add", "work", "--provider", "anthropic", "--stdin"];
    let login = crate::support::login(&setting.sim, "first").to_string();
    let (code, _, err) = setting.run_with(&add, &login).await;
    assert_eq!(code, 0, "{err}");
    let key = setting.sim.credentials("key").unwrap().token;
    let more = ["accounts", "add", "metered", "--provider", "anthropic", "--stdin"];
    let (code, out, err) = setting.run_with(&more, &key).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(&format!("note: anthropic {MIXES}\n")), "{out}");
    let (code, out, err) = setting.run_with(&["accounts", "replace", "work", "--stdin"], &key).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("note: the account was a login before, and is an API key now\n"), "{out}");
    assert!(out.contains("note: anthropic chooses otherwise now: by strategy = \"round_robin\""), "{out}");
    assert_wrong_id(&setting).await;
}

/// Nobody is asked for a secret, and no secret is read, where the id cannot be one.
async fn assert_wrong_id(setting: &Setting) {
    let (code, out, err) = setting.run(&["accounts", "add", "x", "--uuid", "me@example.com", "--stdin"]).await;
    assert_eq!(code, 2, "{out}");
    assert!(err.contains("an account's uuid looks like 01234567-89ab-cdef-0123-456789abcdef"), "{err}");
}

#[tokio::test]
async fn an_id_that_is_none_is_refused_by_the_control_api() {
    let world = world(WHOLE_STORE).await;
    let asked = json!({"name": "backup", "secret": world.secret("token"), "uuid": "me"});
    let refused = world.add(asked).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("an account's uuid looks like 01234567-"), "{}", refused.text());
    assert!(!world.stored("backup").exists());
}
