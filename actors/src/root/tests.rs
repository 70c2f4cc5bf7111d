//! Actors that die, at the worst moments, and what is left of what they knew.

mod restarts;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::*;
use crate::clock::{Clock, Deadline, ManualClock};
use crate::event::{Event, EventKind};
use crate::failover::Leased;
use crate::failover::demand::{BindsThinking, Demand, Spent, Step, Via};
use crate::id::{
    ConversationKey, CredentialKind, EntryId, Family, Generation, IdentityKey, LeaseId, ModelScope, Principal,
    UpstreamId,
};
use crate::outcome::{CallKind, Evidence, HoldScope, Outcome, QuotaReading, QuotaRefusal};
use crate::ports::{ActorKind, Batch, Opened, Pruned, Record, Store, StoreError};
use crate::roster::{Cap, PoolSettings, RotationSettings, Strategy, Switch, UpstreamSpec, WindowCaps, WindowLimits};
use crate::rows::{EventQuery, EventRow, Retention, SpentRow, UsageQuery, UsageSum};

const A: AccountId = AccountId(0);
const B: AccountId = AccountId(1);

/// Panics at a beat of the kind it is armed for.
#[derive(Default)]
struct Heart {
    armed: Mutex<BTreeMap<ActorKind, u32>>,
    deaths: AtomicU32,
}

impl Heart {
    fn arm(&self, kind: ActorKind, deaths: u32) {
        self.armed.lock().unwrap().insert(kind, deaths);
    }

    fn deaths(&self) -> u32 {
        self.deaths.load(Ordering::SeqCst)
    }
}

impl Heartbeat for Heart {
    fn beat(&self, actor: ActorKind) {
        let due = {
            let mut armed = self.armed.lock().unwrap();
            armed.get_mut(&actor).filter(|left| **left > 0).map(|left| *left -= 1).is_some()
        };
        if due {
            self.deaths.fetch_add(1, Ordering::SeqCst);
            // Past the hook: nobody wants to read of it.
            std::panic::resume_unwind(Box::new(format!("a {} is made to die", actor.as_str())));
        }
    }
}

type Records = BTreeMap<(Table, String), (u32, Vec<u8>)>;

#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Records>>);

impl Shelf {
    fn opener(&self) -> OpenStore {
        let shelf = self.clone();
        Arc::new(move || Ok(Opened::from(shelf.clone())))
    }
}

impl Store for Shelf {
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError> {
        let all = self.0.lock().unwrap();
        let of_table = all.iter().filter(|((found, _), _)| *found == table);
        Ok(of_table
            .map(|((_, key), (v, value))| Record { key: key.clone(), version: *v, value: value.clone() })
            .collect())
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut all = self.0.lock().unwrap();
        for write in &batch.records {
            match &write.value {
                Some(value) => all.insert((write.table, write.key.clone()), value.clone()),
                None => all.remove(&(write.table, write.key.clone())),
            };
        }
        Ok(())
    }

    fn spent(&mut self) -> Result<Vec<SpentRow>, StoreError> {
        Ok(Vec::new())
    }

    fn usage(&mut self, _: &UsageQuery) -> Result<Vec<UsageSum>, StoreError> {
        Ok(Vec::new())
    }

    fn events(&mut self, _: &EventQuery) -> Result<Vec<EventRow>, StoreError> {
        Ok(Vec::new())
    }

    fn prune(&mut self, _: &Retention) -> Result<Pruned, StoreError> {
        Ok(Pruned::All)
    }
}

/// Sees events; panics at the first of a kind that it is told to fear.
#[derive(Clone, Default)]
struct Eyes {
    seen: Arc<Mutex<Vec<(u64, EventKind)>>>,
    fears_started: bool,
}

impl Eyes {
    fn numbers(&self) -> Vec<u64> {
        self.seen.lock().unwrap().iter().map(|(seq, _)| *seq).collect()
    }

