//! The book of leases in flight.
//!
//! It is owned outside the admission machine, so that a machine that died and was started again finds every lease as it
//! was. A [`LeaseGuard`] is held by whoever spends the lease; dropped anywhere, it writes the end into the book and wakes
//! the machine, which then reads what happened. Only short sections are locked, and nothing is called while they are.

mod record;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::record::{Drew, Flow, Footing, Good, LeaseRecord, Slot};
use super::demand::{Gate, Phase};
use super::fault::{Rule, broken};
use super::ledger::Ledger;
use crate::id::{AccountId, LeaseId};
use crate::outcome::CallKind;

/// What an account has in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inference attempts, whatever their phase.
    pub in_flight: u32,
    /// Those of them that were not sent yet.
    pub unsent: u32,
    /// Slots of the allowance that are held.
    pub slots: u32,
    /// Probes that were not answered yet.
    pub probes: u32,
    /// Calls beside inference.
    pub side: u32,
}

impl Tally {
    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_idle(self) -> bool {
        self == Self::default()
    }
}

/// One thing that happened to a lease, for the machine to settle.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) step: ReportStep,
    pub(super) record: LeaseRecord,
}

impl Report {
    /// Whether it is a lease's end, or says that a conversation goes elsewhere.
    fn is_urgent(&self) -> bool {
        match (self.step, self.record.footing) {
            (ReportStep::Ended, _) => true,
            (ReportStep::Answered, _) | (ReportStep::Sent, Footing::Free | Footing::Home) => false,
            (ReportStep::Sent, Footing::Move { .. } | Footing::Detour { .. } | Footing::Return { .. }) => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportStep {
    Sent,
    Answered,
    Ended,
}

/// The leases in flight, and the money set aside for them, shared by the machine and every guard.
pub struct LeaseBook {
    pages: Mutex<Pages>,
    ledger: Mutex<Ledger>,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Pages {
    epoch: u64,
    last: u64,
    leases: HashMap<LeaseId, LeaseRecord>,
    unguarded: HashSet<LeaseId>,
    tallies: Vec<Tally>,
    reports: Vec<Report>,
    /// Whether someone waits for a place to come free.
    awaited: bool,
    /// Whether the machine was woken and has not looked since.
    woken: bool,
}

impl std::fmt::Debug for LeaseBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseBook").field("leases", &self.pages().leases.len()).finish_non_exhaustive()
    }
}

impl LeaseBook {
    /// An empty book. `wake` is called, outside any lock, when there is something to settle that cannot wait until the
    /// machine is told of anything else, and only once until it has looked; it must not block.
    #[must_use]
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { pages: Mutex::default(), ledger: Mutex::default(), wake: Box::new(wake) })
    }

    /// The guard of a lease that was just granted. Exactly one is to be made for each.
    #[must_use]
    pub fn guard(self: &Arc<Self>, lease: LeaseId) -> LeaseGuard {
        self.pages().unguarded.remove(&lease);
        LeaseGuard { book: Arc::clone(self), lease }
    }

    /// What an account has in flight.
    #[must_use]
    pub fn tally(&self, account: AccountId) -> Tally {
        self.pages().tally(account)
    }

    /// All leases in flight, in no order.
    #[must_use]
    pub fn leases(&self) -> Vec<LeaseRecord> {
        self.pages().leases.values().cloned().collect()
    }

    /// How many leases are in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages().leases.len()
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A new life of the machine begins. Leases that its predecessor wrote in and died before handing out are in
    /// nobody's hands: they are returned.
    pub(super) fn begin_epoch(&self) -> u64 {
        let orphans = self.pages().take_orphans();
        orphans.into_iter().for_each(|lease| self.ledger().release(lease));
        let mut pages = self.pages();
        pages.epoch += 1;
        pages.awaited = false;
        pages.epoch
    }

    /// What was spent and what is set aside.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn copy_tallies(&self, into: &mut Vec<Tally>) {
        into.clone_from(&self.pages().tallies);
    }

    pub(super) fn open(&self, mut record: LeaseRecord) -> LeaseId {
        let mut pages = self.pages();
        pages.last += 1;
        record.lease = LeaseId(pages.last);
        pages.count_in(&record);
        let lease = record.lease;
        pages.leases.insert(lease, record);
        pages.unguarded.insert(lease);
        lease
    }

    pub(super) fn take_reports(&self) -> Vec<Report> {
        let mut pages = self.pages();
        pages.woken = false;
        std::mem::take(&mut pages.reports)
    }

    /// Says whether someone waits for a place to come free.
    pub(super) fn set_awaited(&self, awaited: bool) {
        if self.pages().set_awaited(awaited) {
            (self.wake)();
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&self, lease: LeaseId, step: ReportStep, flow: Flow) {
        if self.pages().advance(lease, step, flow) {
            (self.wake)();
        }
    }

    fn close(&self, lease: LeaseId) {
        self.ledger().release(lease);
        if self.pages().close(lease) {
            (self.wake)();
        }
    }
}

