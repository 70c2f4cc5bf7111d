//! A fleet that was killed and comes back, with what the store kept and on a clock that went on.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::ports::SetAside;
use crate::standing::{HoldKind, Paused, Standing};

const HOUR: u64 = 3600;

impl House {
    /// Kills everything, lets this much time pass, and starts a fleet of so many accounts on what was kept.
    async fn comes_back(self, after: Duration, accounts: u32) -> Self {
        let kept = Shelf(Arc::new(Mutex::new(self.shelf.0.lock().unwrap().clone())));
        let open = kept.opener();
        Self::at(self.clock.now().plus(after), kept, open, roster(accounts), Vec::new()).await
    }

    fn standing(&self, account: AccountId) -> Standing {
        self.fleet.health(account).unwrap().standing(0, EvidenceSeq(0), self.clock.now())
    }

    fn left(&self, account: AccountId, kind: HoldKind) -> Option<Duration> {
        let hold = self.standing(account).holds.into_iter().find(|hold| hold.kind == kind)?;
        Some(hold.until.remaining(self.clock.now()))
    }

    /// Tells it, and waits until that is kept.
    async fn learns(&self, account: AccountId, fact: Fact) {
        self.fleet.deliver(account, fact).await.unwrap();
        self.fleet.journal.flush().await.unwrap();
    }

    fn answer(&self, outcome: Outcome) -> Fact {
        let answered = Answered { generation: Generation(0), ..answered(outcome, self.clock.now()) };
        Fact::Answered(Arc::new(answered))
    }
}

#[tokio::test]
async fn what_was_kept_before_a_kill_is_there_after_it_less_the_time_that_passed() {
    let house = House::of(3).await;
    house.learns(A, house.answer(Outcome::BalanceEmpty)).await;
    house.learns(B, house.answer(Outcome::Unauthorized)).await;
    house.learns(AccountId(2), Fact::Told(HealthEvent::Paused)).await;
    let house = house.comes_back(Duration::from_secs(600), 3).await;
    assert_eq!(house.left(A, HoldKind::BudgetExhausted), Some(Duration::from_secs(24 * HOUR - 600)));
    // Five minutes are left of it; questions after two and four more decide by then, and are answered within three.
    assert_eq!(house.left(B, HoldKind::AuthDead), Some(Duration::from_secs(60 * (2 + 4 + 3))));
    assert_eq!(house.fleet.health(B).unwrap().strikes(), 1);
    assert_eq!(house.standing(AccountId(2)).paused, Paused::Yes);
    assert!(
        !house.fleet.failover.snapshot().await.unwrap().has_usable(),
        "admission knows it from the first request on"
    );
    let house = house.comes_back(Duration::from_secs(24 * HOUR), 3).await;
    until(|| !house.is_held(A)).await;
    assert!(house.is_held(B) && !house.standing(B).on_trial, "its time was over while nobody ran: a question decides");
    house.clock.advance(Duration::from_secs(180));
    until(|| house.standing(B).on_trial).await;
    assert!(!house.is_held(B), "nobody asked");
    until(|| house.eyes.count(|kind| matches!(kind, EventKind::TrialBegan)) == 1).await;
}

#[tokio::test]
async fn conversations_are_where_they_were_after_a_kill() {
    let house = House::of(8).await;
    let mut homes = Vec::new();
    for key in 0..40 {
        homes.push(house.lease(key).await);
    }
    house.fleet.failover.snapshot().await.unwrap();
    house.fleet.journal.flush().await.unwrap();
    let house = house.comes_back(Duration::from_secs(HOUR - 1), 8).await;
    for key in 100..130 {
        house.lease(key).await;
    }
    for (key, home) in homes.into_iter().enumerate() {
        assert_eq!(house.lease(key as u128).await, home, "conversation {key}");
    }
}

#[tokio::test]
async fn an_account_that_left_the_configuration_is_found_as_it_was_when_it_comes_back() {
    let house = House::of(2).await;
    house.learns(B, house.answer(Outcome::BalanceEmpty)).await;
    let house = house.comes_back(Duration::from_secs(HOUR), 1).await;
    house.refuse(A);
    until(|| house.is_held(A)).await;
    house.fleet.journal.flush().await.unwrap();
    let house = house.comes_back(Duration::from_secs(HOUR), 1).await;
    house.fleet.reload(roster(2)).await.unwrap();
    assert_eq!(house.left(B, HoldKind::BudgetExhausted), Some(Duration::from_secs(22 * HOUR)));
}

