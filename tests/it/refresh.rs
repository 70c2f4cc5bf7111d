//! Refresh storms: one login, many requests, several processes, and a refresh token that may be used once; each with
//! logins in files of another program, and sealed in our own store.

mod processes;

use std::fs::File;
use std::time::Duration;

use duduclaw::sim::{AccountChange, AccountSpec, Endpoint, Fault, FaultRule, Record};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::storm::{Seen, all_served, calm, requests, send, storm};
use crate::support::{Kept, World, eventually};

/// How long an access token of the simulator lives, in seconds.
const LIFE: u64 = 8 * 3600;

/// The calls of the token endpoint, by status.
fn exchanges(world: &World, status: u16) -> usize {
    let calls = world.sim.log().into_iter().filter(|record| record.endpoint == Endpoint::Token);
    calls.filter(|record| record.status == Some(status)).count()
}

async fn slow_to_renew(kept: Kept, names: &[&str]) -> World {
    let world = World::with(names.iter().map(|name| AccountSpec::oauth(name))).kept(kept).start().await;
    world.sim.set_token_delay(300);
    world
}

/// This many requests of as many sessions at once.
async fn at_once(world: &World, count: usize) -> Vec<Seen> {
    storm(count, requests(world, count), |_| ()).await
}

fn is_exchange(record: &Record) -> bool {
    record.endpoint == Endpoint::Token
}

macro_rules! in_files_and_sealed {
    ($($name:ident)*) => {
        mod in_files {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Kept::InFiles).await;
            })*
        }
        mod sealed {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Kept::Sealed).await;
            })*
        }
    };
}

in_files_and_sealed! {
    a_hundred_requests_on_an_expired_token_refresh_it_once
    a_refresh_that_fails_once_is_tried_again_and_nobody_is_logged_out
    a_token_that_ends_in_the_middle_of_a_storm_is_never_noticed_by_a_client
    fifty_refusals_of_a_token_refresh_it_once
    clients_that_hang_up_during_a_refresh_lose_nothing
    a_dead_refresh_token_is_sent_once_and_a_new_login_is_used_without_a_restart
    a_foreign_lock_delays_nobody_who_has_another_account
    a_refusal_moves_on_at_once_while_a_login_is_locked
    a_refused_token_that_cannot_be_renewed_just_now_moves_the_request_and_blames_nobody
    a_hiccup_of_the_token_endpoint_after_a_refusal_leaves_the_account_in_the_pool
    a_hiccup_of_the_token_endpoint_is_never_a_401_for_the_client
}

/// C30: twenty requests and more, one expiry, one refresh; the rotated token is on disk for its owner alone.
async fn a_hundred_requests_on_an_expired_token_refresh_it_once(kept: Kept) {
    let world = slow_to_renew(kept, &["a"]).await;
    world.advance(LIFE + 60);
    let seen = at_once(&world, 100).await;
    all_served(&seen);
    assert_eq!((exchanges(&world, 200), exchanges(&world, 400)), (1, 0));
    let held = world.sim.credentials("a").unwrap();
    let login = world.login_on_disk("a");
    assert_eq!(login["claudeAiOauth"]["refreshToken"], json!(held.refresh_token));
    assert_eq!(login["claudeAiOauth"]["accessToken"], json!(held.token));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(world.login_file("a")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!world.account("a").await.needs_login);
    calm(&world).await;
}

/// C30: a failed refresh releases whoever waits, and does not poison later attempts.
async fn a_refresh_that_fails_once_is_tried_again_and_nobody_is_logged_out(kept: Kept) {
    let world = slow_to_renew(kept, &["a"]).await;
    // Late enough that all twenty wait for it: who comes while the account rests is refused.
    let late = FaultRule::next("a", 1, Fault::ServerError).and(Fault::DelayHead { millis: 3_000 });
    world.sim.fault(late.on(Endpoint::Token));
    world.advance(LIFE + 60);
    let asked = at_once(&world, 20);
    let clock = world.clock.clone();
    let failed = world.events.wait_for("refresh_failed");
    let (seen, _) = tokio::join!(asked, async {
        failed.await;
        clock.advance(Duration::from_secs(60));
    });
    all_served(&seen);
    assert_eq!((exchanges(&world, 500), exchanges(&world, 200)), (1, 1));
    assert_eq!(world.until_state("a", "healthy").await.cause, None);
}

