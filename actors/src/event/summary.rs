//! One event in one sentence, for people: in the feed, in the log, in messages.
//!
//! Never here: anything that is not in the event.

use std::time::Duration;

use super::{AttemptResult, EndedBy, Event, EventKind, FailoverReason, MoveReason, RequestClose};
use crate::activity::ScopeKey;
use crate::clock::{Deadline, Timestamp};
use crate::efficiency::CacheScope;
use crate::id::EntryId;
use crate::outcome::{Cause, HoldScope};
use crate::standing::HoldKind;

impl Event {
    /// What happened, in one sentence. Names stand in it as they are.
    #[must_use]
    pub fn summary(&self) -> String {
        let account = self.account.as_ref().map_or("an account", |entry| &*entry.name);
        let of = |entry: &EntryId| entry.name.to_string();
        match &self.kind {
            EventKind::StateChanged { from, to } => format!("{account}: {} → {}.", from.as_str(), to.as_str()),
            EventKind::AttemptAnswered { outcome, head_ms } => attempt(account, *outcome, *head_ms),
            EventKind::HoldBegan { hold, scope, cause, until, .. } => {
                format!("{account} is out: {}.", began(*hold, *scope, *cause, *until, self.ts))
            }
            EventKind::HoldEnded { hold, by, .. } => format!("{account}: {}.", ended(*hold, *by)),
            EventKind::BreatherTaken { until } => format!("{account} asked for a moment: {}.", left(*until, self.ts)),
            EventKind::TrialBegan => format!("{account} is on trial: one request at a time."),
            EventKind::CredentialBroke { cause } => {
                format!("The credential of {account} cannot be had: {}.", cause.as_str())
            }
            EventKind::CredentialRenewed => format!("{account} has a new credential."),
            EventKind::LoginNeeded => format!("{account} needs a new login."),
            EventKind::CredentialExpiring { days, .. } => {
                format!("The credential of {account} ends in {days} days and cannot be renewed: replace it before.")
            }
            EventKind::TokenRefreshed => format!("The access token of {account} was renewed."),
            EventKind::CredentialProved => format!("The provider knows the credential of {account}."),
            EventKind::TokenAdopted => format!("{account}: another program had renewed its token."),
            EventKind::RefreshFailed { detail } => format!("{account} was not renewed: {detail}"),
            EventKind::Paused => format!("{account} was paused."),
            EventKind::Resumed => format!("{account} was resumed."),
            EventKind::Cleared => format!("{account} was cleared."),
            EventKind::ConversationMoved { from, why, .. } => {
                format!("A conversation moves from {} to {account}: {}.", of(from), moved(*why))
            }
            EventKind::Detoured { from, .. } => {
                format!("This request goes to {account}; its conversation stays with {}.", of(from))
            }
            EventKind::Returned { from, .. } => format!("The conversation is back with {account}, after {}.", of(from)),
            EventKind::FailedOver { from, why } => format!("{} did not serve a request: {}.", of(from), failed(*why)),
            EventKind::ModelSubstituted { wanted, served, upstream } => {
                format!("{upstream} answered with {served} in the place of {wanted}.")
            }
            EventKind::RequestEnded { status, attempts, close, .. } => over(*status, *attempts, *close),
            EventKind::AttemptSettled { cost, .. } => format!("An attempt on {account} cost ${:.6}.", cost.dollars()),
            EventKind::CacheEfficiencyLow { scope, efficiency } => cold(scope, *efficiency),
            EventKind::RequestHeld { until } => {
                let wait = until.map_or_else(|| "nobody knows how long".to_owned(), |until| left(until, self.ts));
                format!("No account can serve. The client is kept waiting: {wait}.")
            }
            EventKind::RequestReleased => "The waiting client has its answer.".to_owned(),
            EventKind::PoolExhausted { .. } => "A client was told that no account can serve.".to_owned(),
            EventKind::BudgetRefused { why, .. } => format!("A request was refused: {why}."),
            EventKind::ClockStepped { by_ms } => format!("The clock was stepped by {by_ms} ms."),
            EventKind::ConfigReloaded => "A new configuration is in force.".to_owned(),
            EventKind::ConfigRefused { .. } => "A new configuration was refused.".to_owned(),
            EventKind::ActorRestarted { actor } => format!("{actor} died and was started again."),
            EventKind::StoreSetAside { kept_at, why } => format!(
                "The store could not be used ({why}). It lies at {kept_at} now, and what it knew is not known any more."
            ),
            EventKind::StoreFailing { why } => format!("Everything is kept in memory for now: {why}."),
            EventKind::StoreHealed { failed_ms } => {
                format!("The store works again, after {}.", span(Duration::from_millis(*failed_ms)))
            }
            EventKind::Started { addresses } => format!("The gateway serves at {}.", addresses.join(", ")),
            EventKind::OutageBegan { scope, accounts } => outage(scope, accounts.len()),
            EventKind::OutageEnded { scope, lasted_secs } => {
                let lasted = span(Duration::from_secs(*lasted_secs));
                format!("The outage of {} is over after {lasted}: {account} works again.", named(scope))
            }
            EventKind::MessageDelayed { channel, target, why, .. } => {
                format!("A message to {target} by {channel} is tried again: {why}.")
            }
            EventKind::MessageLost { channel, target, why, .. } => {
                format!("A message to {target} by {channel} was given up: {why}.")
            }
            EventKind::MessageArrived { channel, target, .. } => {
                format!("A message to {target} by {channel} arrived after all.")
            }
            EventKind::Draining => "The gateway is stopping; answers in flight are finished first.".to_owned(),
        }
    }
}

