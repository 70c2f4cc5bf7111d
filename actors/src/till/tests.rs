//! What is paid, and what a run that died leaves to the next.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::*;
use crate::clock::{ManualClock, Wall};
use crate::failover::demand::{BindsThinking, Demand, Remedy, Spent, Step, Via};
use crate::failover::{LeaseGuard, Leased};
use crate::id::{CredentialKind, Family, IdentityKey, ModelScope, UpstreamId};
use crate::journal::Keep;
use crate::outcome::CallKind;
use crate::ports::{ActorKind, Batch, Heartbeat, Opened, Pruned, Record, Store, StoreError};
use crate::price::{Picos, Price, Priced, Rates};
use crate::root::{Fleet, Ports};
use crate::roster::{AccountSpec, Cap, Roster, Strategy, Switch, UpstreamSpec, WindowCaps, WindowLimits};
use crate::rows::{EventQuery, EventRow, Retention, SpentRow, UsageQuery, UsageSum};

const A: AccountId = AccountId(0);
const HOUR: Duration = Duration::from_secs(3600);
const MONTH: &str = "2027-01-01";

/// What outlives a run.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Shelved>>);

#[derive(Default)]
struct Shelved {
    records: BTreeMap<(Table, String), Vec<u8>>,
    rows: Vec<UsageRow>,
    unreadable: bool,
    runs: u32,
}

impl Shelf {
    fn rows(&self) -> Vec<UsageRow> {
        self.0.lock().unwrap().rows.clone()
    }

    fn set_aside(&self) -> usize {
        self.0.lock().unwrap().records.keys().filter(|(table, _)| *table == Table::Reservations).count()
    }

    fn is_unreadable(&self, unreadable: bool) {
        self.0.lock().unwrap().unreadable = unreadable;
    }
}

impl Store for Shelf {
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError> {
        let all = self.0.lock().unwrap();
        let of_table = all.records.iter().filter(|((found, _), _)| *found == table);
        Ok(of_table.map(|((_, key), value)| Record { key: key.clone(), version: 1, value: value.clone() }).collect())
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut all = self.0.lock().unwrap();
        for write in &batch.records {
            let key = (write.table, write.key.clone());
            match &write.value {
                Some((_, value)) => all.records.insert(key, value.clone()),
                None => all.records.remove(&key),
            };
        }
        all.rows.extend(batch.usage.iter().cloned());
        Ok(())
    }

    fn spent(&mut self) -> Result<Vec<SpentRow>, StoreError> {
        let all = self.0.lock().unwrap();
        if all.unreadable {
            return Err(StoreError::Unavailable("by the test".to_owned()));
        }
        let charges = all.rows.iter().flat_map(|row| &row.charges);
        let row = |charge: &crate::rows::Charge| SpentRow {
            budget: Arc::clone(&charge.budget),
            month: charge.month.clone(),
            amount: charge.amount,
            requests: charge.requests.into(),
        };
        let mut sums: BTreeMap<(Arc<str>, String), SpentRow> = BTreeMap::new();
        for row in charges.map(row) {
            let sum = sums.entry((Arc::clone(&row.budget), row.month.clone()));
            let sum = sum.or_insert_with(|| SpentRow { amount: Micros::ZERO, requests: 0, ..row.clone() });
            sum.amount += row.amount;
            sum.requests += row.requests;
        }
        Ok(sums.into_values().collect())
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

/// Makes admission die once.
#[derive(Default)]
struct Heart {
    armed: AtomicBool,
    deaths: AtomicU32,
}

impl Heartbeat for Heart {
    fn beat(&self, actor: ActorKind) {
        if actor == ActorKind::FailoverManager && self.armed.swap(false, Ordering::SeqCst) {
            self.deaths.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new("admission is made to die"));
        }
    }
}

struct Run {
    number: u32,
    fleet: Fleet,
    heart: Arc<Heart>,
    clock: Arc<ManualClock>,
    ended: JoinHandle<()>,
}

impl Run {
    async fn on(shelf: &Shelf) -> Self {
        Self::called("k", shelf).await
    }

    async fn called(name: &str, shelf: &Shelf) -> Self {
        let (heart, store) = (Arc::new(Heart::default()), shelf.clone());
        // 2027-01-15, 08:00 UTC.
        let clock = Arc::new(ManualClock::at(Timestamp::at_millis(1_800_000_000_000)));
        let ports = Ports {
            clock: Arc::clone(&clock) as _,
            store: Arc::new(move || Ok(Opened::from(store.clone()))),
            keep: Keep::default(),
            observers: Vec::new(),
            heartbeat: Arc::clone(&heart) as _,
            courier: Arc::new(crate::postman::Nowhere),
            tasks: TaskTracker::new(),
        };
        let (fleet, ended) = Fleet::start(ports, roster(name)).await.unwrap();
        let mut shelved = shelf.0.lock().unwrap();
        shelved.runs += 1;
        Self { number: shelved.runs, fleet, heart, clock, ended }
    }

