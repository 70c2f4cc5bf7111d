//! What may happen to an account, and what is to be done about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::asking::AskedBy;
use crate::clock::{Deadline, Timestamp, Wall};
use crate::event::{EventKind, Severity};
use crate::id::Generation;
use crate::outcome::{Answered, Cause, Ended, Evidence, WindowReading};
use crate::roster::WindowLimits;

/// What the rules need to know of the configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Soft thresholds: below them a refused window is good again.
    pub thresholds: WindowLimits,
    /// How long a quota refusal holds when no end was stated.
    pub cooldown: Duration,
    /// Who can be asked about its credential.
    pub questions: Questions,
}

/// Who can be asked about a credential in doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Questions {
    /// Nobody.
    #[default]
    Never,
    /// The CLI whose login it is: it knows whether there is a login, not whether that is good.
    OfCli,
    /// The provider.
    OfProvider {
        /// So often, where nothing else says when.
        every: Duration,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self { thresholds: WindowLimits::all(0.98), cooldown: Duration::from_secs(120), questions: Questions::Never }
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
    /// The access token was renewed: the same grant goes on, under another number.
    TokenRefreshed {
        /// Its number.
        generation: Generation,
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
    /// When the credential in use ends for good.
    ExpiryTold {
        /// The moment; none where it is renewed or its end is not known.
        ends: Option<Wall>,
    },
    /// A check of this very credential was answered.
    Probed {
        /// What it said.
        verdict: Verdict,
        /// The credential that was checked.
        generation: Generation,
        /// When it was asked.
        sent_at: Timestamp,
        /// Who asked.
        by: AskedBy,
    },
    /// The account's schedule had a question for its provider, and there was nothing to ask with.
    NotAskable {
        /// After how long it is tried again.
        again: Duration,
    },
    /// The account's own CLI says that it is logged in.
    CliLoggedIn {
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
    /// Another account turned out to be this one; this is its state.
    Joined(&'a super::Health),
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
    /// Tell admission: the [`Standing`](crate::standing::Standing) is another.
    Publish,
    /// Keep a [`Snapshot`](super::Snapshot): what must survive a restart changed.
    Persist,
}
