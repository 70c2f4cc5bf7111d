//! The health of one account: a pure machine of independent holds.
//!
//! An account may be held for several reasons at once. Each hold begins, grows and ends by its own rule and knows nothing
//! of the others: what ends a quota refusal leaves a refused credential alone. The state that is shown is merely the
//! gravest of them.
//!
//! Three rules stand above all holds. A new hold never shortens a running one of its kind. Evidence speaks of the moment
//! its request was *sent*: a success that was sent before a hold began cannot end it, and a failure that was sent before
//! it is part of the same episode. Evidence of a credential that is no longer in use is ignored.
//!
//! [`Health::apply`] takes what happened and the moment, and returns what is to be done. Time is just another event: a
//! timer that fires applies [`HealthEvent::Ticked`], and whatever comes later than a deadline finds the hold ended.
//!
//! Never here: clocks, timers, messages, the choice of an account.
//!
//! # Transitions
//!
//! One row for each event, one column for what the account is in when it comes: `+` begins (or is renewed, `↻`), `−` ends,
//! `·` no change. Requests were sent after whatever runs began, on the present credential, outside the scope unless the
//! row says so. `awaits` is an auth hold whose own time is over, of a provider that can be asked: the next question of its
//! schedule decides. The table is made from `apply` by a test.
//!
//! <!-- transitions: begin -->
//! | | healthy | strike | erroring | rate_limited | scope | breather | budget | balance | auth_dead | awaits | trial | broken | needs_login | paused | unverified |
//! |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
//! | served | · | −strike | −erroring | −rate_limited | · | · | · | · | −auth_dead | −auth_dead −awaits | −trial | · | · | · | −unverified |
//! | served, in the scope | · | −strike | −erroring | −rate_limited | −scope | · | · | · | −auth_dead | −auth_dead −awaits | −trial | · | · | · | −unverified |
//! | served, sent before | · | −strike | · | · | · | · | · | · | · | · | · | · | · | · | −unverified |
//! | quota refused | +rate_limited | +rate_limited | +rate_limited | ↻rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited |
//! | quota refused for the scope | +scope | +scope | +scope | +scope | ↻scope | +scope | +scope | +scope | +scope | +scope | +scope | +scope | +scope | +scope | +scope |
//! | throttled, 5 s stated | +breather | +breather | +breather | +breather | +breather | · | +breather | +breather | +breather | +breather | +breather | +breather | +breather | +breather | +breather |
//! | throttled, 60 s stated | +rate_limited | +rate_limited | +rate_limited | ↻rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited |
//! | throttled, nothing stated | +rate_limited | +rate_limited | +rate_limited | ↻rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited |
//! | credential refused (401) | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | −awaits ↻auth_dead | −trial +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | credential refused, sent before | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | · | · | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | organisation refused (403) | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | −awaits ↻auth_dead | −trial +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | balance empty | +balance | +balance | +balance | +balance | +balance | +balance | +balance | ↻balance | +balance | +balance | +balance | +balance | +balance | +balance | +balance |
//! | fault, unreachable, late, blank | +strike | −strike +erroring | ↻erroring | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike |
//! | fault, 20 s stated | +erroring | −strike +erroring | ↻erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring |
//! | body broke | +strike | −strike +erroring | ↻erroring | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike |
//! | relayed, abandoned | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | body complete, client gone | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | fault of a side call | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | usage below the thresholds | · | · | · | −rate_limited | −scope | · | · | · | · | · | · | · | · | · | · |
//! | two days passed | · | −strike | −erroring | −rate_limited | −scope | −breather | −budget | −balance | −auth_dead +trial | −auth_dead −awaits +trial | · | · | · | · | · |
//! | credential renewed | · | · | · | · | · | · | · | · | −auth_dead | −auth_dead −awaits | −trial | −broken | −needs_login | · | −unverified |
//! | credential broke | +broken | +broken | +broken | +broken | +broken | +broken | +broken | +broken | +broken | +broken | +broken | · | −needs_login +broken | +broken | +broken |
//! | source reads again | · | · | · | · | · | · | · | · | · | · | · | −broken | · | · | · |
//! | grant lost | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | · | · | +needs_login | +needs_login |
//! | grant regained | · | · | · | · | · | · | · | · | · | · | · | · | −needs_login | · | · |
//! | its end is told | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | check says valid | · | · | · | · | · | · | · | · | −auth_dead | −auth_dead −awaits | −trial | · | · | · | −unverified |
//! | check says refused | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | −awaits ↻auth_dead | −trial +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | check undecided | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | its own question is refused | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | −awaits ↻auth_dead | −trial +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | its own question is undecided | · | · | · | · | · | · | · | · | · | −auth_dead −awaits +trial | · | · | · | · | · |
//! | it cannot be asked | · | · | · | · | · | · | · | · | · | −auth_dead −awaits +trial | · | · | · | · | · |
//! | its CLI is logged in | · | · | · | · | · | · | · | · | · | · | · | · | · | · | −unverified |
//! | budget reached | +budget | +budget | +budget | +budget | +budget | +budget | · | +budget | +budget | +budget | +budget | +budget | +budget | +budget | +budget |
//! | budget raised | · | · | · | · | · | · | −budget | · | · | · | · | · | · | · | · |
//! | paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | · | +paused |
//! | resumed | · | · | · | · | · | · | · | · | · | · | · | · | · | −paused | · |
//! | cleared | · | · | · | −rate_limited | −scope | −breather | −budget | −balance | · | · | · | · | · | · | · |
//! | settings changed | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | clock stepped | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! <!-- transitions: end -->

