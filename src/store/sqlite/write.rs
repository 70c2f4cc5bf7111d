//! What changes the database: a batch as a whole, and dropping old rows, some at a time.

use std::collections::BTreeMap;

use duduclaw_actors::ports::{Batch, Pruned, Write};
use duduclaw_actors::rows::{AttemptEnd, EventRow, Figures, PriceBasis, Retention, UsageRow};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::read::rank;

/// So many rows are dropped at a time: a batch that waits meanwhile waits some milliseconds.
const STEP: i64 = 500;

const PUT: &str = "INSERT INTO records (kind, key, version, value) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version, value = excluded.value";
const FORGET: &str = "DELETE FROM records WHERE kind = $1 AND key = $2";
const USED: &str = "INSERT INTO usage (request_id, attempt, at, day, identity, provider, account, client, agent, job, \
                    model, input, output, cache_read, cache_write_5m, cache_write_1h, cost, list_value, result, \
                    figures, price) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
                    $17, $18, $19, $20, $21) ON CONFLICT (request_id, attempt) DO NOTHING";
const CHARGE: &str = "INSERT INTO spent (budget, month, amount, requests) VALUES ($1, $2, $3, $4) \
                      ON CONFLICT (budget, month) DO UPDATE SET amount = spent.amount + excluded.amount, \
                      requests = spent.requests + excluded.requests";
const NAME: &str = "INSERT INTO names (identity, name, at) VALUES ($1, $2, $3) ON CONFLICT (identity) DO UPDATE \
                    SET name = excluded.name, at = excluded.at WHERE excluded.at >= names.at";
const HAPPENED: &str = "INSERT INTO events (seq, at, severity, kind, account, agent, request_id, json) \
                        VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (seq) DO NOTHING";

pub(super) const DROP_USAGE: &str = "DELETE FROM usage WHERE (request_id, attempt) IN \
                          (SELECT request_id, attempt FROM usage WHERE at < $1 ORDER BY at LIMIT $2)";
pub(super) const DROP_EVENTS: &str =
    "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at < $1 ORDER BY at LIMIT $2)";
const DROP_SURPLUS: &str = "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE seq <= \
                            (SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET $1) ORDER BY seq LIMIT $2)";
const DROP_MONTHS: &str = "DELETE FROM spent WHERE month < $1";

/// Keeps a batch.
pub(super) fn batch(connection: &mut Connection, batch: &Batch) -> rusqlite::Result<()> {
    let whole = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    records(&whole, &batch.records)?;
    usage(&whole, &batch.usage)?;
    events(&whole, &batch.events)?;
    whole.commit()
}

fn records(whole: &Transaction<'_>, writes: &[Write]) -> rusqlite::Result<()> {
    for Write { table, key, value } in writes {
        match value {
            Some((version, value)) => {
                whole.prepare_cached(PUT)?.execute(params![table.as_str(), key, version, value])?
            }
            None => whole.prepare_cached(FORGET)?.execute(params![table.as_str(), key])?,
        };
    }
    Ok(())
}

/// A row that is there already was charged already. What a batch charges to one budget is charged at once.
fn usage(whole: &Transaction<'_>, rows: &[UsageRow]) -> rusqlite::Result<()> {
    let mut names = BTreeMap::new();
    let mut charges = BTreeMap::new();
    for row in rows {
        let identity = row.identity.to_string();
        if used(whole, row, &identity)? {
            charge(&mut charges, row);
        }
        names.insert(identity, row);
    }
    for ((budget, month), (amount, requests)) in charges {
        whole.prepare_cached(CHARGE)?.execute(params![budget, month, amount, requests])?;
    }
    for (identity, row) in names {
        whole.prepare_cached(NAME)?.execute(params![identity, row.entry.to_string(), row.at.0])?;
    }
    Ok(())
}

fn used(whole: &Transaction<'_>, row: &UsageRow, identity: &str) -> rusqlite::Result<bool> {
    let inserted = whole.prepare_cached(USED)?.execute(params![
        row.request_id,
        row.attempt,
        row.at.0,
        row.day,
        identity,
        row.entry.provider,
        row.entry.name,
        row.principal.client,
        row.principal.agent,
        row.principal.job,
        row.model,
        whole_number(row.usage.input),
        whole_number(row.usage.output),
        whole_number(row.usage.cache_read),
        whole_number(row.usage.cache_write_5m),
        whole_number(row.usage.cache_write_1h),
        row.cost.0,
        row.list_value.0,
        result(row.result),
        figures(row.figures),
        price(row.price),
    ])?;
    Ok(inserted == 1)
}

fn charge<'r>(charges: &mut BTreeMap<(&'r str, &'r str), (i64, i64)>, row: &'r UsageRow) {
    for charge in &row.charges {
        let sum = charges.entry((&*charge.budget, &*charge.month)).or_default();
        sum.0 = sum.0.saturating_add(charge.amount.0);
        sum.1 = sum.1.saturating_add(charge.requests.into());
    }
}

fn events(whole: &Transaction<'_>, rows: &[EventRow]) -> rusqlite::Result<()> {
    for row in rows {
        whole.prepare_cached(HAPPENED)?.execute(params![
            whole_number(row.seq),
            row.at.0,
            rank(row.severity),
            row.kind,
            row.account,
            row.agent,
            row.request_id,
            row.json,
        ])?;
    }
    Ok(())
}

/// Drops some of what is too old.
pub(super) fn prune(connection: &mut Connection, keep: &Retention) -> rusqlite::Result<Pruned> {
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let most = i64::try_from(keep.events).unwrap_or(i64::MAX);
    let dropped = [
        step.prepare_cached(DROP_USAGE)?.execute(params![keep.before.0, STEP])?,
        step.prepare_cached(DROP_EVENTS)?.execute(params![keep.before.0, STEP])?,
        step.prepare_cached(DROP_SURPLUS)?.execute(params![most, STEP])?,
    ];
    step.execute(DROP_MONTHS, params![keep.months_from])?;
    step.commit()?;
    Ok(if dropped.iter().any(|rows| *rows as i64 == STEP) { Pruned::Some } else { Pruned::All })
}

/// Figures that no column holds are beyond anything that is counted.
fn whole_number(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

fn result(result: AttemptEnd) -> &'static str {
    match result {
        AttemptEnd::Complete => "complete",
        AttemptEnd::Cut => "cut",
        AttemptEnd::ClientGone => "client_gone",
        AttemptEnd::Failed => "failed",
        AttemptEnd::Lost => "lost",
    }
}

fn figures(figures: Figures) -> &'static str {
    match figures {
        Figures::Reported => "reported",
        Figures::Estimated => "estimated",
    }
}

fn price(price: PriceBasis) -> &'static str {
    match price {
        PriceBasis::Listed => "listed",
        PriceBasis::Dearest => "dearest",
        PriceBasis::Free => "free",
    }
}
