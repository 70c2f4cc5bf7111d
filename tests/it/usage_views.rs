//! How full quota windows are: what is learnt beside the traffic, and what clients may know of it.

use std::time::Duration;

use duduclaw::admin::PoolAccount;
use duduclaw::sim::{AccountSpec, Endpoint, Fault, FaultRule, SimWindow};
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, WorldBuilder};

fn polled(accounts: impl IntoIterator<Item = AccountSpec>) -> WorldBuilder {
    World::with(accounts).tables("[server.pool]\nusage_refresh_seconds = 60")
}

async fn seen(world: &World, path: &str) -> Value {
    let answer = world.client.get(format!("{}{path}", world.url)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    answer.json().await.unwrap()
}

/// Lets the time for the next page pass until it has shown this of an account.
async fn until_read(world: &World, name: &str, shows: impl Fn(&PoolAccount) -> bool) {
    let mut waited = Duration::ZERO;
    while !shows(&world.account(name).await) {
        assert!(waited < PATIENCE, "the page of {name} does not show it");
        world.advance(61);
        tokio::time::sleep(Duration::from_millis(20)).await;
        waited += Duration::from_millis(20);
    }
}

fn pages(world: &World, account: &str) -> usize {
    world.sim.hits(account, Endpoint::Usage).len()
}

#[tokio::test]
async fn a_logins_page_is_read_at_the_start_and_then_as_often_as_configured() {
    let world = polled([AccountSpec::oauth("a"), AccountSpec::setup_token("b"), AccountSpec::oauth("c")])
        .account("c", "disabled = true")
        .start()
        .await;
    world.sim.until(|log| log.iter().any(|record| record.endpoint == Endpoint::Usage)).await;
    world.sim.set_used("a", SimWindow::SevenDays, 0.42).unwrap();
    until_read(&world, "a", |a| a.windows.get("7d").is_some_and(|w| w.utilization == Some(0.42))).await;
    let a = world.account("a").await;
    assert!(a.windows["7d"].reset.is_some());
    assert_eq!(a.windows["7d"].status, None, "a page tells no status");
    let asked = &world.sim.hits("a", Endpoint::Usage)[0];
    assert!(asked.header("user-agent").unwrap().starts_with("duduclaw/"), "{asked:?}");
    assert_eq!((pages(&world, "b"), pages(&world, "c")), (0, 0), "no page: a setup token, and one switched off");
}

/// A page that cannot be read neither heals nor harms.
#[tokio::test]
async fn a_refused_page_teaches_nothing() {
    let world = World::with([AccountSpec::oauth("a")]).tables("[server.pool]\nusage_refresh_seconds = 60");
    let world = world.start().await;
    for fault in [Fault::Unauthorized, Fault::OrgDisabled, Fault::ThrottleUnstated, Fault::Firewall] {
        let told = format!("{fault:?}");
        world.sim.fault(FaultRule::next("a", 1, fault).on(Endpoint::Usage));
        let before = pages(&world, "a");
        until_read(&world, "a", |_| pages(&world, "a") > before).await;
        assert_eq!(world.account("a").await.state, "healthy", "{told}");
    }
    world.turn("s", false).await.served_by("a");
}

#[tokio::test]
async fn clients_see_what_share_of_the_pool_remains_and_no_name() {
    let world = polled([AccountSpec::oauth("a"), AccountSpec::oauth("b"), AccountSpec::oauth("c")])
        .account("c", "disabled = true")
        .start()
        .await;
    assert_eq!(seen(&world, "/usage").await["pool"]["status"], "ok");
    world.sim.set_used("a", SimWindow::FiveHours, 0.25).unwrap();
    world.sim.set_used("b", SimWindow::FiveHours, 0.5).unwrap();
    world.sim.set_used("c", SimWindow::FiveHours, 0.9).unwrap();
    until_read(&world, "a", |a| a.windows.contains_key("5h")).await;
    until_read(&world, "b", |b| b.windows.contains_key("5h")).await;
    let view = seen(&world, "/usage").await;
    let window = &view["pool"]["windows"]["5h"];
    assert_eq!(window["remaining"], json!(0.625), "the mean of those that are switched on: {view}");
    assert!(window["resets_at"].as_i64().unwrap() > world.now());
    assert_eq!(view["providers"]["anthropic"], view["pool"]);
    assert!(view["pool"]["windows"].get("7d").is_none() || view["pool"]["windows"]["7d"]["remaining"] == json!(1.0));
}

#[tokio::test]
async fn the_pool_is_degraded_capped_or_exhausted_by_what_its_accounts_are() {
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")])
        .tables("[server.pool]\nusage_refresh_seconds = 60\ndefault_max_utilization = 0.5")
        .start()
        .await;
    let status = async || seen(&world, "/usage").await["pool"]["status"].clone();
    world.sim.set_used("a", SimWindow::FiveHours, 0.6).unwrap();
    until_read(&world, "a", |a| a.capped).await;
    assert_eq!(status().await, "degraded");
    world.sim.set_used("b", SimWindow::FiveHours, 0.6).unwrap();
    until_read(&world, "b", |b| b.capped).await;
    assert_eq!(status().await, "capped");

    let dead = World::with([AccountSpec::setup_token("a")]).start().await;
    dead.sim.fault(FaultRule::standing("a", Fault::Unauthorized));
    dead.turn("s", false).await;
    dead.until_state("a", "auth_dead").await;
    assert_eq!(seen(&dead, "/usage").await["pool"], json!({"status": "exhausted", "windows": {}}));
}

/// Claude Code's own view of its limits shows the account on which requests go longest.
#[tokio::test]
async fn claude_codes_usage_page_shows_the_pool() {
    let world = polled([AccountSpec::oauth("a"), AccountSpec::oauth("b"), AccountSpec::oauth("c")])
        .account("a", "priority = 1")
        .account("b", "priority = 1")
        .start()
        .await;
    world.sim.set_used("a", SimWindow::FiveHours, 0.25).unwrap();
    world.sim.set_used("b", SimWindow::FiveHours, 0.5).unwrap();
    world.sim.set_used("c", SimWindow::FiveHours, 0.75).unwrap();
    world.sim.set_used("b", SimWindow::Fable, 0.1).unwrap();
    for name in ["a", "b", "c"] {
        until_read(&world, name, |account| account.windows.contains_key("5h")).await;
    }
    until_read(&world, "b", |account| account.windows.contains_key("7d_oi")).await;
    let page = seen(&world, "/api/oauth/usage").await;
    assert_eq!(page["five_hour"]["utilization"], json!(50.0), "of the first tier the fullest: {page}");
    let kinds: Vec<_> = page["limits"].as_array().unwrap().iter().map(|limit| limit["kind"].clone()).collect();
    assert!(kinds.contains(&json!("session")) && kinds.contains(&json!("weekly_scoped")), "{page}");
    assert_eq!(world.sim.log().iter().filter(|r| r.endpoint == Endpoint::Usage).count() % 3, 0, "not passed on");
}

/// Where clients bring their own accounts, they get their own page.
#[tokio::test]
async fn without_logins_of_ours_the_page_is_passed_through() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
                auth = \"passthrough\"\n";
    let world = World::with([AccountSpec::oauth("a")]).config(text).start().await;
    world.sim.set_used("a", SimWindow::FiveHours, 0.25).unwrap();
    let token = world.sim.credentials("a").unwrap().token;
    let request = world
        .client
        .get(format!("{}/api/oauth/usage", world.url))
        .bearer_auth(token)
        .header("anthropic-beta", "oauth-2025-04-20");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let page: Value = answer.json().await.unwrap();
    assert_eq!(page["five_hour"]["utilization"], json!(25.0));
}

/// A gateway with tokens shows its figures to its clients alone.
#[tokio::test]
async fn figures_are_for_clients_whose_token_is_known() {
    let world = World::with([AccountSpec::oauth("a")])
        .tables("[server.auth]\ntokens_env = \"TOKENS\"")
        .var("TOKENS", "laptop:abcdefghijklmnop")
        .start()
        .await;
    for path in ["/usage", "/api/oauth/usage"] {
        let url = format!("{}{path}", world.url);
        assert_eq!(world.client.get(&url).send().await.unwrap().status(), 401, "{path}");
        let shown = world.client.get(&url).bearer_auth("abcdefghijklmnop").send().await.unwrap();
        assert_eq!(shown.status(), 200, "{path}");
        assert_eq!(world.client.post(&url).bearer_auth("abcdefghijklmnop").send().await.unwrap().status(), 405);
    }
}
