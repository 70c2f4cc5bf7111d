//! The start without a configuration: what is found on the machine serves, a key only where no subscription can.

use duduclaw::sim::{AccountSpec, SimWindow};

use crate::claude::{Claude, ERRAND};
use crate::installed::Version;
use crate::stage::{Plan, Stage};

fn found(accounts: impl IntoIterator<Item = AccountSpec>) -> Plan {
    let plan = Stage::of(accounts).unconfigured().var("DUDUCLAW_SERVER__BIND", "127.0.0.1:0");
    plan.var("DUDUCLAW_LOG__FORMAT", "json")
        .var("DUDUCLAW_PROVIDERS__ANTHROPIC__BASE_URL", "{sim}")
        .var("DUDUCLAW_PROVIDERS__ANTHROPIC__TOKEN_URL", "{sim}/v1/oauth/token")
}

fn asked(stage: &Stage) -> Vec<String> {
    let mut accounts: Vec<String> = stage.messages().into_iter().filter_map(|record| record.account).collect();
    accounts.dedup();
    accounts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_found_beside_subscriptions_serves_when_none_of_them_can() {
    let accounts = [AccountSpec::oauth("login"), AccountSpec::setup_token("token"), AccountSpec::api_key("key")];
    let stage = found(accounts).start().await;
    let claude = Claude::new(&stage, Version::Pinned);
    claude.turn(ERRAND, "All done.").await;
    let first = asked(&stage);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_ne!(first, ["key"]);
    stage.sim.set_used(&first[0], SimWindow::SevenDays, 1.0).unwrap();
    claude.turn(ERRAND, "All done.").await;
    let second = asked(&stage);
    assert_eq!(second.len(), 2, "{second:?}");
    assert!(!second.contains(&"key".to_owned()), "{second:?}");
    stage.sim.set_used(&second[1], SimWindow::SevenDays, 1.0).unwrap();
    claude.turn(ERRAND, "All done.").await;
    assert_eq!(asked(&stage).last().map(String::as_str), Some("key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_what_is_found_serves_alone() {
    for account in [AccountSpec::oauth("only"), AccountSpec::setup_token("only"), AccountSpec::api_key("only")] {
        let stage = found([account]).start().await;
        Claude::new(&stage, Version::Usual).turn(ERRAND, "All done.").await;
        assert_eq!(asked(&stage), ["only"]);
    }
}
