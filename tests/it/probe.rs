//! Asking a provider about a credential on an operator's word: what is asked, and what each answer does.

use duduclaw::sim::{AccountChange, AccountSpec, Endpoint, Fault, FaultRule};
use serde_json::{Value, json};

use crate::seen::in_order;
use crate::support::World;

impl World {
    async fn probe(&self, account: &str) -> Value {
        let told = self.rpc("accounts.probe", json!({"account": account})).await;
        assert!(told["error"].is_null(), "{told}");
        told["result"].clone()
    }
}

fn on_models(account: &str, fault: Fault) -> FaultRule {
    FaultRule { endpoint: Endpoint::Models, ..FaultRule::next(account, 1, fault) }
}

#[tokio::test]
async fn each_kind_of_secret_is_asked_about_with_itself_alone() {
    let accounts = [AccountSpec::oauth("login"), AccountSpec::setup_token("token"), AccountSpec::api_key("key")];
    let world = World::with(accounts).start().await;
    for name in ["login", "token", "key"] {
        let said = world.probe(name).await;
        assert_eq!((&said["verdict"], &said["status"]), (&json!("valid"), &json!(200)), "{name}: {said}");
        assert_eq!(said["account"]["last_probe"], world.now(), "{said}");
        let asked =
            world.sim.hits(name, Endpoint::Models).pop().unwrap_or_else(|| panic!("{name} was not asked about"));
        assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
        assert!(asked.header("user-agent").unwrap().starts_with("duduclaw/"));
        let is_key = name == "key";
        assert_eq!(asked.header("authorization").is_none(), is_key, "{asked:?}");
        assert_eq!(asked.header("x-api-key").is_some(), is_key);
        assert_eq!(
            asked.header("anthropic-beta").map(|beta| beta.contains("oauth-2025-04-20")),
            (!is_key).then_some(true)
        );
    }
}

/// A login that was refused on traffic comes back by a check, and by nothing less.
#[tokio::test]
async fn a_dead_credential_is_healed_by_a_check_that_knows_it_and_by_no_other_answer() {
    let world = World::with([AccountSpec::setup_token("a"), AccountSpec::oauth("b")])
        .provider("strategy = \"failover\"")
        .start()
        .await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Unauthorized));
    world.turn("s", false).await.served_by("b");
    world.until_state("a", "auth_dead").await;
    for (fault, verdict) in [
        (Fault::Overloaded { retry_after: None }, "undecided"),
        (Fault::ResetBeforeHead, "undecided"),
        (Fault::Unauthorized, "invalid_token"),
    ] {
        world.sim.fault(on_models("a", fault));
        let said = world.probe("a").await;
        assert_eq!((&said["verdict"], &said["account"]["state"]), (&json!(verdict), &json!("auth_dead")), "{said}");
    }
    let said = world.probe("a").await;
    assert_eq!((&said["verdict"], &said["account"]["state"]), (&json!("valid"), &json!("healthy")), "{said}");
    world.turn("t", false).await.served_by("a");
}

#[tokio::test]
async fn a_check_ends_no_hold_that_is_not_its_own() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(600) }));
    world.turn("s", false).await.served_by("b");
    world.until_state("a", "rate_limited").await;
    let said = world.probe("a").await;
    assert_eq!((&said["verdict"], &said["account"]["state"]), (&json!("valid"), &json!("rate_limited")), "{said}");
}

/// A refused access token is renewed before anything is held against the login.
#[tokio::test]
async fn a_refusal_that_a_renewal_cures_is_none() {
    let world = World::logins(&["a"]).await;
    world.sim.fault(on_models("a", Fault::Unauthorized));
    let said = world.probe("a").await;
    assert_eq!((&said["verdict"], &said["account"]["state"]), (&json!("valid"), &json!("healthy")), "{said}");
    assert_eq!(world.sim.hits("a", Endpoint::Models).len(), 2);
    assert_eq!(world.sim.hits("a", Endpoint::Token).len(), 1);
}

