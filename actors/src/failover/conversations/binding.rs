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
    pending: Option<Pending>,
    last_served: Option<AccountId>,
    detours: Vec<(u64, Timestamp)>,
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
        Self { upstream, scope, settled: None, pending: None, last_served: None, detours: Vec::new() }
    }

    pub(super) fn settled(upstream: UpstreamId, scope: ModelScope, account: AccountId) -> Self {
        Self { settled: Some(account), last_served: Some(account), ..Self::new(upstream, scope) }
    }

    pub(in crate::failover) fn account(&self) -> Option<AccountId> {
        self.pending.map(|p| p.account).or(self.settled)
    }

    /// The account that a good answer confirmed.
    pub(super) fn confirmed(&self) -> Option<AccountId> {
        self.settled
    }

    pub(in crate::failover) fn home(&self) -> Option<Home> {
        match (self.pending, self.settled) {
            (Some(pending), settled) => Some(Home::Tentative(pending.account, settled)),
            (None, Some(settled)) => Some(Home::Firm(settled)),
            (None, None) => None,
        }
    }

    /// The account whose answer the conversation saw last.
    pub(in crate::failover) fn last_served(&self) -> Option<AccountId> {
        self.last_served
    }

    /// A lease goes there: binds tentatively, or joins what is being bound. Whether it is a new binding.
    pub(in crate::failover) fn claim(&mut self, account: AccountId, lease: LeaseId, now: Timestamp) -> bool {
        match &mut self.pending {
            Some(pending) if pending.account == account => {
                pending.open += 1;
                false
            }
            Some(_) | None => {
                self.pending = Some(Pending { account, first: lease, bound_at: now, open: 1, sent: false });
                true
            }
        }
    }

    pub(in crate::failover) fn sent(&mut self, lease: LeaseId, account: AccountId) {
        if let Some(pending) = self.claimed(lease, account) {
            pending.open = pending.open.saturating_sub(1);
            pending.sent = true;
        }
    }

    pub(super) fn unsent(&mut self, lease: LeaseId, account: AccountId) -> Undone {
        let Some(pending) = self.claimed(lease, account) else { return Undone::Nothing };
        pending.open = pending.open.saturating_sub(1);
        let bound_at = pending.bound_at;
        if pending.sent || pending.open > 0 || broken(Rule::UnsentLeavesNoTrace) {
            return Undone::Nothing;
        }
        self.pending = None;
        Undone::Gone(bound_at)
    }

    pub(super) fn served(&mut self, lease: LeaseId, account: AccountId) -> Confirmed {
        self.last_served = Some(account);
        let Some(pending) = self.pending else { return Confirmed::Known };
        if self.settled == Some(account) && lease < pending.first {
            return Confirmed::Known;
        }
        self.pending = None;
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

    fn claimed(&mut self, lease: LeaseId, account: AccountId) -> Option<&mut Pending> {
        self.pending.as_mut().filter(|p| p.account == account && lease >= p.first)
    }
}
