//! `usage`: tokens, cost and cache efficiency of a period, summed up for each account, client, model and so on.
//!
//! For the verb, and for the command where no daemon runs. Never here: where the rows are kept.

use duduclaw_actors::billing::{BillingCycle, Edge, MOMENT, MomentError};
use duduclaw_actors::clock::Wall;
use duduclaw_actors::outcome::Usage;
use duduclaw_actors::rows::{UsageBy, UsageQuery, UsageReport, UsageSum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, FaultKind};
use super::verb::Call;

/// Which sums are wanted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsageAsk {
    /// What a sum is made for; accounts if nothing is said.
    pub by: Option<UsageWord>,
    /// From when: a day of the billing time zone (`2026-11-01`), a moment (RFC 3339), or a span back from now (`7d`). The
    /// billing month that runs if nothing is said.
    #[schemars(regex(pattern = MOMENT))]
    pub since: Option<String>,
    /// Until when, in the same ways; a day belongs to the period. Open if nothing is said.
    #[schemars(regex(pattern = MOMENT))]
    pub until: Option<String>,
}

/// What sums of usage are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageWord {
    /// Each account, by identity; called by its latest name.
    #[default]
    Account,
    /// Each agent.
    Agent,
    /// Each client.
    Client,
    /// Each model, as its provider was asked for it.
    Model,
    /// Each day of the billing time zone.
    Day,
    /// Each provider.
    Provider,
}

/// Sums of a period.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UsageView {
    /// What they are made for.
    pub by: UsageWord,
    /// From when, RFC 3339.
    pub since: String,
    /// Until when, RFC 3339; null while it is open.
    pub until: Option<String>,
    /// The time zone of the days.
    pub timezone: String,
    /// The sums, by name.
    pub rows: Vec<UsageLine>,
    /// All together. A request that several rows share counts once in it.
    pub total: UsageOf,
}

/// The sum for one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UsageLine {
    /// Whose; null where nobody is named: no client, no agent.
    pub name: Option<String>,
    /// The sum.
    #[serde(flatten)]
    pub of: UsageOf,
}

/// One sum. Money is US dollars, exact to the millionth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageOf {
    /// Requests.
    pub requests: u64,
    /// Attempts at accounts that they took.
    pub attempts: u64,
    /// Tokens.
    pub tokens: Tokens,
    /// The share of the prompts that the cache served, from 0 to 1; null without a prompt.
    pub cache_efficiency: Option<f64>,
    /// What it cost: nothing on subscriptions.
    pub cost: f64,
    /// What all of it would have cost at list prices, subscriptions included.
    pub list_value: f64,
    /// Attempts with estimated figures, since the provider's report never came.
    pub estimated: u64,
    /// Attempts at models without a price of their own, priced as the dearest of their family.
    pub unpriced: u64,
}

/// Tokens by what they are paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// Input that no cache served.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input that the cache served.
    pub cache_read: u64,
    /// Input written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: u64,
}

/// Why a period cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// One of its ends is no moment.
    #[error("{0}: {1}")]
    Moment(&'static str, MomentError),
    /// It ends before it begins.
    #[error("the period ends before it begins; give an until that is later than since")]
    Backward,
}

/// The sums.
pub(super) async fn usage(call: Call, ask: UsageAsk) -> Result<UsageView, Fault> {
    let billing = call.live.topology.roster().billing;
    let period = ask.query(&billing, call.desk.clock.now().wall);
    let period = period.map_err(|why| Fault::new(FaultKind::Unprocessable, why.to_string()))?;
    let report = call.desk.fleet.journal.usage(period.clone()).await;
    let report = report.map_err(|error| Fault::unavailable(format!("what was used cannot be read: {error}")))?;
    Ok(ask.view(&period, &billing, report))
}

impl UsageAsk {
    /// The same, asked of the store.
    ///
    /// # Errors
    /// When there is no such period.
    pub fn query(&self, billing: &BillingCycle, now: Wall) -> Result<UsageQuery, PeriodError> {
        let moment = |name, text: &Option<String>, edge| {
            text.as_deref()
                .map(|text| billing.moment(text, edge, now))
                .transpose()
                .map_err(|why| PeriodError::Moment(name, why))
        };
        let until = moment("until", &self.until, Edge::Until)?;
        let month = || billing.month(until.map_or(now, |until| Wall(until.0.saturating_sub(1)).min(now))).begins;
        let from = moment("since", &self.since, Edge::From)?.unwrap_or_else(month);
        let until = until.unwrap_or(OPEN);
        if from >= until {
            return Err(PeriodError::Backward);
        }
        Ok(UsageQuery { from, until, by: self.by.unwrap_or_default().into() })
    }

