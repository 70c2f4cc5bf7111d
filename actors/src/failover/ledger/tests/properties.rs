//! After any sequence of grants, streams, settlements, crashes, months and changed caps the ledger says what a plain
//! list of rows and of open leases says.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, NaiveDate};
use proptest::prelude::*;

use super::super::*;
use super::world::*;
use crate::failover::fault::with_broken;
use crate::id::CredentialKind;
use crate::roster::Cap;
use crate::rows::SpentRow;

const RULES: [Rule; 7] = [
    Rule::BudgetsAreKept,
    Rule::SetAsideCounts,
    Rule::SettledIsSpent,
    Rule::SettledIsGivenBack,
    Rule::ReleaseGivesBack,
    Rule::StreamsExtend,
    Rule::MonthsAreApart,
];

/// What, whom, how.
type Step3 = (u8, u8, u8);
type Checked = Result<(), String>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_money_is_lost_and_none_is_invented(steps in prop::collection::vec(any::<Step3>(), 1..60)) {
        prop_assert_eq!(run(&steps), Ok(()));
    }
}

#[test]
fn every_broken_ledger_is_caught() {
    let mut random = fastrand::Rng::with_seed(11);
    for rule in RULES {
        let caught = with_broken(rule, || {
            (0..5_000).any(|_| {
                let steps: Vec<Step3> =
                    (0..random.usize(4..60)).map(|_| (random.u8(..), random.u8(..), random.u8(..))).collect();
                run(&steps).is_err()
            })
        });
        assert!(caught, "nobody notices that {rule:?} is broken");
    }
}

fn run(steps: &[Step3]) -> Checked {
    let mut run = Run::new();
    steps.iter().try_for_each(|step| {
        run.step(*step)?;
        run.check()
    })
}

/// An attempt in flight, as the list knows it.
#[derive(Clone, Debug)]
struct Open {
    lease: u64,
    account: u32,
    who: usize,
    amount: Micros,
    counted: Counted,
}

/// A row: what it adds to which budget, in which month.
type Row = (String, NaiveDate, Micros, u64);

struct Run {
    ledger: Ledger,
    now: Wall,
    caps: [Cap; 3],
    client: Cap,
    open: Vec<Open>,
    rows: Vec<Row>,
    leases: u64,
}

impl Run {
    fn new() -> Self {
        let mut run = Self {
            ledger: Ledger::default(),
            now: NOON,
            caps: [money(0.01), Cap::default(), requests(7)],
            client: Cap { money: Some(dollars(0.008)), requests: Some(9) },
            open: Vec::new(),
            rows: Vec::new(),
            leases: 0,
        };
        run.configure();
        run
    }

    fn configure(&mut self) {
        let kinds = [CredentialKind::ApiKey, CredentialKind::ApiKey, CredentialKind::SetupToken];
        let accounts = (0..3_u32).map(|n| account(n, kinds[n as usize], self.caps[n as usize]));
        self.ledger.configure(&roster(accounts, &[("c", self.client)]), self.now);
    }

    fn step(&mut self, (what, whom, how): Step3) -> Checked {
        match what % 14 {
            0..=4 => self.ask(whom, how),
            5 => self.extend(whom, how),
            6..=7 => self.settle(whom, how, Then::Over),
            8 => self.settle(whom, how, Then::Again),
            9 => self.release(whom),
            10 => self.pass(i64::from(how) * 4 * HOUR),
            11 => self.pass(-HOUR),
            12 => self.recap(whom, how),
            _ => self.crash(),
        }
    }

    fn ask(&mut self, whom: u8, how: u8) -> Checked {
        let account = u32::from(whom % 3);
        let who = usize::from(whom / 3 % 3);
        let counted = if how.is_multiple_of(4) { Counted::Already } else { Counted::NotYet };
        let asked = ask(u64::from(how) * 10, u64::from(whom) * 3);
        let mut money = Money::default();
        self.ledger.inform(&mut money, &principal(who), Some(&asked), counted, self.now);
        let metered = if account == 2 { Metered::No } else { Metered::Yes };
        let value = Micros(i64::from(how) * 10 + i64::from(whom) * 6);
        let granted = money.affords(AccountId(account), metered);
        let amount = if account == 2 { Micros::ZERO } else { value };
        let expected = self.bears(account, who, amount, counted);
        if granted != expected {
            return Err(format!("granted: {granted}, by the list: {expected}"));
        }
        if granted {
            self.leases += 1;
            let order = Order { account: AccountId(account), principal: &principal(who), ask: &asked, counted };
            self.ledger.reserve(LeaseId(self.leases), order, self.now);
            self.open.push(Open { lease: self.leases, account, who, amount, counted });
        }
        Ok(())
    }