mod asking;
mod auth;
mod credential;
mod erroring;
mod event;
mod evidence;
mod join;
mod limits;
mod report;
mod slot;
mod snapshot;
mod spend;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::asking::{AskedBy, Question};
use self::auth::{Asked, Auth};
use self::credential::Credential;
use self::erroring::Erroring;
pub use self::event::{Check, Effect, HealthEvent, Questions, Settings, UsagePoll, Verdict};
use self::limits::Limits;
use self::report::Report;
pub use self::snapshot::{RestoreError, Snapshot};
use self::spend::Spend;
use super::quota::Quota;
use crate::clock::{Deadline, Timestamp, Wall};
use crate::event::{EventKind, Severity};
use crate::id::{AccountId, EvidenceSeq, Generation};
use crate::outcome::Cause;
use crate::standing::{CredentialState, Hold, Paused, Standing, State};

/// The health of one account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    #[serde(skip)]
    account: AccountKey,
    #[serde(skip)]
    settings: Settings,
    credential: Credential,
    auth: Auth,
    erroring: Erroring,
    limits: Limits,
    spend: Spend,
    quota: Quota,
    paused: Paused,
    /// The state that was last told.
    shown: State,
    /// Numbers the episodes of all holds.
    episodes: u64,
}

/// Whose health it is; of no account until it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AccountKey(AccountId);

impl Default for AccountKey {
    fn default() -> Self {
        Self(AccountId(u32::MAX))
    }
}

impl Health {
    /// The health of an account of which nothing is known yet.
    #[must_use]
    pub fn new(account: AccountId, settings: Settings) -> Self {
        Self { account: AccountKey(account), settings, ..Self::default() }
    }

    /// One of which nothing is known but these figures, to be joined into the account's own.
    #[must_use]
    pub fn with_quota(account: AccountId, settings: Settings, quota: Quota) -> Self {
        Self { quota, ..Self::new(account, settings) }
    }

    /// Takes what happened. Whatever is over at `now` has ended before.
    pub fn apply(&mut self, event: HealthEvent<'_>, now: Timestamp) -> Vec<Effect> {
        let before = self.clone();
        let mut episodes = self.episodes;
        let mut report = Report::new(now, &mut episodes);
        self.lapse(&mut report);
        self.take(event, &mut report);
        self.show_state(&mut report);
        let mut effects = report.into_effects();
        self.episodes = episodes;
        if !self.stands_like(&before) {
            effects.push(Effect::Publish);
        }
        if *self != before {
            effects.push(Effect::Persist);
        }
        effects
    }