    /// What was found, as it is shown.
    #[must_use]
    pub fn view(&self, period: &UsageQuery, billing: &BillingCycle, found: UsageReport) -> UsageView {
        UsageView {
            by: self.by.unwrap_or_default(),
            since: billing.shown(period.from),
            until: (period.until != OPEN).then(|| billing.shown(period.until)),
            timezone: billing.zone().to_owned(),
            rows: found.sums.iter().map(UsageLine::from).collect(),
            total: UsageOf::from(&found.total),
        }
    }
}

/// The end of a period that has none.
const OPEN: Wall = Wall(i64::MAX);

impl From<UsageWord> for UsageBy {
    fn from(word: UsageWord) -> Self {
        match word {
            UsageWord::Account => Self::Account,
            UsageWord::Agent => Self::Agent,
            UsageWord::Client => Self::Client,
            UsageWord::Model => Self::Model,
            UsageWord::Day => Self::Day,
            UsageWord::Provider => Self::Provider,
        }
    }
}

impl From<&UsageSum> for UsageLine {
    fn from(sum: &UsageSum) -> Self {
        Self { name: (!sum.key.is_empty()).then(|| sum.key.clone()), of: UsageOf::from(sum) }
    }
}

impl From<&UsageSum> for UsageOf {
    fn from(sum: &UsageSum) -> Self {
        Self {
            requests: sum.requests,
            attempts: sum.attempts,
            tokens: Tokens::from(sum.usage),
            cache_efficiency: sum.usage.cache_efficiency(),
            cost: sum.cost.dollars(),
            list_value: sum.list_value.dollars(),
            estimated: sum.estimated,
            unpriced: sum.unpriced,
        }
    }
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, cache_read, cache_write_5m, cache_write_1h } = usage;
        Self { input, output, cache_read, cache_write_5m, cache_write_1h }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn asked(since: Option<&str>, until: Option<&str>) -> Result<(String, String), PeriodError> {
        let billing = BillingCycle::new("Asia/Taipei", 15).expect("it is a zone");
        let now = DateTime::parse_from_rfc3339("2026-11-30T10:00:00+08:00").expect("it is one");
        let ask = UsageAsk { by: None, since: since.map(Into::into), until: until.map(Into::into) };
        ask.query(&billing, Wall(now.timestamp_millis())).map(|period| {
            let end = if period.until == OPEN { "open".to_owned() } else { billing.shown(period.until) };
            (billing.shown(period.from), end)
        })
    }

    fn told(from: &str, until: &str) -> Result<(String, String), PeriodError> {
        Ok((from.to_owned(), until.to_owned()))
    }

    #[test]
    fn a_period_that_nobody_names_is_the_billing_month_that_runs() {
        assert_eq!(asked(None, None), told("2026-11-15T00:00:00+08:00", "open"));
    }

    #[test]
    fn an_end_alone_means_the_month_of_that_end() {
        assert_eq!(asked(None, Some("2026-11-14")), told("2026-10-15T00:00:00+08:00", "2026-11-15T00:00:00+08:00"));
        assert_eq!(asked(None, Some("2027-01-01")), told("2026-11-15T00:00:00+08:00", "2027-01-02T00:00:00+08:00"));
    }

    #[test]
    fn days_are_those_of_the_zone_and_the_last_one_belongs_to_the_period() {
        let day = told("2026-11-29T00:00:00+08:00", "2026-11-30T00:00:00+08:00");
        assert_eq!(asked(Some("2026-11-29"), Some("2026-11-29")), day);
    }

    #[test]
    fn a_period_that_ends_before_it_begins_is_refused() {
        assert_eq!(asked(Some("1d"), Some("2d")), Err(PeriodError::Backward));
        for bad in ["soon", "", " 7d"] {
            assert!(matches!(asked(Some(bad), None), Err(PeriodError::Moment("since", _))), "{bad:?}");
        }
    }
}