impl Pages {
    fn tally(&self, account: AccountId) -> Tally {
        self.tallies.get(account.0 as usize).copied().unwrap_or_default()
    }

    fn tally_mut(&mut self, account: AccountId) -> &mut Tally {
        let at = account.0 as usize;
        if self.tallies.len() <= at {
            self.tallies.resize(at + 1, Tally::default());
        }
        &mut self.tallies[at]
    }

    fn count_in(&mut self, record: &LeaseRecord) {
        let tally = self.tally_mut(record.account);
        match record.call {
            CallKind::Side => tally.side += 1,
            CallKind::Inference => {
                tally.in_flight += 1;
                tally.unsent += 1;
                tally.slots += u32::from(record.slot == Slot::Held);
                tally.probes += u32::from(record.gate == Gate::Probe);
            }
        }
    }

    /// Returns the leases that were granted and never handed out.
    fn take_orphans(&mut self) -> HashSet<LeaseId> {
        let orphans = std::mem::take(&mut self.unguarded);
        for lease in &orphans {
            self.close(*lease);
        }
        orphans
    }

    /// Whether the machine must be woken: a place may have come free just before.
    fn set_awaited(&mut self, awaited: bool) -> bool {
        self.awaited = awaited;
        awaited && !self.reports.is_empty() && !std::mem::replace(&mut self.woken, true)
    }

    fn advance(&mut self, lease: LeaseId, step: ReportStep, flow: Flow) -> bool {
        let Some(record) = self.leases.get_mut(&lease) else { return false };
        let before = record.clone();
        match step {
            ReportStep::Sent if record.phase == Phase::Unsent => record.phase = Phase::Sent,
            ReportStep::Answered if record.good == Good::NotYet => {
                record.phase = Phase::Answered;
                record.good = Good::Yes;
                record.slot = if flow == Flow::Stream { Slot::Freed } else { record.slot };
            }
            ReportStep::Sent | ReportStep::Answered | ReportStep::Ended => return false,
        }
        let after = record.clone();
        self.recount(&before, &after);
        self.report(Report { step, record: after })
    }

    /// Whether the machine must be woken. It looks by itself before every lease, and with every standing, which follows
    /// an answer. So that an attempt was sent or answered can wait, unless it is news or someone waits for a place.
    fn report(&mut self, report: Report) -> bool {
        let urgent = self.awaited || report.is_urgent();
        self.reports.push(report);
        urgent && !std::mem::replace(&mut self.woken, true)
    }

    fn recount(&mut self, before: &LeaseRecord, after: &LeaseRecord) {
        if before.call == CallKind::Side {
            return;
        }
        let tally = self.tally_mut(before.account);
        tally.unsent -= u32::from(before.phase == Phase::Unsent && after.phase != Phase::Unsent);
        tally.slots -= u32::from(before.slot == Slot::Held && after.slot == Slot::Freed);
        let probe_over = before.gate == Gate::Probe && before.good == Good::NotYet && after.good == Good::Yes;
        tally.probes -= u32::from(probe_over);
    }

    fn close(&mut self, lease: LeaseId) -> bool {
        let Some(record) = self.leases.remove(&lease) else { return false };
        if !broken(Rule::EndedIsReturned) || record.phase == Phase::Unsent {
            self.count_out(&record);
        }
        self.report(Report { step: ReportStep::Ended, record })
    }

    fn count_out(&mut self, record: &LeaseRecord) {
        let tally = self.tally_mut(record.account);
        match record.call {
            CallKind::Side => tally.side -= 1,
            CallKind::Inference => {
                tally.in_flight -= 1;
                tally.unsent -= u32::from(record.phase == Phase::Unsent);
                tally.slots -= u32::from(record.slot == Slot::Held);
                tally.probes -= u32::from(record.gate == Gate::Probe && record.good == Good::NotYet);
            }
        }
    }
}

/// A lease in someone's hands. Dropped, it is returned; unsent, it leaves no trace.
#[derive(Debug)]
pub struct LeaseGuard {
    book: Arc<LeaseBook>,
    lease: LeaseId,
}

impl LeaseGuard {
    /// Its number.
    #[must_use]
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// The attempt was sent.
    pub fn sent(&self) {
        self.book.advance(self.lease, ReportStep::Sent, Flow::Whole);
    }

    /// The attempt was answered 2xx with a good first event.
    pub fn answered(&self, flow: Flow) {
        self.sent();
        self.book.advance(self.lease, ReportStep::Answered, flow);
    }

    /// The body is over, or the attempt came to nothing. The same as dropping it.
    pub fn ended(self) {}
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.book.close(self.lease);
    }
}