    /// When time alone changes something next.
    #[must_use]
    pub fn next_deadline(&self, now: Timestamp) -> Option<Deadline> {
        let holds = self.holds().into_iter().flatten().map(|hold| hold.until);
        let others = [self.limits.breather, self.credential.deadline(now)];
        holds.chain(others.into_iter().flatten()).reduce(|next, other| next.sooner(other, now))
    }

    /// What admission is to know. The numbers are the shell's: of this publication, and of the last piece of evidence
    /// that is in it.
    #[must_use]
    pub fn standing(&self, seq: u64, applied: EvidenceSeq, now: Timestamp) -> Standing {
        let spend = self.spend.longest(now);
        let auth = self.auth.shown(self.settings.questions, now);
        Standing {
            account: self.account.0,
            seq,
            applied,
            generation: self.credential.generation,
            credential: self.credential.state(),
            paused: self.paused,
            unverified: self.credential.unverified,
            on_trial: self.auth.on_trial,
            holds: [self.erroring.hold, self.limits.account.hold, spend, auth].into_iter().flatten().collect(),
            fable_hold: self.limits.fable.hold,
            breather: self.limits.breather,
            quota: self.quota.clone(),
        }
    }

    /// The credential whose evidence counts.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.credential.generation
    }

    /// Why its secret cannot be had, if it cannot.
    #[must_use]
    pub fn broken(&self) -> Option<Cause> {
        match self.credential.state() {
            CredentialState::Broken(cause) => Some(cause),
            CredentialState::Usable | CredentialState::NeedsLogin { .. } => None,
        }
    }

    /// The quota figures.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// When the provider last said, asked about the present credential, whether it knows it.
    #[must_use]
    pub fn asked_at(&self) -> Option<Wall> {
        self.credential.asked_at()
    }

    /// Whether its credential ends within a month and cannot be renewed.
    #[must_use]
    pub fn expires_soon(&self, now: Timestamp) -> bool {
        self.credential.expires_soon(now)
    }

    /// How often in a row the present credential was refused.
    #[must_use]
    pub fn strikes(&self) -> u32 {
        self.auth.strikes
    }

    fn take(&mut self, event: HealthEvent<'_>, report: &mut Report<'_>) {
        match event {
            HealthEvent::Answered(answered) => self.answered(answered, report),
            HealthEvent::Ended(ended) => self.ended(ended, report),
            HealthEvent::UsagePolled(poll) => self.usage_polled(poll, report),
            HealthEvent::Ticked => {}
            HealthEvent::CredentialRenewed { generation, check } => self.renewed(generation, check, report),
            HealthEvent::TokenRefreshed { generation } => self.credential.refreshed(generation, report),
            HealthEvent::CredentialBroke { cause } => self.credential.broke(cause, report),
            HealthEvent::CredentialRead { generation } => self.read_again(generation, report),
            HealthEvent::GrantLost { access_until } => self.credential.grant_lost(access_until, report),
            HealthEvent::GrantRegained => self.credential.grant_regained(),
            HealthEvent::ExpiryTold { ends } => self.credential.ends_at(ends, report),
            HealthEvent::Probed { verdict, generation, sent_at, by } => {
                self.probed(verdict, generation, Asked { by, sent_at }, report);
            }
            HealthEvent::NotAskable { again } => self.learnt_nothing(AskedBy::Schedule { again }, report),
            HealthEvent::CliLoggedIn { sent_at } => self.cli_says_logged_in(sent_at, report),
            HealthEvent::BudgetReached { cycle_ends } => self.spend.budget_reached(cycle_ends, report),
            HealthEvent::BudgetRaised => self.spend.budget_raised(report),
            HealthEvent::Paused => self.pause(Paused::Yes, EventKind::Paused, report),
            HealthEvent::Resumed => self.pause(Paused::No, EventKind::Resumed, report),
            HealthEvent::Cleared => self.cleared(report),
            HealthEvent::SettingsChanged(settings) => self.configured(settings, report),
            HealthEvent::ClockStepped { by_ms } => self.stepped(by_ms),
            HealthEvent::Joined(other) => self.join(other, report.now),
        }
    }

    fn pause(&mut self, paused: Paused, kind: EventKind, report: &mut Report<'_>) {
        if self.paused != paused {
            self.paused = paused;
            report.say(kind, Severity::Info);
        }
    }

    /// The operator vouches for quota and balance: their holds end, and the figures that kept the account out are
    /// forgotten. What a credential's check or a served request must show is not cleared by hand.
    fn cleared(&mut self, report: &mut Report<'_>) {
        report.say(EventKind::Cleared, Severity::Info);
        self.limits.clear(report);
        self.spend.clear(report);
        self.quota.forget();
        if sabotaged!(ClearEndsAuth) {
            self.auth.heal(crate::event::EndedBy::Clear, report);
        }
    }

    fn configured(&mut self, settings: Settings, report: &mut Report<'_>) {
        self.settings = settings;
        self.limits.observed(&self.quota, &self.settings, report);
    }

    /// The civil clock moved, the steady one did not: stamps move with it, stated civil moments stay.
    fn stepped(&mut self, by_ms: i64) {
        self.quota.step(by_ms);
        self.limits.step(by_ms);
        for hold in self.holds_mut().into_iter().flatten() {
            hold.began.wall = super::quota::moved(hold.began.wall, by_ms);
            match &mut hold.until {
                Deadline::Wall(at) if sabotaged!(StepMovesReset) => *at = super::quota::moved(*at, by_ms),
                Deadline::Wall(_) | Deadline::Boot(_) => {}
            }
        }
    }

    fn lapse(&mut self, report: &mut Report<'_>) {
        self.auth.lapse(self.settings.questions, report);
        self.erroring.lapse(report);
        self.limits.lapse(report);
        self.spend.lapse(report);
        self.credential.lapse(report);
        self.quota.expire(report.now);
    }

    fn show_state(&mut self, report: &mut Report<'_>) {
        let (from, to) = (self.shown, self.state());
        if from != to {
            self.shown = to;
            let severity = if to == State::Healthy { Severity::Info } else { Severity::Warning };
            report.say(EventKind::StateChanged { from, to }, severity);
        }
    }

    /// The gravest; holds that are over were taken away before.
    fn state(&self) -> State {
        let spend = self.spend.budget.or(self.spend.balance);
        let holds = [self.erroring.hold, self.limits.account.hold, spend, self.auth.hold];
        let held = holds.into_iter().flatten().map(|hold| State::from(hold.kind)).max();
        if self.credential.is_broken() { State::Broken } else { held.unwrap_or(State::Healthy) }
    }

    fn holds(&self) -> [Option<&Hold>; 6] {
        let Self { auth, erroring, limits, spend, .. } = self;
        let slots =
            [&auth.hold, &erroring.hold, &limits.account.hold, &limits.fable.hold, &spend.budget, &spend.balance];
        slots.map(Option::as_ref)
    }

    fn holds_mut(&mut self) -> [Option<&mut Hold>; 6] {
        let Self { auth, erroring, limits, spend, .. } = self;
        let Limits { account, fable, .. } = limits;
        let Spend { budget, balance } = spend;
        let slots = [&mut auth.hold, &mut erroring.hold, &mut account.hold, &mut fable.hold, budget, balance];
        slots.map(Option::as_mut)
    }

    /// Whether admission would see no difference.
    fn stands_like(&self, other: &Self) -> bool {
        self.credential == other.credential
            && self.holds() == other.holds()
            && self.auth == other.auth
            && self.settings.questions == other.settings.questions
            && self.limits.breather == other.limits.breather
            && self.paused == other.paused
            && self.quota == other.quota
    }
}

/// `first`, doubled with each further time, at most `longest`.
fn doubled(first: Duration, nth: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(nth.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}
