//! One account as admission sees it: its settings, its last standing, and what admission itself keeps of it.

mod brief;
mod condition;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

pub(super) use self::brief::{Brief, Stance};
pub(super) use self::condition::{Condition, Digest, Removal};
use super::admission::budgets::Told;
use super::allowance::{Ramp, RampRule};
use super::probe::ProbeSchedule;
use super::provisional::{Belief, Provisional};
use super::queue::Queue;
use crate::clock::{Boot, Timestamp};
use crate::id::{EvidenceSeq, LeaseId, ModelScope};
use crate::roster::AccountSpec;
use crate::standing::{Hold, Standing};

/// A conversation bound within this time counts as load.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// One account.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) spec: AccountSpec,
    /// Whether the roster still has it.
    pub(super) listed: Listed,
    pub(super) standing: Option<Standing>,
    pub(super) provisional: Provisional,
    /// The newest answer that admission has acted upon.
    pub(super) heard: EvidenceSeq,
    pub(super) ramp: Ramp,
    pub(super) probes: ProbeSchedule,
    pub(super) trouble: Trouble,
    pub(super) grants: Grants,
    pub(super) queue: Queue,
    /// What it was told of its budget.
    pub(super) told: Told,
    /// What its rendezvous weights are seeded with.
    pub(super) seed: u64,
    bound: VecDeque<Boot>,
    digests: [RefCell<Option<Digest>>; 2],
}

/// Whether the roster has an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Yes,
    No,
}

/// The account's transient troubles, counted: what tells one detour from the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    pub(super) episode: u64,
    since: Option<Boot>,
}

impl Trouble {
    /// Something that began then: a new episode unless the present one covers it.
    pub(super) fn note(&mut self, began: Timestamp, now: Timestamp) {
        if self.since.is_none_or(|since| began.boot > since) {
            self.episode += 1;
            self.since = Some(now.boot);
        }
    }
}

/// When the account was last granted, in the count of all grants. A grant counts when it is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    sent: u64,
    open: Vec<(LeaseId, u64)>,
}

impl Grants {
    pub(super) fn newest(&self) -> u64 {
        self.open.iter().map(|(_, stamp)| *stamp).max().unwrap_or(0).max(self.sent)
    }

    pub(super) fn granted(&mut self, lease: LeaseId, stamp: u64) {
        self.open.push((lease, stamp));
    }

    pub(super) fn sent(&mut self, lease: LeaseId) {
        let stamp = self.open.iter().find(|(id, _)| *id == lease).map_or(0, |(_, stamp)| *stamp);
        self.sent = self.sent.max(stamp);
        self.unsent(lease);
    }

    pub(super) fn unsent(&mut self, lease: LeaseId) {
        self.open.retain(|(id, _)| *id != lease);
    }
}

impl View {
    pub(super) fn new(spec: AccountSpec) -> Self {
        let seed = seed_of(&spec);
        Self {
            spec,
            listed: Listed::Yes,
            standing: None,
            provisional: Provisional::default(),
            heard: EvidenceSeq::default(),
            ramp: Ramp::default(),
            probes: ProbeSchedule::default(),
            trouble: Trouble::default(),
            grants: Grants::default(),
            queue: Queue::default(),
            told: Told::default(),
            seed,
            bound: VecDeque::new(),
            digests: Default::default(),
        }
    }

    pub(super) fn configure(&mut self, spec: AccountSpec) {
        self.seed = seed_of(&spec);
        self.spec = spec;
        self.listed = Listed::Yes;
        self.forget_digests();
    }

    /// Takes in what the account says of itself. Whether it is in new trouble.
    pub(super) fn take(&mut self, standing: Standing, rule: RampRule, now: Timestamp) -> bool {
        let before = self.is_held(now);
        let breather = self.breather(now);
        let explained = self.standing.as_ref().is_none_or(|known| known.applied < self.heard);
        let explained = explained && self.heard > EvidenceSeq::default() && self.heard <= standing.applied;
        self.provisional.confirm(standing.applied);
        let newest = standing.holds.iter().chain(&standing.fable_hold).filter(|h| self.is_new(h)).map(|h| h.began);
        let newest = newest.max_by_key(|at| at.boot);
        self.standing = Some(standing);
        self.forget_digests();
        let after = self.is_held(now);
        if after && let Some(began) = newest {
            if !explained {
                self.trouble.note(began, now);
            }
            self.probes.refused(began);
        }
        if before != after || (after && newest.is_some()) {
            self.ramp.held(rule);
        }
        if !after {
            self.probes.reset();
        }
        let breathes = self.breather(now).filter(|at| Some(*at) != breather);
        if breathes.is_some() {
            if !explained {
                self.trouble.note(now, now);
            }
            self.ramp.refused(rule);
        }
        (after && newest.is_some()) || breathes.is_some()
    }

    /// An attempt that was sent then was refused.
    pub(super) fn refused(&mut self, sent_at: Timestamp, rule: RampRule, now: Timestamp) {
        self.trouble.note(sent_at, now);
        self.ramp.refused(rule);
        self.probes.refused(now);
        if self.is_held(now) {
            self.ramp.held(rule);
        }
    }

    /// The roster has it no more.
    pub(super) fn unlist(&mut self) {
        self.listed = Listed::No;
        self.forget_digests();
    }

    /// An answer that the account has not spoken of yet.
    pub(super) fn believe(&mut self, evidence: EvidenceSeq, belief: Belief) {
        self.provisional.add(evidence, belief);
        self.forget_digests();
    }

    fn forget_digests(&mut self) {
        self.digests = Default::default();
    }

    pub(super) fn note_bound(&mut self, now: Timestamp) {
        self.bound.push_back(now.boot);
    }

    /// A binding was taken back.
    pub(super) fn note_unbound(&mut self, bound_at: Timestamp) {
        if let Some(at) = self.bound.iter().rposition(|b| *b == bound_at.boot) {
            self.bound.remove(at);
        }
    }

    /// Conversations bound in the last ten minutes.
    pub(super) fn recently_bound(&self, now: Timestamp) -> u32 {
        let old = self.bound.partition_point(|at| now.boot.since(*at) >= RECENT);
        u32::try_from(self.bound.len() - old).unwrap_or(u32::MAX)
    }

    pub(super) fn forget_old_bindings(&mut self, now: Timestamp) {
        while self.bound.front().is_some_and(|at| now.boot.since(*at) >= RECENT) {
            self.bound.pop_front();
        }
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.hold(ModelScope::Fable, now).is_some()
    }

    /// Whether the last standing did not have this hold, or an earlier episode of it.
    fn is_new(&self, hold: &Hold) -> bool {
        let known = self.standing.iter().flat_map(|s| s.holds.iter().chain(&s.fable_hold));
        !known.into_iter().any(|k| k.kind == hold.kind && k.episode == hold.episode && k.began == hold.began)
    }
}

fn seed_of(spec: &AccountSpec) -> u64 {
    xxh3_64(format!("{:?}", spec.identity).as_bytes())
}
