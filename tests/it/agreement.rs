//! Events, figures and views are made of one thing: at every point of a story they tell the same.

use std::collections::BTreeMap;

use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use serde_json::{Value, json};

use crate::seen::got;
use crate::support::{PATIENCE, World};

/// A counter by its name and labels, as Prometheus' text has it.
type Figures = BTreeMap<String, u64>;

const NAMES: [&str; 2] = ["a", "b"];

/// What the events say the figures are.
fn figures_by_events(world: &World) -> Figures {
    let mut figures = Figures::new();
    let mut count = |name: String| *figures.entry(name).or_default() += 1;
    for event in world.events.all() {
        let event = serde_json::to_value(event).unwrap();
        let kind = &event["kind"];
        let text = |key: &str| kind[key].as_str().unwrap_or_default().to_owned();
        match kind["kind"].as_str().unwrap() {
            "request_ended" => {
                count(format!("duduclaw_requests_total{{status=\"{}\",close=\"{}\"}}", kind["status"], text("close")));
            }
            "attempt_answered" => {
                let result = kind["outcome"]["failed"].as_str().or(kind["outcome"].as_str()).unwrap();
                count(format!("duduclaw_attempts_total{{provider=\"anthropic\",result=\"{result}\"}}"));
            }
            "hold_began" => {
                count(format!("duduclaw_holds_total{{provider=\"anthropic\",cause=\"{}\"}}", text("cause")))
            }
            "conversation_moved" => count("duduclaw_conversation_moves_total".to_owned()),
            "outage_began" => count("duduclaw_outages_total".to_owned()),
            _ => {}
        }
    }
    figures
}

/// What `/metrics` says of the same figures.
async fn figures_shown(world: &World) -> Figures {
    let text = world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
    let counted = ["requests", "attempts", "holds", "conversation_moves", "outages"];
    let lines =
        text.lines().filter(|line| counted.iter().any(|name| line.starts_with(&format!("duduclaw_{name}_total"))));
    let figures = lines.map(|line| line.rsplit_once(' ').unwrap());
    figures.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).filter(|(_, value)| *value > 0).collect()
}

/// What the events say of an account, and what its view says.
fn account_by_events(world: &World, name: &str) -> Value {
    let (mut state, mut paused) = ("healthy".to_owned(), false);
    let mut requests = json!({"attempted": 0, "succeeded": 0, "failed": 0, "cancelled": 0});
    for event in world.events.all() {
        let event = serde_json::to_value(event).unwrap();
        if event["account"]["name"] != name {
            continue;
        }
        let kind = &event["kind"];
        match kind["kind"].as_str().unwrap() {
            "state_changed" => state = kind["to"].as_str().unwrap().to_owned(),
            "paused" => paused = true,
            "resumed" => paused = false,
            "attempt_answered" => {
                let result = if kind["outcome"] == "served" { "succeeded" } else { "failed" };
                for key in ["attempted", result] {
                    requests[key] = (requests[key].as_u64().unwrap() + 1).into();
                }
            }
            _ => {}
        }
    }
    json!({"state": state, "paused": paused, "requests": requests})
}

async fn account_shown(world: &World, name: &str) -> Value {
    let view = world.account(name).await;
    json!({"state": view.state, "paused": view.paused, "requests": view.requests})
}

/// Both tell the same once all of a step has been told, and nothing else is ever told.
async fn agree(world: &World, step: &str) {
    let agreed = async {
        loop {
            let mut by_events: Vec<Value> = NAMES.iter().map(|name| account_by_events(world, name)).collect();
            let mut shown = Vec::new();
            for name in NAMES {
                shown.push(account_shown(world, name).await);
            }
            by_events.push(serde_json::to_value(figures_by_events(world)).unwrap());
            shown.push(serde_json::to_value(figures_shown(world).await).unwrap());
            if by_events == shown {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, agreed).await;
    assert!(
        told.is_ok(),
        "after {step}: events say {:?}, the figures {:?}",
        figures_by_events(world),
        figures_shown(world).await
    );
}

#[tokio::test]
async fn events_figures_and_views_agree_at_every_point_of_a_story() {
    let world = World::with(NAMES.map(AccountSpec::oauth)).provider("strategy = \"failover\"").start().await;
    agree(&world, "the start").await;
    world.turn("s", true).await.served_by("a");
    agree(&world, "an answer").await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(600) }));
    world.turn("s", false).await.served_by("b");
    agree(&world, "a quota refusal").await;
    world.advance(601);
    world.turn("s", false).await.served_by("a");
    agree(&world, "the end of a hold").await;
    got(world.control("POST", "/admin/api/accounts/a/pause")).await;
    world.turn("s", false).await.served_by("b");
    agree(&world, "a pause").await;
    got(world.control("POST", "/admin/api/accounts/a/resume")).await;
    world.turn("s", false).await.served_by("a");
    agree(&world, "a resume").await;
    world.sim.fault(FaultRule::next("a", 2, Fault::ServerError));
    world.turn("s", false).await;
    world.turn("s", false).await;
    agree(&world, "an overload").await;
    world.advance(3600);
    world.sim.fault(FaultRule::next("a", 1, Fault::CutAfter { events: 3 }));
    world.turn("s", true).await;
    agree(&world, "a stream that was cut").await;
    world.advance(3600);
    world.turn("s", false).await.served_by("a");
    world.sim.fault(FaultRule::standing("a", Fault::OrgDisabled));
    world.sim.fault(FaultRule::standing("b", Fault::OrgDisabled));
    world.turn("s", false).await;
    world.turn("t", false).await;
    agree(&world, "the end of all logins").await;
    world.sim.clear_faults(None);
    world.advance(7 * 3600);
    world.turn("s", false).await;
    agree(&world, "their return").await;
    assert_eq!(figures_by_events(&world)["duduclaw_outages_total"], 1);
    assert!(figures_by_events(&world).len() >= 10, "the story has all kinds: {:?}", figures_by_events(&world));
}
