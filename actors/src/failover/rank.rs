//! The order of candidates, packed into one integer each: the least goes first.

use super::fault::{Rule, broken};
use super::judgement::{Judgement, descending};
use crate::id::Family;
use crate::money::Micros;
use crate::roster::{AccountSpec, Metered, Strategy};

/// Where a candidate stands. Declared from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Band {
    /// No hold, not near its quota.
    Usable,
    /// Near its quota.
    Near,
    /// At or over the hard threshold, or a window refuses.
    Over,
    /// In a hold: only through its probe slot.
    Holding,
}

impl Band {
    /// Whether accounts in it serve requests: all but held ones.
    #[must_use]
    pub fn serves(self) -> bool {
        match self {
            Self::Usable | Self::Near | Self::Over => true,
            Self::Holding => false,
        }
    }
}

/// Where inside its band a candidate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seat {
    /// The conversation's own account goes first where none is usable.
    Home,
    /// In the common order.
    Common,
    /// Unverified or on trial: last.
    Late,
    /// Its credential is being renewed: after every other that can be granted.
    Renewing,
}

/// A candidate's place; the least is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u128);

/// What an account brings into the order, whatever the strategy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merits {
    priority: u32,
    cost: u32,
    /// What breaks ties, smaller first.
    tie: u64,
    /// How much of its quota is used, smaller first.
    used: u64,
}

impl Merits {
    pub(super) fn of(spec: &AccountSpec, judgement: &Judgement) -> Self {
        let used = descending(judgement.remaining);
        Self { priority: spec.priority, cost: cost(spec), tie: judgement.tie, used }
    }

    /// The group of a strategy's first choice that it belongs to: the least group that is usable is chosen from.
    pub(super) fn group(&self, strategy: Strategy) -> u32 {
        match strategy {
            Strategy::RoundRobin => 0,
            Strategy::Priority | Strategy::Failover => self.priority,
            Strategy::LeastCost => self.cost,
        }
    }
}

/// What decides between two candidates of one band.
pub(super) struct Ordering<'a> {
    pub(super) strategy: Strategy,
    pub(super) merits: &'a Merits,
    /// What is left of the budget of an account that costs money.
    pub(super) left: Option<Micros>,
    pub(super) in_flight: u32,
    pub(super) declared: usize,
}

impl Key {
    pub(super) fn new(band: Band, seat: Seat, order: &Ordering<'_>) -> Self {
        let rank = rank(band, seat);
        let (first, second, flight) = order.fields();
        let flight = u128::from(flight.min((1 << 19) - 1));
        let declared = order.declared.min((1 << 24) - 1) as u128;
        let head = rank << 2 | seat as u128;
        Self(head << 123 | u128::from(first) << 91 | u128::from(second) << 43 | flight << 24 | declared)
    }
}

/// Bands in order; those whose credential is being renewed after all that can be granted; held ones last. 3 bits.
fn rank(band: Band, seat: Seat) -> u128 {
    if broken(Rule::BandsAreOrdered) {
        return 0;
    }
    match (band, seat) {
        (Band::Holding, _) => 6,
        (open, Seat::Renewing) => 3 + open as u128,
        (open, Seat::Home | Seat::Common | Seat::Late) => open as u128,
    }
}

impl Ordering<'_> {
    fn fields(&self) -> (u32, u64, u32) {
        match self.strategy {
            Strategy::RoundRobin | Strategy::Priority => (self.merits.priority, self.merits.tie, self.in_flight),
            Strategy::LeastCost => (self.merits.cost, self.used(), self.in_flight),
            Strategy::Failover => (self.merits.priority, 0, 0),
        }
    }
}

impl Ordering<'_> {
    /// Of accounts that cost money the one goes first of whose budget most is left, of others that of whose quota.
    fn used(&self) -> u64 {
        self.left.map_or(self.merits.used, |left| descending(left.0 as f64))
    }
}

/// What a kind of account costs: own machines, then subscriptions, then what costs money. One pool asks for one model, so
/// all that costs money in it has one price.
fn cost(spec: &AccountSpec) -> u32 {
    match (spec.family, spec.metered()) {
        (Family::Local, _) => 0,
        (_, Metered::No) => 1,
        (_, Metered::Yes) => 2,
    }
}