    /// Whether every budget bears one more such attempt, by the list.
    fn bears(&self, account: u32, who: usize, amount: Micros, counted: Counted) -> bool {
        let fits = |key: &str, cap: Cap, requests: u64| {
            let (spent, reserved) = (self.spent(key), self.reserved(key));
            let money = cap.money.is_none_or(|cap| spent.0 + reserved.0 + amount <= cap);
            let requests = cap.requests.is_none_or(|cap| requests == 0 || spent.1 + reserved.1 < cap);
            (money || account == 2) && requests
        };
        let own = fits(&account_key(account), self.caps[account as usize], 1);
        let counts = u64::from(counted == Counted::NotYet);
        own && (who == 0 || fits("client:c", self.client, counts))
    }

    fn extend(&mut self, whom: u8, how: u8) -> Checked {
        let Some(open) = pick(&mut self.open, whom) else { return Ok(()) };
        let to = Micros(i64::from(how) * 50);
        if open.account != 2 {
            open.amount = open.amount.max(to);
        }
        let told = self.ledger.extend(LeaseId(open.lease), to);
        if told == Some(open.amount) { Ok(()) } else { Err(format!("extended to {told:?}")) }
    }

    fn settle(&mut self, whom: u8, how: u8, then: Then) -> Checked {
        let Some(open) = pick(&mut self.open, whom).cloned() else { return Ok(()) };
        let value = if then == Then::Again { Micros::ZERO } else { Micros(i64::from(how) * 20) };
        let who = principal(open.who);
        let bill = Bill {
            lease: LeaseId(open.lease),
            account: AccountId(open.account),
            principal: &who,
            value,
            counted: open.counted,
            then,
        };
        let settled = self.ledger.settle(bill, self.now).expect("it is known");
        let cost = if open.account == 2 { Micros::ZERO } else { value };
        let charges: Vec<Row> = settled.charges.iter().map(row).collect();
        let expected = self.charges(&open, cost, self.now);
        self.rows.extend(expected.clone());
        match then {
            Then::Over => self.open.retain(|other| other.lease != open.lease),
            Then::Again => self
                .open
                .iter_mut()
                .filter(|other| other.lease == open.lease)
                .for_each(|o| o.counted = Counted::Already),
        }
        if charges == expected && settled.cost == cost {
            Ok(())
        } else {
            Err(format!("{charges:?}, by the list {expected:?}"))
        }
    }

    fn charges(&self, open: &Open, cost: Micros, at: Wall) -> Vec<Row> {
        let counts = u64::from(open.counted == Counted::NotYet);
        let mut parts = vec![(account_key(open.account), 1)];
        parts.extend((open.who > 0).then(|| ("client:c".to_owned(), counts)));
        parts.extend((open.who > 1).then(|| ("agent:g".to_owned(), counts)));
        let parts = parts.into_iter().filter(|(_, requests)| *requests > 0 || cost > Micros::ZERO);
        parts.map(|(key, requests)| (key, month(at), cost, requests)).collect()
    }

    fn release(&mut self, whom: u8) -> Checked {
        let Some(lease) = pick(&mut self.open, whom).map(|open| open.lease) else { return Ok(()) };
        self.open.retain(|open| open.lease != lease);
        self.ledger.release(LeaseId(lease));
        Ok(())
    }

    fn pass(&mut self, by: i64) -> Checked {
        self.now = Wall(self.now.0 + by);
        Ok(())
    }

    fn recap(&mut self, whom: u8, how: u8) -> Checked {
        let cap = match how % 4 {
            0 => Cap::default(),
            1 => requests(u64::from(how / 4)),
            _ => money(f64::from(how) / 10_000.0),
        };
        match whom % 4 {
            3 => self.client = cap,
            n => self.caps[usize::from(n)] = cap,
        }
        self.configure();
        Ok(())
    }

