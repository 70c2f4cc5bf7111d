//! What usage says, in sums: by the control API, by the command without a daemon, and what it says to nonsense.

use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use serde_json::{Value, json};

use crate::binary::{self, Setting, bare, run};
use crate::seen::got;
use crate::support::World;

/// Input a tenth of a cent a token, output five times as much.
const PRICES: &str = "[[prices]]\nmodel = \"claude-opus-5-5\"\ninput = 1000.0\noutput = 5000.0\n";
const CLIENTS: &str = "[[server.auth.clients]]\nname = \"laptop\"\ntoken_env = \"LAPTOP\"\n\
                       [[server.auth.clients]]\nname = \"desk\"\ntoken_env = \"DESK\"\n";

impl World {
    /// What usage says.
    pub async fn usage(&self, query: &str) -> Value {
        let said = got(self.control("GET", &format!("/admin/api/usage{query}"))).await;
        assert_eq!(said.status, 200, "{}", said.text());
        said.json()
    }

    /// The same, once so many attempts are settled.
    pub async fn usage_of(&self, attempts: usize, query: &str) -> Value {
        let settles = async {
            loop {
                let said = self.usage(query).await;
                if said["total"]["attempts"] == attempts {
                    return said;
                }
                tokio::task::yield_now().await;
            }
        };
        let told = tokio::time::timeout(crate::support::PATIENCE, settles).await;
        told.unwrap_or_else(|_| panic!("{attempts} attempts are not settled"))
    }
}

async fn two_clients() -> World {
    World::with([AccountSpec::api_key("key"), AccountSpec::oauth("max")])
        .provider("strategy = \"failover\"")
        .tables(&format!("{PRICES}[billing]\ntimezone = \"Asia/Taipei\"\n{CLIENTS}"))
        .var("LAPTOP", "laptops-token")
        .var("DESK", "the-desks-token")
        .start()
        .await
}

fn of<'a>(said: &'a Value, name: &Value) -> &'a Value {
    let mut rows = said["rows"].as_array().unwrap().iter();
    rows.find(|row| row["name"] == *name).unwrap_or_else(|| panic!("{name} is not in {said}"))
}

#[tokio::test]
async fn usage_is_summed_for_whatever_is_asked_and_a_request_that_was_answered_elsewhere_counts_once() {
    let world = two_clients().await;
    let asked = |token: &str| world.ask("", "[[words: 20]]", false).header("x-duduclaw-token", token);
    got(asked("laptops-token")).await.served_by("key");
    world.sim.fault(FaultRule::next("key", 1, Fault::Overloaded { retry_after: Some("30".to_owned()) }));
    got(asked("the-desks-token")).await.served_by("max");
    let records = world.messages();
    let tokens = |at: usize| (records[at].usage.unwrap().input, records[at].output_tokens);
    let accounts = world.usage_of(3, "").await;
    assert_eq!((&accounts["by"], &accounts["timezone"]), (&json!("account"), &json!("Asia/Taipei")));
    assert!(accounts["since"].as_str().unwrap().ends_with("-01T00:00:00+08:00"), "{accounts}");
    assert_eq!(accounts["until"], Value::Null);
    let key = of(&accounts, &json!("anthropic/key"));
    assert_eq!((&key["requests"], &key["attempts"]), (&json!(2), &json!(2)));
    let (input, output) = tokens(0);
    assert_eq!((&key["tokens"]["input"], &key["tokens"]["output"]), (&json!(input), &json!(output)));
    let cost = (input + 5 * output) as f64 / 1000.0;
    assert_eq!((&key["cost"], &key["list_value"]), (&json!(cost), &json!(cost)));
    let max = of(&accounts, &json!("anthropic/max"));
    let (input, output) = tokens(2);
    let value = (input + 5 * output) as f64 / 1000.0;
    assert_eq!((&max["cost"], &max["list_value"], &max["requests"]), (&json!(0.0), &json!(value), &json!(1)));
    let total = &accounts["total"];
    assert_eq!(
        (&total["requests"], &total["attempts"], &total["cache_efficiency"]),
        (&json!(2), &json!(3), &json!(0.0))
    );
    let clients = world.usage("?by=client&since=1h").await;
    assert_eq!(of(&clients, &json!("laptop"))["cost"], key["cost"]);
    assert_eq!(of(&clients, &json!("desk"))["attempts"], 2);
    for (by, name) in [("model", "claude-opus-5-5"), ("provider", "anthropic")] {
        let said = world.usage(&format!("?by={by}")).await;
        assert_eq!(of(&said, &json!(name))["attempts"], 3, "{said}");
        assert_eq!(said["total"], *total);
    }
    let nobody = world.usage("?by=agent").await;
    assert_eq!(of(&nobody, &Value::Null)["attempts"], 3);
    let called = world.rpc("usage", json!({"by": "client", "since": "1h"})).await;
    assert_eq!(called["result"]["rows"], clients["rows"], "both doors tell the same");
}