async fn a_token_that_ends_in_the_middle_of_a_storm_is_never_noticed_by_a_client(kept: Kept) {
    let world = slow_to_renew(kept, &["a", "b"]).await;
    let clock = world.clock.clone();
    let step = move |done: usize| {
        if done.is_multiple_of(50) {
            clock.advance(Duration::from_secs(LIFE / 2));
        }
    };
    let seen = storm(32, requests(&world, 300), step).await;
    all_served(&seen);
    assert_eq!(exchanges(&world, 400), 0);
    assert!((2..=8).contains(&exchanges(&world, 200)), "{} refreshes in three lives", exchanges(&world, 200));
    for name in ["a", "b"] {
        assert!(!world.account(name).await.needs_login);
    }
    calm(&world).await;
}

/// The provider takes a token back before its time: fifty refusals, one refresh.
async fn fifty_refusals_of_a_token_refresh_it_once(kept: Kept) {
    let world = slow_to_renew(kept, &["a"]).await;
    let change = AccountChange { expire_tokens: true, ..AccountChange::default() };
    world.sim.change("a", &change).unwrap();
    let seen = at_once(&world, 50).await;
    all_served(&seen);
    assert_eq!((exchanges(&world, 200), exchanges(&world, 400)), (1, 0));
    assert_eq!(world.account("a").await.state, "healthy");
    assert!(world.messages().len() <= 100, "each at most twice");
    calm(&world).await;
}

async fn clients_that_hang_up_during_a_refresh_lose_nothing(kept: Kept) {
    let world = slow_to_renew(kept, &["a"]).await;
    world.advance(LIFE + 60);
    let mut clients = JoinSet::new();
    for (mark, request) in requests(&world, 10).into_iter().enumerate() {
        clients.spawn(send(mark, request));
    }
    timeout(Duration::from_secs(10), world.sim.until(|log| log.iter().any(is_exchange))).await.unwrap();
    clients.shutdown().await;
    let renewed = || {
        let rotated = world.sim.credentials("a").unwrap().refresh_token;
        (world.login_on_disk("a")["claudeAiOauth"]["refreshToken"] == json!(rotated)).then_some(())
    };
    eventually(renewed).await;
    all_served(&at_once(&world, 5).await);
    assert_eq!((exchanges(&world, 200), exchanges(&world, 400)), (1, 0));
    calm(&world).await;
}

/// C34: a dead refresh token is sent once, whatever asks; the login that replaces it in the file is used at once.
async fn a_dead_refresh_token_is_sent_once_and_a_new_login_is_used_without_a_restart(kept: Kept) {
    let world = slow_to_renew(kept, &["a"]).await;
    world.sim.change("a", &AccountChange { revoke: true, ..AccountChange::default() }).unwrap();
    world.advance(LIFE + 60);
    for mark in 0..10 {
        let seen = send(mark, world.ask("s", "[[say: hi]]", mark % 2 == 0)).await;
        assert_eq!(seen.status, Some(503), "only a person can help: {seen:?}");
        world.advance(180);
    }
    assert_eq!((exchanges(&world, 400), exchanges(&world, 200)), (1, 0));
    assert!(world.account("a").await.needs_login);
    assert!(world.events.of("hold_began").is_empty(), "nothing was sent, so nothing is held against it");
    let change = AccountChange { log_in: true, ..AccountChange::default() };
    let held = world.sim.change("a", &change).unwrap().credentials;
    let login = json!({"claudeAiOauth": {
        "accessToken": held.token, "refreshToken": held.refresh_token, "expiresAt": held.expires_at,
        "scopes": ["user:inference"], "subscriptionType": "max",
    }});
    std::fs::write(world.login_file("a"), login.to_string()).unwrap();
    until_served(&world).await;
    assert_eq!(exchanges(&world, 400), 1);
    assert!(!world.account("a").await.needs_login);
}

