//! Every actor is made to panic under load: no request is lost, no allowance leaks, no hold is forgotten, conversations
//! stay where they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use duduclaw::sim::{AccountSpec, Fault, FaultRule};
use duduclaw_actors::ports::{ActorKind, Heartbeat};

use crate::storm::{all_served, calm, mark_of, requests, send, storm};
use crate::support::{World, eventually};

const ALL: [ActorKind; 5] = [
    ActorKind::Account,
    ActorKind::FailoverManager,
    ActorKind::ActivityFeed,
    ActorKind::Journal,
    ActorKind::AccountSupervisor,
];

/// Panics at some of the beats of the actors it is armed for.
#[derive(Default)]
struct Heart {
    armed: Mutex<BTreeMap<ActorKind, Plan>>,
    deaths: AtomicU32,
}

struct Plan {
    every: u32,
    beats: u32,
    left: u32,
}

impl Heart {
    /// So many deaths, one after every so many messages.
    fn arm(&self, kind: ActorKind, deaths: u32, every: u32) {
        self.armed.lock().unwrap().insert(kind, Plan { every, beats: 0, left: deaths });
    }

    fn deaths(&self) -> u32 {
        self.deaths.load(Ordering::SeqCst)
    }
}

impl Heartbeat for Heart {
    fn beat(&self, actor: ActorKind) {
        let due = {
            let mut armed = self.armed.lock().unwrap();
            armed.get_mut(&actor).is_some_and(|plan| {
                plan.beats += 1;
                let due = plan.left > 0 && plan.beats.is_multiple_of(plan.every);
                plan.left -= u32::from(due);
                due
            })
        };
        if due {
            self.deaths.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new(format!("a {} is made to die", actor.as_str())));
        }
    }
}

async fn world(heart: &Arc<Heart>, names: &[&str]) -> World {
    let accounts = names.iter().map(|name| AccountSpec::oauth(name));
    let ramp = "[server.pool]\nramp_initial_concurrency = 4";
    World::with(accounts).tables(ramp).heart(Arc::clone(heart) as _).start().await
}

