//! Two names of one account: what is changed is the entry that was named, what is done is done to the account, and both
//! say whom it is.

use serde_json::{Value, json};

use crate::binary::Setting;

/// A home whose entries `one` and `two` are one account; `other` is another.
async fn setting() -> Setting {
    let setting = Setting::with(&["one", "two", "other"], "").await;
    let path = setting.home.path().join("config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let owned = |text: String, name: &str| {
        text.replace(&format!("name = \"{name}\"\n"), &format!("name = \"{name}\"\nuuid = \"u-1\"\n"))
    };
    std::fs::write(&path, owned(owned(text, "one"), "two")).unwrap();
    setting
}

impl Setting {
    async fn done(&self, words: &[&str]) -> String {
        let (code, out, err) = self.run(words).await;
        assert_eq!(code, 0, "{out}{err}");
        out
    }

    /// What stands in the configuration between this entry's name and the next.
    fn entry(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.home.path().join("config.toml")).unwrap();
        let entries = text.split("[[providers.anthropic.accounts]]");
        entries.filter(|entry| entry.contains(&format!("name = \"{name}\""))).collect()
    }
}

#[tokio::test]
async fn switching_a_duplicate_off_leaves_the_account() {
    let setting = setting().await;
    let said = setting.done(&["accounts", "disable", "two"]).await;
    let offline = "anthropic/two: disabled; it acts when a daemon starts; the account goes on as anthropic/one\n";
    assert_eq!(said, offline);
    assert!(setting.entry("two").contains("disabled = true") && !setting.entry("one").contains("disabled"));
    let mut daemon = setting.serve().await;
    let said = setting.done(&["accounts", "enable", "two"]).await;
    assert!(said.starts_with("anthropic/two: enabled; the account is anthropic/one, and only that one's"), "{said}");
    let said = setting.done(&["accounts", "disable", "two"]).await;
    let online = "anthropic/two: disabled; the account goes on as anthropic/one (available, priority 100)\n";
    assert_eq!(said, online);
    assert!(setting.entry("two").contains("disabled = true") && !setting.entry("one").contains("disabled"));
    let said = setting.done(&["accounts", "priority", "two", "7"]).await;
    assert!(said.starts_with("anthropic/two: priority 7; the account is anthropic/one"), "{said}");
    assert!(setting.entry("two").contains("priority = 7") && !setting.entry("one").contains("priority"));
    setting.done(&["accounts", "enable", "two"]).await;
    let said = setting.done(&["accounts", "disable", "one"]).await;
    assert!(said.contains("goes on as anthropic/two (available, priority 7)"), "{said}");
    assert_eq!(setting.done(&["accounts", "disable", "two"]).await, "anthropic/two: disabled, priority 7\n");
    setting.done(&["accounts", "enable", "one"]).await;
    let said = setting.done(&["accounts", "remove", "two"]).await;
    assert!(said.ends_with("stays where it is; the account goes on as anthropic/one\n"), "{said}");
    assert_eq!(setting.entry("two"), "");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn what_is_done_to_an_alias_is_done_to_the_account_and_says_whom_it_is() {
    let setting = setting().await;
    let mut daemon = setting.serve().await;
    let said = setting.done(&["accounts", "pause", "two"]).await;
    assert_eq!(said, "anthropic/two (the same account as anthropic/one): paused\n");
    assert_eq!(setting.done(&["accounts", "resume", "one"]).await, "anthropic/one: available\n");
    let said = setting.done(&["accounts", "clear", "two"]).await;
    assert_eq!(said, "anthropic/two (the same account as anthropic/one): available\n");
    let said = setting.done(&["accounts", "probe", "two"]).await;
    assert!(said.starts_with("anthropic/two (the same account as anthropic/one): the provider knows"), "{said}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn views_name_the_aliases_of_an_account_and_only_where_there_are_some() {
    let setting = setting().await;
    let check = setting.done(&["check"]).await;
    assert!(check.contains("claude_oauth: one (the same account as two), other\n"), "{check}");
    let mut daemon = setting.serve().await;
    let json = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let list = json(setting.done(&["accounts", "list", "--json"]).await);
    let named: Vec<_> = list["accounts"].as_array().unwrap().iter().map(|a| (&a["id"], &a["aliases"])).collect();
    let (one, other) = (json!("anthropic/one"), json!("anthropic/other"));
    assert_eq!(named, [(&one, &json!(["anthropic/two"])), (&other, &json!([]))]);
    let pool = json(setting.done(&["status", "--json"]).await);
    assert_eq!(pool["providers"][0]["accounts"][0]["aliases"], json!(["anthropic/two"]));
    let list = setting.done(&["accounts", "list"]).await;
    assert!(list.contains("aliases") && list.contains("anthropic/two"), "{list}");
    let status = setting.done(&["status"]).await;
    assert!(status.contains("anthropic/one is also anthropic/two: one account.\n"), "{status}");
    setting.done(&["accounts", "disable", "two"]).await;
    let list = setting.done(&["accounts", "list"]).await;
    assert!(list.contains("anthropic/two (disabled)"), "{list}");
    let pool = json(setting.done(&["status", "--json"]).await);
    let account = &pool["providers"][0]["accounts"][0];
    assert_eq!(
        (&account["aliases"], &account["aliases_disabled"]),
        (&json!(["anthropic/two"]), &json!(["anthropic/two"]))
    );
    setting.done(&["accounts", "remove", "two"]).await;
    let list = setting.done(&["accounts", "list"]).await;
    let status = setting.done(&["status"]).await;
    assert!(!list.contains("aliases") && !status.contains("one account"), "{list}{status}");
    assert_eq!(daemon.stop().await, Some(0));
}
