//! Random histories of one account: attempts that overlap, operators, clocks that are stepped, stops and starts.
//!
//! A history is made of small numbers, so that a failing one shrinks well. What they mean depends on where the history
//! stands: the third attempt, a moment just after the running hold.

use super::*;

/// What a history is made of: an action, a choice, an amount.
pub(super) type Step = (u8, u8, u16);

/// One event as it was told to an account.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Answered(Answered),
    Ended(Ended),
    Polled(UsagePoll),
    Other(HealthEvent<'static>),
    /// The daemon was stopped at the one moment and started at the other.
    Restarted {
        saved_at: Timestamp,
    },
}

impl Told {
    pub(super) fn event(&self) -> Option<HealthEvent<'_>> {
        match self {
            Self::Answered(answered) => Some(HealthEvent::Answered(answered)),
            Self::Ended(ended) => Some(HealthEvent::Ended(ended)),
            Self::Polled(poll) => Some(HealthEvent::UsagePolled(poll)),
            Self::Other(event) => Some(*event),
            Self::Restarted { .. } => None,
        }
    }
}

/// The world around one account.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    /// Milliseconds that truly passed since the start, whatever clocks say.
    pub(super) real: i64,
    generation: u64,
    under_way: Vec<Flight>,
    leases: u64,
}

/// An attempt under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    lease: LeaseId,
    sent_at: Timestamp,
    generation: Generation,
    scope: ModelScope,
    call: CallKind,
}

const PAUSES: [i64; 16] = [
    1,
    400,
    1_000,
    4_000,
    6_000,
    16_000,
    31_000,
    59_000,
    61_000,
    121_000,
    301_000,
    901_000,
    3_601_000,
    18_000_000,
    86_400_000,
    604_800_000,
];

impl World {
    pub(super) fn new() -> Self {
        Self { now: at(0), real: 0, generation: 0, under_way: Vec::new(), leases: 0 }
    }

    /// Lets the step happen; what the account is told of it, if anything.
    pub(super) fn step(&mut self, (action, choice, amount): Step) -> Option<Told> {
        match action % 16 {
            0 | 1 => self.pass(choice, amount),
            2..=4 => self.send(choice),
            5..=9 => return self.answer(choice, amount).map(Told::Answered),
            10 => return self.end(choice, amount).map(Told::Ended),
            11 => return Some(Told::Polled(self.poll(choice, amount))),
            12 => return Some(self.stop(choice)),
            13 => return Some(Told::Other(self.person(choice))),
            14 => return Some(Told::Other(self.step_clock(choice, amount))),
            _ => return Some(Told::Other(self.money_or_probe(choice, amount))),
        }
        Some(Told::Other(HealthEvent::Ticked))
    }

    fn pass(&mut self, choice: u8, amount: u16) {
        let pause = PAUSES[usize::from(choice % 16)] + i64::from(amount % 3);
        self.real += pause;
        self.now = self.now.plus(Duration::from_millis(pause.unsigned_abs()));
    }

    fn send(&mut self, choice: u8) {
        self.leases += 1;
        let scope = if choice.is_multiple_of(3) { ModelScope::Fable } else { ModelScope::Base };
        let call = if choice.is_multiple_of(5) { CallKind::Side } else { CallKind::Inference };
        let (lease, generation) = (LeaseId(self.leases), Generation(self.generation));
        self.under_way.push(Flight { lease, sent_at: self.now, generation, scope, call });
        self.pass(u8::from(choice.is_multiple_of(2)), 0);
    }

    /// One of the attempts under way, counted from the newest.
    fn flight(&self, choice: u8) -> Option<Flight> {
        let count = self.under_way.len();
        (count > 0).then(|| self.under_way[count - 1 - usize::from(choice >> 5) % count])
    }

    fn answer(&mut self, choice: u8, amount: u16) -> Option<Answered> {
        let flight = self.flight(choice)?;
        let late = choice.is_multiple_of(7);
        let answered_at = if late { flight.sent_at } else { self.now };
        let Flight { lease, sent_at, generation, scope, call } = flight;
        let outcome = self.outcome(choice % 16, amount);
        let quota = self.reading(amount);
        let evidence = Evidence::default();
        Some(Answered { lease, call, scope, generation, sent_at, answered_at, outcome, quota, evidence })
    }

    fn end(&mut self, choice: u8, amount: u16) -> Option<Ended> {
        let Flight { lease, sent_at, generation, scope, call } = self.flight(choice)?;
        self.under_way.retain(|other| other.lease != lease);
        let close = match choice % 6 {
            0 => Close::Complete,
            1 => Close::Stalled,
            2 => Close::ClientGone,
            3 => Close::Broken,
            _ => Close::ErrorEvent(self.outcome((choice >> 3) % 16, amount)),
        };
        Some(Ended { lease, call, scope, generation, sent_at, close, usage: Usage::default() })
    }

