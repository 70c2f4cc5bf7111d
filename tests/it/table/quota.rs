//! 429s by which a quota window refuses.

use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use duduclaw_actors::id::ModelScope;
use duduclaw_actors::outcome::{Cause, HoldScope};
use duduclaw_actors::standing::{HoldKind, Stated};

use crate::seen::{Held, hold, in_order, refusal};
use crate::support::World;

fn quota(seconds: u64, stated: Stated) -> Held {
    hold(HoldKind::RateLimited, Cause::Quota, seconds, stated)
}

/// What a refused account gets, and the request: the next account at once.
async fn refused(fault: Fault, expected: Held) -> World {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, fault));
    world.turn("s", false).await.served_by("b");
    world.held("a", 1, &expected).await;
    let view = world.until_state("a", "rate_limited").await;
    assert_eq!(view.cause.as_deref(), Some("quota"));
    assert!(view.cooldown_secs_remaining <= expected.seconds && view.cooldown_secs_remaining + 30 > expected.seconds);
    assert_eq!(world.failed_over("a"), ["quota"]);
    world.turn("t", false).await.served_by("b");
    assert_eq!((world.hits("a"), world.hits("b")), (1, 2), "nothing goes to a while it is held");
    world
}

#[tokio::test]
async fn a_refused_window_holds_the_account_until_its_reset_and_the_next_one_serves() {
    refused(Fault::Quota5h { resets_in: Some(3600) }, quota(3600, Stated::ByProvider)).await;
    refused(Fault::Quota7d { resets_in: Some(90_000) }, quota(90_000, Stated::ByProvider)).await;
}

#[tokio::test]
async fn a_window_of_an_unknown_name_holds_the_account_too() {
    let fault = Fault::ScopeUnknown { window: "7d_new".to_owned(), resets_in: Some(3600) };
    refused(fault, quota(3600, Stated::ByProvider)).await;
}

#[tokio::test]
async fn of_several_refused_windows_the_latest_reset_counts_or_a_later_retry_after() {
    for (retry_after, expected) in [("60", 90_000), ("172800", 172_800)] {
        let world = in_order(&["a", "b"]).await;
        let at = |seconds: i64| (world.now() + seconds).to_string();
        let windows = [
            ("5h-status", "rejected".to_owned()),
            ("5h-reset", at(3600)),
            ("7d-status", "rejected".to_owned()),
            ("7d-reset", at(90_000)),
            ("status", "rejected".to_owned()),
            ("reset", at(3600)),
        ];
        world.sim.fault(FaultRule::next("a", 1, refusal(&windows, &[("retry-after", retry_after)])));
        world.turn("s", false).await.served_by("b");
        world.held("a", 1, &quota(expected, Stated::ByProvider)).await;
        let view = world.until_state("a", "rate_limited").await;
        for window in ["5h", "7d"] {
            assert_eq!(view.windows[window].status.as_deref(), Some("rejected"));
        }
    }
}

#[tokio::test]
async fn a_refused_aggregate_holds_until_its_reset_else_its_retry_after_else_two_minutes() {
    let refused_for = |resets_in, retry_after: Option<&str>| Fault::AggregateRejected {
        resets_in,
        retry_after: retry_after.map(str::to_owned),
    };
    refused(refused_for(Some(3600), Some("900")), quota(3600, Stated::ByProvider)).await;
    refused(refused_for(None, Some("900")), quota(900, Stated::ByProvider)).await;
    refused(refused_for(None, None), quota(120, Stated::Guessed)).await;
}

