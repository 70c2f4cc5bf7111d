//! `duduclaw usage`: tokens, cost and cache efficiency of a period.

use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use duduclaw_actors::billing::BillingCycle;
use duduclaw_actors::clock::{Clock, SystemClock};
use duduclaw_actors::money::Micros;

use super::control::Control;
use super::words::grouped;
use super::{Ended, Exit, Globals, say};
use crate::admin::{UsageAsk, UsageOf, UsageView, UsageWord};
use crate::app::{Configuration, Home};
use crate::config::surroundings::Machine;
use crate::store::look;

/// Show tokens, cost and cache efficiency of a period.
#[derive(Debug, Args)]
pub struct UsageArgs {
    /// For what a sum is made.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Account)]
    by: By,
    /// From when: a day of the billing time zone, a moment (RFC 3339), or a span back from now such as 7d, 36h, 90m.
    /// Default: the beginning of the billing month.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Until when, in the same ways; the day that is named belongs to the period. Default: now.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// As JSON, as the control API gives it.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Account,
    Agent,
    Client,
    Model,
    Day,
    Provider,
}

impl From<By> for UsageWord {
    fn from(by: By) -> Self {
        match by {
            By::Account => Self::Account,
            By::Agent => Self::Agent,
            By::Client => Self::Client,
            By::Model => Self::Model,
            By::Day => Self::Day,
            By::Provider => Self::Provider,
        }
    }
}

pub(super) async fn run(args: UsageArgs, globals: &Globals) -> Result<Exit> {
    let ask = UsageAsk { by: Some(args.by.into()), since: args.since, until: args.until };
    ask.query(&BillingCycle::default(), SystemClock::default().now().wall)
        .map_err(|error| Ended::error(Exit::Usage, error.to_string()))?;
    let usage = match Control::look(globals)? {
        Some(daemon) => daemon.call("usage", serde_json::to_value(&ask)?).await?,
        None => by_ourselves(&ask, globals)?,
    };
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&usage)?))?;
    } else {
        say(&text(&usage))?;
    }
    Ok(Exit::Done)
}

/// What the home's store says, which is not changed by it.
fn by_ourselves(ask: &UsageAsk, globals: &Globals) -> Result<UsageView> {
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let Some(ready) = loaded.ready else {
        bail!("the configuration has errors, and it names the days' time zone; `duduclaw check` shows them");
    };
    let billing = ready.topology.roster().billing;
    let period = ask.query(&billing, SystemClock::default().now().wall)?;
    let found = look(&Home::at(&loaded.home).store_path())?.report(&period)?;
    Ok(ask.view(&period, &billing, found))
}

fn text(usage: &UsageView) -> String {
    let until = usage.until.as_ref().map(|until| format!(" until {}", day_of(until))).unwrap_or_default();
    let period = format!("since {}{until} ({})", day_of(&usage.since), usage.timezone);
    if usage.rows.is_empty() {
        return format!("Nothing was used {period}.\n");
    }
    let mut text = format!("Usage {period}\n{}\n", table(usage));
    let of = &usage.total;
    if of.estimated > 0 {
        text.push_str(&format!("{} of the attempts have estimated figures: no report came.\n", grouped(of.estimated)));
    }
    if of.unpriced > 0 {
        let priced = "of the attempts are priced as the dearest model of their family; [[prices]] can name their own";
        text.push_str(&format!("{} {priced}.\n", grouped(of.unpriced)));
    }
    text
}

/// A moment by its own clock; a midnight is its day.
fn day_of(moment: &str) -> String {
    let Ok(at) = chrono::DateTime::parse_from_rfc3339(moment) else { return moment.to_owned() };
    let shown = at.format("%Y-%m-%d %H:%M:%S").to_string();
    shown.strip_suffix(" 00:00:00").map_or_else(|| shown.clone(), ToOwned::to_owned)
}

fn table(usage: &UsageView) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    let figures = [
        "requests",
        "attempts",
        "input",
        "output",
        "cache read",
        "write 5m",
        "write 1h",
        "cached",
        "cost",
        "at list prices",
    ];
    table.set_header(std::iter::once(Cell::new(word(usage.by))).chain(figures.map(right)));
    for row in &usage.rows {
        let nobody = || format!("(no {})", word(usage.by));
        table.add_row(cells(&row.name.clone().unwrap_or_else(nobody), &row.of));
    }
    if usage.rows.len() > 1 {
        table.add_row(cells("together", &usage.total));
    }
    table.to_string()
}

fn word(by: UsageWord) -> &'static str {
    match by {
        UsageWord::Account => "account",
        UsageWord::Agent => "agent",
        UsageWord::Client => "client",
        UsageWord::Model => "model",
        UsageWord::Day => "day",
        UsageWord::Provider => "provider",
    }
}

fn cells(name: &str, of: &UsageOf) -> Vec<Cell> {
    let cached = of.cache_efficiency.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let counts = [
        of.requests,
        of.attempts,
        of.tokens.input,
        of.tokens.output,
        of.tokens.cache_read,
        of.tokens.cache_write_5m,
        of.tokens.cache_write_1h,
    ];
    let counts = counts.map(|count| right(grouped(count)));
    let rest = [cached, dollars(of.cost), dollars(of.list_value)].map(right);
    std::iter::once(Cell::new(name)).chain(counts).chain(rest).collect()
}

fn right(text: impl AsRef<str>) -> Cell {
    Cell::new(text.as_ref()).set_alignment(CellAlignment::Right)
}

fn dollars(amount: f64) -> String {
    Micros::of_dollars(amount).unwrap_or_default().to_string()
}
