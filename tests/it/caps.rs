//! Hard caps on what of an account's quota may be used.

use duduclaw::sim::{AccountSpec, SimWindow};

use crate::support::World;

const TEXT: &str = "all selectable accounts for provider 'anthropic' are at their max_utilization cap for this request";

async fn capped(provider: &str, of_a: &str) -> World {
    World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")])
        .provider(&format!("strategy = \"failover\"\n{provider}"))
        .account("a", of_a)
        .start()
        .await
}

#[tokio::test]
async fn an_account_at_its_cap_is_left_out_and_comes_back_with_the_windows_reset() {
    let world = capped("", "max_utilization = 0.5").await;
    world.sim.set_used("a", SimWindow::FiveHours, 0.6).unwrap();
    world.turn("s", false).await.served_by("a");
    world.until("a", |a| a.capped).await;
    world.turn("s", false).await.served_by("b");
    assert_eq!(world.account("a").await.state, "healthy", "a cap is no hold");
    assert_eq!(world.hits("a"), 1);
    world.advance(5 * 3600 + 1);
    world.turn("t", false).await.served_by("a");
}

#[tokio::test]
async fn a_cap_on_the_scope_binds_only_its_models() {
    let world = capped("", "max_utilization_fable = 0.5").await;
    world.sim.set_used("a", SimWindow::Fable, 0.6).unwrap();
    world.model("claude-fable-5", "s", "[[say: x]]", false).await.served_by("a");
    world.until("a", |a| !a.capped_scopes.is_empty()).await;
    world.model("claude-fable-5", "t", "[[say: x]]", false).await.served_by("b");
    world.model("claude-opus-5-5", "u", "[[say: x]]", false).await.served_by("a");
}

#[tokio::test]
async fn where_caps_alone_leave_nothing_the_429_says_so_and_when_it_ends() {
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b"), AccountSpec::oauth("c")])
        .tables("[server.pool]\ndefault_max_utilization = 0.5")
        .account("c", "disabled = true")
        .start()
        .await;
    world.sim.set_used("a", SimWindow::FiveHours, 0.6).unwrap();
    world.sim.set_used("b", SimWindow::SevenDays, 0.6).unwrap();
    while !(world.account("a").await.capped && world.account("b").await.capped) {
        assert_eq!(world.turn("", false).await.status, 200);
    }
    let before = world.messages().len();
    let got = world.turn("", false).await;
    assert_eq!(got.status, 429);
    let body: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(
        (body["error"]["type"].as_str(), body["error"]["message"].as_str()),
        (Some("rate_limit_error"), Some(TEXT))
    );
    let wait = got.retry_after().unwrap();
    assert!(wait > 5 * 3600 - 60 && wait <= 5 * 3600 + 1, "{wait}: a returns first");
    assert_eq!(world.messages().len(), before);
}

/// The caps' 429 makes a chain go on, like a provider's.
#[tokio::test]
async fn caps_alone_make_a_chain_go_on() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n\
         [[upstreams]]\nname = \"first\"\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
         auth = { mode = \"claude_oauth\", accounts = [{ name = \"a\", credentials = \"{creds}/a.json\", max_utilization = 0.5 }] }\n\
         [[upstreams]]\nname = \"second\"\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
         auth = { mode = \"claude_oauth\", accounts = [{ name = \"b\", credentials = \"{creds}/b.json\" }] }\n\
         [[models]]\nid = \"claude-opus-5-5\"\n[models.upstream_model]\nfirst = \"claude-opus-5-5\"\nsecond = \"claude-opus-5-5\"\n";
    let world = World::with([AccountSpec::oauth("a"), AccountSpec::oauth("b")]).config(text).start().await;
    world.sim.set_used("a", SimWindow::FiveHours, 0.6).unwrap();
    world.turn("s", false).await.served_by("a");
    world.until("a", |a| a.capped).await;
    let got = world.turn("s", false).await;
    got.served_by("b");
    assert_eq!(got.header("x-duduclaw-upstream"), Some("second"));
    assert_eq!(world.hits("a"), 1);
    let got = world.model("claude-haiku-4-5", "t", "[[say: x]]", false).await;
    assert_eq!(got.status, 429, "a model without an entry has a chain of one");
    assert!(got.text().contains("all selectable accounts for provider 'first'"), "{}", got.text());
}