    fn outcome(&self, choice: u8, amount: u16) -> Outcome {
        let seconds = u64::from(amount);
        let until =
            (!amount.is_multiple_of(4)).then(|| Deadline::Wall(self.now.wall.plus(Duration::from_secs(seconds))));
        let wait = amount.is_multiple_of(3).then(|| Duration::from_secs(seconds % 1800));
        match choice {
            0..=2 => Outcome::Served,
            3 => fable_refused(until),
            4 => refused(HoldScope::Account, &["5h", "7d"], until),
            5 => refused(HoldScope::Account, &[], until),
            6 => throttled(None),
            7 => Outcome::Throttled { wait: Some(Duration::from_secs(seconds % 20)) },
            8 => Outcome::Unauthorized,
            9 => Outcome::OrgRefused,
            10 => Outcome::ServerFault { cause: Cause::Overloaded, wait },
            11 => Outcome::Unreachable { connecting: amount.is_multiple_of(2) },
            12 => Outcome::Blank,
            13 => Outcome::Relayed,
            14 => Outcome::BalanceEmpty,
            _ if amount.is_multiple_of(2) => Outcome::Abandoned,
            _ => Outcome::HeadTimeout { streaming: amount.is_multiple_of(3) },
        }
    }

    fn reading(&self, amount: u16) -> QuotaReading {
        if amount.is_multiple_of(3) {
            return QuotaReading::default();
        }
        let status =
            [None, Some(QuotaStatus::Allowed), Some(QuotaStatus::Rejected), None][usize::from(amount % 4)].clone();
        let reading = QuotaReading { windows: self.windows(amount), ..QuotaReading::default() };
        if amount.is_multiple_of(7) { QuotaReading { status, ..reading } } else { reading }
    }

    fn windows(&self, amount: u16) -> Vec<WindowReading> {
        let names: &[&str] =
            [&["5h"] as &[&str], &["7d"], &["5h", "7d"], &["7d_oi"], &["30d_zz"]][usize::from(amount % 5)];
        let window = |name: &&str| WindowReading {
            window: Window::from_name(name),
            utilization: (!amount.is_multiple_of(11)).then(|| f64::from(amount % 101) / 100.0),
            reset: (!amount.is_multiple_of(4)).then(|| self.now.wall.plus(Duration::from_secs(u64::from(amount)))),
            status: amount.is_multiple_of(5).then_some(QuotaStatus::Rejected),
        };
        names.iter().map(window).collect()
    }

    fn poll(&self, choice: u8, amount: u16) -> UsagePoll {
        let generation = Generation(self.generation.saturating_sub(u64::from(choice.is_multiple_of(16))));
        UsagePoll { generation, answered_at: self.now, windows: self.windows(amount) }
    }

    /// A stop and a start; every third time of the machine itself, which takes a while.
    fn stop(&mut self, choice: u8) -> Told {
        let saved_at = self.now;
        self.under_way.clear();
        if choice.is_multiple_of(3) {
            self.pass(choice | 8, 0);
            self.now.boot = Boot(20_000);
        } else {
            self.pass(choice, 0);
        }
        Told::Restarted { saved_at }
    }

    fn person(&mut self, choice: u8) -> HealthEvent<'static> {
        let check = if choice.is_multiple_of(2) { Check::Passed } else { Check::Undecided };
        match choice % 8 {
            0 => HealthEvent::Paused,
            1 => HealthEvent::Resumed,
            2 => HealthEvent::Cleared,
            3 => HealthEvent::CredentialBroke { cause: Cause::Unreadable },
            4 => HealthEvent::CredentialRead { generation: Generation(self.generation) },
            5 => HealthEvent::GrantLost { access_until: Deadline::after(self.now, Duration::from_secs(3600)) },
            6 => HealthEvent::GrantRegained,
            _ => {
                self.generation += 1;
                HealthEvent::CredentialRenewed { generation: Generation(self.generation), check }
            }
        }
    }

    fn step_clock(&mut self, choice: u8, amount: u16) -> HealthEvent<'static> {
        let by_ms = i64::from(amount) * if choice.is_multiple_of(2) { 1000 } else { -1000 };
        self.now.wall.0 += by_ms;
        HealthEvent::ClockStepped { by_ms }
    }

    fn money_or_probe(&self, choice: u8, amount: u16) -> HealthEvent<'static> {
        let verdict = [Verdict::Valid, Verdict::InvalidToken, Verdict::OrgRefused, Verdict::Undecided];
        let verdict = verdict[usize::from(choice / 8 % 4)];
        let sent_at = self.flight(choice).map_or(self.now, |flight| flight.sent_at);
        let thresholds = WindowLimits::all(f64::from(amount % 100) / 100.0);
        match choice % 8 {
            0 | 1 => {
                let cycle_ends = Deadline::Wall(self.now.wall.plus(Duration::from_secs(u64::from(amount) * 4)));
                HealthEvent::BudgetReached { cycle_ends }
            }
            2 => HealthEvent::BudgetRaised,
            3 => HealthEvent::SettingsChanged(Settings { thresholds, ..Settings::default() }),
            _ => {
                HealthEvent::Probed { verdict, generation: Generation(self.generation), sent_at, by: AskedBy::Operator }
            }
        }
    }
}