    fn count(&self, found: impl Fn(&EventKind) -> bool) -> usize {
        self.seen.lock().unwrap().iter().filter(|(_, kind)| found(kind)).count()
    }
}

impl Observer for Eyes {
    fn observe(&mut self, event: &Event) {
        if self.fears_started && matches!(event.kind, EventKind::Started { .. }) {
            std::panic::resume_unwind(Box::new("an observer is made to panic"));
        }
        self.seen.lock().unwrap().push((event.seq, event.kind.clone()));
    }
}

struct House {
    fleet: Fleet,
    heart: Arc<Heart>,
    clock: Arc<ManualClock>,
    shelf: Shelf,
    eyes: Eyes,
    ended: JoinHandle<()>,
}

impl House {
    async fn of(accounts: u32) -> Self {
        Self::with(accounts, Vec::new()).await
    }

    async fn with(accounts: u32, first_observers: Vec<Box<dyn Observer>>) -> Self {
        let shelf = Shelf::default();
        let open = shelf.opener();
        Self::at(Timestamp::at_millis(1_800_000_000_000), shelf, open, roster(accounts), first_observers).await
    }

    async fn at(
        now: Timestamp,
        shelf: Shelf,
        store: OpenStore,
        roster: Roster,
        first_observers: Vec<Box<dyn Observer>>,
    ) -> Self {
        let (heart, eyes) = (Arc::new(Heart::default()), Eyes::default());
        let clock = Arc::new(ManualClock::at(now));
        let mut observers = first_observers;
        observers.push(Box::new(eyes.clone()));
        let ports = Ports {
            clock: Arc::clone(&clock) as _,
            store,
            keep: Keep::default(),
            observers,
            heartbeat: Arc::clone(&heart) as _,
            courier: Arc::new(crate::postman::Nowhere),
            tasks: TaskTracker::new(),
        };
        let (fleet, ended) = Fleet::start(ports, roster).await.unwrap();
        Self { fleet, heart, clock, shelf, eyes, ended }
    }

    /// The account refuses by quota until ten minutes from now.
    fn refuse(&self, account: AccountId) {
        let now = self.clock.now();
        let until = Some(Deadline::after(now, Duration::from_secs(600)));
        let refusal = QuotaRefusal { scope: HoldScope::Account, windows: Vec::new(), until };
        self.fleet.answered(account, Arc::new(answered(Outcome::Quota(refusal), now)));
    }

    fn is_held(&self, account: AccountId) -> bool {
        let standing = self.fleet.health(account).unwrap().standing(0, EvidenceSeq(0), self.clock.now());
        !standing.holds.is_empty()
    }

    async fn lease(&self, key: u128) -> AccountId {
        match self.fleet.failover.lease(demand(key)).await.unwrap() {
            Leased::Granted(grant, guard) => {
                guard.sent();
                guard.answered(crate::failover::Flow::Stream);
                grant.account
            }
            other @ (Leased::NotBefore(_) | Leased::Exhausted(_)) => panic!("no lease: {other:?}"),
        }
    }

    async fn has_died(&self, times: u32) {
        until(|| self.heart.deaths() >= times).await;
    }
}

async fn until(mut there: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if there() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("it did not come about");
}

fn roster(count: u32) -> Roster {
    let spec = |n: u32| AccountSpec {
        id: AccountId(n),
        identity: IdentityKey::Verified { family: Family::Claude, uuid: format!("u-{n}"), organization: None },
        entry: EntryId { provider: "anthropic".into(), name: format!("a{n}").into() },
        family: Family::Claude,
        kind: CredentialKind::Oauth,
        priority: 100,
        switch: Switch::On,
        thresholds: WindowLimits::all(0.9),
        caps: WindowCaps::default(),
        budget: Cap::default(),
        max_concurrent: None,
    };
    let upstream = UpstreamSpec {
        id: UpstreamId(0),
        name: "anthropic".into(),
        provider: "anthropic".into(),
        family: Family::Claude,
        strategy: Strategy::RoundRobin,
        accounts: (0..count).map(AccountId).collect(),
    };
    Roster {
        revision: 1,
        upstreams: vec![upstream],
        accounts: (0..count).map(|n| (AccountId(n), spec(n))).collect(),
        pool: PoolSettings::default(),
        rotation: RotationSettings::default(),
        ..Roster::default()
    }
}

