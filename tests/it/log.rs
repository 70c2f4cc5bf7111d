//! What the daemon writes to its log.

use duduclaw::sim::{Fault, FaultRule};
use serde_json::{Value, json};

use crate::binary::{Daemon, Setting, ask, client};

/// One request that the first account's overload sends to the second, by a daemon that logs in this format.
async fn told(format: &str) -> (Daemon, String) {
    let setting = Setting::with(&["a", "b"], &format!("[log]\nlevel = \"info\"\nformat = \"{format}\"")).await;
    let mut daemon = setting.serve().await;
    for name in ["a", "b"] {
        setting.sim.fault(FaultRule::next(name, 1, Fault::Overloaded { retry_after: None }));
    }
    let answer = ask(&client(), daemon.url(), "hi", false).send().await.unwrap();
    let id = answer.headers()["x-duduclaw-request-id"].to_str().unwrap().to_owned();
    daemon.until("exhausted").await;
    daemon.stop().await;
    (daemon, id)
}

#[tokio::test]
async fn a_line_of_json_says_what_happened_in_fields_of_its_own() {
    let (daemon, id) = told("json").await;
    let lines: Vec<Value> = daemon.said().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |kind: &str| lines.iter().find(|line| line["kind"] == kind).unwrap_or_else(|| panic!("{lines:?}"));
    let moved = of("failed_over");
    assert_eq!((&moved["request_id"], &moved["severity"]), (&json!(id), &json!("info")));
    assert_eq!((&moved["why"], &moved["level"]), (&json!("server_error"), &json!("INFO")));
    let (from, to) = (moved["from"]["name"].as_str().unwrap(), moved["account"].as_str().unwrap());
    assert!([("a", "anthropic/b"), ("b", "anthropic/a")].contains(&(from, to)), "{moved}");
    assert_eq!(of("pool_exhausted")["severity"], "warning");
    assert!(lines.iter().all(|line| line["message"].is_string() && line["timestamp"].is_string()), "{lines:?}");
}

#[tokio::test]
async fn a_line_for_people_has_words() {
    let (daemon, id) = told("pretty").await;
    let said = daemon.said();
    let line = said.lines().find(|line| line.contains(" failed over")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains(" INFO duduclaw::app::log: failed over ") && line.contains(&id), "{line}");
    assert!(line.ends_with("why=server_error") && line.contains("from=anthropic/"), "{line}");
}

/// Also one that came in with a reload, before any request could know of it.
#[tokio::test]
async fn a_secret_that_cannot_be_had_is_told_with_its_accounts_name() {
    let setting = Setting::with(&["a"], "").await;
    let config = setting.home.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let mut daemon = setting.serve().await;
    let entry = |name: &str| {
        format!("[[providers.anthropic.accounts]]\nname = \"{name}\"\ncredentials = \"/nowhere/{name}.json\"\n")
    };
    std::fs::write(&config, format!("{text}\n{}", entry("late"))).unwrap();
    daemon.until("the secret of an account cannot be had").await;
    daemon.stop().await;
    let said = daemon.said();
    let line = said.lines().find(|line| line.contains("cannot be had")).unwrap();
    assert!(line.contains("anthropic/late"), "{line}");
}
