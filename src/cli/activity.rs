//! `duduclaw activity`: what happened, and what happens.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

use super::control::Control;
use super::stream::{Frame, Frames};
use super::words::local_time;
use super::{Ended, Exit, Globals, hint, say};
use crate::admin::{ActivityView, EventView, SeverityWord};

/// How long to wait before a daemon that went away is looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// Show what happened; with --follow, what happens.
#[derive(Debug, Args)]
pub struct ActivityArgs {
    /// Go on with what happens, until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// At most so many of what happened, the newest.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    limit: u32,
    /// Only what concerns this account.
    #[arg(long, value_name = "ACCOUNT")]
    account: Option<String>,
    /// Only this kind of event, for example hold_began; several with commas between them.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only what matters at least so much: info, warning, error.
    #[arg(long, value_name = "SEVERITY", value_parser = ["info", "warning", "error"])]
    severity: Option<String>,
    /// As JSON, an event a line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: ActivityArgs, globals: &Globals) -> Result<Exit> {
    let daemon = Control::find(globals)?;
    let (mut last, found) = past(&args, &daemon).await?;
    if !args.follow {
        if found == 0 && args.limit > 0 {
            hint("duduclaw: nothing that is remembered matches");
        }
        return Ok(Exit::Done);
    }
    let mut daemon = Some(daemon);
    loop {
        if let Some(daemon) = &daemon {
            last = follow(&args, daemon, last).await?;
            hint("duduclaw: the daemon went away; waiting for it to come back");
        }
        tokio::time::sleep(AGAIN).await;
        daemon = Control::look(globals)?;
    }
}

/// Shows what happened; gives the number to go on with, and how many there were.
async fn past(args: &ActivityArgs, daemon: &Control) -> Result<(u64, usize)> {
    let mut params = wanted(args);
    params.insert("limit".to_owned(), json!(args.limit.max(1)));
    let found: ActivityView = daemon.call("activity.list", params.into()).await?;
    let shown = found.events.iter().skip(if args.limit == 0 { found.events.len() } else { 0 });
    shown.into_iter().try_for_each(|event| show(args, event))?;
    Ok((found.last, found.events.len()))
}

/// Shows what happens until the stream ends; gives the number to go on with.
async fn follow(args: &ActivityArgs, daemon: &Control, mut last: u64) -> Result<u64> {
    let mut query = wanted(args);
    query.insert("since".to_owned(), json!(last));
    let answer = match daemon.stream("/admin/api/events", &query).await {
        // One that is just going away is one that went away.
        Err(error) if Ended::exit_of(&error) == Exit::Unreachable => return Ok(last),
        answer => answer?,
    };
    let mut frames = Frames::of(answer);
    while let Some(frame) = frames.next().await {
        match frame {
            Frame::Event(event) => {
                last = event.seq;
                show(args, &event)?;
            }
            Frame::Gap(why) => hint(&format!("duduclaw: some events are missing here: {why}")),
        }
    }
    Ok(last)
}

fn wanted(args: &ActivityArgs) -> Map<String, Value> {
    let given = [("account", &args.account), ("kind", &args.kind), ("severity", &args.severity)];
    given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))).collect()
}

fn show(args: &ActivityArgs, event: &EventView) -> Result<()> {
    let line = if args.json { serde_json::to_string(event)? } else { line(event) };
    Ok(say(&format!("{line}\n"))?)
}

/// When, how grave, and what, in a sentence.
fn line(event: &EventView) -> String {
    let mark = match event.severity {
        SeverityWord::Trace | SeverityWord::Info => ' ',
        SeverityWord::Warning => '!',
        SeverityWord::Error => '✗',
    };
    format!("{} {mark} {}", local_time(&event.ts), event.summary)
}
