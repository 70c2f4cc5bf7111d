//! What is asked of admission, and what it answers.

use std::sync::Arc;

use crate::clock::Deadline;
use crate::failover::ledger::OverBudget;
use crate::id::{AccountId, ConversationKey, EntryId, EvidenceSeq, LeaseId, ModelScope, Principal, UpstreamId};
use crate::outcome::{Answered, CallKind, Cause, Usage};
use crate::price::Priced;
use crate::standing::Stated;

/// The longest answer that is expected while nothing is known of such answers.
const OUTPUT_EXPECTED: u64 = 4_096;
/// How much longer than the mean an answer may well be.
const MEAN_MARGIN: f64 = 1.5;

/// A request for permission to spend one attempt in one upstream.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Where.
    pub upstream: UpstreamId,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// The conversation it belongs to; none = session-less.
    pub conversation: Option<ConversationKey>,
    /// For a subagent, its parent's conversation: where it is placed first.
    pub parent: Option<ConversationKey>,
    /// The models it is for.
    pub scope: ModelScope,
    /// Inference, or beside it (outside allowances, caps' guard and the retry budget).
    pub call: CallKind,
    /// Whether it comes through the gateway, which cannot use keychain logins.
    pub via: Via,
    /// Accounts this request has already spent an attempt on in this upstream.
    pub tried: Vec<AccountId>,
    /// Accounts passed over without an attempt because their credential is being renewed: another candidate is
    /// preferred, but they are not used up.
    pub renewing: Vec<AccountId>,
    /// What the last attempt came to, so that the next choice knows it before the account's own fact arrives.
    pub last: Option<LastAnswer>,
    /// Which step of the request this is.
    pub step: Step,
    /// Whether the model's reasoning is bound to the account that made it: then a move, a detour and the return are
    /// announced as a loss.
    pub binds_thinking: BindsThinking,
    /// What this request has already used up, in all upstreams.
    pub spent: Spent,
    /// What it may cost; nothing for what is never charged for.
    pub ask: Option<Arc<Ask>>,
}

/// What an attempt may cost, as far as it is known before it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The model, as the provider is asked for it.
    pub model: Arc<str>,
    /// Its price.
    pub priced: Priced,
    /// Tokens of the request, estimated.
    pub input: u64,
    /// The most tokens of the answer that the request allows.
    pub max_output: Option<u64>,
}

impl Ask {
    /// The tokens that the attempt is expected to take, given how long such answers are in the mean.
    #[must_use]
    pub fn expected(&self, mean: Option<f64>) -> Usage {
        let most = self.max_output.unwrap_or(OUTPUT_EXPECTED);
        let expected = mean.map_or(OUTPUT_EXPECTED, |mean| (mean * MEAN_MARGIN).ceil() as u64);
        Usage { input: self.input, output: most.min(expected), ..Usage::default() }
    }
}

/// Whether a request was counted for whoever asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// It was, with an attempt that was sent.
    Already,
    /// Not yet.
    #[default]
    NotYet,
}

/// Whether a model's reasoning is bound to the account that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindsThinking {
    /// Another account drops it.
    Yes,
    /// Any account reads it.
    #[default]
    No,
}

/// What one request may use once, and whether it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// A breather that it waited out.
    pub breather: Once,
    /// A held account that it probed ([`Gate::Probe`]), since it came or last waited.
    pub probe: Once,
    /// How often it already went on after a 429 that stated nothing. One such hop is allowed.
    pub unstated_hops: u8,
    /// The move to a usable account that is free for it in each upstream. Who was held has none left.
    pub free_move: Once,
    /// Whether an attempt was sent, with which it was counted.
    pub counted: Counted,
}

/// Whether something that may be used once was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Once {
    /// Not yet.
    #[default]
    Unused,
    /// It was.
    Used,
}

/// Which way a demand comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The gateway, which injects the secret itself.
    Gateway,
    /// A job that runs a CLI under its own login.
    Job,
}

/// Which step of its request a demand is: decides what draws on the retry budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first attempt of a request in this upstream.
    First,
    /// After an attempt that came to nothing.
    Next,
    /// The same account once more, after a breather was waited out: counts as an attempt, draws on no budget.
    Again(AccountId),
    /// The first attempt after the request was held until an account returned: that account's allowance lets it in, so
    /// it draws on no budget. It counts as no further request either.
    Returned,
    /// The first attempt after the request rested although an account was open to others: it draws on the budget.
    Rested,
}

