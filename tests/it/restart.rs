//! A gateway that is stopped and started again in its home: what it knew, and what happened meanwhile.

use std::os::unix::fs::PermissionsExt;

use duduclaw::sim::{AccountChange, AccountSpec, Fault, FaultRule, SimWindow};
use serde_json::json;

use crate::seen::{got, in_order};
use crate::support::{World, eventually, login};

/// Waits until an account is out for this reason.
async fn out(world: &World, name: &str, cause: &str) {
    world.until(name, |account| account.cause.as_deref() == Some(cause)).await;
}

#[tokio::test]
async fn a_stated_wait_goes_on_across_a_restart_and_ends_at_its_moment() {
    let mut world = in_order(&["a", "b"]).await;
    world.turn("s", false).await.served_by("a");
    world.sim.set_used("a", SimWindow::FiveHours, 1.0).unwrap();
    world.turn("s", false).await.served_by("b");
    let asked = world.hits("a");
    let left = world.account("a").await.cooldown_secs_remaining;
    assert!(left > 3600, "{left}");
    world.restart_after(|world| world.advance(1800)).await;
    let now = world.account("a").await.cooldown_secs_remaining;
    assert!(now <= left - 1800 && now + 1860 >= left, "{left} became {now}");
    world.turn("t", false).await.served_by("b");
    assert_eq!(world.hits("a"), asked, "nothing was asked to learn it again");
    world.advance(now);
    world.turn("u", false).await.served_by("a");
}

#[tokio::test]
async fn a_pause_and_a_conversations_place_outlive_a_restart() {
    let mut world = World::logins(&["a", "b", "c"]).await;
    let home = world.turn("s", false).await.account().to_owned();
    let other = ["a", "b", "c"].into_iter().find(|name| *name != home).unwrap();
    let paused = got(world.control("POST", &format!("/admin/api/accounts/{other}/pause"))).await;
    assert_eq!(paused.status, 200, "{}", paused.text());
    world.restart().await;
    assert!(world.account(other).await.paused);
    world.turn("s", false).await.served_by(&home);
    let resumed = got(world.control("POST", &format!("/admin/api/accounts/{other}/resume"))).await;
    assert_eq!(resumed.status, 200);
    world.restart().await;
    assert!(!world.account(other).await.paused);
    world.turn("s", false).await.served_by(&home);
}

/// A refused key is remembered; one that took its place is not blamed for it. Variables are read at the start only.
#[tokio::test]
async fn a_refused_key_stays_out_across_a_restart_and_a_new_one_in_its_place_serves() {
    let mut world = World::with([AccountSpec::setup_token("s"), AccountSpec::oauth("b")])
        .provider("strategy = \"failover\"")
        .start()
        .await;
    world.sim.change("s", &AccountChange { revoke: true, ..AccountChange::default() }).unwrap();
    world.turn("x", false).await.served_by("b");
    out(&world, "s", "invalid_token").await;
    world.restart().await;
    out(&world, "s", "invalid_token").await;
    let asked = world.hits("s");
    world.turn("y", false).await.served_by("b");
    assert_eq!(world.hits("s"), asked);
    let change = AccountChange { log_in: true, ..AccountChange::default() };
    let token = world.sim.change("s", &change).unwrap().credentials.token;
    world.set_var("SECRET_OF_S", &token);
    world.restart().await;
    world.turn("z", false).await.served_by("s");
    assert_eq!(world.account("s").await.state, "healthy");
}

#[tokio::test]
async fn an_account_that_needed_a_login_and_got_one_while_nobody_ran_serves_again() {
    let mut world = in_order(&["a", "b"]).await;
    world.sim.change("a", &AccountChange { revoke: true, ..AccountChange::default() }).unwrap();
    world.advance(9 * 3600);
    // Both tokens have ended; the other one is renewed by a person.
    world.sim.change("b", &AccountChange { log_in: true, ..AccountChange::default() }).unwrap();
    world.write_login("b", &world.home.path().join("b.json"));
    eventually_served(&world, "b").await;
    world.until("a", |account| account.needs_login).await;
    world.restart().await;
    assert!(world.account("a").await.needs_login, "it is remembered");
    world.turn("s", false).await.served_by("b");
    world
        .restart_after(|world| {
            world.sim.change("a", &AccountChange { log_in: true, ..AccountChange::default() }).unwrap();
            world.write_login("a", &world.home.path().join("a.json"));
        })
        .await;
    world.turn("new", false).await.served_by("a");
    assert!(!world.account("a").await.needs_login);
}

