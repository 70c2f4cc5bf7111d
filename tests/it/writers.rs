//! Several who change things at once, each by another door: nothing that was answered is lost.

use std::path::Path;

use serde_json::{Value, json};

use crate::binary::{Setting, client};

/// How often each changes something.
const ROUNDS: u32 = 12;

/// Someone who asks over HTTP with the home's key.
#[derive(Clone)]
struct Operator {
    client: reqwest::Client,
    url: String,
    key: String,
}

impl Operator {
    fn of(setting: &Setting, url: &str) -> Self {
        let key = std::fs::read_to_string(setting.home.path().join("admin-token")).unwrap().trim().to_owned();
        Self { client: client(), url: url.to_owned(), key }
    }

    async fn rest(&self, method: reqwest::Method, path: &str, body: Value) {
        let request = self.client.request(method, format!("{}/admin/api/accounts/{path}", self.url));
        let answer = request.bearer_auth(&self.key).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text().await.unwrap());
    }

    async fn rpc(&self, verb: &str, params: Value) {
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": verb, "params": params});
        let request = self.client.post(format!("{}/rpc", self.url)).bearer_auth(&self.key).json(&asked);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert!(answer["error"].is_null(), "{verb}: {answer}");
    }
}

/// The priority and the switch of an account in the file.
fn written(config: &Path, name: &str) -> (i64, bool) {
    let text = std::fs::read_to_string(config).unwrap();
    let read: toml::Table = text.parse().unwrap_or_else(|error| panic!("a torn file: {error}\n{text}"));
    let accounts = read["providers"]["anthropic"]["accounts"].as_array().unwrap();
    let found = accounts.iter().find(|account| account["name"].as_str() == Some(name)).unwrap();
    let number = found.get("priority").and_then(toml::Value::as_integer).unwrap_or(100);
    (number, found.get("disabled").and_then(toml::Value::as_bool).unwrap_or(false))
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_at_every_door_lose_no_update_and_a_reader_sees_whole_files() {
    let setting = Setting::with(&["a", "b", "c"], "").await;
    let config = setting.home.path().join("config.toml");
    let mut daemon = setting.serve().await;
    let operator = Operator::of(&setting, daemon.url());
    let by_rest = async {
        for round in 1..=ROUNDS {
            operator.rest(reqwest::Method::PUT, "a/priority", json!({ "priority": round })).await;
            assert_eq!(written(&config, "a").0, i64::from(round), "what was answered stands in the file");
        }
    };
    let by_rpc = async {
        for round in 1..=ROUNDS {
            operator.rpc("accounts.priority", json!({"account": "b", "priority": 100 + round})).await;
            let verb = if round % 2 == 0 { "accounts.enable" } else { "accounts.disable" };
            operator.rpc(verb, json!({"account": "b"})).await;
        }
    };
    let by_command = async {
        for round in 1..=ROUNDS {
            let number = (200 + round).to_string();
            let (code, _, err) = setting.run(&["accounts", "priority", "c", &number]).await;
            assert_eq!(code, 0, "{err}");
        }
    };
    let pausing = async {
        for round in 1..=ROUNDS {
            operator.rest(reqwest::Method::POST, "a/pause", json!({})).await;
            if round < ROUNDS {
                operator.rpc("accounts.resume", json!({"account": "a"})).await;
            }
        }
    };
    let reading = async {
        for _ in 0..200 {
            written(&config, "c");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(by_rest, by_rpc, by_command, pausing, reading);
    let rounds = i64::from(ROUNDS);
    let expected = [("a", (rounds, false)), ("b", (100 + rounds, false)), ("c", (200 + rounds, false))];
    for (name, standing) in expected {
        assert_eq!(written(&config, name), standing, "{name}");
    }
    // In force, and after a restart still so.
    for _ in 0..2 {
        let (_, out, _) = setting.run(&["accounts", "list", "--json"]).await;
        let list: Value = serde_json::from_str(&out).unwrap();
        for (at, (name, (priority, _))) in expected.into_iter().enumerate() {
            let account = &list["accounts"][at];
            assert_eq!((&account["name"], &account["priority"]), (&json!(name), &json!(priority)));
            assert_eq!(account["paused"], json!(name == "a"), "{name}");
        }
        assert_eq!(daemon.stop().await, Some(0));
        daemon = setting.serve().await;
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_without_a_daemon_lose_no_update_either() {
    let setting = Setting::with(&["a", "b", "c"], "").await;
    let config = setting.home.path().join("config.toml");
    let writer = |name: &'static str, base: u32| {
        let setting = &setting;
        async move {
            for round in 1..=ROUNDS {
                let (code, _, err) = setting.run(&["accounts", "priority", name, &(base + round).to_string()]).await;
                assert_eq!(code, 0, "{err}");
            }
        }
    };
    tokio::join!(writer("a", 0), writer("b", 100), writer("c", 200));
    let rounds = i64::from(ROUNDS);
    for (name, base) in [("a", 0), ("b", 100), ("c", 200)] {
        assert_eq!(written(&config, name), (base + rounds, false), "{name}");
    }
}
