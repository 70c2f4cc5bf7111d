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
//! row says so. The table is made from `apply` by a test.
//!
//! <!-- transitions: begin -->
//! | | healthy | strike | erroring | rate_limited | scope | breather | budget | balance | auth_dead | trial | broken | needs_login | paused | unverified |
//! |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
//! | served | · | −strike | −erroring | −rate_limited | · | · | · | · | −auth_dead | −trial | · | · | · | −unverified |
//! | served, in the scope | · | −strike | −erroring | −rate_limited | −scope | · | · | · | −auth_dead | −trial | · | · | · | −unverified |
//! | served, sent before | · | −strike | · | · | · | · | · | · | · | · | · | · | · | −unverified |
//! | quota refused | +rate_limited | +rate_limited | +rate_limited | ↻rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited |
//! | quota refused for the scope | +scope | +scope | +scope | +scope | ↻scope | +scope | +scope | +scope | +scope | +scope | +scope | +scope | +scope | +scope |
//! | throttled, 5 s stated | +breather | +breather | +breather | +breather | +breather | · | +breather | +breather | +breather | +breather | +breather | +breather | +breather | +breather |
//! | throttled, 60 s stated | +rate_limited | +rate_limited | +rate_limited | ↻rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited |
//! | throttled, nothing stated | +rate_limited | +rate_limited | +rate_limited | ↻rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited | +rate_limited |
//! | credential refused (401) | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | −trial +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | credential refused, sent before | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | · | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | organisation refused (403) | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | −trial +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | balance empty | +balance | +balance | +balance | +balance | +balance | +balance | +balance | ↻balance | +balance | +balance | +balance | +balance | +balance | +balance |
//! | fault, unreachable, late, blank | +strike | −strike +erroring | ↻erroring | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike |
//! | fault, 20 s stated | +erroring | −strike +erroring | ↻erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring | +erroring |
//! | body broke | +strike | −strike +erroring | ↻erroring | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike | +strike |
//! | relayed, abandoned | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | body complete, client gone | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | fault of a side call | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | usage below the thresholds | · | · | · | −rate_limited | −scope | · | · | · | · | · | · | · | · | · |
//! | two days passed | · | −strike | −erroring | −rate_limited | −scope | −breather | −budget | −balance | −auth_dead +trial | · | · | · | · | · |
//! | credential renewed | · | · | · | · | · | · | · | · | −auth_dead | −trial | −broken | −needs_login | · | −unverified |
//! | credential broke | +broken | +broken | +broken | +broken | +broken | +broken | +broken | +broken | +broken | +broken | · | −needs_login +broken | +broken | +broken |
//! | source reads again | · | · | · | · | · | · | · | · | · | · | −broken | · | · | · |
//! | grant lost | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | +needs_login | · | · | +needs_login | +needs_login |
//! | grant regained | · | · | · | · | · | · | · | · | · | · | · | −needs_login | · | · |
//! | check says valid | · | · | · | · | · | · | · | · | −auth_dead | −trial | · | · | · | −unverified |
//! | check says refused | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead | · | −trial +auth_dead | +auth_dead | +auth_dead | +auth_dead | +auth_dead |
//! | check undecided | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | budget reached | +budget | +budget | +budget | +budget | +budget | +budget | · | +budget | +budget | +budget | +budget | +budget | +budget | +budget |
//! | budget raised | · | · | · | · | · | · | −budget | · | · | · | · | · | · | · |
//! | paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | +paused | · | +paused |
//! | resumed | · | · | · | · | · | · | · | · | · | · | · | · | −paused | · |
//! | cleared | · | · | · | −rate_limited | −scope | −breather | −budget | −balance | · | · | · | · | · | · |
//! | settings changed | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! | clock stepped | · | · | · | · | · | · | · | · | · | · | · | · | · | · |
//! <!-- transitions: end -->