fn outage(scope: &ScopeKey, accounts: usize) -> String {
    let accounts = if accounts == 1 { "its one account".to_owned() } else { format!("all its {accounts} accounts") };
    format!(
        "No login or key of {} works any more ({accounts}): scheduled work and replies that need it have stopped. Look at the \
         accounts: `duduclaw status`.",
        named(scope)
    )
}

fn named(scope: &ScopeKey) -> String {
    match scope {
        ScopeKey::Provider(name) => format!("provider {name}"),
        ScopeKey::Agent(name) => format!("agent {name}"),
    }
}

fn attempt(account: &str, outcome: AttemptResult, head_ms: u64) -> String {
    match outcome {
        AttemptResult::Served => format!("{account} answered after {head_ms} ms."),
        AttemptResult::Failed(why) => format!("{account} did not serve: {}.", failed(why)),
        AttemptResult::Relayed => format!("{account} refused the request itself."),
        AttemptResult::Abandoned => format!("An attempt on {account} was given up: its client went away."),
    }
}

fn over(status: u16, attempts: u32, close: RequestClose) -> String {
    match (close, status) {
        (RequestClose::Complete, 200..=299) => {
            format!("The client got its answer ({status}), at attempt {attempts}.")
        }
        (RequestClose::Complete, _) => format!("The client got an error: {status}."),
        (RequestClose::Cut, _) => "An answer broke off after it had begun.".to_owned(),
        (RequestClose::ClientGone, _) => "A client hung up.".to_owned(),
    }
}

fn cold(scope: &CacheScope, efficiency: f64) -> String {
    let whose = match scope {
        CacheScope::Fleet => String::new(),
        CacheScope::Provider(name) => format!(" of {name}"),
        CacheScope::Account(entry) => format!(" of {}", entry.name),
        CacheScope::Agent(name) => format!(" of the agent {name}"),
    };
    let share = efficiency * 100.0;
    let advice = "Most tokens are paid in full; sending more to local inference would help.";
    format!("The cache served {share:.0} % of the prompts{whose} in the last hour. {advice}")
}

fn began(hold: HoldKind, scope: HoldScope, cause: Cause, until: Deadline, now: Timestamp) -> String {
    let models = match scope {
        HoldScope::Account => "",
        HoldScope::Model(_) => " for some models",
    };
    let why = match (hold, cause) {
        (HoldKind::RateLimited, Cause::Quota) => "its quota window is used up",
        (HoldKind::AuthDead, Cause::OrgDisabled) => "its organisation refuses access",
        (HoldKind::AuthDead, _) => "its credential is refused",
        (HoldKind::BudgetExhausted, _) => "its budget is spent",
        (HoldKind::Erroring, Cause::Overloaded) => "overloaded again and again",
        (HoldKind::Erroring, _) => "it keeps failing",
        (HoldKind::RateLimited, _) => "too many requests at once",
    };
    format!("{why}{models}, {}", left(until, now))
}

fn ended(hold: HoldKind, by: EndedBy) -> String {
    let what = match hold {
        HoldKind::Erroring => "its wait after errors",
        HoldKind::RateLimited => "its wait for quota",
        HoldKind::BudgetExhausted => "its wait for a budget",
        HoldKind::AuthDead => "its exclusion",
    };
    let why = match by {
        EndedBy::Time => "the time has come",
        EndedBy::Served => "it served again",
        EndedBy::Observation => "its windows have room again",
        EndedBy::Clear => "it was cleared",
        EndedBy::Credential => "it has a new credential",
        EndedBy::Probe => "a check says it is well",
        EndedBy::Budget => "there is budget again",
    };
    format!("{what} is over, {why}")
}

fn moved(why: MoveReason) -> &'static str {
    match why {
        MoveReason::Quota => "quota",
        MoveReason::Limit => "its limit",
        MoveReason::Auth => "access refused",
        MoveReason::Removed => "the account is not in use",
        MoveReason::LongHold => "out for long",
        MoveReason::Detours => "too many detours",
        MoveReason::BetterGroup => "a better account is back",
    }
}

fn failed(why: FailoverReason) -> &'static str {
    match why {
        FailoverReason::Quota => "its quota is used up",
        FailoverReason::RateLimit => "too many requests at once",
        FailoverReason::Auth => "access refused",
        FailoverReason::Balance => "its balance is empty",
        FailoverReason::ServerError => "overloaded or failing",
        FailoverReason::Transport => "no connection",
        FailoverReason::Timeout => "no answer in time",
        FailoverReason::Blank => "an empty answer",
        FailoverReason::Renewing => "its token is being renewed",
    }
}

fn left(until: Deadline, now: Timestamp) -> String {
    format!("{} to go", span(until.remaining(now)))
}

/// A span of time as people read it, in the two units that matter, rounded to the nearest of the smaller.
pub fn span(time: Duration) -> String {
    let seconds = (time.as_millis() + 500) / 1000;
    let minutes = (seconds + 30) / 60;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=3569 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}
