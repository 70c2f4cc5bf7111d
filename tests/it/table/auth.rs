//! 401, 403, and an empty balance.

use duduclaw::sim::{AccountChange, AccountSpec, Endpoint, Fault, FaultRule};
use duduclaw_actors::outcome::Cause;
use duduclaw_actors::standing::{HoldKind, Stated};

use crate::seen::{hold, in_order};
use crate::support::World;

async fn in_order_of(accounts: impl IntoIterator<Item = AccountSpec>) -> World {
    World::with(accounts).provider("strategy = \"failover\"").start().await
}

fn refreshes(world: &World) -> usize {
    world.sim.log().iter().filter(|record| record.endpoint == Endpoint::Token).count()
}

#[tokio::test]
async fn a_refused_login_is_refreshed_and_the_same_account_serves() {
    let world = in_order(&["a", "b"]).await;
    world.sim.change("a", &AccountChange { expire_tokens: true, ..AccountChange::default() }).unwrap();
    let got = world.turn("s", true).await;
    got.served_by("a");
    assert_eq!(got.header("x-duduclaw-attempts"), Some("2"));
    assert_eq!((world.hits("a"), world.hits("b"), refreshes(&world)), (2, 0, 1));
    world.events.wait_for("token_refreshed").await;
    world.is_well("a").await;
}

#[tokio::test]
async fn a_login_that_is_refused_after_its_refresh_too_is_dead_and_the_next_account_serves() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::Unauthorized));
    world.turn("s", false).await.served_by("b");
    assert_eq!((world.hits("a"), refreshes(&world)), (2, 1));
    world.held("a", 1, &hold(HoldKind::AuthDead, Cause::InvalidToken, 900, Stated::Guessed)).await;
    assert_eq!(world.until_state("a", "auth_dead").await.cause.as_deref(), Some("invalid_token"));
    assert_eq!(world.failed_over("a"), ["auth"]);
    world.turn("s", false).await.served_by("b");
    assert_eq!(world.hits("a"), 2, "a dead account is not asked");
}

#[tokio::test]
async fn a_refused_token_that_cannot_be_refreshed_is_dead_at_once() {
    for account in [AccountSpec::setup_token("a"), AccountSpec::api_key("a")] {
        let world = in_order_of([account, AccountSpec::oauth("b")]).await;
        world.sim.fault(FaultRule::standing("a", Fault::Unauthorized));
        world.turn("s", false).await.served_by("b");
        assert_eq!((world.hits("a"), refreshes(&world)), (1, 0));
        world.held("a", 1, &hold(HoldKind::AuthDead, Cause::InvalidToken, 900, Stated::Guessed)).await;
    }
}

/// C09: the organisation's refusal needs a person; it is no reason to ask again, nor to refresh.
#[tokio::test]
async fn a_403_of_the_organisation_sends_the_request_on_and_takes_the_account_out() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::OrgDisabled));
    for _ in 0..3 {
        world.turn("", false).await.served_by("b");
    }
    assert_eq!((world.hits("a"), world.hits("b"), refreshes(&world)), (1, 3, 0));
    world.held("a", 1, &hold(HoldKind::AuthDead, Cause::OrgDisabled, 900, Stated::Guessed)).await;
    let view = world.until_state("a", "auth_dead").await;
    assert_eq!((view.cause.as_deref(), view.available), (Some("org_disabled"), false));
}

#[tokio::test]
async fn any_other_403_goes_to_the_client_and_teaches_nothing() {
    for fault in [Fault::Forbidden, Fault::Firewall] {
        let world = in_order(&["a", "b"]).await;
        world.sim.fault(FaultRule::next("a", 1, fault));
        let got = world.turn("s", false).await;
        assert_eq!(got.status, 403);
        assert_eq!(got.body, world.last("a").response_body());
        world.turn("s", false).await.served_by("a");
        world.is_well("a").await;
        assert_eq!(world.hits("b"), 0);
    }
}

#[tokio::test]
async fn an_empty_balance_rests_the_account_for_a_day() {
    for fault in [Fault::BalanceEmpty, Fault::SpendLimit] {
        let world = in_order_of([AccountSpec::api_key("a"), AccountSpec::oauth("b")]).await;
        world.sim.fault(FaultRule::standing("a", fault));
        world.turn("s", false).await.served_by("b");
        assert_eq!(world.failed_over("a"), ["balance"]);
        world.held("a", 1, &hold(HoldKind::BudgetExhausted, Cause::Balance, 86_400, Stated::Guessed)).await;
        assert_eq!(world.until_state("a", "budget_exhausted").await.cause.as_deref(), Some("balance"));
        world.turn("s", false).await.served_by("b");
        assert_eq!(world.hits("a"), 1);
    }
}

/// Counting tokens and lists of models say something of the credential, and of nothing else.
#[tokio::test]
async fn beside_inference_only_a_refused_credential_counts() {
    let world = in_order_of([AccountSpec::setup_token("a"), AccountSpec::oauth("b")]).await;
    let count = || {
        world.post("/v1/messages/count_tokens?beta=true").json(&serde_json::json!({
            "model": "claude-opus-5-5", "messages": [{"role": "user", "content": "x"}],
        }))
    };
    for fault in
        [Fault::ServerError, Fault::ServerError, Fault::ServerError, Fault::Throttle { retry_after: "99".to_owned() }]
    {
        world.sim.fault(FaultRule::next("a", 1, fault).on(Endpoint::CountTokens));
        let got = crate::seen::got(count()).await;
        let record = world.sim.hits("a", Endpoint::CountTokens).pop().unwrap();
        assert_eq!((Some(got.status.as_u16()), got.body), (record.status, record.response_body()));
        assert_eq!(record.path, "/v1/messages/count_tokens?beta=true");
    }
    world.turn("s", false).await.served_by("a");
    world.is_well("a").await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Unauthorized).on(Endpoint::CountTokens));
    assert_eq!(crate::seen::got(count()).await.status, 200);
    world.held("a", 1, &hold(HoldKind::AuthDead, Cause::InvalidToken, 900, Stated::Guessed)).await;
    world.turn("s", false).await.served_by("b");
}
