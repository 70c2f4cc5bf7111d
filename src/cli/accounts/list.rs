//! `duduclaw accounts list`.

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;

use crate::admin::AccountsView;
use crate::cli::control::Control;
use crate::cli::words::label;
use crate::cli::{Exit, Globals, say};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// As JSON, as the control API gives it.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &ListArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let list: AccountsView = Control::find(globals)?.call("accounts.list", json!({})).await?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&list)?))?;
    } else {
        say(&format!("{}\n", table(&list)))?;
    }
    Ok(Exit::Done)
}

fn table(list: &AccountsView) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    let has_aliases = list.accounts.iter().any(|account| !account.standing.aliases.is_empty());
    let aliases = has_aliases.then_some("aliases");
    table.set_header(["account"].into_iter().chain(aliases).chain([
        "kind",
        "state",
        "priority",
        "secret",
        "configured at",
    ]));
    for account in &list.accounts {
        let aliases = has_aliases.then(|| account.standing.also());
        let first = std::iter::once(account.id.clone()).chain(aliases);
        table.add_row(first.chain([
            account.kind.replace('_', " "),
            label(&account.standing),
            account.standing.priority.to_string(),
            account.source.clone(),
            account.declared.clone(),
        ]));
    }
    table.to_string()
}