    /// The process dies; the next one finds the rows, and open reservations as lost attempts.
    fn crash(&mut self) -> Checked {
        let mut sums: BTreeMap<(String, NaiveDate), Sum> = BTreeMap::new();
        for (key, month, amount, requests) in &self.rows {
            *sums.entry((key.clone(), *month)).or_default() += Sum { money: *amount, requests: *requests };
        }
        let kept = sums.iter().map(|((key, month), sum)| SpentRow {
            budget: key.as_str().into(),
            month: month.to_string(),
            amount: sum.money,
            requests: sum.requests,
        });
        self.ledger = Ledger::default();
        self.configure();
        self.ledger.load(&kept.collect::<Vec<_>>());
        for open in std::mem::take(&mut self.open) {
            let lost = self.charges(&open, open.amount, self.now);
            let charges: Vec<Charge> = lost.iter().map(charge).collect();
            self.ledger.charge(&charges);
            self.rows.extend(lost);
        }
        Ok(())
    }

    fn check(&mut self) -> Checked {
        for n in 0..3 {
            let key = account_key(n);
            let told = self.ledger.account(AccountId(n), self.now).unwrap_or_default();
            self.compare(&key, told)?;
            let cap = self.caps[n as usize];
            let reached = cap.money.is_some_and(|cap| n != 2 && told.spent.money >= cap)
                || cap.requests.is_some_and(|cap| told.spent.requests >= cap);
            if self.ledger.is_reached(AccountId(n), self.now) != reached {
                return Err(format!("{key}: reached is {}", !reached));
            }
        }
        for (name, who) in [("client:c", 1), ("agent:g", 2)] {
            let payers = self.ledger.purses.payers(&principal(who));
            let place = payers.each().last().expect("it is named").0;
            let told = self.ledger.purses.at(place).now(self.ledger.month.first);
            self.compare(name, told)?;
        }
        Ok(())
    }

    fn compare(&self, key: &str, told: Spend) -> Checked {
        let (spent, reserved) = (self.spent(key), self.reserved(key));
        let told = ((told.spent.money, told.spent.requests), (told.reserved.money, told.reserved.requests));
        if told == (spent, reserved) {
            Ok(())
        } else {
            Err(format!("{key}: {told:?}, by the list {spent:?} {reserved:?}"))
        }
    }

    fn spent(&self, key: &str) -> (Micros, u64) {
        let rows = self.rows.iter().filter(|(of, in_month, ..)| of == key && *in_month == month(self.now));
        rows.fold((Micros::ZERO, 0), |sum, (_, _, amount, requests)| (sum.0 + *amount, sum.1 + requests))
    }

    fn reserved(&self, key: &str) -> (Micros, u64) {
        let of = |open: &&Open| match key {
            "client:c" => open.who > 0,
            "agent:g" => open.who > 1,
            _ => key == account_key(open.account),
        };
        let is_account = key.starts_with("account:");
        self.open.iter().filter(of).fold((Micros::ZERO, 0), |sum, open| {
            let counts = u64::from(is_account || open.counted == Counted::NotYet);
            (sum.0 + open.amount, sum.1 + counts)
        })
    }
}

fn pick(open: &mut [Open], whom: u8) -> Option<&mut Open> {
    let at = usize::from(whom).checked_rem(open.len())?;
    open.get_mut(at)
}

fn principal(who: usize) -> Principal {
    let client = (who > 0).then(|| "c".into());
    Principal { client, agent: (who > 1).then(|| "g".into()), job: None }
}

fn account_key(n: u32) -> String {
    format!("account:{}", identity(n))
}

fn month(at: Wall) -> NaiveDate {
    let date = DateTime::from_timestamp_millis(at.0).expect("a moment").date_naive();
    date.with_day(1).expect("every month has a first")
}

fn row(charge: &Charge) -> Row {
    (charge.budget.to_string(), charge.month.parse().expect("a date"), charge.amount, charge.requests.into())
}

fn charge((budget, month, amount, requests): &Row) -> Charge {
    Charge {
        budget: budget.as_str().into(),
        month: month.to_string(),
        amount: *amount,
        requests: u32::try_from(*requests).expect("few"),
    }
}