async fn until_served(world: &World) {
    for mark in 0..400 {
        if send(mark, world.ask("s", "[[say: hi]]", true)).await.is_whole() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the new login is not used");
}

/// C41: another program holds the lock on a login for long; whoever has another account is served there meanwhile.
async fn a_foreign_lock_delays_nobody_who_has_another_account(kept: Kept) {
    let world = slow_to_renew(kept, &["a", "b"]).await;
    // The second login lives longer: only the first needs the lock.
    world.advance(LIFE - 200);
    all_served(&[send(0, world.ask("warm-b", "[[say: hi]]", true)).await]);
    eventually(|| (exchanges(&world, 200) >= 1).then_some(())).await;
    let lock = lock_of(&world.login_file("a"));
    world.advance(LIFE + 60);
    let seen = timeout(Duration::from_secs(8), at_once(&world, 40)).await.expect("nobody waits for the lock");
    all_served(&seen);
    assert!(seen.iter().all(|seen| seen.account.as_deref() == Some("b")));
    let again = timeout(Duration::from_secs(1), at_once(&world, 20)).await;
    all_served(&again.expect("once it is known to be blocked nobody waits at all"));
    drop(lock);
    until_served_by(&world, "a").await;
    assert_eq!(exchanges(&world, 400), 0);
}

fn lock_of(login: &std::path::Path) -> File {
    let mut name = login.as_os_str().to_owned();
    name.push(".duduclaw.lock");
    let lock = File::options().create(true).truncate(false).write(true).open(name).unwrap();
    lock.lock().unwrap();
    lock
}

async fn until_served_by(world: &World, name: &str) {
    for mark in 0..1000 {
        let seen = send(mark, world.ask(&format!("again-{mark}"), "[[say: hi]]", true)).await;
        if seen.account.as_deref() == Some(name) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} serves no more");
}

/// C41: a refusal moves the request within a second while the login's file is locked by another program.
async fn a_refusal_moves_on_at_once_while_a_login_is_locked(kept: Kept) {
    let world = World::with(["a", "b"].map(AccountSpec::oauth)).kept(kept).start().await;
    let locks = ["a", "b"].map(|name| lock_of(&world.login_file(name)));
    world.sim.fault(FaultRule::next("a", 1, Fault::Quota5h { resets_in: None }).for_all());
    let seen = timeout(Duration::from_secs(1), send(0, world.ask("s", "[[say: hi]]", true))).await.expect("at once");
    assert!(seen.is_whole(), "{seen:?}");
    assert_eq!(world.messages().len(), 2);
    drop(locks);
}

fn take_back(world: &World, name: &str) {
    let change = AccountChange { expire_tokens: true, ..AccountChange::default() };
    world.sim.change(name, &change).unwrap();
}

/// C41, after a 401: the token is refused, its renewal is blocked by another program, and another account is there.
async fn a_refused_token_that_cannot_be_renewed_just_now_moves_the_request_and_blames_nobody(kept: Kept) {
    let world = slow_to_renew(kept, &["a", "b"]).await;
    let lock = lock_of(&world.login_file("a"));
    take_back(&world, "a");
    let seen = timeout(Duration::from_secs(8), at_once(&world, 40)).await.expect("nobody waits for the lock");
    all_served(&seen);
    assert!(seen.iter().all(|seen| seen.account.as_deref() == Some("b")));
    assert_eq!(world.account("a").await.state, "healthy", "its refresh was never refused");
    drop(lock);
    until_served_by(&world, "a").await;
    assert_eq!((exchanges(&world, 200), exchanges(&world, 400)), (1, 0));
    calm(&world).await;
}

/// C32: the token endpoint hiccups while a refused token is to be renewed.
async fn a_hiccup_of_the_token_endpoint_after_a_refusal_leaves_the_account_in_the_pool(kept: Kept) {
    let world = slow_to_renew(kept, &["a", "b"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::ServerError).on(Endpoint::Token));
    take_back(&world, "a");
    all_served(&at_once(&world, 20).await);
    assert_eq!(world.account("a").await.state, "healthy");
    world.advance(120);
    until_served_by(&world, "a").await;
    assert_eq!((exchanges(&world, 500), exchanges(&world, 200)), (1, 1));
}

/// C32, without another account: the client is told to come again, and never that it is logged out.
async fn a_hiccup_of_the_token_endpoint_is_never_a_401_for_the_client(kept: Kept) {
    let world = slow_to_renew(kept, &["a"]).await;
    world.sim.fault(FaultRule::next("a", 1, Fault::ServerError).on(Endpoint::Token));
    take_back(&world, "a");
    let seen = send(0, world.ask("s", "[[say: hi]]", true)).await;
    assert_eq!(seen.status, Some(502), "{seen:?}");
    world.advance(120);
    assert!(send(1, world.ask("s", "[[say: hi]]", true)).await.is_whole());
    assert!(world.events.of("hold_began").is_empty());
}