#[tokio::test]
async fn days_are_those_of_the_billing_zone_and_a_period_has_what_was_settled_in_it() {
    let world = two_clients().await;
    let asked = || world.ask("", "[[say: hi]]", false).header("x-duduclaw-token", "laptops-token");
    got(asked()).await.served_by("key");
    world.usage_of(1, "").await;
    world.advance(24 * 3600);
    got(asked()).await.served_by("key");
    let days = world.usage_of(2, "?by=day&since=2d").await;
    let named: Vec<&str> = days["rows"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(named.len(), 2, "{days}");
    for day in &named {
        let one = world.usage(&format!("?by=day&since={day}&until={day}")).await;
        assert_eq!((one["rows"].as_array().unwrap().len(), &one["rows"][0]["name"]), (1, &json!(day)));
        assert_eq!(one["total"]["attempts"], 1);
    }
    assert_eq!(world.usage("?since=1h").await["total"]["attempts"], 1);
    assert_eq!(world.usage(&format!("?since=3d&until={}", named[0])).await["total"]["attempts"], 1);
}

#[tokio::test]
async fn a_period_that_is_none_is_refused_with_what_to_write() {
    let world = World::logins(&["a"]).await;
    for (query, says) in [
        ("?since=soon", "7d, 36h or 90m"),
        ("?until=2026-02-30", "until: \"2026-02-30\" is no moment"),
        ("?since=1d&until=2d", "ends before it begins"),
    ] {
        let said = got(world.control("GET", &format!("/admin/api/usage{query}"))).await;
        assert_eq!(said.status, 422, "{query}: {}", said.text());
        assert!(said.json()["error"]["message"].as_str().unwrap().contains(says), "{}", said.text());
    }
    assert_eq!(got(world.control("GET", "/admin/api/usage?by=hour")).await.status, 400);
}

/// Without a daemon the store is read as it lies there: also after `kill -9`, and nothing of it is changed.
#[tokio::test]
async fn usage_and_failures_are_known_without_a_daemon_and_nothing_is_changed_by_looking() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    let asked = binary::ask(&binary::client(), &daemon.addresses[0], "[[words: 30]]", true);
    assert_eq!(got(asked).await.status, 200);
    let with = until_settled(&setting).await;
    daemon.child.kill().await.unwrap();
    let before = files(setting.home.path());
    let (code, out, err) = run(setting.command(&["usage", "--json"])).await;
    assert_eq!((code, err.as_str()), (0, ""));
    let without: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(without, with);
    let (code, out, _) = run(setting.command(&["usage", "--by", "model"])).await;
    assert!(code == 0 && out.contains("claude-opus-5-5") && out.contains("at list prices"), "{out}");
    let (code, out, _) = run(setting.command(&["usage", "--since", "2020-01-01", "--until", "2020-12-31"])).await;
    assert_eq!((code, out.as_str()), (0, "Nothing was used since 2020-01-01 until 2021-01-01 (UTC).\n"));
    let (code, out, _) = run(setting.command(&["failures"])).await;
    assert_eq!((code, out.as_str()), (0, "Every message arrived at once, as far as is remembered.\n"));
    let (code, out, _) = run(setting.command(&["failures", "--lost"])).await;
    assert_eq!((code, out.as_str()), (0, "No message was lost, as far as is remembered.\n"));
    let (code, _, err) = run(setting.command(&["usage", "--since", "soon"])).await;
    assert!(code == 2 && err.contains("7d, 36h or 90m"), "{err}");
    assert_eq!(files(setting.home.path()), before);
}

#[tokio::test]
async fn a_home_that_remembers_nothing_says_so_and_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for command in ["usage", "failures"] {
        let mut bare = bare(&home);
        bare.arg(command).env("ANTHROPIC_API_KEY", "sk-ant-api03-x");
        let (code, _, err) = run(bare).await;
        assert!(code == 1 && err.contains("nothing is remembered yet"), "{command}: {err}");
    }
    assert!(!home.exists());
}

async fn until_settled(setting: &Setting) -> Value {
    loop {
        let (code, out, err) = run(setting.command(&["usage", "--json"])).await;
        assert_eq!(code, 0, "{err}");
        let said: Value = serde_json::from_str(&out).unwrap();
        if said["total"]["attempts"] == 1 {
            return said;
        }
    }
}

fn files(folder: &std::path::Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    read.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}