async fn eventually_served(world: &World, name: &str) {
    for nth in 0..500 {
        let turn = world.turn(&format!("warm-{nth}"), false).await;
        if turn.status == 200 && turn.account() == name {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{name} does not serve");
}

#[tokio::test]
async fn a_secret_that_could_not_be_had_and_is_there_at_the_next_start_is_used() {
    let mut world = in_order(&["a", "b"]).await;
    let file = world.home.path().join("a.json");
    world.restart_after(|_| std::fs::write(&file, "").unwrap()).await;
    world.until("a", |account| account.state == "broken").await;
    world.restart().await;
    assert_eq!(world.account("a").await.state, "broken");
    world.turn("s", false).await.served_by("b");
    let whole = login(&world.sim, "a").to_string();
    world.restart_after(|_| std::fs::write(&file, whole).unwrap()).await;
    world.turn("t", false).await.served_by("a");
    assert_eq!(world.account("a").await.state, "healthy");
}

/// Case C43: figures of before send an account to the end of the line, and never make a refusal of our own.
#[tokio::test]
async fn c43_figures_that_were_kept_are_no_reason_to_refuse_by_ourselves() {
    let mut world = World::logins(&["a"]).await;
    world.sim.set_used("a", SimWindow::SevenDays, 0.98).unwrap();
    world.turn("s", false).await.served_by("a");
    world.restart_after(|world| world.advance(3600)).await;
    assert!(world.account("a").await.near_quota, "they are kept");
    world.sim.set_used("a", SimWindow::SevenDays, 0.1).unwrap();
    world.turn("t", false).await.served_by("a");
    assert!(!world.account("a").await.near_quota, "and the answer replaced them");
}

/// Case C43, with a cap of the operator's, which does refuse: another plan's figures say nothing of the new one's.
#[tokio::test]
async fn c43_a_login_with_another_plan_forgets_what_the_old_one_had_used() {
    for running in [true, false] {
        let mut world = World::with([AccountSpec::oauth("a")]).account("a", "max_utilization = 0.9").start().await;
        world.sim.set_used("a", SimWindow::SevenDays, 0.98).unwrap();
        world.turn("s", false).await.served_by("a");
        world.until("a", |account| account.capped).await;
        let asked = world.hits("a");
        assert_eq!(world.turn("t", false).await.status, 429);
        world.restart().await;
        assert_eq!((world.turn("u", false).await.status.as_u16(), world.hits("a")), (429, asked), "a cap is a cap");
        let log_in_again = |world: &World| {
            world.sim.change("a", &AccountChange { log_in: true, ..AccountChange::default() }).unwrap();
            world.sim.set_used("a", SimWindow::SevenDays, 0.2).unwrap();
            let mut larger = login(&world.sim, "a");
            larger["claudeAiOauth"]["subscriptionType"] = json!("max_20x");
            std::fs::write(world.home.path().join("a.json"), larger.to_string()).unwrap();
        };
        if running {
            log_in_again(&world);
            world.until("a", |account| !account.capped).await;
        } else {
            world.restart_after(log_in_again).await;
        }
        world.turn("v", false).await.served_by("a");
    }
}

/// Case C43: an operator who knows better says so.
#[tokio::test]
async fn c43_a_clear_forgets_the_figures_behind_a_cap() {
    let mut world = World::with([AccountSpec::oauth("a")]).account("a", "max_utilization = 0.9").start().await;
    world.sim.set_used("a", SimWindow::SevenDays, 0.98).unwrap();
    world.turn("s", false).await.served_by("a");
    world.until("a", |account| account.capped).await;
    world.restart_after(|world| drop(world.sim.set_used("a", SimWindow::SevenDays, 0.2).unwrap())).await;
    assert_eq!(world.turn("t", false).await.status, 429);
    assert_eq!(got(world.control("POST", "/admin/api/accounts/a/clear")).await.status, 200);
    world.turn("u", false).await.served_by("a");
}

/// Case C110: whatever lies where the store should be, the gateway starts, and every byte of it is kept.
#[tokio::test]
async fn c110_a_store_that_cannot_be_used_is_put_aside_and_the_gateway_serves() {
    for broken in [&b""[..], b"{\"accounts\": [", &[0x5a; 9000]] {
        let mut world = in_order(&["a", "b"]).await;
        world.sim.fault(FaultRule::standing("a", Fault::Unauthorized));
        world.turn("s", false).await.served_by("b");
        out(&world, "a", "invalid_token").await;
        world.sim.clear_faults(None);
        let home = world.home.path().to_owned();
        world
            .restart_after(|_| {
                std::fs::write(home.join("state.db"), broken).unwrap();
            })
            .await;
        let told = eventually(|| world.events.of("store_set_aside").pop()).await;
        let kept_at = told["kind"]["kept_at"].as_str().unwrap().to_owned();
        assert!(kept_at.starts_with(home.join("state.db.corrupt-").to_str().unwrap()), "{kept_at}");
        assert!(std::fs::read(&kept_at).unwrap() == broken, "byte for byte");
        assert_eq!(told["severity"], "error");
        world.turn("t", false).await.served_by("a");
        let mode = std::fs::metadata(home.join("state.db")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        world.restart().await;
        assert_eq!(world.events.of("store_set_aside").len(), 1, "the new one is good");
        world.turn("t", false).await.served_by("a");
    }
}
