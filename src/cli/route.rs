//! `duduclaw route --explain`: where a request would go, and why.

use anyhow::Result;
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value, json};

use super::control::Control;
use super::words::span;
use super::{Exit, Globals, say};
use crate::admin::{RouteCandidate, RoutePlace, RouteUpstream, RouteView};

/// Explain where a request for a model would go now: the whole order of accounts, with every reason.
#[derive(Debug, Args)]
pub struct RouteArgs {
    /// Explain; nothing is sent. The only thing this command does.
    #[arg(long, required = true)]
    explain: bool,
    /// The model, as a client names it.
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// Only this provider or upstream.
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// The session, as Claude Code names it: where its conversation is at home counts.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The client who asks, by name.
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// As JSON, as the control API gives it.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: RouteArgs, globals: &Globals) -> Result<Exit> {
    let mut params = Map::from_iter([("model".to_owned(), json!(args.model))]);
    for (name, value) in [("provider", args.provider), ("session", args.session), ("client", args.client)] {
        params.extend(value.map(|value| (name.to_owned(), json!(value))));
    }
    let route: RouteView = Control::find(globals)?.call("route.explain", Value::Object(params)).await?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&route)?))?;
    } else {
        say(&text(&route))?;
    }
    let served = route.upstreams.iter().any(is_served);
    Ok(if served { Exit::Done } else { Exit::Degraded })
}

fn is_served(upstream: &RouteUpstream) -> bool {
    let goes_on = |candidate: &RouteCandidate| matches!(candidate.place, RoutePlace::Chosen | RoutePlace::Waits);
    upstream.candidates.iter().any(goes_on)
}

fn text(route: &RouteView) -> String {
    let mut text = String::new();
    for (at, upstream) in route.upstreams.iter().enumerate() {
        let first = if at == 0 { "" } else { "then " };
        text.push_str(&format!("{first}{}: {} ({})\n", upstream.upstream, upstream.model, upstream.strategy));
        text.push_str(&format!("{}\n", table(upstream)));
    }
    text
}

fn table(upstream: &RouteUpstream) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["", "account", "place", "in flight", "headroom", "why"]);
    for (at, candidate) in upstream.candidates.iter().enumerate() {
        table.add_row([
            (at + 1).to_string(),
            candidate.account.clone(),
            place(candidate.place).to_owned(),
            candidate.in_flight.to_string(),
            candidate.headroom_secs.map_or_else(|| "–".to_owned(), headroom),
            candidate.reason.clone(),
        ]);
    }
    table
}

fn place(place: RoutePlace) -> &'static str {
    match place {
        RoutePlace::Chosen => "goes there",
        RoutePlace::Waits => "waits for it",
        RoutePlace::Ready => "ready",
        RoutePlace::Full => "full",
        RoutePlace::Probe => "held",
        RoutePlace::Out => "out",
    }
}

fn headroom(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "−" } else { "" };
    format!("{sign}{}", span(seconds.abs() as u64))
}
