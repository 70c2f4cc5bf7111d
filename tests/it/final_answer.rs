//! The answer when nothing can serve: the truth, in a form that clients can act on.

use duduclaw::sim::{AccountSpec, Fault, FaultRule};

use crate::seen::{in_order, refusal};
use crate::support::World;

async fn setup_tokens(names: &[&str], server: &str) -> World {
    let accounts = names.iter().map(|name| AccountSpec::setup_token(name)).collect::<Vec<_>>();
    World::with(accounts).provider("strategy = \"failover\"").server(server).start().await
}

fn quota(seconds: i64) -> Fault {
    Fault::Quota5h { resets_in: Some(seconds) }
}

#[tokio::test]
async fn the_body_is_that_of_the_best_refusal_a_429_before_a_5xx() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::ServerError));
    world.sim.fault(FaultRule::standing("b", quota(7999)));
    let got = world.turn("s", false).await;
    assert_eq!((got.status.as_u16(), &got.body), (429, &world.last("b").response_body()));
    assert_eq!(got.header("x-duduclaw-attempts"), Some("2"));
    assert_eq!(got.header("x-duduclaw-account"), None, "no account is named on a final refusal");
    world.events.wait_for("pool_exhausted").await;
}

#[tokio::test]
async fn a_429_states_the_soonest_stated_return_and_the_pools_truth() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", quota(7999)));
    world.sim.fault(FaultRule::standing("b", quota(1200)));
    for attempts in ["2", "0"] {
        let now = world.now();
        let got = world.turn("s", false).await;
        assert_eq!((got.status.as_u16(), got.header("x-duduclaw-attempts").unwrap_or("0")), (429, attempts));
        assert!((1170..=1200).contains(&got.retry_after().unwrap()), "{:?}", got.retry_after());
        let unified = |name: &str| got.header(&format!("anthropic-ratelimit-unified-{name}"));
        assert_eq!((unified("status"), unified("5h-status")), (Some("rejected"), Some("rejected")));
        let reset: i64 = unified("reset").unwrap().parse().unwrap();
        assert!((now + 1170..=now + 1230).contains(&reset), "{reset} at {now}");
        let window: i64 = unified("5h-reset").unwrap().parse().unwrap();
        assert!((reset - 1..=reset).contains(&window), "{window}, {reset}");
        assert_eq!(unified("representative-claim"), Some("five_hour"));
        assert_eq!(unified("7d-status"), None, "one account's figures are not the pool's");
        world.until_state("b", "rate_limited").await;
    }
    assert_eq!((world.hits("a"), world.hits("b")), (1, 1));
}

#[tokio::test]
async fn a_guess_is_not_promised() {
    let world = in_order(&["a"]).await;
    let fault = Fault::AggregateRejected { resets_in: None, retry_after: None };
    world.sim.fault(FaultRule::standing("a", fault));
    for _ in 0..2 {
        let got = world.turn("s", false).await;
        assert_eq!((got.status.as_u16(), got.retry_after()), (429, None));
        assert_eq!(got.header("anthropic-ratelimit-unified-reset"), None);
        world.until_state("a", "rate_limited").await;
    }
    assert_eq!(world.hits("a"), 1);
}

#[tokio::test]
async fn where_an_error_back_off_ends_first_its_5xx_is_relayed() {
    let world = in_order(&["a", "b"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::Overloaded { retry_after: Some("20".to_owned()) }));
    world.sim.fault(FaultRule::standing("b", quota(7999)));
    let got = world.turn("s", false).await;
    assert_eq!((got.status.as_u16(), &got.body), (529, &world.last("a").response_body()));
    assert_eq!(got.header("x-duduclaw-account"), None);
}

/// C11: 429 only if waiting helps; and never 401 or 403, which would log the user of Claude Code out.
#[tokio::test]
async fn where_only_a_person_can_help_it_says_so_and_tells_the_client_not_to_try_again() {
    let world = setup_tokens(&["a", "b", "c"], "").await;
    world.sim.fault(FaultRule::standing("a", Fault::Unauthorized));
    world.sim.fault(FaultRule::standing("b", Fault::OrgDisabled));
    world.sim.fault(FaultRule::standing("c", Fault::Unauthorized));
    for _ in 0..2 {
        let got = world.turn("s", false).await;
        assert_eq!(got.status, 503);
        assert_eq!((got.header("x-should-retry"), got.retry_after()), (Some("false"), None));
        let text = got.text();
        assert!(text.contains("\"api_error\""), "{text}");
        for said in ["a needs a person (invalid_token)", "b needs a person (org_disabled)"] {
            assert!(text.contains(said), "{text}");
        }
        world.until_state("c", "auth_dead").await;
    }
    assert_eq!(world.messages().len(), 3);
}