    async fn lease(&self, dollars: u64) -> Result<(Attempt, LeaseGuard), Remedy> {
        match self.fleet.failover.lease(demand(dollars)).await.unwrap() {
            Leased::Granted(grant, guard) => {
                guard.sent();
                let attempt = Attempt {
                    lease: guard.lease(),
                    request_id: format!("{}-{}", self.number, guard.lease().0).into(),
                    number: 1,
                    account: grant.account,
                    entry: grant.entry,
                    principal: demand(dollars).principal,
                    ask: ask(dollars),
                };
                Ok((attempt, guard))
            }
            Leased::Exhausted(why) => Err(why.remedy),
            Leased::NotBefore(_) => panic!("no breather was asked for"),
        }
    }

    fn spend(&self) -> (f64, f64) {
        let spend = self.fleet.till.account(A).unwrap();
        (spend.spent.money.dollars(), spend.reserved.money.dollars())
    }

    /// Ends it as if nobody had said so: what was written is all that is left.
    async fn ends(self) {
        self.fleet.journal.flush().await.unwrap();
        self.fleet.stop().await;
        self.ended.await.unwrap();
    }
}

fn identity(name: &str) -> IdentityKey {
    IdentityKey::Inline { upstream: "anthropic".to_owned(), name: name.to_owned() }
}

/// A key with ten dollars a month, and a client with five requests.
fn roster(name: &str) -> Roster {
    let spec = AccountSpec {
        id: A,
        identity: identity(name),
        entry: EntryId { provider: "anthropic".into(), name: name.into() },
        family: Family::Claude,
        kind: CredentialKind::ApiKey,
        priority: 100,
        switch: Switch::On,
        thresholds: WindowLimits::all(0.9),
        caps: WindowCaps::default(),
        budget: Cap { money: Some(Micros(10_000_000)), requests: None },
        max_concurrent: None,
    };
    let upstream = UpstreamSpec {
        id: UpstreamId(0),
        name: "anthropic".into(),
        provider: "anthropic".into(),
        family: Family::Claude,
        strategy: Strategy::RoundRobin,
        accounts: vec![A],
    };
    let requests = Cap { money: None, requests: Some(5) };
    Roster {
        upstreams: vec![upstream],
        accounts: BTreeMap::from([(A, spec)]),
        clients: BTreeMap::from([("laptop".into(), requests)]),
        ..Roster::default()
    }
}

/// A dollar a token of input.
fn ask(dollars: u64) -> Arc<Ask> {
    let rates = Rates { input: Picos(1_000_000_000_000), ..Rates::default() };
    let priced = Priced { price: Arc::new(Price::new(rates, Vec::new())), basis: PriceBasis::Listed };
    Arc::new(Ask { model: "m".into(), priced, input: dollars, max_output: Some(0) })
}

fn demand(dollars: u64) -> Demand {
    Demand {
        upstream: UpstreamId(0),
        principal: Arc::new(Principal { client: Some("laptop".into()), ..Principal::default() }),
        conversation: None,
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
        ask: Some(ask(dollars)),
    }
}

fn receipt(dollars: u64) -> Receipt {
    let usage = Usage { input: dollars, ..Usage::default() };
    Receipt { usage, figures: Figures::Reported, end: AttemptEnd::Complete, then: Then::Over }
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

#[tokio::test]
async fn a_settled_attempt_is_a_row_with_its_charges_and_nothing_is_set_aside_for_it() {
    let shelf = Shelf::default();
    let run = Run::on(&shelf).await;
    let (attempt, guard) = run.lease(3).await.unwrap();
    assert_eq!(run.fleet.till.sent(&attempt), Micros(3_000_000));
    run.fleet.journal.flush().await.unwrap();
    assert_eq!((shelf.set_aside(), run.spend()), (1, (0.0, 3.0)));
    run.fleet.till.settle(&attempt, receipt(2));
    drop(guard);
    run.fleet.journal.flush().await.unwrap();
    assert_eq!((shelf.set_aside(), run.spend()), (0, (2.0, 0.0)));
    let [row] = &shelf.rows()[..] else { panic!("one row") };
    assert_eq!((row.cost, row.list_value, row.day.as_str()), (Micros(2_000_000), Micros(2_000_000), "2027-01-15"));
    let charges: Vec<_> = row.charges.iter().map(|c| (&*c.budget, &*c.month, c.amount.0, c.requests)).collect();
    let account = format!("account:{}", identity("k"));
    assert_eq!(charges, [(account.as_str(), MONTH, 2_000_000, 1), ("client:laptop", MONTH, 2_000_000, 1)]);
}

#[tokio::test]
async fn what_a_run_that_died_had_set_aside_is_spent_once() {
    let shelf = Shelf::default();
    let dying = Run::on(&shelf).await;
    let (settled, _settled_lease) = dying.lease(2).await.unwrap();
    let _ = dying.fleet.till.sent(&settled);
    dying.fleet.till.settle(&settled, receipt(1));
    let (attempt, _lease) = dying.lease(3).await.unwrap();
    let _ = dying.fleet.till.sent(&attempt);
    let _ = dying.fleet.till.extend(&attempt, Micros(4_000_000));
    dying.ends().await;
    assert_eq!(shelf.set_aside(), 1);
    for _ in 0..2 {
        let run = Run::on(&shelf).await;
        assert_eq!(run.spend(), (5.0, 0.0));
        run.ends().await;
        let rows: Vec<_> = shelf.rows().iter().map(|row| (row.cost.0, row.result, row.figures)).collect();
        let lost = (4_000_000, AttemptEnd::Lost, Figures::Estimated);
        assert_eq!(rows, [(1_000_000, AttemptEnd::Complete, Figures::Reported), lost]);
        assert_eq!(shelf.set_aside(), 0);
    }
}

#[tokio::test]
async fn what_is_set_aside_outlives_an_admission_that_dies() {
    let run = Run::on(&Shelf::default()).await;
    let (attempt, guard) = run.lease(6).await.unwrap();
    let _ = run.fleet.till.sent(&attempt);
    run.heart.armed.store(true, Ordering::SeqCst);
    let _ = run.fleet.failover.snapshot().await;
    until(|| run.heart.deaths.load(Ordering::SeqCst) == 1).await;
    assert!(matches!(run.lease(5).await, Err(Remedy::Wait { .. })), "six of ten dollars are set aside");
    assert_eq!(run.spend(), (0.0, 6.0));
    run.fleet.till.settle(&attempt, receipt(5));
    drop(guard);
    assert!(run.lease(5).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_at_the_start_is_taken_in_later_and_nothing_is_counted_twice() {
    let shelf = Shelf::default();
    let before = Run::on(&shelf).await;
    let (attempt, _lease) = before.lease(4).await.unwrap();
    let _ = before.fleet.till.sent(&attempt);
    before.fleet.till.settle(&attempt, receipt(4));
    let (attempt, _lost) = before.lease(1).await.unwrap();
    let _ = before.fleet.till.sent(&attempt);
    before.ends().await;

    shelf.is_unreadable(true);
    let run = Run::on(&shelf).await;
    assert_eq!(run.spend(), (0.0, 0.0));
    let (settled, _one) = run.lease(2).await.unwrap();
    let _ = run.fleet.till.sent(&settled);
    run.fleet.till.settle(&settled, receipt(2));
    let (open, _two) = run.lease(1).await.unwrap();
    let _ = run.fleet.till.sent(&open);
    run.fleet.journal.flush().await.unwrap();
    shelf.is_unreadable(false);
    until(|| run.spend().0 > 2.0).await;
    assert_eq!(run.spend(), (7.0, 1.0), "four before, one lost, two since, and one in flight");
    run.fleet.journal.flush().await.unwrap();
    assert_eq!((shelf.rows().len(), shelf.set_aside()), (3, 1));
}

#[tokio::test]
async fn what_was_spent_under_another_name_is_remembered_under_the_new_one() {
    let shelf = Shelf::default();
    let run = Run::on(&shelf).await;
    let (attempt, _lease) = run.lease(4).await.unwrap();
    let _ = run.fleet.till.sent(&attempt);
    run.fleet.till.settle(&attempt, receipt(4));
    run.fleet.reload(roster("renamed")).await.unwrap();
    let spent = |run: &Run| run.spend().0 == 4.0;
    until(|| spent(&run)).await;
    run.fleet.failover.snapshot().await.unwrap();
    run.ends().await;
    assert_eq!(Run::called("renamed", &shelf).await.spend().0, 4.0);
}

#[tokio::test]
async fn a_client_has_its_requests_back_in_its_next_month() {
    let run = Run::on(&Shelf::default()).await;
    for _ in 0..5 {
        let (attempt, _lease) = run.lease(1).await.unwrap();
        let _ = run.fleet.till.sent(&attempt);
        run.fleet.till.settle(&attempt, receipt(1));
    }
    let Err(Remedy::Budget(over)) = run.lease(1).await.map(|_| ()) else { panic!("five were all") };
    // 2027-02-01, 00:00 UTC.
    assert_eq!(over.resets, Wall(1_801_440_000_000));
    run.clock.advance(HOUR * 399);
    assert!(run.lease(1).await.is_err());
    run.clock.advance(HOUR);
    assert!(run.lease(1).await.is_ok());
}
