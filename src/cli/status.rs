//! `duduclaw status`: the fleet at a glance.

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};

use super::control::Control;
use super::words::{label, span};
use super::{Exit, Globals, hint, say};
use crate::admin::{PoolAccount, PoolView, StoreView, StoreWord};

/// Show the fleet: state, quota windows, waits.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// As JSON, as the control API gives it.
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    /// On the whole screen, live: choose with the arrows; p pauses or resumes, c clears, b probes, q quits.
    #[arg(long)]
    watch: bool,
}

pub(super) async fn run(args: StatusArgs, globals: &Globals) -> anyhow::Result<Exit> {
    if args.watch {
        return super::watch::run(globals).await;
    }
    let pool: PoolView = Control::find(globals)?.call("pool", serde_json::json!({})).await?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&pool)?))?;
    } else {
        say(&format!("{}\n{}{}", table(&pool), aliases(&pool), cached(&pool)))?;
    }
    if let Some(trouble) = trouble(&pool.store) {
        hint(&format!("duduclaw: {trouble}"));
    }
    if pool.providers.iter().all(|provider| provider.accounts.is_empty()) {
        hint("duduclaw: no account is configured; see `duduclaw check`");
        return Ok(Exit::Degraded);
    }
    if let Some(nobody) = nobody(&pool) {
        hint(&format!("duduclaw: {nobody}"));
        return Ok(Exit::Degraded);
    }
    let all_serve = pool.providers.iter().flat_map(|provider| &provider.accounts).all(is_well);
    Ok(if all_serve && pool.store.state != StoreWord::Failing { Exit::Done } else { Exit::Degraded })
}

/// Which accounts go by several names.
fn aliases(pool: &PoolView) -> String {
    let all = pool.providers.iter().flat_map(|of| of.accounts.iter().map(move |account| (&of.name, account)));
    let several = all.filter(|(_, account)| !account.aliases.is_empty());
    several.map(|(of, a)| format!("{of}/{} is also {}: one account.\n", a.name, a.also())).collect()
}

/// How well the cache serves, once there is something to say.
fn cached(pool: &PoolView) -> String {
    let share = pool.cache_efficiency.map(|share| share * 100.0);
    share.map_or_else(String::new, |share| format!("The cache served {share:.0} % of the prompts of the last hour.\n"))
}

/// What is to be said where no account serves: each with what keeps it from it.
fn nobody(pool: &PoolView) -> Option<String> {
    let all = || pool.providers.iter().flat_map(|of| of.accounts.iter().map(move |account| (&of.name, account)));
    if all().any(|(_, account)| account.available) {
        return None;
    }
    let why: Vec<_> = all().map(|(of, account)| format!("{of}/{} is {}", account.name, label(account))).collect();
    Some(format!("no account serves now: {}", why.join(", ")))
}

/// What is to be said of a store that is not fine.
fn trouble(store: &StoreView) -> Option<String> {
    let long = span(store.for_secs.unwrap_or_default());
    let why = store.why.as_deref().unwrap_or_default();
    match store.state {
        StoreWord::Fine => None,
        StoreWord::Slow => Some(format!("the store has been busy with one write for {long}")),
        StoreWord::Failing => {
            Some(format!("for {long} nothing could be written down, and all of it is in memory only: {why}"))
        }
    }
}

fn is_well(account: &PoolAccount) -> bool {
    account.disabled || account.paused || (account.available && !account.needs_login)
}

fn table(pool: &PoolView) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["provider", "account", "state", "5h", "7d", "in flight", "conversations", "served"]);
    for provider in &pool.providers {
        for account in &provider.accounts {
            table.add_row([
                provider.name.clone(),
                account.name.clone(),
                label(account),
                window(account, "5h"),
                window(account, "7d"),
                account.in_flight.to_string(),
                account.conversations.to_string(),
                format!("{}/{}", account.requests.succeeded, account.requests.attempted),
            ]);
        }
    }
    table.to_string()
}

fn window(account: &PoolAccount, name: &str) -> String {
    let used = account.windows.get(name).and_then(|window| window.utilization);
    used.map_or_else(|| "–".to_owned(), |used| format!("{:.0} %", used * 100.0))
}
