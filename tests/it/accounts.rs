//! Changing accounts in the configuration, by the daemon and without one; what cannot be changed, and what to write.

use std::os::unix::fs::PermissionsExt;

use duduclaw::sim::AccountSpec;
use serde_json::{Value, json};

use crate::binary::Setting;
use crate::seen::got;
use crate::support::World;

impl World {
    fn config(&self) -> String {
        std::fs::read_to_string(self.home.path().join("config.toml")).unwrap()
    }

    async fn changed(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = got(self.control(method, &format!("/admin/api/accounts/{path}")).json(&body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

#[tokio::test]
async fn a_change_is_in_the_file_and_in_force_when_it_is_answered() {
    let world = World::with(["a", "b"].map(AccountSpec::oauth)).account("a", "priority = 50 # mine").start().await;
    let off = world.changed("POST", "a/disable", json!({})).await;
    assert_eq!((&off["account"]["disabled"], &off["account"]["available"]), (&json!(true), &json!(false)));
    assert!(world.config().contains("disabled = true\n"));
    world.turn("s", false).await.served_by("b");
    let on = world.changed("POST", "a/enable", json!({})).await;
    assert_eq!((&on["account"]["disabled"], &on["account"]["available"]), (&json!(false), &json!(true)));
    let put = world.changed("PUT", "anthropic%2Fa/priority", json!({"priority": 3})).await;
    assert_eq!(put["account"]["priority"], 3);
    assert!(world.config().contains("priority = 3 # mine\n"), "{}", world.config());
    assert_eq!(world.changed("DELETE", "b", json!({})).await, json!({"removed": "anthropic/b", "notes": []}));
    assert!(!world.config().contains("\"b\""));
    let left: Vec<_> = world.pool().await.providers[0].accounts.iter().map(|a| a.name.clone()).collect();
    assert_eq!(left, ["a"]);
    world.turn("t", false).await.served_by("a");
    let last = got(world.control("DELETE", "/admin/api/accounts/a")).await;
    assert_eq!(last.status, 422, "{}", last.text());
    assert!(last.json()["error"]["hint"].as_str().unwrap().contains("accounts disable anthropic/a"), "{}", last.text());
}

/// What an account remembers is its own affair: it stays paused, whatever is changed of its entry.
#[tokio::test]
async fn a_changed_entry_keeps_what_its_account_remembers() {
    let world = World::logins(&["a", "b"]).await;
    world.rpc("accounts.pause", json!({"account": "a"})).await;
    let put = world.changed("PUT", "a/priority", json!({"priority": 1})).await;
    assert_eq!((&put["account"]["paused"], &put["account"]["priority"]), (&json!(true), &json!(1)));
    world.changed("POST", "a/disable", json!({})).await;
    let on = world.changed("POST", "a/enable", json!({})).await;
    assert_eq!(on["account"]["paused"], true);
}

#[tokio::test]
async fn a_configuration_that_would_not_be_put_in_force_is_not_written() {
    let world = World::logins(&["a", "b"]).await;
    let before = world.config();
    world.rewrite(|text| format!("{text}\nnonsense = 1\n"));
    let broken = world.config();
    let refused = got(world.control("POST", "/admin/api/accounts/a/disable")).await;
    assert_eq!(refused.status, 422);
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("nonsense"), "{}", refused.text());
    assert_eq!(world.config(), broken);
    let reload = got(world.control("POST", "/admin/api/config/reload")).await;
    assert_eq!(reload.status, 422, "{}", reload.text());
    world.rewrite(|_| "[server".to_owned());
    let refused = got(world.control("POST", "/admin/api/accounts/a/disable")).await;
    assert_eq!(refused.status, 422);
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("not valid TOML"), "{}", refused.text());
    assert_eq!(world.config(), "[server");
    world.rewrite(|_| before);
    let reload = got(world.control("POST", "/admin/api/config/reload")).await;
    assert_eq!((reload.status.as_u16(), &reload.json()["needs_restart"]), (200, &json!([])));
}

/// C112: the link stays a link; what may not be written is named and keeps every byte.
#[tokio::test]
async fn a_linked_configuration_is_changed_where_it_lies_or_not_at_all() {
    let world = World::logins(&["a", "b"]).await;
    let (link, real) = (world.home.path().join("config.toml"), world.home.path().join("dotfiles.toml"));
    std::fs::rename(&link, &real).unwrap();
    std::os::unix::fs::symlink("dotfiles.toml", &link).unwrap();
    world.changed("POST", "a/disable", json!({})).await;
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let text = std::fs::read_to_string(&real).unwrap();
    assert!(text.contains("disabled = true"));
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o444)).unwrap();
    let refused = got(world.control("POST", "/admin/api/accounts/a/enable")).await;
    assert_eq!(refused.status, 422);
    let said = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("dotfiles.toml cannot be written"), "{said}");
    assert_eq!(std::fs::read_to_string(&real).unwrap(), text);
    assert!(world.account("a").await.disabled);
}

