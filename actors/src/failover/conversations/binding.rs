//! One binding: where a conversation is at home in one upstream for one model scope.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::failover::fault::{Rule, broken};
use crate::id::{AccountId, LeaseId, ModelScope, UpstreamId};

/// Detours within this time are counted.
const DETOUR_SPAN: Duration = Duration::from_secs(10 * 60);
/// So many in different episodes move the conversation.
const DETOURS: usize = 3;

/// A binding, settled or being made.
#[derive(Clone, Debug)]
pub(in crate::failover) struct Binding {
    pub(in crate::failover) upstream: UpstreamId,
    pub(in crate::failover) scope: ModelScope,
    settled: Option<AccountId>,
    /// The last one counts; one that is taken back leaves the one before it.
    pending: Vec<Pending>,
    last_served: Option<Served>,
    detours: Vec<(u64, Timestamp)>,
}

/// Whose answer came last, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) account: AccountId,
    pub(super) at: Timestamp,
}

/// A binding that no good answer has confirmed yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    account: AccountId,
    /// The lease that made it.
    first: LeaseId,
    bound_at: Timestamp,
    /// Leases on it that were neither sent nor dropped.
    open: u32,
    sent: bool,
}

/// Where a conversation is at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::failover) enum Home {
    /// A good answer confirmed it.
    Firm(AccountId),
    /// It is being bound, or moved from there.
    Tentative(AccountId, Option<AccountId>),
    /// It is not bound for this scope, but for another in the same upstream.
    Anchor(AccountId),
}

impl Home {
    pub(in crate::failover) fn account(self) -> AccountId {
        match self {
            Self::Firm(account) | Self::Tentative(account, _) | Self::Anchor(account) => account,
        }
    }
}

/// What an unsent lease undid.
pub(super) enum Undone {
    /// The tentative binding made then.
    Gone(Timestamp),
    Nothing,
}

/// What a good answer did.
pub(super) enum Confirmed {
    Changed,
    Known,
}

impl Binding {
    pub(super) fn new(upstream: UpstreamId, scope: ModelScope) -> Self {
        Self { upstream, scope, settled: None, pending: Vec::new(), last_served: None, detours: Vec::new() }
    }

    pub(super) fn settled(upstream: UpstreamId, scope: ModelScope, account: AccountId, at: Timestamp) -> Self {
        Self { settled: Some(account), last_served: Some(Served { account, at }), ..Self::new(upstream, scope) }
    }

    pub(in crate::failover) fn account(&self) -> Option<AccountId> {
        self.pending.last().map(|p| p.account).or(self.settled)
    }

    /// The account that a good answer confirmed.
    pub(super) fn confirmed(&self) -> Option<AccountId> {
        self.settled
    }

    pub(in crate::failover) fn home(&self) -> Option<Home> {
        match (self.pending.last(), self.settled) {
            (Some(pending), settled) => Some(Home::Tentative(pending.account, settled)),
            (None, Some(settled)) => Some(Home::Firm(settled)),
            (None, None) => None,
        }
    }

    /// The account whose answer the conversation saw last.
    pub(in crate::failover) fn last_served(&self) -> Option<AccountId> {
        self.last_served.map(|served| served.account)
    }

    pub(super) fn served_last(&self) -> Option<Served> {
        self.last_served
    }

    /// A lease goes there: binds tentatively, or joins what is being bound. Whether it is a new binding.
    pub(in crate::failover) fn claim(&mut self, account: AccountId, lease: LeaseId, now: Timestamp) -> bool {
        match self.pending.last_mut() {
            Some(pending) if pending.account == account => {
                pending.open += 1;
                false
            }
            Some(_) | None => {
                self.pending.push(Pending { account, first: lease, bound_at: now, open: 1, sent: false });
                true
            }
        }
    }

    pub(in crate::failover) fn sent(&mut self, lease: LeaseId, account: AccountId) {
        let Some(at) = self.claimed(lease, account) else { return };
        self.pending[at].open = self.pending[at].open.saturating_sub(1);
        self.pending[at].sent = true;
        self.pending.drain(..at);
    }

    pub(super) fn unsent(&mut self, lease: LeaseId, account: AccountId) -> Undone {
        let Some(at) = self.claimed(lease, account) else { return Undone::Nothing };
        let pending = &mut self.pending[at];
        pending.open = pending.open.saturating_sub(1);
        if pending.sent || pending.open > 0 || broken(Rule::UnsentLeavesNoTrace) {
            return Undone::Nothing;
        }
        Undone::Gone(self.pending.remove(at).bound_at)
    }

    pub(super) fn served(&mut self, lease: LeaseId, account: AccountId, at: Timestamp) -> Confirmed {
        self.last_served = Some(Served { account, at });
        let first = self.pending.first().map(|pending| pending.first);
        let is_old = self.settled == Some(account) && first.is_some_and(|first| lease < first);
        if is_old || (first.is_none() && self.settled.is_some()) {
            return Confirmed::Known;
        }
        self.pending.clear();
        self.settled = Some(account);
        self.detours.clear();
        Confirmed::Changed
    }

    /// Whether a detour in this episode is the one that moves the conversation.
    pub(in crate::failover) fn is_last_detour(&self, episode: u64, now: Timestamp) -> bool {
        let recent = self.detours.iter().filter(|(e, at)| *e != episode && now.since(*at) < DETOUR_SPAN).count();
        recent + 1 >= DETOURS && !broken(Rule::DetoursMove)
    }

    pub(in crate::failover) fn note_detour(&mut self, episode: u64, now: Timestamp) {
        self.detours.retain(|(e, at)| *e != episode && now.since(*at) < DETOUR_SPAN);
        self.detours.push((episode, now));
    }

    fn claimed(&self, lease: LeaseId, account: AccountId) -> Option<usize> {
        self.pending.iter().rposition(|p| p.account == account && lease >= p.first)
    }

    /// Whether it says nothing.
    pub(super) fn is_blank(&self) -> bool {
        self.account().is_none() && self.last_served.is_none()
    }
}
