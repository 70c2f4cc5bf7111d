//! The whole order of a plan with its reasons, for `route --explain`.

use super::admission::Admission;
use super::demand::{Demand, Why};
use super::plan::{Choice, Field, Look, Sight};
use super::rank::{Band, Key};
use super::view::Condition;
use crate::clock::{Deadline, Timestamp, Wall};
use crate::id::{AccountId, EntryId};

/// One account in the order in which a demand would try them.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Which.
    pub account: AccountId,
    /// Its entry.
    pub entry: EntryId,
    /// Where it stands.
    pub place: Place,
    /// Requests in flight.
    pub in_flight: u32,
    /// Time to the threshold at the mean pace, minus time to the reset, in seconds; infinite where nothing is known.
    pub headroom: f64,
    /// When the governing weekly window begins anew, if known.
    pub weekly_reset: Option<Wall>,
}

/// Where an account stands in a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// It is granted.
    Chosen(Band),
    /// The conversation waits out its breather.
    Waits(Deadline),
    /// It could be granted, after those before it.
    Ready(Band),
    /// Its allowance is used up for now.
    Full(Band),
    /// It is held: a probe is due then.
    Probe {
        /// When.
        due: Deadline,
        /// Why it is held.
        why: Why,
    },
    /// It cannot be used for this request.
    Out(Why),
}

impl Admission {
    /// Every account of the demand's upstream in the order of the plan, with its reason. Changes nothing.
    #[must_use]
    pub fn explain(&self, demand: &Demand, now: Timestamp) -> Vec<Ranked> {
        let mut sight = Sight::default();
        self.see(demand, &mut sight, now);
        self.field(demand, &sight, now).map_or_else(Vec::new, |field| ranked(&field))
    }
}

fn ranked(field: &Field<'_>) -> Vec<Ranked> {
    let choice = field.choose();
    let looks = field.pool.spec.accounts.iter().enumerate().filter_map(|(at, id)| Some((at, field.look(*id)?)));
    let mut all: Vec<_> = looks.map(|(at, look)| (order(field, &look, at), ranking(field, &look, choice))).collect();
    all.sort_by_key(|(order, row)| (!matches!(row.place, Place::Chosen(_) | Place::Waits(_)), *order));
    all.into_iter().map(|(_, row)| row).collect()
}

/// Open ones by key, then breathers, then held ones by key, then the rest as declared.
fn order(field: &Field<'_>, look: &Look<'_>, declared: usize) -> (u8, Key) {
    match look.digest.condition {
        Condition::Open(band) if !field.has_tried(look.glance.account) => (0, field.key(&look.glance, band, declared)),
        Condition::Breather(_) => (1, field.key(&look.glance, Band::Usable, declared)),
        Condition::Held(_) => (2, field.key(&look.glance, Band::Holding, declared)),
        Condition::Open(band) => (3, field.key(&look.glance, band, declared)),
        Condition::Removed(_) => (4, field.key(&look.glance, Band::Holding, declared)),
    }
}

fn ranking(field: &Field<'_>, look: &Look<'_>, choice: Choice) -> Ranked {
    Ranked {
        account: look.glance.account,
        entry: look.view.spec.entry.clone(),
        place: place(field, look, choice),
        in_flight: look.glance.tally.in_flight,
        headroom: look.digest.judgement.headroom,
        weekly_reset: look.digest.judgement.weekly_reset,
    }
}

fn place(field: &Field<'_>, look: &Look<'_>, choice: Choice) -> Place {
    match choice {
        Choice::Grant(pick) if pick.account == look.glance.account => return Place::Chosen(pick.band),
        Choice::Wait(wait) if wait.account == look.glance.account => return Place::Waits(wait.at),
        Choice::Grant(_) | Choice::Wait(_) | Choice::Queue(_) | Choice::Full | Choice::Empty => {}
    }
    match look.digest.condition {
        Condition::Removed(removal) => Place::Out(removal.why()),
        Condition::Breather(at) => Place::Out(Why::Breather(at)),
        Condition::Open(_) | Condition::Held(_) if field.has_tried(look.glance.account) => Place::Out(Why::Tried),
        Condition::Open(band) if field.admits(&look.glance) => Place::Ready(band),
        Condition::Open(band) => Place::Full(band),
        Condition::Held(hold) => Place::Probe {
            due: look.view.probe_due_at(field.demand.scope, field.now),
            why: Why::Held { cause: hold.cause, until: hold.until, stated: hold.stated },
        },
    }
}