/// C38: a paused account whose access token ended long ago is paused, and nothing else; it needs no login to come back.
#[tokio::test]
async fn a_paused_account_with_a_stale_token_is_paused_and_comes_back_without_a_login() {
    let world = in_order(&["a", "b"]).await;
    world.rpc("accounts.pause", json!({"account": "a"})).await;
    world.advance(40 * 3600);
    world.sim.change("a", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
    let shown = world.account("a").await;
    assert!(shown.paused && !shown.needs_login && !shown.available, "{shown:?}");
    assert!(shown.expires_at.is_some_and(|end| end < world.now()), "its token is stale");
    let said = world.probe("a").await;
    assert_eq!((&said["verdict"], &said["account"]["needs_login"]), (&json!("valid"), &json!(false)), "{said}");
    assert_eq!(said["account"]["paused"], true);
    let resumed = world.rpc("accounts.resume", json!({"account": "a"})).await["result"].clone();
    assert_eq!((&resumed["account"]["available"], &resumed["account"]["needs_login"]), (&json!(true), &json!(false)));
    world.turn("s", false).await.served_by("a");
}

/// C39: a login whose grant is gone says so wherever one looks, also after a restart, until somebody logs in.
#[tokio::test]
async fn a_login_that_is_gone_is_shown_until_somebody_logs_in_again() {
    let setting = crate::binary::Setting::with(&["a", "b"], "").await;
    let config = setting.home.path().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let auth = "auth = \"claude_oauth\"\n";
    let with_tokens = format!("{auth}token_url = \"{}\"\n", setting.sim.token_url());
    std::fs::write(&config, text.replacen(auth, &with_tokens, 1)).unwrap();
    setting.sim.change("a", &AccountChange { revoke: true, ..AccountChange::default() }).unwrap();
    for _ in 0..2 {
        let mut daemon = setting.serve().await;
        let (code, said, err) = setting.run(&["accounts", "probe", "a"]).await;
        assert_eq!(code, 3, "{said}{err}");
        let (code, out, _) = setting.run(&["status"]).await;
        assert_eq!(code, 3, "{out}");
        assert!(
            out.lines().any(|l| l.contains(" a ") && (l.contains("needs login") || l.contains("auth dead"))),
            "{out}"
        );
        assert_eq!(daemon.stop().await, Some(0));
    }
    let asked = setting.sim.hits("a", Endpoint::Token).len();
    assert_eq!(asked, 1, "the dead refresh token is sent once, not once a run");
    // A login while the daemon runs, and one while none does.
    for running in [true, false] {
        let mut daemon = setting.serve().await;
        let (_, out, _) = setting.run(&["status", "--json"]).await;
        let pool: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(pool["providers"][0]["accounts"][0]["needs_login"], true, "it is remembered: {out}");
        let (_, out, _) = setting.run(&["activity", "--json", "--limit", "1000"]).await;
        assert!(out.lines().any(|line| line.contains("login_needed")), "{out}");
        if !running {
            assert_eq!(daemon.stop().await, Some(0));
        }
        setting.sim.change("a", &AccountChange { log_in: true, ..AccountChange::default() }).unwrap();
        std::fs::write(setting.home.path().join("a.json"), crate::support::login(&setting.sim, "a").to_string())
            .unwrap();
        if !running {
            daemon = setting.serve().await;
        }
        daemon.until("credential_renewed").await;
        let (code, out, _) = setting.run(&["status"]).await;
        assert_eq!(code, 0, "{out}");
        setting.sim.change("a", &AccountChange { revoke: true, ..AccountChange::default() }).unwrap();
        assert_eq!(setting.run(&["accounts", "probe", "a"]).await.0, 3);
        assert_eq!(daemon.stop().await, Some(0));
    }
}

/// Whoever has a key cannot log in with it, and a hold that clearing does not end says what does.
#[tokio::test]
async fn what_helps_a_refused_credential_is_said_by_its_kind() {
    let world = World::with([AccountSpec::setup_token("token"), AccountSpec::api_key("key")]).start().await;
    let cures =
        [("token", "the provider refuses the credential; set $"), ("key", "the provider refuses the key; set $")];
    for (name, cure) in cures {
        world.sim.fault(on_models(name, Fault::Unauthorized));
        let said = world.probe(name).await;
        assert!(said["summary"].as_str().unwrap().starts_with(cure), "{said}");
    }
    assert!(world.probe("key").await["summary"].as_str().unwrap().ends_with("knows the credential"));
}

#[tokio::test]
async fn clearing_says_what_it_does_not_end_and_what_does() {
    let world = World::with([AccountSpec::setup_token("a"), AccountSpec::oauth("b")])
        .provider("strategy = \"failover\"")
        .start()
        .await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Unauthorized));
    world.turn("s", false).await.served_by("b");
    world.until_state("a", "auth_dead").await;
    let cleared = world.rpc("accounts.clear", json!({"account": "a"})).await["result"].clone();
    assert_eq!(cleared["account"]["state"], "auth_dead");
    let note = cleared["notes"][0].as_str().unwrap();
    let says = ["clearing does not end that", "claude setup-token", "duduclaw accounts probe anthropic/a"];
    assert!(says.iter().all(|says| note.contains(says)), "{note}");
    let well = world.rpc("accounts.clear", json!({"account": "b"})).await["result"].clone();
    assert_eq!(well["notes"], json!([]));
}