mod auth;
mod credential;
mod erroring;
mod limits;
mod report;
mod slot;
mod snapshot;
mod spend;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::auth::Auth;
use self::credential::Credential;
use self::erroring::{Erroring, Failure};
use self::limits::Limits;
use self::report::Report;
pub use self::snapshot::{RestoreError, Snapshot};
use self::spend::Spend;
use super::quota::Quota;
use crate::clock::{Deadline, Timestamp};
use crate::event::{EventKind, Severity};
use crate::id::{AccountId, EvidenceSeq, Generation, ModelScope};
use crate::outcome::{Answered, CallKind, Cause, Close, Ended, Evidence, Outcome, WindowReading};
use crate::roster::WindowLimits;
use crate::standing::{Hold, Paused, Standing, State};

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
    paused: Pause,
    /// The state that was last told.
    shown: Shown,
    /// Numbers the episodes of all holds.
    episodes: u64,
}

/// What the rules need to know of the configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Soft thresholds: below them a refused window is good again.
    pub thresholds: WindowLimits,
    /// How long a quota refusal holds when no end was stated.
    pub cooldown: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { thresholds: WindowLimits::all(0.98), cooldown: Duration::from_secs(120) }
    }
}

/// What happened to an account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HealthEvent<'a> {
    /// Head and first event of an attempt are classified.
    Answered(&'a Answered),
    /// The body of an attempt is over.
    Ended(&'a Ended),
    /// The provider's usage page was read.
    UsagePolled(&'a UsagePoll),
    /// Time passed.
    Ticked,
    /// A new credential was saved.
    CredentialRenewed {
        /// Its number.
        generation: Generation,
        /// Whether it was checked before it was saved.
        check: Check,
    },
    /// The secret cannot be had.
    CredentialBroke {
        /// Why.
        cause: Cause,
    },
    /// The secret's source reads again.
    CredentialRead {
        /// The number of what it holds now.
        generation: Generation,
    },
    /// The refresh grant is gone.
    GrantLost {
        /// When the access token ends.
        access_until: Deadline,
    },
    /// The refresh grant works after all.
    GrantRegained,
    /// A check of this very credential was answered.
    Probed {
        /// What it said.
        verdict: Verdict,
        /// The credential that was checked.
        generation: Generation,
        /// When it was asked.
        sent_at: Timestamp,
    },
    /// Our own cap on spend is reached.
    BudgetReached {
        /// When the next billing cycle begins.
        cycle_ends: Deadline,
    },
    /// The cap was raised, or a new billing cycle began.
    BudgetRaised,
    /// The operator paused the account.
    Paused,
    /// The operator resumed it.
    Resumed,
    /// The operator cleared its quota and budget holds.
    Cleared,
    /// The configuration changed.
    SettingsChanged(Settings),
    /// The civil clock was stepped; `now` is already by the new one.
    ClockStepped {
        /// By how many milliseconds, negative for back.
        by_ms: i64,
    },
}

/// Whether a credential was checked before it was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The provider knows it.
    Passed,
    /// The check could not be completed.
    Undecided,
}

/// What a check of a credential said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is valid.
    Valid,
    /// The token is refused.
    InvalidToken,
    /// The organisation refuses.
    OrgRefused,
    /// Anything else: nothing is known.
    Undecided,
}

/// One reading of the provider's usage page.
#[derive(Clone, Debug, PartialEq)]
pub struct UsagePoll {
    /// The credential it was asked with.
    pub generation: Generation,
    /// When it was answered.
    pub answered_at: Timestamp,
    /// Utilization and reset per window; a status in it is not read.
    pub windows: Vec<WindowReading>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell the feed.
    Emit {
        /// What happened.
        kind: EventKind,
        /// How much it matters.
        severity: Severity,
        /// What shows it.
        evidence: Evidence,
    },
    /// Tell admission: the [`Standing`] is another.
    Publish,
    /// Keep a [`Snapshot`]: what must survive a restart changed.
    Persist,
}

/// What of an attempt the rules look at.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    call: CallKind,
    scope: ModelScope,
    sent_at: Timestamp,
    answered_at: Timestamp,
}

/// Whose health it is; of no account until it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AccountKey(AccountId);

