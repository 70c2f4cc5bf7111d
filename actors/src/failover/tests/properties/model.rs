//! What the accounts of a sequence have said, kept apart from the machine that is tested.

use super::super::world::*;
use crate::clock::{Deadline, Timestamp};
use crate::failover::demand::Demand;
use crate::id::{AccountId, EvidenceSeq, ModelScope, Window};
use crate::outcome::{Cause, Outcome};
use crate::roster::{Roster, Strategy, Switch, TieOrder};
use crate::standing::{Hold, HoldKind, Paused, Standing, Stated};

pub(super) const ACCOUNTS: u32 = 5;
/// The account with a cap of 0.5 on its five-hour window.
pub(super) const CAPPED: u32 = 0;
/// The account that runs two requests at a time.
pub(super) const LOCAL: u32 = 1;

/// The shares used that a sequence may tell of, with the band that each means.
const SHARES: [(f64, u32); 5] = [(0.1, 0), (0.485, 0), (0.6, 0), (0.92, 1), (0.99, 2)];

/// One account as it has spoken.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) standing: Standing,
    pub(super) disabled: bool,
    share: usize,
    /// Answers it has not spoken of yet.
    open: Vec<Hold>,
    open_breather: Option<Deadline>,
    pub(super) evidence: u64,
    pub(super) served: bool,
}

impl Told {
    pub(super) fn new(n: u32) -> Self {
        Self {
            standing: standing(n),
            disabled: false,
            share: 0,
            open: Vec::new(),
            open_breather: None,
            evidence: 0,
            served: false,
        }
    }

    /// What the account says next: everything it was told of is in it.
    pub(super) fn speak(&mut self, change: impl FnOnce(&mut Standing)) -> Standing {
        change(&mut self.standing);
        self.standing.applied = EvidenceSeq(self.evidence);
        self.open.clear();
        self.open_breather = None;
        self.standing.clone()
    }

    pub(super) fn use_share(&mut self, choice: u8) -> Standing {
        self.share = usize::from(choice) % SHARES.len();
        let used = quota(&[(Window::FiveHour, SHARES[self.share].0, 17_000)]);
        self.speak(|s| s.quota = used)
    }

    /// An answer of which the account has not spoken.
    pub(super) fn answer(&mut self, outcome: &Outcome, now: Timestamp) -> u64 {
        self.evidence += 1;
        let until = |seconds| Deadline::after(now, std::time::Duration::from_secs(seconds));
        match outcome {
            Outcome::Quota(_) => self.open.push(limited(now, 600)),
            Outcome::Throttled { wait: Some(_) } => self.open_breather = Some(until(7)),
            Outcome::Throttled { wait: None } => {
                self.open.push(hold(HoldKind::RateLimited, Cause::Throttled, now, until(5), Stated::Guessed))
            }
            Outcome::Unauthorized => {
                self.open.push(hold(HoldKind::AuthDead, Cause::InvalidToken, now, until(900), Stated::Guessed))
            }
            Outcome::Served
            | Outcome::OrgRefused
            | Outcome::BalanceEmpty
            | Outcome::ServerFault { .. }
            | Outcome::Unreachable { .. }
            | Outcome::HeadTimeout { .. }
            | Outcome::Blank
            | Outcome::Relayed
            | Outcome::Abandoned => {}
        }
        self.evidence
    }

    pub(super) fn is_out(&self, n: u32, now: Timestamp) -> bool {
        let capped = n == CAPPED && SHARES[self.share].0 >= 0.5;
        let dead = self.holds(ModelScope::Base, now).iter().any(|h| h.kind == HoldKind::AuthDead);
        self.disabled || self.standing.paused == Paused::Yes || capped || dead
    }

    pub(super) fn holds(&self, scope: ModelScope, now: Timestamp) -> Vec<Hold> {
        let fable = self.standing.fable_hold.iter().filter(|_| scope == ModelScope::Fable);
        let all = self.standing.holds.iter().chain(&self.open).chain(fable);
        all.filter(|h| !h.until.is_due(now)).copied().collect()
    }

    pub(super) fn breathes(&self, now: Timestamp) -> bool {
        [self.standing.breather, self.open_breather].iter().flatten().any(|at| !at.is_due(now))
    }

    pub(super) fn is_open(&self, n: u32, scope: ModelScope, now: Timestamp) -> bool {
        !self.is_out(n, now) && self.holds(scope, now).is_empty() && !self.breathes(now)
    }

    pub(super) fn on_trial(&self, now: Timestamp) -> bool {
        self.standing.is_on_trial(now)
    }

    pub(super) fn is_guarded(&self, n: u32) -> bool {
        n == CAPPED && SHARES[self.share].0 > 0.48
    }

    pub(super) fn band(&self) -> u32 {
        SHARES[self.share].1
    }
}

/// The roster of a sequence: the first byte chooses.
pub(super) fn fleet(choice: u8, told: &[Told]) -> Roster {
    let mut fleet = roster(ACCOUNTS);
    let strategies = [Strategy::RoundRobin, Strategy::Priority, Strategy::LeastCost, Strategy::Failover];
    fleet.upstreams[0].strategy = strategies[usize::from(choice) % 4];
    fleet.pool.ramp_initial = if choice & 4 == 0 { 0 } else { 2 };
    fleet.pool.order = if choice & 8 == 0 { TieOrder::Headroom } else { TieOrder::WeeklyReset };
    for (n, told) in told.iter().enumerate() {
        let spec = fleet.accounts.get_mut(&id(n as u32)).expect("every account is in the roster");
        spec.switch = if told.disabled { Switch::Off } else { Switch::On };
        spec.caps.five_hour = (n as u32 == CAPPED).then_some(0.5);
        spec.max_concurrent = (n as u32 == LOCAL).then_some(2);
    }
    fleet
}

/// Whether the request may still be granted this account.
pub(super) fn is_left(demand: &Demand, account: AccountId) -> bool {
    !demand.tried.contains(&account)
}