fn demand(key: u128) -> Demand {
    Demand {
        upstream: UpstreamId(0),
        principal: Arc::new(Principal::default()),
        conversation: Some(ConversationKey(key)),
        parent: None,
        scope: ModelScope::Base,
        call: CallKind::Inference,
        via: Via::Gateway,
        tried: Vec::new(),
        renewing: Vec::new(),
        last: None,
        step: Step::First,
        binds_thinking: BindsThinking::No,
        spent: Spent::default(),
        ask: None,
    }
}

fn answered(outcome: Outcome, now: Timestamp) -> Answered {
    Answered {
        lease: LeaseId(1),
        call: CallKind::Inference,
        scope: ModelScope::Base,
        generation: Generation(1),
        sent_at: now,
        answered_at: now,
        outcome,
        quota: QuotaReading::default(),
        evidence: Evidence::default(),
    }
}

fn began(kind: &EventKind) -> bool {
    matches!(kind, EventKind::HoldBegan { .. })
}

#[tokio::test]
async fn a_refusal_told_to_a_dying_account_is_a_hold_afterwards_and_an_event_once() {
    let house = House::of(2).await;
    house.heart.arm(ActorKind::Account, 3);
    house.refuse(A);
    house.has_died(1).await;
    house.refuse(B);
    house.has_died(3).await;
    until(|| house.is_held(A) && house.is_held(B)).await;
    until(|| house.eyes.count(began) == 2).await;
    until(|| house.eyes.count(|kind| matches!(kind, EventKind::ActorRestarted { .. })) == 3).await;
    assert_eq!(house.eyes.count(began), 2, "each hold was told once");
}

#[tokio::test]
async fn evidence_told_between_a_death_and_the_successors_place_is_not_forgotten() {
    let house = House::of(1).await;
    for round in 0..40 {
        house.heart.arm(ActorKind::Account, 1);
        house.fleet.answered(A, Arc::new(answered(Outcome::Served, house.clock.now())));
        // From its death on, at every moment of its successor's making, someone tells it something.
        let mut last = EvidenceSeq(0);
        let mut told = 0;
        while house.heart.deaths() <= round {
            last = house.fleet.answered(A, Arc::new(answered(Outcome::Served, house.clock.now())));
            tokio::task::yield_now().await;
            told += 1;
            assert!(told < 100_000, "nobody listens");
        }
        until(|| house.fleet.lasting.cells.get(A).unwrap().committed().applied >= last).await;
        house.clock.advance(Duration::from_secs(61));
    }
}

#[tokio::test]
async fn an_observer_that_panics_costs_the_others_no_event_and_shows_them_none_twice() {
    let coward = Eyes { fears_started: true, ..Eyes::default() };
    let house = House::with(1, vec![Box::new(coward.clone())]).await;
    let tell = |kind| {
        let ts = house.clock.now();
        let severity = crate::event::Severity::Info;
        crate::ports::EventSink::emit(
            &house.fleet.feed,
            Event { seq: 0, ts, kind, severity, account: None, evidence: Evidence::default() },
        );
    };
    tell(EventKind::Draining);
    tell(EventKind::Started { addresses: Vec::new() });
    tell(EventKind::ConfigReloaded);
    let is_last = |kind: &EventKind| matches!(kind, EventKind::ConfigReloaded);
    until(|| house.eyes.count(is_last) == 1 && coward.count(is_last) == 1).await;
    assert_eq!(house.eyes.count(|kind| matches!(kind, EventKind::Started { .. })), 1);
    let numbers = house.eyes.numbers();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "consecutive, each once");
}