async fn storm_with_deaths_of(kind: ActorKind, every: u32) {
    let heart = Arc::new(Heart::default());
    let world = world(&heart, &["a", "b", "c"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::Quota5h { resets_in: None }).after(30));
    heart.arm(kind, 8, every);
    let seen = storm(48, requests(&world, 240), |_| ()).await;
    all_served(&seen);
    assert!(heart.deaths() >= 2, "only {} deaths", heart.deaths());
    let marks: HashSet<usize> = world.messages().iter().filter_map(mark_of).collect();
    assert_eq!(marks.len(), 240);
    assert_eq!(world.until_state("a", "rate_limited").await.cause.as_deref(), Some("quota"));
    calm(&world).await;
    let restarts = || world.events.of("actor_restarted").len();
    eventually(|| (restarts() >= heart.deaths() as usize).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dying_accounts_cost_nothing() {
    storm_with_deaths_of(ActorKind::Account, 25).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dying_failover_manager_costs_nothing() {
    storm_with_deaths_of(ActorKind::FailoverManager, 150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dying_feed_costs_nothing_and_tells_every_request_once() {
    let heart = Arc::new(Heart::default());
    let world = world(&heart, &["a", "b"]).await;
    heart.arm(ActorKind::ActivityFeed, 10, 40);
    let seen = storm(32, requests(&world, 200), |_| ()).await;
    all_served(&seen);
    eventually(|| (world.events.of("request_ended").len() >= 200).then_some(())).await;
    assert_eq!(heart.deaths(), 10);
    let told: Vec<u64> = world.events.all().iter().map(|event| event.seq).collect();
    assert_eq!(told, (1..=told.len() as u64).collect::<Vec<_>>(), "numbers follow each other");
    assert_eq!(world.events.of("request_ended").len(), 200);
    calm(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_dying_at_once_costs_nothing() {
    let heart = Arc::new(Heart::default());
    let world = world(&heart, &["a", "b", "c"]).await;
    world.sim.fault(FaultRule::standing("a", Fault::Quota5h { resets_in: None }).after(30));
    for (kind, every) in ALL.into_iter().zip([25, 100, 60, 1, 1]) {
        heart.arm(kind, 4, every);
    }
    let running = world.running.as_ref().unwrap();
    let (fleet, roster) = (running.gateway.fleet.clone(), running.gateway.fleet.roster());
    let reloads = tokio::spawn(async move {
        // Each reload is a message to the accounts' supervisor, which dies of it.
        for _ in 0..6 {
            fleet.reload(roster.as_ref().clone()).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let seen = storm(48, requests(&world, 240), |_| ()).await;
    reloads.await.unwrap();
    all_served(&seen);
    assert!(heart.deaths() >= 8, "only {} deaths", heart.deaths());
    assert_eq!(world.until_state("a", "rate_limited").await.cause.as_deref(), Some("quota"));
    calm(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_stay_where_they_are_through_every_death() {
    let heart = Arc::new(Heart::default());
    let world = world(&heart, &["a", "b", "c", "d"]).await;
    let homes = homes_of(&world).await;
    for kind in ALL {
        heart.arm(kind, 2, 1);
    }
    let gateway = &world.running.as_ref().unwrap().gateway;
    gateway.fleet.reload(gateway.fleet.roster().as_ref().clone()).await.unwrap();
    let after = homes_of(&world).await;
    assert!(heart.deaths() >= 8, "only {} deaths", heart.deaths());
    assert_eq!(after, homes);
    assert!(world.events.of("conversation_moved").is_empty());
}

/// Which account serves each of forty sessions.
async fn homes_of(world: &World) -> HashMap<usize, Option<String>> {
    let ask = |n: usize| world.ask(&format!("home-{n}"), "[[say: hi]]", true);
    let seen = storm(8, (0..40).map(ask).collect(), |_| ()).await;
    all_served(&seen);
    seen.into_iter().map(|seen| (seen.mark, seen.account)).collect()
}

#[tokio::test]
async fn a_refusal_whose_account_dies_over_it_is_still_a_hold() {
    let heart = Arc::new(Heart::default());
    let world = world(&heart, &["a", "b"]).await;
    for round in 0..6 {
        for name in ["a", "b"] {
            world.sim.fault(FaultRule::next(name, 1, Fault::Quota5h { resets_in: Some(3600) }));
        }
        heart.arm(ActorKind::Account, 3, 1);
        let refused = send(round, world.ask("", "[[say: hi]]", false)).await;
        assert_eq!(refused.status, Some(429), "{refused:?}");
        for name in ["a", "b"] {
            world.until_state(name, "rate_limited").await;
        }
        // Its hold ends by an alarm that a dead incarnation had set.
        world.advance(3700);
        for name in ["a", "b"] {
            world.until_state(name, "healthy").await;
        }
    }
    eventually(|| (world.events.of("hold_began").len() >= 12).then_some(())).await;
    assert_eq!(world.events.of("hold_began").len(), 12, "each is told once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_whose_children_are_killed_starts_them_again() {
    let heart = Arc::new(Heart::default());
    let world = world(&heart, &["a", "b"]).await;
    let fleet = world.running.as_ref().unwrap().gateway.fleet.clone();
    let killer = tokio::spawn(async move {
        for _ in 0..4 {
            for child in fleet.root().get_children() {
                child.get_children().iter().for_each(|account| account.kill());
                tokio::task::yield_now().await;
                child.kill();
                tokio::task::yield_now().await;
            }
            fleet.failover.snapshot().await.unwrap();
            for child in fleet.root().get_children() {
                child.stop(None);
            }
            fleet.failover.snapshot().await.unwrap();
        }
    });
    let seen = storm(32, requests(&world, 200), |_| ()).await;
    killer.await.unwrap();
    all_served(&seen);
    assert!(world.events.of("actor_restarted").len() >= 8);
    calm(&world).await;
}
