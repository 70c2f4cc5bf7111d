//! Load: many clients while an account refuses, while streams are cut, while the allowance ramps up.

use std::collections::{HashMap, HashSet};

use duduclaw::sim::{AccountSpec, Fault, FaultRule, Record};

use crate::storm::{Seen, all_served, calm, mark_of, requests, storm};
use crate::support::World;

/// How many requests an account refused that were under way together, and how many that began when the first of them
/// was served already: by then everybody knew.
fn refusals(seen: &[Seen], records: &[Record]) -> (usize, usize) {
    let marks: HashSet<usize> = records.iter().filter(|r| r.status == Some(429)).filter_map(mark_of).collect();
    let refused: Vec<&Seen> = seen.iter().filter(|seen| marks.contains(&seen.mark)).collect();
    let known = refused.iter().map(|seen| seen.ended).min().expect("it refused somebody");
    let together = refused.iter().filter(|seen| seen.began <= known).count();
    (together, refused.len() - together)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_loses_nothing_when_an_account_begins_to_refuse() {
    let world = World::logins(&["a", "b", "c"]).await;
    // Three accounts share the load: about the five hundredth request of all.
    world.sim.fault(FaultRule::standing("a", Fault::Quota5h { resets_in: None }).after(167));
    let seen = storm(64, requests(&world, 2000), |_| ()).await;
    all_served(&seen);
    let records = world.messages();
    let marks: HashSet<usize> = records.iter().filter_map(mark_of).collect();
    assert_eq!(marks.len(), 2000);
    assert_eq!(world.until_state("a", "rate_limited").await.cause.as_deref(), Some("quota"));
    calm(&world).await;
    let (in_flight, later) = refusals(&seen, &records);
    let extra = records.len() - 2000;
    assert!(extra <= in_flight + 3, "{extra} attempts too many: {in_flight} in flight, {later} began later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ramp_under_a_storm_leaves_no_slot_taken() {
    let world = World::with(["a", "b"].map(AccountSpec::oauth))
        .tables("[server.pool]\nramp_initial_concurrency = 2")
        .start()
        .await;
    world.sim.fault(FaultRule::next("a", 3, Fault::Overloaded { retry_after: None }).after(40));
    let seen = storm(32, requests(&world, 200), |_| ()).await;
    all_served(&seen);
    calm(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_again_once_a_byte_has_reached_the_client() {
    let world = World::logins(&["a", "b", "c"]).await;
    let cuts = [
        Fault::CutAfter { events: 1 },
        Fault::ResetAfter { events: 3 },
        Fault::CutAfter { events: 5 },
        Fault::ErrorEventAfter { events: 4, kind: "overloaded_error".to_owned() },
        Fault::FirstEventError { kind: "overloaded_error".to_owned() },
        Fault::ResetBeforeHead,
    ];
    for (turn, cut) in (0..).zip(cuts) {
        world.sim.fault(FaultRule::next("a", 8, cut).for_all().after(turn));
    }
    // As many sessions as requests, so that every account stays in use.
    let seen = storm(48, requests(&world, 300), |_| ()).await;
    let mut sent: HashMap<usize, Vec<Record>> = HashMap::new();
    for record in world.messages() {
        sent.entry(mark_of(&record).expect("all are marked")).or_default().push(record);
    }
    let cut: Vec<_> = seen.iter().filter(|s| s.status == Some(200) && !s.body.is_empty() && !s.is_whole()).collect();
    assert!(cut.len() >= 10, "only {} were cut under the client's eyes", cut.len());
    for client in seen.iter().filter(|s| s.status == Some(200) && !s.body.is_empty()) {
        let posts = &sent[&client.mark];
        let first_good = posts.iter().position(|r| r.status == Some(200) && client.body_began_with(r));
        assert_eq!(first_good, Some(posts.len() - 1), "request {} was sent again: {posts:#?}", client.mark);
    }
    for client in cut.iter().filter(|s| s.mark % 3 != 0) {
        assert!(client.body.contains("event: error"), "a cut stream ends with an error event: {}", client.body);
    }
    calm(&world).await;
}