/// Whoever speaks of an account must be heard before requests are given to it.
#[tokio::test]
async fn an_account_that_is_introduced_is_as_it_was_remembered_and_gets_no_request() {
    let house = House::of(2).await;
    let renewed =
        HealthEvent::CredentialRenewed { generation: Generation(4), check: crate::account::health::Check::Passed };
    house.learns(B, Fact::Told(renewed)).await;
    let house = house.comes_back(Duration::ZERO, 1).await;
    assert!(house.fleet.health(B).is_none());
    house.fleet.introduce(&roster(2)).await;
    assert_eq!(house.fleet.health(B).unwrap().generation(), Generation(4));
    house.fleet.tell(B, Fact::Told(HealthEvent::Paused));
    for key in 0..20 {
        assert_eq!(house.lease(key).await, A);
    }
    house.fleet.reload(roster(2)).await.unwrap();
    until(|| house.standing(B).paused == Paused::Yes).await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_costs_its_account_alone_a_cold_start() {
    let house = House::of(2).await;
    house.learns(A, Fact::Told(HealthEvent::Paused)).await;
    house.learns(B, Fact::Told(HealthEvent::Paused)).await;
    house.shelf.0.lock().unwrap().get_mut(&(Table::Health, "verified:claude:u-0".to_owned())).unwrap().1.truncate(30);
    let house = house.comes_back(Duration::ZERO, 2).await;
    assert_eq!((house.standing(A).paused, house.standing(B).paused), (Paused::No, Paused::Yes));
}

/// A store that comes and goes.
fn now_and_then(shelf: &Shelf, away: &Arc<AtomicBool>) -> OpenStore {
    let (shelf, away) = (shelf.clone(), Arc::clone(away));
    Arc::new(move || match away.load(Ordering::SeqCst) {
        true => Err(StoreError::Unavailable("permission denied".to_owned())),
        false => Ok(Opened::from(shelf.clone())),
    })
}

#[tokio::test]
async fn a_fleet_that_began_without_its_store_joins_what_it_finds_there_with_what_it_learnt() {
    let house = House::of(2).await;
    house.learns(A, Fact::Told(HealthEvent::Paused)).await;
    house.learns(B, house.answer(Outcome::BalanceEmpty)).await;
    let before = house.shelf.0.lock().unwrap().clone();
    let (shelf, away) = (Shelf(Arc::new(Mutex::new(before.clone()))), Arc::new(AtomicBool::new(true)));
    let now = house.clock.now().plus(Duration::from_secs(HOUR));
    let open = now_and_then(&shelf, &away);
    let house = House::at(now, shelf, open, roster(2), Vec::new()).await;
    assert_eq!(house.standing(A).paused, Paused::No, "nothing is known yet");
    house.refuse(A);
    until(|| house.is_held(A)).await;
    assert!(house.fleet.journal.flush().await.is_err());
    until(|| house.eyes.count(|kind| matches!(kind, EventKind::StoreFailing { .. })) == 1).await;
    assert_eq!(*house.shelf.0.lock().unwrap(), before);
    away.store(false, Ordering::SeqCst);
    house.fleet.journal.flush().await.unwrap();
    until(|| house.standing(A).paused == Paused::Yes && house.is_held(B)).await;
    assert!(house.is_held(A), "what it learnt meanwhile counts, too");
    assert_eq!(house.left(B, HoldKind::BudgetExhausted), Some(Duration::from_secs(23 * HOUR)));
    house.learns(A, Fact::Told(HealthEvent::Ticked)).await;
    house.learns(B, Fact::Told(HealthEvent::Ticked)).await;
    let house = house.comes_back(Duration::ZERO, 2).await;
    assert_eq!((house.standing(A).paused, house.is_held(A), house.is_held(B)), (Paused::Yes, true, true));
}

/// Conversations and outages, too: an outage that was told is not told again when the store comes back.
#[tokio::test]
async fn conversations_and_outages_of_a_store_that_could_not_be_read_join_later() {
    let house = House::of(3).await;
    let mut homes = Vec::new();
    for key in 0..20 {
        homes.push(house.lease(key).await);
    }
    house.fleet.failover.snapshot().await.unwrap();
    for account in [A, B, AccountId(2)] {
        house.learns(account, house.answer(Outcome::Unauthorized)).await;
    }
    until(|| house.eyes.count(|kind| matches!(kind, EventKind::OutageBegan { .. })) == 1).await;
    house.fleet.journal.flush().await.unwrap();
    let shelf = Shelf(Arc::new(Mutex::new(house.shelf.0.lock().unwrap().clone())));
    let away = Arc::new(AtomicBool::new(true));
    let open = now_and_then(&shelf, &away);
    let house = House::at(house.clock.now().plus(Duration::from_secs(60)), shelf, open, roster(3), Vec::new()).await;
    assert_eq!(house.fleet.failover.snapshot().await.unwrap().conversations, 0, "nothing is known yet");
    assert!(house.fleet.journal.flush().await.is_err());
    away.store(false, Ordering::SeqCst);
    house.fleet.journal.flush().await.unwrap();
    until(|| [A, B, AccountId(2)].into_iter().all(|account| house.is_held(account))).await;
    assert_eq!(house.fleet.failover.snapshot().await.unwrap().conversations, 20);
    let known = house.fleet.failover.conversations(20, None).await.unwrap();
    let at = |account: AccountId| {
        known.iter().filter(|known| known.homes.iter().any(|home| home.account == account)).count()
    };
    let were = |account: AccountId| homes.iter().filter(|home| **home == account).count();
    for account in [A, B, AccountId(2)] {
        assert_eq!(at(account), were(account), "{account:?}");
    }
    // Whatever is told from here on comes after what the return could have told.
    house.learns(A, Fact::Told(HealthEvent::Paused)).await;
    until(|| house.eyes.count(|kind| matches!(kind, EventKind::Paused)) == 1).await;
    assert_eq!(house.eyes.count(|kind| matches!(kind, EventKind::OutageBegan { .. })), 0, "it was told before");
}

#[tokio::test]
async fn a_store_that_begins_anew_while_the_fleet_runs_is_told_everything_again() {
    let (shelf, anew) = (Shelf::default(), Arc::new(AtomicBool::new(false)));
    let open: OpenStore = {
        let (shelf, anew) = (shelf.clone(), Arc::clone(&anew));
        Arc::new(move || {
            let set_aside = anew.swap(false, Ordering::SeqCst).then(|| {
                shelf.0.lock().unwrap().clear();
                SetAside { kept_at: "elsewhere".to_owned(), why: "damaged".to_owned() }
            });
            Ok(Opened { set_aside, ..shelf.clone().into() })
        })
    };
    let start = Timestamp::at_millis(1_800_000_000_000);
    let house = House::at(start, shelf, open, roster(2), Vec::new()).await;
    house.learns(A, Fact::Told(HealthEvent::Paused)).await;
    house.fleet.journal.flush().await.unwrap();
    anew.store(true, Ordering::SeqCst);
    // Its thread dies with it, and the next one opens the store.
    house.heart.arm(ActorKind::Journal, 1);
    house.fleet.tell(B, Fact::Told(HealthEvent::Paused));
    until(|| {
        house.clock.advance(Duration::from_millis(100));
        house.eyes.count(|kind| matches!(kind, EventKind::StoreSetAside { .. })) == 1
    })
    .await;
    let is_kept = |shelf: &Shelf, key: &str| {
        let kept = shelf.0.lock().unwrap();
        let record = kept.get(&(Table::Health, key.to_owned()));
        record.is_some_and(|(_, value)| String::from_utf8_lossy(value).contains("\"paused\":\"yes\""))
    };
    until(|| {
        house.clock.advance(Duration::from_millis(100));
        is_kept(&house.shelf, "verified:claude:u-0") && is_kept(&house.shelf, "verified:claude:u-1")
    })
    .await;
}
