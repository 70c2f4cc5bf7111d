//! `duduclaw failures`: messages that did not arrive at once, or at all.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};

use super::control::Control;
use super::words::local_time;
use super::{Exit, Globals, say};
use crate::admin::{ActivityView, EventView, FAILURES_MOST, FailuresAsk};
use crate::app::{Configuration, Home};
use crate::config::surroundings::Machine;
use crate::store::look;

/// Show messages that did not arrive at once, or at all.
#[derive(Debug, Args)]
pub struct FailuresArgs {
    /// At most so many, the newest.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=FAILURES_MOST as i64))]
    limit: u32,
    /// Only messages that were given up.
    #[arg(long)]
    lost: bool,
    /// As JSON, an event a line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: FailuresArgs, globals: &Globals) -> Result<Exit> {
    let ask = FailuresAsk { since: None, limit: Some(args.limit as usize), lost: args.lost.then_some(true) };
    let events = match Control::look(globals)? {
        Some(daemon) => daemon.call::<ActivityView>("failures.list", serde_json::to_value(ask)?).await?.events,
        None => by_ourselves(ask, globals)?,
    };
    if args.json {
        events
            .iter()
            .try_for_each(|event| Ok::<_, anyhow::Error>(say(&format!("{}\n", serde_json::to_string(event)?))?))?;
    } else {
        say(&text(&events))?;
    }
    Ok(Exit::Done)
}

/// What the home's store says, which is not changed by it.
fn by_ourselves(ask: FailuresAsk, globals: &Globals) -> Result<Vec<EventView>> {
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let rows = look(&Home::at(&loaded.home).store_path())?.events(&ask.query())?;
    Ok(rows.iter().filter_map(EventView::of_row).collect())
}

fn text(events: &[EventView]) -> String {
    if events.is_empty() {
        return "Every message arrived at once, as far as is remembered.\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["when", "channel", "target", "the message", "why"]);
    for event in events {
        let detail = |name: &str| event.detail[name].as_str().unwrap_or("–").to_owned();
        let became = if event.kind == "message_lost" { "was given up" } else { "is tried again" };
        table.add_row([local_time(&event.ts), detail("channel"), detail("target"), became.to_owned(), detail("why")]);
    }
    format!("{table}\n")
}