#[tokio::test]
async fn where_nothing_answered_it_is_502() {
    let world = in_order(&["a", "b"]).await;
    for account in ["a", "b"] {
        world.sim.fault(FaultRule::standing(account, Fault::ResetBeforeHead));
    }
    for _ in 0..3 {
        let got = world.turn("s", true).await;
        assert_eq!(got.status, 502, "{}", got.text());
        assert!(got.text().contains("\"api_error\""));
    }
}

/// C32: a hiccup at the token endpoint is no reason to log anybody out.
#[tokio::test]
async fn blank_answers_alone_are_502() {
    let world = in_order(&["a", "b"]).await;
    for account in ["a", "b"] {
        world.sim.fault(FaultRule::standing(account, Fault::Blank));
    }
    for stream in [true, false] {
        assert_eq!(world.turn("s", stream).await.status, 502);
    }
}

/// An error that came first under HTTP 200 is the best real answer there is: it goes out under the status it means.
#[tokio::test]
async fn an_error_that_came_as_first_event_is_answered_as_the_status_it_means() {
    let world = in_order(&["a", "b"]).await;
    for account in ["a", "b"] {
        let kind = "overloaded_error".to_owned();
        world.sim.fault(FaultRule::standing(account, Fault::FirstEventError { kind }));
    }
    let got = world.turn("s", true).await;
    assert_eq!((got.status.as_u16(), got.header("content-type")), (529, Some("application/json")));
    let body: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(body["error"]["type"], "overloaded_error");
}

/// Names of accounts are shown to nobody where they are not to be exposed: in no header and in no text.
#[tokio::test]
async fn no_answer_names_an_account_that_is_not_to_be_shown() {
    let names = ["zebra-one", "zebra-two"];
    let shows = |got: &crate::seen::Got| format!("{:?} {}", got.headers, got.text()).contains("zebra");
    for fault in [
        quota(7999),
        Fault::Unauthorized,
        Fault::ServerError,
        Fault::ResetBeforeHead,
        Fault::Throttle { retry_after: "5".to_owned() },
    ] {
        let world = setup_tokens(&names, "expose_accounts = false").await;
        let served = world.turn("s", false).await;
        assert_eq!(served.status, 200);
        assert!(!shows(&served), "{served:?}");
        for name in names {
            world.sim.fault(FaultRule::standing(name, fault.clone()));
        }
        for _ in 0..3 {
            let refused = world.turn("", false).await;
            assert_ne!(refused.status, 200);
            assert!(!shows(&refused), "{refused:?}");
        }
        let told = world.events.wait_for("pool_exhausted").await;
        assert!(told["kind"]["reasons"].as_str().unwrap().contains("zebra-one"), "the operator sees the names");
    }
}

/// C11: which accounts need a login, which wait and until when; the wait is that of the one that waits.
#[tokio::test]
async fn a_mixed_pool_says_precisely_what_is_wrong_with_each() {
    let world = setup_tokens(&["dead", "full", "well"], "").await;
    world.sim.fault(FaultRule::standing("dead", Fault::Unauthorized));
    world.sim.fault(FaultRule::standing("full", quota(3600)));
    world.turn("s", false).await.served_by("well");
    world.until_state("full", "rate_limited").await;
    world.sim.fault(FaultRule::standing("well", Fault::OrgDisabled));
    world.turn("s", false).await;
    world.until_state("well", "auth_dead").await;
    let got = world.turn("s", false).await;
    assert_eq!(got.status, 429);
    assert!((3500..=3600).contains(&got.retry_after().unwrap()));
    for said in
        ["dead needs a person (invalid_token)", "full waits until ", "(quota)", "well needs a person (org_disabled)"]
    {
        assert!(got.text().contains(said), "{}", got.text());
    }
    assert_eq!(world.messages().len(), 4);
}

/// Relayed headers of one account would contradict the pool's.
#[tokio::test]
async fn no_figure_of_one_account_is_left_on_a_final_429() {
    let world = in_order(&["a", "b"]).await;
    let at = |seconds: i64| (world.now() + seconds).to_string();
    let figures = [("5h-status", "rejected".to_owned()), ("5h-reset", at(9000)), ("7d-utilization", "0.5".to_owned())];
    world.sim.fault(FaultRule::standing("a", refusal(&figures, &[("retry-after", "9000")])));
    world.sim.fault(FaultRule::standing("b", quota(600)));
    let got = world.turn("s", false).await;
    assert_eq!((got.status.as_u16(), &got.body), (429, &world.last("a").response_body()));
    assert!(got.retry_after().unwrap() <= 600);
    assert_eq!(got.header("anthropic-ratelimit-unified-7d-utilization"), None);
}
