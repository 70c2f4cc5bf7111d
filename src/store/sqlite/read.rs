//! What is asked of the database.

use duduclaw_actors::clock::Wall;
use duduclaw_actors::event::Severity;
use duduclaw_actors::money::Micros;
use duduclaw_actors::outcome::Usage;
use duduclaw_actors::ports::{Record, Table};
use duduclaw_actors::rows::{EventQuery, EventRow, SpentRow, UsageBy, UsageQuery, UsageSum};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

const RECORDS: &str = "SELECT key, version, value FROM records WHERE kind = $1 ORDER BY key";
const SPENT: &str = "SELECT budget, month, amount, requests FROM spent ORDER BY budget, month";
/// An `after` or a severity that asks for nothing lets all pass. Kinds are listed with a comma around each.
pub(super) const EVENTS: &str = "SELECT seq, at, severity, kind, account, agent, request_id, json FROM events \
                      WHERE seq > $1 AND severity >= $2 AND ($3 IS NULL OR $3 LIKE '%,' || kind || ',%') \
                      AND ($4 IS NULL OR account = $4) ORDER BY seq DESC LIMIT $5";

/// All records of a table.
pub(super) fn records(connection: &Connection, table: Table) -> rusqlite::Result<Vec<Record>> {
    let mut asked = connection.prepare_cached(RECORDS)?;
    let record = |row: &Row<'_>| Ok(Record { key: row.get(0)?, version: row.get(1)?, value: row.get(2)? });
    asked.query_map([table.as_str()], record)?.collect()
}

/// What was spent of every budget.
pub(super) fn spent(connection: &Connection) -> rusqlite::Result<Vec<SpentRow>> {
    let mut asked = connection.prepare_cached(SPENT)?;
    let spent = |row: &Row<'_>| {
        Ok(SpentRow { budget: row.get(0)?, month: row.get(1)?, amount: Micros(row.get(2)?), requests: count(row, 3)? })
    };
    asked.query_map([], spent)?.collect()
}

/// Sums of usage.
pub(super) fn usage(connection: &Connection, ask: &UsageQuery) -> rusqlite::Result<Vec<UsageSum>> {
    let mut asked = connection.prepare_cached(&sums(ask.by))?;
    let mut sums = asked.query_map(params![ask.from.0, ask.until.0], sum)?.collect::<rusqlite::Result<Vec<_>>>()?;
    // Sums over nothing are one row of zeros.
    sums.retain(|sum| sum.attempts > 0);
    Ok(sums)
}

/// A request counts once however many attempts it took; those are few, so only second attempts look for an earlier one.
pub(super) fn sums(by: UsageBy) -> String {
    let (group, shown) = match by {
        UsageBy::Account => ("u.identity", "(SELECT n.name FROM names n WHERE n.identity = u.identity)"),
        UsageBy::Provider => ("u.provider", "u.provider"),
        UsageBy::Agent => ("COALESCE(u.agent, '')", "COALESCE(u.agent, '')"),
        UsageBy::Client => ("COALESCE(u.client, '')", "COALESCE(u.client, '')"),
        UsageBy::Model => ("u.model", "u.model"),
        UsageBy::Day => ("u.day", "u.day"),
        UsageBy::Total => ("", "''"),
    };
    let (same, grouped) = match by {
        UsageBy::Total => (String::new(), String::new()),
        UsageBy::Account | UsageBy::Provider | UsageBy::Agent | UsageBy::Client | UsageBy::Model | UsageBy::Day => {
            (format!("AND {} = {group}", group.replace("u.", "e.")), format!("GROUP BY {group} ORDER BY 1"))
        }
    };
    format!(
        "SELECT {shown}, COALESCE(SUM(CASE WHEN u.attempt > 1 AND EXISTS (SELECT 1 FROM usage e \
         WHERE e.request_id = u.request_id AND e.attempt < u.attempt AND e.at >= $1 AND e.at < $2 {same}) \
         THEN 0 ELSE 1 END), 0), COUNT(*), COALESCE(SUM(u.input), 0), COALESCE(SUM(u.output), 0), \
         COALESCE(SUM(u.cache_read), 0), COALESCE(SUM(u.cache_write_5m), 0), COALESCE(SUM(u.cache_write_1h), 0), \
         COALESCE(SUM(u.cost), 0), COALESCE(SUM(u.list_value), 0), \
         COALESCE(SUM(CASE WHEN u.figures = 'estimated' THEN 1 ELSE 0 END), 0), \
         COALESCE(SUM(CASE WHEN u.price = 'dearest' THEN 1 ELSE 0 END), 0) \
         FROM usage u WHERE u.at >= $1 AND u.at < $2 {grouped}"
    )
}

fn sum(row: &Row<'_>) -> rusqlite::Result<UsageSum> {
    Ok(UsageSum {
        key: row.get::<_, Option<String>>(0)?.unwrap_or_default(),
        requests: count(row, 1)?,
        attempts: count(row, 2)?,
        usage: Usage {
            input: count(row, 3)?,
            output: count(row, 4)?,
            cache_read: count(row, 5)?,
            cache_write_5m: count(row, 6)?,
            cache_write_1h: count(row, 7)?,
        },
        cost: Micros(row.get(8)?),
        list_value: Micros(row.get(9)?),
        estimated: count(row, 10)?,
        unpriced: count(row, 11)?,
    })
}

/// The newest events that match, oldest first.
pub(super) fn events(connection: &Connection, ask: &EventQuery) -> rusqlite::Result<Vec<EventRow>> {
    let mut asked = connection.prepare_cached(EVENTS)?;
    let after = i64::try_from(ask.after).unwrap_or(i64::MAX);
    let limit = i64::try_from(ask.limit).unwrap_or(i64::MAX);
    let least = ask.at_least.map_or(0, rank);
    let kinds = (!ask.kinds.is_empty()).then(|| format!(",{},", ask.kinds.join(",")));
    let found = asked.query_map(params![after, least, kinds, ask.account, limit], event)?;
    let mut newest = found.collect::<rusqlite::Result<Vec<_>>>()?;
    newest.reverse();
    Ok(newest)
}

fn event(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    Ok(EventRow {
        seq: count(row, 0)?,
        at: Wall(row.get(1)?),
        severity: severity(row.get(2)?).ok_or_else(|| misfit(2))?,
        kind: row.get(3)?,
        account: row.get(4)?,
        agent: row.get(5)?,
        request_id: row.get(6)?,
        json: row.get(7)?,
    })
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|_| misfit(column))
}

fn misfit(column: usize) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(column, "a figure".to_owned(), Type::Integer)
}

/// A severity as a number that grows with it.
pub(super) fn rank(severity: Severity) -> i64 {
    match severity {
        Severity::Trace => 0,
        Severity::Info => 1,
        Severity::Warning => 2,
        Severity::Error => 3,
    }
}

fn severity(rank: i64) -> Option<Severity> {
    let all = [Severity::Trace, Severity::Info, Severity::Warning, Severity::Error];
    all.into_iter().find(|severity| self::rank(*severity) == rank)
}