#[tokio::test]
async fn where_there_is_no_entry_it_is_said_what_to_write() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
                auth = \"claude_oauth\"\n";
    let world = World::with(["a", "b"].map(AccountSpec::oauth)).config(text).stored().start().await;
    let refused = got(world.control("POST", "/admin/api/accounts/a/disable")).await;
    assert_eq!(refused.status, 422);
    let hint = refused.json()["error"]["hint"].as_str().unwrap().to_owned();
    for line in ["[[providers.anthropic.accounts]]\nname = \"a\"", "[[providers.anthropic.accounts]]\nname = \"b\""] {
        assert!(hint.contains(line), "{hint}");
    }
    let refused = got(world.control("DELETE", "/admin/api/accounts/a")).await;
    assert!(refused.json()["error"]["hint"].as_str().unwrap().contains("accounts/claude/a.json"), "{}", refused.text());
    // Written as it was advised, it can be changed.
    world.rewrite(|text| text + &hint[hint.find('\n').unwrap()..]);
    world.reload().await;
    assert_eq!(world.changed("POST", "a/disable", json!({})).await["account"]["disabled"], true);
    assert_eq!(world.pool().await.providers[0].accounts.len(), 2);
}

/// All entries of one account are switched together: it is one account.
#[tokio::test]
async fn an_account_with_several_entries_is_switched_in_all_of_them() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n\
        [[upstreams]]\nname = \"one\"\nprovider = \"anthropic\"\nbase_url = \"{sim}\"\n\
        auth = { mode = \"claude_oauth\", accounts = [\"a\", \"b\"] }\n\
        [[upstreams]]\nname = \"two\"\nprovider = \"anthropic\"\nbase_url = \"{sim}\"\n\
        auth = { mode = \"claude_oauth\", account = \"a\" }\n";
    let world = World::with(["a", "b"].map(AccountSpec::oauth)).config(text).stored().start().await;
    let off = world.changed("POST", "a/disable", json!({})).await;
    assert_eq!(off["account"]["disabled"], true);
    assert_eq!(world.config().matches("{ name = \"a\", disabled = true }").count(), 2, "{}", world.config());
    let remove = got(world.control("DELETE", "/admin/api/accounts/a")).await;
    assert_eq!(remove.status, 409, "which entry is to go must be said");
    world.changed("DELETE", "one%2Fa", json!({})).await;
    assert!(world.config().contains("accounts = [\"b\"]"), "{}", world.config());
}

#[tokio::test]
async fn commands_change_the_configuration_with_a_daemon_and_without() {
    let setting = Setting::with(&["a", "b"], "").await;
    let config = || std::fs::read_to_string(setting.home.path().join("config.toml")).unwrap();
    let (code, out, err) = setting.run(&["accounts", "disable", "a"]).await;
    assert_eq!((code, out.as_str()), (0, "anthropic/a: disabled; it acts when a daemon starts\n"), "{err}");
    assert!(config().contains("disabled = true"));
    let (code, out, _) = setting.run(&["accounts", "disable", "a"]).await;
    assert_eq!((code, out.as_str()), (0, "anthropic/a: disabled; the configuration said so already\n"));
    let (code, _, err) = setting.run(&["accounts", "enable", "wrok"]).await;
    assert_eq!(code, 1);
    assert!(err.contains("there is no account \"wrok\"; the nearest names are anthropic/a"), "{err}");
    for words in [["accounts", "pause", "a"], ["accounts", "resume", "a"], ["accounts", "clear", "a"]] {
        let (code, _, err) = setting.run(&words).await;
        assert_eq!(code, 4, "{err}");
        assert!(err.contains("accounts disable"), "{err}");
    }
    assert_eq!(setting.run(&["accounts", "list"]).await.0, 4);
    assert_eq!(setting.run(&["accounts", "priority", "a", "first"]).await.0, 2);
    let mut daemon = setting.serve().await;
    let (code, out, err) = setting.run(&["accounts", "enable", "a"]).await;
    assert_eq!((code, out.as_str()), (0, "anthropic/a: available, priority 100\n"), "{err}");
    assert_eq!(
        setting.run(&["accounts", "priority", "anthropic/a", "7"]).await.1,
        "anthropic/a: available, priority 7\n"
    );
    assert_eq!(setting.run(&["accounts", "pause", "a"]).await.1, "anthropic/a: paused\n");
    let (_, out, _) = setting.run(&["accounts", "list"]).await;
    let out = out.replace(&setting.home.path().display().to_string(), "<home>");
    assert!(out.lines().any(|l| l.contains("anthropic/a") && l.contains("paused") && l.contains("7")), "{out}");
    let (_, json, _) = setting.run(&["accounts", "list", "--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["accounts"][0]["kind"], &json["accounts"][0]["paused"]), (&json!("oauth"), &json!(true)));
    assert_eq!(setting.run(&["accounts", "resume", "a"]).await.1, "anthropic/a: available\n");
    let (code, out, _) = setting.run(&["accounts", "remove", "b"]).await;
    assert_eq!((code, out.as_str()), (0, "anthropic/b: removed from the configuration; its login stays where it is\n"));
    let (code, _, err) = setting.run(&["accounts", "remove", "a"]).await;
    assert_eq!(code, 1);
    assert!(err.contains("the only one of its provider") && err.contains("accounts disable anthropic/a"), "{err}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn without_a_configuration_file_it_is_said_what_to_write_first() {
    let setting = Setting::with(&["a"], "").await;
    std::fs::remove_file(setting.home.path().join("config.toml")).unwrap();
    let store = setting.home.path().join("accounts/claude");
    std::fs::create_dir_all(&store).unwrap();
    std::fs::rename(setting.home.path().join("a.json"), store.join("a.json")).unwrap();
    let (code, _, err) = setting.run(&["accounts", "disable", "a"]).await;
    assert_eq!(code, 1);
    assert!(err.contains("there is no configuration file at") && err.contains("name = \"a\""), "{err}");
    assert!(!setting.home.path().join("config.toml").exists());
}