impl Default for AccountKey {
    fn default() -> Self {
        Self(AccountId(u32::MAX))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Pause(Paused);

impl Default for Pause {
    fn default() -> Self {
        Self(Paused::No)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Shown(State);

impl Default for Shown {
    fn default() -> Self {
        Self(State::Healthy)
    }
}

impl Health {
    /// The health of an account of which nothing is known yet.
    #[must_use]
    pub fn new(account: AccountId, settings: Settings) -> Self {
        Self { account: AccountKey(account), settings, ..Self::default() }
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
        let others = [self.limits.breather, self.credential.deadline()];
        holds.chain(others.into_iter().flatten()).reduce(|next, other| next.sooner(other, now))
    }

    /// What admission is to know. The numbers are the shell's: of this publication, and of the last piece of evidence
    /// that is in it.
    #[must_use]
    pub fn standing(&self, seq: u64, applied: EvidenceSeq, now: Timestamp) -> Standing {
        let spend = self.spend.longest(now);
        Standing {
            account: self.account.0,
            seq,
            applied,
            generation: self.credential.generation,
            credential: self.credential.state(),
            paused: self.paused.0,
            unverified: self.credential.unverified,
            on_trial: self.auth.on_trial,
            holds: [self.erroring.hold, self.limits.account.hold, spend, self.auth.hold]
                .into_iter()
                .flatten()
                .collect(),
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

    /// The quota figures.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.quota
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
            HealthEvent::CredentialBroke { cause } => self.credential.broke(cause, report),
            HealthEvent::CredentialRead { generation } => self.read_again(generation, report),
            HealthEvent::GrantLost { access_until } => self.credential.grant_lost(access_until, report),
            HealthEvent::GrantRegained => self.credential.grant_regained(),
            HealthEvent::Probed { verdict, generation, sent_at } => self.probed(verdict, generation, sent_at, report),
            HealthEvent::BudgetReached { cycle_ends } => self.spend.budget_reached(cycle_ends, report),
            HealthEvent::BudgetRaised => self.spend.budget_raised(report),
            HealthEvent::Paused => self.pause(Paused::Yes, EventKind::Paused, report),
            HealthEvent::Resumed => self.pause(Paused::No, EventKind::Resumed, report),
            HealthEvent::Cleared => self.cleared(report),
            HealthEvent::SettingsChanged(settings) => self.configured(settings, report),
            HealthEvent::ClockStepped { by_ms } => self.stepped(by_ms),
        }
    }

    /// Figures first, so that a refusal knows them; what they end last, so that a refusal's own figures end nothing.
    fn answered(&mut self, answered: &Answered, report: &mut Report<'_>) {
        if !self.is_current(answered.generation, report) {
            return;
        }
        report.on(&answered.evidence);
        let ignored = sabotaged!(RelayedQuotaIgnored) && answered.outcome == Outcome::Relayed;
        if !answered.quota.is_empty() && !ignored {
            self.quota.apply(&answered.quota, answered.answered_at, report.now);
        }
        let answered_at = clamped(answered.answered_at, report.now);
        let Answered { call, scope, sent_at, .. } = *answered;
        self.learn(&answered.outcome, &Attempt { call, scope, sent_at, answered_at }, report);
        self.limits.observed(&self.quota, &self.settings, report);
    }

    fn ended(&mut self, ended: &Ended, report: &mut Report<'_>) {
        if !self.is_current(ended.generation, report) {
            return;
        }
        let Ended { call, scope, sent_at, .. } = *ended;
        let attempt = Attempt { call, scope, sent_at, answered_at: report.now };
        match &ended.close {
            Close::Broken => self.learn(&Outcome::Unreachable { connecting: false }, &attempt, report),
            Close::ErrorEvent(Outcome::Served) | Close::Complete | Close::Stalled | Close::ClientGone => {}
            Close::ErrorEvent(outcome) => self.learn(outcome, &attempt, report),
        }
    }

    fn usage_polled(&mut self, poll: &UsagePoll, report: &mut Report<'_>) {
        if self.is_current(poll.generation, report) {
            self.quota.apply_usage(&poll.windows, poll.answered_at, report.now);
            self.limits.observed(&self.quota, &self.settings, report);
        }
    }

    /// What an outcome teaches. A call beside inference teaches only what it says of the credential.
    fn learn(&mut self, outcome: &Outcome, attempt: &Attempt, report: &mut Report<'_>) {
        match outcome {
            Outcome::Unauthorized => self.auth.refused(Cause::InvalidToken, attempt.sent_at, report),
            Outcome::OrgRefused => self.auth.refused(Cause::OrgDisabled, attempt.sent_at, report),
            Outcome::Relayed if sabotaged!(ClientErrorCounts) => self.fail(Cause::ServerError, None, attempt, report),
            Outcome::Relayed | Outcome::Abandoned => {}
            Outcome::Served
            | Outcome::Quota(_)
            | Outcome::Throttled { .. }
            | Outcome::BalanceEmpty
            | Outcome::ServerFault { .. }
            | Outcome::Unreachable { .. }
            | Outcome::HeadTimeout { .. }
            | Outcome::Blank => self.learn_by_inference(outcome, attempt, report),
        }
    }

    fn learn_by_inference(&mut self, outcome: &Outcome, attempt: &Attempt, report: &mut Report<'_>) {
        if attempt.call == CallKind::Side && !sabotaged!(SideCallCounts) {
            return;
        }
        match outcome {
            Outcome::Served => self.served(attempt, report),
            Outcome::Quota(refusal) => self.limits.refused(refusal, attempt, &self.settings, report),
            Outcome::Throttled { wait } => self.limits.throttled(*wait, attempt, report),
            Outcome::BalanceEmpty => self.spend.balance_empty(attempt.sent_at, report),
            Outcome::ServerFault { cause, wait } => self.fail(*cause, *wait, attempt, report),
            Outcome::Unreachable { connecting } => self.unreachable(*connecting, attempt, report),
            Outcome::HeadTimeout { streaming: true } => self.fail(Cause::Timeout, None, attempt, report),
            Outcome::Blank => self.fail(Cause::Blank, None, attempt, report),
            Outcome::HeadTimeout { streaming: false }
            | Outcome::Unauthorized
            | Outcome::OrgRefused
            | Outcome::Relayed
            | Outcome::Abandoned => {}
        }
    }

    /// A request was served: the account, its credential and the way to it were good when it was sent.
    fn served(&mut self, attempt: &Attempt, report: &mut Report<'_>) {
        self.limits.served(attempt.scope, attempt.sent_at, report);
        self.erroring.served(attempt.sent_at, report);
        self.auth.served(attempt.sent_at, report);
        self.spend.served(attempt.sent_at, report);
        self.credential.unverified &= sabotaged!(NeverVerified);
    }

    fn fail(&mut self, cause: Cause, wait: Option<Duration>, attempt: &Attempt, report: &mut Report<'_>) {
        let until = wait.map(|wait| Deadline::after(attempt.answered_at, wait));
        self.erroring.failed(Failure { cause, connecting: false, until, sent_at: attempt.sent_at }, report);
    }

    fn unreachable(&mut self, connecting: bool, attempt: &Attempt, report: &mut Report<'_>) {
        let failure = Failure { cause: Cause::Network, connecting, until: None, sent_at: attempt.sent_at };
        self.erroring.failed(failure, report);
    }

    fn pause(&mut self, paused: Paused, kind: EventKind, report: &mut Report<'_>) {
        if self.paused.0 != paused {
            self.paused = Pause(paused);
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
        self.auth.lapse(report);
        self.erroring.lapse(report);
        self.limits.lapse(report);
        self.spend.lapse(report);
        self.credential.lapse(report.now);
        self.quota.expire(report.now);
    }

    fn show_state(&mut self, report: &mut Report<'_>) {
        let (from, to) = (self.shown.0, self.state());
        if from != to {
            self.shown = Shown(to);
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
            && self.auth.on_trial == other.auth.on_trial
            && self.limits.breather == other.limits.breather
            && self.paused == other.paused
            && self.quota == other.quota
    }
}

/// A report cannot come from later than now.
fn clamped(at: Timestamp, now: Timestamp) -> Timestamp {
    if at.boot > now.boot { now } else { at }
}

/// `first`, doubled with each further time, at most `longest`.
fn doubled(first: Duration, nth: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(nth.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}