#[tokio::test]
async fn a_demand_outlives_however_many_deaths_that_are_not_its_own() {
    let house = House::of(1).await;
    let tasks = TaskTracker::new();
    for _ in 0..3 {
        house.heart.arm(ActorKind::FailoverManager, 5);
        let asked: Vec<_> = (0..20).map(demand).collect();
        let leases = asked.into_iter().map(|demand| {
            let failover = house.fleet.failover.clone();
            tasks.spawn(async move { failover.lease(demand).await.unwrap() })
        });
        for lease in leases.collect::<Vec<_>>() {
            assert!(matches!(lease.await.unwrap(), Leased::Granted(..)));
        }
        house.clock.advance(Duration::from_secs(61));
    }
    assert_eq!(house.heart.deaths(), 15);
    assert!(house.fleet.book().is_empty());
}

#[tokio::test]
async fn conversations_survive_when_admission_and_journal_die_together() {
    let house = House::of(8).await;
    let mut homes = Vec::new();
    for key in 0..40 {
        homes.push(house.lease(key).await);
    }
    house.heart.arm(ActorKind::Journal, 2);
    house.heart.arm(ActorKind::FailoverManager, 2);
    house.fleet.failover.snapshot().await.unwrap();
    house.fleet.failover.snapshot().await.unwrap();
    assert!(
        house.fleet.journal.flush().await.is_ok() || house.fleet.journal.load_patiently(Table::Health).await.is_ok()
    );
    until(|| house.heart.deaths() >= 3).await;
    // Others come meanwhile, so that a placement by load would differ.
    for key in 100..130 {
        house.lease(key).await;
    }
    for (key, home) in homes.into_iter().enumerate() {
        assert_eq!(house.lease(key as u128).await, home, "conversation {key}");
    }
}

#[tokio::test]
async fn what_was_told_last_is_written_down_by_a_stop() {
    let house = House::of(1).await;
    let home = house.lease(7).await;
    house.refuse(home);
    house.fleet.stop().await;
    house.ended.await.unwrap();
    let kept = house.shelf.0.lock().unwrap();
    let health = kept.iter().find(|((table, _), _)| *table == Table::Health).expect("its health is kept");
    assert!(String::from_utf8_lossy(&health.1.1).contains("quota"), "{}", String::from_utf8_lossy(&health.1.1));
    assert_eq!(kept.keys().filter(|(table, _)| *table == Table::Conversations).count(), 1);
}

#[tokio::test]
async fn nobody_waits_for_a_fleet_that_has_stopped() {
    let house = House::of(1).await;
    house.fleet.stop().await;
    house.ended.await.unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(5), house.fleet.failover.lease(demand(1)));
    assert!(asked.await.expect("an answer at once").is_err());
    assert!(house.fleet.journal.load_patiently(Table::Health).await.is_err());
    assert!(house.fleet.reload(roster(1)).await.is_err());
}

#[tokio::test]
async fn a_dead_supervisor_is_followed_by_one_that_employs_everybody() {
    let house = House::of(3).await;
    house.refuse(A);
    until(|| house.is_held(A)).await;
    house.heart.arm(ActorKind::AccountSupervisor, 2);
    house.fleet.reload(roster(4)).await.unwrap();
    house.fleet.reload(roster(4)).await.unwrap();
    house.has_died(2).await;
    for account in 0..4 {
        house.refuse(AccountId(account));
    }
    until(|| (0..4).all(|account| house.is_held(AccountId(account)))).await;
}

#[tokio::test]
async fn an_account_never_has_two_actors() {
    let house = House::of(1).await;
    let incarnation = || house.fleet.lasting.directory.handle(A).and_then(|handle| handle.incarnation());
    for death in 1..=4 {
        let before = incarnation();
        house.heart.arm(ActorKind::Account, 1);
        house.refuse(A);
        house.has_died(death).await;
        // A reload while its respawn waits gives it an actor at once; the respawn must find it.
        house.fleet.reload(roster(1)).await.unwrap();
        until(|| incarnation() != before).await;
    }
    let settled = incarnation();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(incarnation(), settled, "a second one took its place");
}

