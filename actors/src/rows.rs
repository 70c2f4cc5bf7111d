//! What is written down row by row, never changed afterwards: the tokens and cost of each attempt, and what happened.
//!
//! Never here: how rows are kept, what an attempt costs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::event::Severity;
use crate::id::{EntryId, IdentityKey, Principal};
use crate::money::Micros;
use crate::outcome::Usage;

/// One attempt of one request: what it used and what that cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Our id of the request.
    pub request_id: Arc<str>,
    /// Which attempt of the request, from 1.
    pub attempt: u32,
    /// When it was settled.
    pub at: Wall,
    /// The day on which it was settled, in the zone of the billing months: `2026-11-29`.
    pub day: String,
    /// The account's identity.
    pub identity: IdentityKey,
    /// The account by its name in the configuration of then.
    pub entry: EntryId,
    /// Who asked.
    pub principal: Principal,
    /// The model as the account's provider was asked for it.
    pub model: String,
    /// The tokens.
    pub usage: Usage,
    /// What it cost: nothing on a subscription.
    pub cost: Micros,
    /// What it would have cost at the list price.
    pub list_value: Micros,
    /// How the attempt came out.
    pub result: AttemptEnd,
    /// Where the tokens are from.
    pub figures: Figures,
    /// Where the price is from.
    pub price: PriceBasis,
    /// What it adds to spent budgets. Counted together with the row, and like the row only once.
    pub charges: Vec<Charge>,
}

/// How an attempt came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// Wholly answered.
    Complete,
    /// Broken, stalled, or ended by an error event after output.
    Cut,
    /// The client went away.
    ClientGone,
    /// It came to nothing: refused, failed, without an answer, or an error that was passed on.
    Failed,
    /// The program died while it was in flight.
    Lost,
}

/// Where the tokens of a row are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figures {
    /// The provider reported them.
    Reported,
    /// Some of them are estimated: the report never came.
    Estimated,
}

/// Where the price of a row is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceBasis {
    /// The model's own row of the price list.
    Listed,
    /// The model is unknown: the dearest row of its family.
    Dearest,
    /// No price applies.
    Free,
}

/// What an attempt adds to one budget in one of its months.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Charge {
    /// The budget: `account:<identity>`, `client:<name>` or `agent:<name>`.
    pub budget: Arc<str>,
    /// The first day of the month it falls in: `2026-11-01`.
    pub month: String,
    /// How much.
    pub amount: Micros,
    /// How many requests: for who asks 1 with a request's first attempt, else 0; for an account 1 with each attempt.
    pub requests: u32,
}

/// What was spent of one budget in one of its months.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentRow {
    /// The budget.
    pub budget: Arc<str>,
    /// The first day of the month.
    pub month: String,
    /// How much.
    pub amount: Micros,
    /// How many requests.
    pub requests: u64,
}

/// What is asked of the usage rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// Rows settled then or later.
    pub from: Wall,
    /// Rows settled before.
    pub until: Wall,
    /// What a sum is made for.
    pub by: UsageBy,
}

/// What sums of usage are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// Each account, by identity; shown by its latest name.
    Account,
    /// Each provider.
    Provider,
    /// Each agent.
    Agent,
    /// Each client.
    Client,
    /// Each model.
    Model,
    /// Each day.
    Day,
    /// Everything together.
    Total,
}

/// One sum of usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageSum {
    /// For what; empty where the rows name none (no client, no agent).
    pub key: String,
    /// How many requests.
    pub requests: u64,
    /// How many attempts.
    pub attempts: u64,
    /// The tokens.
    pub usage: Usage,
    /// What they cost.
    pub cost: Micros,
    /// What they would have cost at list prices.
    pub list_value: Micros,
    /// How many of the attempts have estimated figures.
    pub estimated: u64,
    /// How many of the attempts were priced by the dearest row.
    pub unpriced: u64,
}

/// Sums of usage, and the sum of them all: a request that several of them share counts once in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// The sums.
    pub sums: Vec<UsageSum>,
    /// All together.
    pub total: UsageSum,
}

/// One event as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// Its number; grows, also across restarts.
    pub seq: u64,
    /// When.
    pub at: Wall,
    /// How much it matters.
    pub severity: Severity,
    /// What happened, by its name.
    pub kind: String,
    /// The account by name, `provider/name`.
    pub account: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// Our id of the request it belongs to.
    pub request_id: Option<String>,
    /// The whole event, JSON.
    pub json: String,
}

/// What is asked of the kept events; the newest `limit` that match, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only those with a larger number.
    pub after: u64,
    /// Only those of these kinds; of any if none is named.
    pub kinds: Vec<String>,
    /// Only those that matter at least so much.
    pub at_least: Option<Severity>,
    /// Only those of this account, `provider/name`.
    pub account: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// How long rows are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Rows settled, or events that happened, before are dropped.
    pub before: Wall,
    /// At most so many events are kept.
    pub events: usize,
    /// What was spent in months that began before this day, `2025-09-01`, is dropped.
    pub months_from: String,
}

impl UsageSum {
    /// Adds an attempt's row; the count of requests is whoever's who sees them all.
    pub fn add(&mut self, row: &UsageRow) {
        self.attempts += 1;
        self.usage.input += row.usage.input;
        self.usage.output += row.usage.output;
        self.usage.cache_read += row.usage.cache_read;
        self.usage.cache_write_5m += row.usage.cache_write_5m;
        self.usage.cache_write_1h += row.usage.cache_write_1h;
        self.cost += row.cost;
        self.list_value += row.list_value;
        self.estimated += u64::from(row.figures == Figures::Estimated);
        self.unpriced += u64::from(row.price == PriceBasis::Dearest);
    }
}

impl EventQuery {
    /// Whether an event is among those that are asked for.
    #[must_use]
    pub fn matches(&self, row: &EventRow) -> bool {
        row.seq > self.after
            && (self.kinds.is_empty() || self.kinds.contains(&row.kind))
            && self.at_least.is_none_or(|least| row.severity >= least)
            && (self.account.is_none() || self.account == row.account)
    }
}