/// The last attempt's account and answer.
#[derive(Clone, Debug)]
pub struct LastAnswer {
    /// The account.
    pub account: AccountId,
    /// The number that its inbox gave to the evidence.
    pub evidence: EvidenceSeq,
    /// The answer.
    pub answered: Arc<Answered>,
}

/// What admission answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Go ahead.
    Granted(Grant),
    /// The conversation's account takes a breather: come back then with [`Step::Again`].
    NotBefore(NotBefore),
    /// Nothing can serve.
    Exhausted(Exhausted),
    /// The last candidate paces its newcomers: the answer follows under this ticket (only the actor sees this; it keeps
    /// the asker waiting).
    Queued(Ticket),
}

/// A place in an account's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Permission to spend one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its number.
    pub lease: LeaseId,
    /// The account.
    pub account: AccountId,
    /// The entry that represents the account.
    pub entry: EntryId,
    /// Whether another account could have been granted: if not, waiting for this one's refresh is right.
    pub alternatives: Alternatives,
    /// The account this conversation was on before, when this attempt leaves it or returns to it.
    pub moved_from: Option<EntryId>,
    /// What it goes through.
    pub gate: Gate,
}

/// Whether another account could have been granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternatives {
    /// At least one more is usable.
    Some,
    /// This is the only one.
    None,
}

/// What an attempt goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The account is usable, or merely near its quota.
    Open,
    /// The account is held; this is its probe.
    Probe,
    /// The account is on trial; this is its one request.
    Trial,
}

/// Wait, then ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBefore {
    /// The account to come back to.
    pub account: AccountId,
    /// When.
    pub at: Deadline,
}

/// Nothing can serve, and why: one line for each candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Exhausted {
    /// Every candidate with its reason.
    pub reasons: Vec<Reason>,
    /// What would help.
    pub remedy: Remedy,
    /// When it is worth asking for a probe, of an account whose return is a guess: a request that is held has one more
    /// each time it has waited.
    pub probe: Option<Deadline>,
}

/// Why one candidate cannot serve this request now.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The candidate.
    pub account: AccountId,
    /// Its entry.
    pub entry: EntryId,
    /// Why.
    pub why: Why,
}

/// Why a candidate cannot serve.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Switched off in the configuration.
    Disabled,
    /// Paused by the operator.
    Paused,
    /// Its secret cannot be had, or is refused.
    NeedsPerson(Cause),
    /// Its refresh grant and its access token are gone.
    NeedsLogin,
    /// A CLI's own login, which the gateway cannot use.
    Keychain,
    /// At its cap until then, if known.
    Capped(Option<Deadline>),
    /// It would exceed a budget.
    OverBudget(OverBudget),
    /// Held until then.
    Held {
        /// Why.
        cause: Cause,
        /// Until when.
        until: Deadline,
        /// Whose word that is.
        stated: Stated,
    },
    /// This request already tried it.
    Tried,
    /// The provider asked for a short wait until then; only conversations bound to it wait.
    Breather(Deadline),
    /// Its local allowance is used up and its queue is full.
    Busy,
    /// Passed over: this request made its one hop after a 429 that stated no wait.
    HopLimit,
    /// The provider's retry budget is spent.
    RetryBudget,
}

/// What would help an exhausted request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Remedy {
    /// Waiting: a quota, throttle, cap or budget ends. Final status 429.
    Wait {
        /// The soonest return, if it is known.
        until: Option<Deadline>,
        /// Whether a provider stated it. Only then is it told to the client.
        stated: Stated,
        /// Whether caps alone are what leaves nothing selectable.
        caps_only: CapsOnly,
    },
    /// Waiting for the next month of whoever asks: the budget is the asker's own. Final status 429.
    Budget(OverBudget),
    /// Waiting out an error back-off. The best 5xx is relayed.
    BackOff {
        /// The soonest return.
        until: Deadline,
    },
    /// A person: a login, a key, an administrator. Final status 503.
    Person,
    /// Time: the attempts of this request are used up, though not every account is out. Its best real answer is relayed.
    Spent {
        /// The soonest return of those that are out, if it is known.
        returns: Option<Deadline>,
    },
}

/// Whether caps alone are what leaves nothing selectable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapsOnly {
    /// They are.
    Yes,
    /// They are not.
    No,
}

/// How far an attempt has come; reported through its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Granted, nothing sent: dropped now, it leaves no trace.
    Unsent,
    /// Sent.
    Sent,
    /// Answered 2xx with a good first event: the allowance's slot is free.
    Answered,
    /// The body is over, or the attempt came to nothing.
    Ended,
}