#[tokio::test]
async fn accounts_that_die_again_and_again_come_back_with_another_supervisor() {
    let house = House::of(1).await;
    tokio::time::pause();
    house.heart.arm(ActorKind::Account, 35);
    house.refuse(A);
    tokio::time::sleep(Duration::from_secs(100)).await;
    until(|| house.heart.deaths() == 35).await;
    until(|| house.is_held(A)).await;
    let supervisor =
        |kind: &EventKind| matches!(kind, EventKind::ActorRestarted { actor } if actor == "account_supervisor");
    until(|| house.eyes.count(supervisor) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_by_the_accounts_own_alarm() {
    let house = House::of(1).await;
    house.refuse(A);
    until(|| house.eyes.count(began) == 1).await;
    house.clock.advance(Duration::from_secs(599));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(house.is_held(A));
    house.clock.advance(Duration::from_secs(2));
    until(|| house.eyes.count(|kind| matches!(kind, EventKind::HoldEnded { .. })) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_was_set_by_a_dead_account_is_set_again_by_its_successor() {
    let house = House::of(1).await;
    house.refuse(A);
    until(|| house.eyes.count(began) == 1).await;
    house.heart.arm(ActorKind::Account, 1);
    house.fleet.answered(A, Arc::new(answered(Outcome::Relayed, house.clock.now())));
    house.has_died(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    house.clock.advance(Duration::from_secs(601));
    until(|| house.eyes.count(|kind| matches!(kind, EventKind::HoldEnded { .. })) == 1).await;
}

#[tokio::test]
async fn what_was_delivered_is_seen_at_once_and_lasts_with_the_next_flush() {
    let house = House::of(1).await;
    for (event, word) in [(HealthEvent::Paused, "\"paused\":\"yes\""), (HealthEvent::Resumed, "\"paused\":\"no\"")] {
        house.fleet.deliver(A, Fact::Told(event)).await.unwrap();
        let standing = house.fleet.health(A).unwrap().standing(0, EvidenceSeq(0), house.clock.now());
        assert_eq!(standing.paused == crate::standing::Paused::Yes, event == HealthEvent::Paused);
        let usable = house.fleet.failover.snapshot().await.unwrap().has_usable();
        assert_eq!(usable, event == HealthEvent::Resumed, "admission knows it too");
        house.fleet.journal.flush().await.unwrap();
        let kept = house.shelf.0.lock().unwrap();
        let health = kept.iter().find(|((table, _), _)| *table == Table::Health).expect("its health is kept");
        assert!(String::from_utf8_lossy(&health.1.1).contains(word));
    }
}

#[tokio::test]
async fn whoever_delivers_to_a_dying_account_waits_for_its_successor() {
    let house = House::of(1).await;
    for _ in 0..10 {
        house.heart.arm(ActorKind::Account, 2);
        house.fleet.answered(A, Arc::new(answered(Outcome::Served, house.clock.now())));
        house.fleet.deliver(A, Fact::Told(HealthEvent::Paused)).await.unwrap();
        let standing = house.fleet.health(A).unwrap().standing(0, EvidenceSeq(0), house.clock.now());
        assert_eq!(standing.paused, crate::standing::Paused::Yes);
        house.clock.advance(Duration::from_secs(61));
    }
}

#[tokio::test]
async fn nothing_is_delivered_to_a_stranger_or_after_the_end() {
    let house = House::of(1).await;
    let told = |account| house.fleet.deliver(account, Fact::Told(HealthEvent::Paused));
    assert_eq!(told(B).await, Err(Undelivered::Unknown));
    house.fleet.stop().await;
    house.ended.await.unwrap();
    assert_eq!(told(A).await, Err(Undelivered::Stopped));
}
