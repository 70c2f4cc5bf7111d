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
    let most = args.limit as usize;
    // A message has two events: that it was late, and what became of it.
    let limit = if args.json { most } else { FAILURES_MOST.min(most * 2) };
    let ask = FailuresAsk { since: None, limit: Some(limit), lost: args.lost.then_some(true) };
    let events = match Control::look(globals)? {
        Some(daemon) => daemon.call::<ActivityView>("failures.list", serde_json::to_value(ask)?).await?.events,
        None => by_ourselves(ask, globals)?,
    };
    if args.json {
        events
            .iter()
            .try_for_each(|event| Ok::<_, anyhow::Error>(say(&format!("{}\n", serde_json::to_string(event)?))?))?;
    } else {
        say(&text(&events, most, args.lost))?;
    }
    Ok(Exit::Done)
}

/// What the home's store says, which is not changed by it.
fn by_ourselves(ask: FailuresAsk, globals: &Globals) -> Result<Vec<EventView>> {
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let rows = look(&Home::at(&loaded.home).store_path())?.events(&ask.query())?;
    Ok(rows.iter().filter_map(EventView::of_row).collect())
}

fn text(events: &[EventView], most: usize, lost: bool) -> String {
    match (events.is_empty(), lost) {
        (true, true) => return "No message was lost, as far as is remembered.\n".to_owned(),
        (true, false) => return "Every message arrived at once, as far as is remembered.\n".to_owned(),
        (false, _) => {}
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["when", "channel", "target", "the message", "why"]);
    let messages = messages(events);
    for Message { first, last } in messages.iter().skip(messages.len().saturating_sub(most)) {
        let detail = |name: &str| first.detail[name].as_str().unwrap_or("–").to_owned();
        let why = last.detail["why"].as_str().map_or_else(|| detail("why"), str::to_owned);
        table.add_row([local_time(&first.ts), detail("channel"), detail("target"), became(last), why]);
    }
    format!("{table}\n")
}

/// A message with the first and the last that is known of it.
struct Message<'e> {
    first: &'e EventView,
    last: &'e EventView,
}

/// The messages of these events, oldest first. Events of earlier versions do not say which message they tell of.
fn messages(events: &[EventView]) -> Vec<Message<'_>> {
    let id = |event: &EventView| event.detail["message_id"].as_str().map(str::to_owned);
    let mut messages: Vec<Message<'_>> = Vec::new();
    for event in events {
        let known =
            id(event).and_then(|of| messages.iter_mut().find(|message| id(message.first).as_deref() == Some(&of)));
        match known {
            Some(message) => message.last = event,
            None => messages.push(Message { first: event, last: event }),
        }
    }
    messages
}

fn became(last: &EventView) -> String {
    match last.kind.as_str() {
        "message_lost" => format!("was given up at {}", local_time(&last.ts)),
        "message_arrived" => format!("arrived at {}", local_time(&last.ts)),
        _ => "is tried again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(seq: u64, kind: &str, message: Option<&str>) -> EventView {
        let detail = json!({"message_id": message, "channel": "webhook", "target": "ops", "why": format!("why {seq}")});
        let shown = json!({
            "seq": seq, "id": "", "ts": format!("2026-11-30T00:00:0{seq}Z"), "kind": kind, "severity": "warning",
            "evidence": {}, "summary": "", "detail": detail,
        });
        serde_json::from_value(shown).expect("an event")
    }

    fn rows(events: &[EventView], most: usize) -> Vec<String> {
        text(events, most, false).lines().filter(|line| line.contains("webhook")).map(str::to_owned).collect()
    }

    #[test]
    fn each_message_is_shown_once_with_what_became_of_it() {
        let events = [
            event(1, "message_delayed", Some("a")),
            event(2, "message_delayed", Some("b")),
            event(3, "message_arrived", Some("a")),
            event(4, "message_delayed", Some("c")),
            event(5, "message_lost", Some("c")),
            event(6, "message_delayed", None),
        ];
        let rows = rows(&events, 9);
        let says = ["arrived at", "is tried again", "was given up at", "is tried again"];
        assert_eq!(rows.len(), says.len(), "{rows:?}");
        assert!(rows.iter().zip(says).all(|(row, says)| row.contains(says)), "{rows:?}");
        assert!(rows[2].contains("why 5"), "the last reason counts: {rows:?}");
    }

    #[test]
    fn the_newest_messages_are_shown() {
        let events = [event(1, "message_delayed", Some("a")), event(2, "message_delayed", Some("b"))];
        let rows = rows(&events, 1);
        assert!(rows.len() == 1 && rows[0].contains("why 2"), "{rows:?}");
    }
}