#[tokio::test]
async fn a_scopes_window_holds_its_scope_alone_if_the_request_is_in_it() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::ScopeFable { resets_in: Some(3600) }));
    world.model("claude-fable-5", "s", "[[say: x]]", false).await.served_by("b");
    let scope = HoldScope::Model(ModelScope::Fable);
    world.held("a", 1, &Held { scope, ..quota(3600, Stated::ByProvider) }).await;
    let view = world.account("a").await;
    assert_eq!(view.state, "healthy");
    assert!(view.scope_cooldowns["fable"] > 3500);
    world.model("claude-opus-5-5", "t", "[[say: x]]", false).await.served_by("a");
    world.model("claude-fable-5", "u", "[[say: x]]", false).await.served_by("b");
    assert_eq!(world.hits("a"), 2, "the scope's next request does not ask a");
}

#[tokio::test]
async fn a_scopes_window_that_refuses_another_model_holds_the_whole_account() {
    refused(Fault::ScopeFable { resets_in: Some(3600) }, quota(3600, Stated::ByProvider)).await;
}

#[tokio::test]
async fn a_429_about_the_request_itself_goes_to_the_client_and_teaches_nothing() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::LongContext));
    let got = world.turn("s", false).await;
    assert_eq!(got.status, 429);
    assert_eq!(got.body, world.last("a").response_body());
    world.turn("s", false).await.served_by("a");
    world.is_well("a").await;
    assert_eq!(world.hits("b"), 0);
    assert!(world.failed_over("a").is_empty());
}

#[tokio::test]
async fn a_served_probe_ends_a_quota_hold_before_its_stated_end() {
    let world = in_order(&["a"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: Some(7999) }));
    assert_eq!(world.turn("s", false).await.status, 429);
    world.until_state("a", "rate_limited").await;
    assert_eq!(world.turn("s", false).await.status, 429);
    assert_eq!(world.hits("a"), 1, "a held account is not asked at once");
    world.advance(61);
    world.turn("s", false).await.served_by("a");
    world.until_state("a", "healthy").await;
    assert_eq!(world.events.wait_for("hold_ended").await["kind"]["by"], "served");
}

/// Outside a scope a served request ends the account-wide hold only; inside it, both.
#[tokio::test]
async fn what_is_served_in_a_scope_ends_the_scopes_hold_and_what_is_served_outside_does_not() {
    let world = in_order(&["a"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::ScopeFable { resets_in: Some(7999) }));
    assert_eq!(world.model("claude-fable-5", "s", "[[say: x]]", false).await.status, 429);
    world.held("a", 1, &Held { scope: HoldScope::Model(ModelScope::Fable), ..quota(7999, Stated::ByProvider) }).await;
    world.model("claude-opus-5-5", "t", "[[say: x]]", false).await.served_by("a");
    assert!(world.account("a").await.scope_cooldowns.contains_key("fable"));
    world.advance(61);
    world.model("claude-fable-5", "s", "[[say: x]]", false).await.served_by("a");
    world.events.wait_for("hold_ended").await;
    assert!(world.account("a").await.scope_cooldowns.is_empty());
}

/// A credential that the client brings is none of ours: everything is relayed and only the quota figures are kept.
#[tokio::test]
async fn with_passthrough_everything_is_relayed_and_nothing_learnt_but_quota() {
    let text = "[server]\nbind = \"127.0.0.1:0\"\n[providers.anthropic]\nkind = \"anthropic\"\nbase_url = \"{sim}\"\n\
                auth = \"passthrough\"\n";
    let world = World::with([AccountSpec::setup_token("a")]).config(text).start().await;
    let token = world.sim.credentials("a").unwrap().token;
    for fault in [Fault::Unauthorized, Fault::OrgDisabled, Fault::Quota5h { resets_in: None }, Fault::ServerError] {
        world.sim.fault(FaultRule::next("a", 1, fault));
        let request =
            world.ask("s", "[[say: x]]", false).bearer_auth(&token).header("anthropic-beta", "oauth-2025-04-20");
        let got = crate::seen::got(request).await;
        let record = world.last("a");
        assert_eq!((Some(got.status.as_u16()), &got.body), (record.status, &record.response_body()));
    }
    assert_eq!(world.hits("a"), 4);
    assert!(world.events.of("hold_began").is_empty());
}
