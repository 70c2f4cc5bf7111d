use duduclaw_actors::clock::Wall;
use duduclaw_actors::event::Severity;
use duduclaw_actors::id::{EntryId, IdentityKey, Principal};
use duduclaw_actors::money::Micros;
use duduclaw_actors::outcome::Usage;
use duduclaw_actors::ports::{Batch, Store, Table, Write};
use duduclaw_actors::rows::{AttemptEnd, Charge, Figures, PriceBasis, UsageBy, UsageRow};

use super::*;

const HOUR: i64 = 3_600_000;

fn store() -> SqliteStore {
    let mut connection = Connection::open_in_memory().unwrap();
    prepare(&mut connection).unwrap();
    SqliteStore::new(connection, Damage::default())
}

fn write(key: &str, value: Option<&[u8]>) -> Write {
    Write { table: Table::Health, key: key.to_owned(), value: value.map(|value| (1, value.to_vec())) }
}

/// A row that was settled at this hour, with ten times the tokens of its kind, and a charge of a dollar.
fn used(request: &str, attempt: u32, account: &str, hour: i64) -> UsageRow {
    UsageRow {
        request_id: request.into(),
        attempt,
        at: Wall(hour * HOUR),
        day: format!("1970-01-{:02}", hour / 24 + 1),
        identity: IdentityKey::Stored {
            family: duduclaw_actors::id::Family::Claude,
            name: account.trim_end_matches('\'').into(),
        },
        entry: EntryId { provider: "anthropic".into(), name: account.into() },
        principal: Principal { client: Some("laptop".into()), ..Principal::default() },
        model: "claude-opus-5-5".to_owned(),
        usage: Usage { input: 10, output: 20, cache_read: 30, cache_write_5m: 40, cache_write_1h: 50 },
        cost: Micros(7),
        list_value: Micros(9),
        result: AttemptEnd::Complete,
        figures: Figures::Reported,
        price: PriceBasis::Listed,
        charges: vec![Charge {
            budget: "client:laptop".into(),
            month: "1970-01-01".to_owned(),
            amount: Micros(1_000_000),
            requests: u32::from(attempt == 1),
        }],
    }
}

fn happened(seq: u64, severity: Severity, kind: &str, account: Option<&str>) -> EventRow {
    EventRow {
        seq,
        at: Wall(seq.cast_signed() * HOUR),
        severity,
        kind: kind.to_owned(),
        account: account.map(str::to_owned),
        agent: None,
        request_id: Some(format!("r{seq}")),
        json: format!("{{\"seq\":{seq}}}"),
    }
}

fn all(by: UsageBy) -> UsageQuery {
    UsageQuery { from: Wall(i64::MIN), until: Wall(i64::MAX), by }
}

fn keys(store: &mut SqliteStore, by: UsageBy) -> Vec<(String, u64, u64)> {
    let sums = store.usage(&all(by)).unwrap();
    sums.into_iter().map(|sum| (sum.key, sum.requests, sum.attempts)).collect()
}

fn numbers(store: &mut SqliteStore, ask: EventQuery) -> Vec<u64> {
    store.events(&ask).unwrap().iter().map(|row| row.seq).collect()
}

#[test]
fn the_latest_value_of_a_record_counts_and_a_removed_one_is_gone() {
    let mut store = store();
    let records = vec![write("a", Some(b"1")), write("b", Some(b"2"))];
    store.write(&Batch { records, ..Batch::default() }).unwrap();
    let records = vec![write("a", None), write("b", Some(b"3")), write("never", None)];
    store.write(&Batch { records, ..Batch::default() }).unwrap();
    let kept = store.load(Table::Health).unwrap();
    assert_eq!(kept, [Record { key: "b".to_owned(), version: 1, value: b"3".to_vec() }]);
    assert_eq!(store.load(Table::Conversations).unwrap(), []);
}

/// After a failure nobody may know whether the batch was kept; it is then written again.
#[test]
fn a_batch_that_is_written_twice_counts_once() {
    let mut store = store();
    let batch = Batch {
        records: vec![write("a", Some(b"1"))],
        usage: vec![used("r", 1, "a", 1), used("r", 2, "b", 1)],
        events: vec![happened(1, Severity::Info, "started", None)],
    };
    store.write(&batch).unwrap();
    store.write(&batch).unwrap();
    let spent = store.spent().unwrap();
    assert_eq!((spent.len(), spent[0].amount, spent[0].requests), (1, Micros(2_000_000), 1));
    assert_eq!(keys(&mut store, UsageBy::Total), [(String::new(), 1, 2)]);
    assert_eq!(numbers(&mut store, EventQuery { limit: 9, ..EventQuery::default() }), [1]);
}

#[test]
fn a_batch_is_kept_as_a_whole_or_not_at_all() {
    let mut store = store();
    let trap = "CREATE TRIGGER trap BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no room'); END";
    store.connection.execute_batch(trap).unwrap();
    let batch = Batch {
        records: vec![write("a", Some(b"1"))],
        usage: vec![used("r", 1, "a", 1)],
        events: vec![happened(1, Severity::Info, "started", None)],
    };
    assert!(store.write(&batch).unwrap_err().to_string().contains("no room"));
    assert_eq!(store.load(Table::Health).unwrap(), []);
    assert_eq!((store.spent().unwrap(), keys(&mut store, UsageBy::Total)), (Vec::new(), Vec::new()));
    store.connection.execute_batch("DROP TRIGGER trap").unwrap();
    store.write(&batch).unwrap();
    assert_eq!(store.spent().unwrap()[0].amount, Micros(1_000_000));
}

#[test]
fn usage_is_summed_for_whatever_is_asked() {
    let mut store = store();
    let agent = Principal { agent: Some("dudu".into()), ..Principal::default() };
    let usage = vec![
        used("r1", 1, "a", 1),
        used("r1", 2, "b", 1),
        used("r2", 1, "b", 30),
        UsageRow { principal: agent, model: "claude-haiku-5".to_owned(), ..used("r3", 1, "b", 31) },
    ];
    store.write(&Batch { usage, ..Batch::default() }).unwrap();
    let row = |key: &str, requests, attempts| (key.to_owned(), requests, attempts);
    assert_eq!(keys(&mut store, UsageBy::Total), [row("", 3, 4)]);
    assert_eq!(keys(&mut store, UsageBy::Account), [row("anthropic/a", 1, 1), row("anthropic/b", 3, 3)]);
    assert_eq!(keys(&mut store, UsageBy::Provider), [row("anthropic", 3, 4)]);
    assert_eq!(keys(&mut store, UsageBy::Client), [row("", 1, 1), row("laptop", 2, 3)]);
    assert_eq!(keys(&mut store, UsageBy::Agent), [row("", 2, 3), row("dudu", 1, 1)]);
    assert_eq!(keys(&mut store, UsageBy::Model), [row("claude-haiku-5", 1, 1), row("claude-opus-5-5", 2, 3)]);
    assert_eq!(keys(&mut store, UsageBy::Day), [row("1970-01-01", 1, 2), row("1970-01-02", 2, 2)]);
}

#[test]
fn a_sum_adds_tokens_and_money_and_counts_what_is_not_certain() {
    let mut store = store();
    let usage = vec![
        UsageRow { figures: Figures::Estimated, ..used("r1", 1, "a", 1) },
        UsageRow { price: PriceBasis::Dearest, ..used("r2", 1, "a", 2) },
    ];
    store.write(&Batch { usage, ..Batch::default() }).unwrap();
    let sum = store.usage(&all(UsageBy::Total)).unwrap().remove(0);
    let tokens = Usage { input: 20, output: 40, cache_read: 60, cache_write_5m: 80, cache_write_1h: 100 };
    assert_eq!((sum.usage, sum.cost, sum.list_value), (tokens, Micros(14), Micros(18)));
    assert_eq!((sum.estimated, sum.unpriced), (1, 1));
}

#[test]
fn a_time_that_is_asked_for_begins_with_its_first_moment_and_ends_before_its_last() {
    let mut store = store();
    let usage = vec![used("r", 1, "a", 1), used("r", 2, "a", 2), used("r", 3, "a", 3)];
    store.write(&Batch { usage, ..Batch::default() }).unwrap();
    let ask = UsageQuery { from: Wall(2 * HOUR), until: Wall(3 * HOUR), by: UsageBy::Account };
    let sums = store.usage(&ask).unwrap();
    assert_eq!((sums.len(), sums[0].requests, sums[0].attempts), (1, 1, 1), "the first attempt lies outside");
    let nothing = UsageQuery { from: Wall(9 * HOUR), until: Wall(10 * HOUR), by: UsageBy::Total };
    assert_eq!(store.usage(&nothing).unwrap(), []);
}

#[test]
fn an_account_is_shown_by_its_latest_name_whatever_it_was_called() {
    let mut store = store();
    let usage = vec![used("r2", 1, "a'", 2), used("r1", 1, "a", 1)];
    store.write(&Batch { usage: usage.clone(), ..Batch::default() }).unwrap();
    assert_eq!(keys(&mut store, UsageBy::Account).len(), 1);
    store.write(&Batch { usage: vec![used("r3", 1, "a", 1)], ..Batch::default() }).unwrap();
    store.write(&Batch { usage: vec![used("r4", 1, "a'", 4)], ..Batch::default() }).unwrap();
    store.write(&Batch { usage: vec![used("r5", 1, "a", 3)], ..Batch::default() }).unwrap();
    assert_eq!(keys(&mut store, UsageBy::Account), [("anthropic/a'".to_owned(), 5, 5)]);
}

#[test]
fn the_newest_events_that_match_are_given_oldest_first() {
    let mut store = store();
    let events = vec![
        happened(1, Severity::Info, "started", None),
        happened(2, Severity::Error, "hold_began", Some("anthropic/a")),
        happened(3, Severity::Warning, "hold_began", Some("anthropic/b")),
        happened(4, Severity::Info, "hold_ended", Some("anthropic/a")),
    ];
    store.write(&Batch { events: events.clone(), ..Batch::default() }).unwrap();
    let ask = |change: fn(&mut EventQuery)| {
        let mut ask = EventQuery { limit: 10, ..EventQuery::default() };
        change(&mut ask);
        ask
    };
    assert_eq!(store.events(&ask(|_| {})).unwrap(), events);
    assert_eq!(numbers(&mut store, ask(|ask| ask.limit = 2)), [3, 4]);
    assert_eq!(numbers(&mut store, ask(|ask| ask.after = 2)), [3, 4]);
    assert_eq!(numbers(&mut store, ask(|ask| ask.kinds = vec!["hold_began".to_owned()])), [2, 3]);
    let two = ask(|ask| ask.kinds = vec!["started".to_owned(), "hold_ended".to_owned()]);
    assert_eq!(numbers(&mut store, two.clone()), [1, 4]);
    assert!(events.iter().all(|row| two.matches(row) == [1, 4].contains(&row.seq)));
    assert_eq!(numbers(&mut store, ask(|ask| ask.at_least = Some(Severity::Warning))), [2, 3]);
    assert_eq!(numbers(&mut store, ask(|ask| ask.account = Some("anthropic/a".to_owned()))), [2, 4]);
    for row in &events {
        let matching = ask(|ask| (ask.after, ask.at_least) = (1, Some(Severity::Warning)));
        assert_eq!(numbers(&mut store, matching.clone()).contains(&row.seq), matching.matches(row));
    }
}

#[test]
fn old_rows_go_some_at_a_time_and_what_they_cost_stays() {
    let mut store = store();
    let usage = (0..1_200_u32).map(|n| used(&format!("r{n}"), 1, "a", i64::from(n))).collect();
    let events = (1..=1_300).map(|n| happened(n, Severity::Info, "started", None)).collect();
    store.write(&Batch { usage, events, ..Batch::default() }).unwrap();
    let keep = Retention { before: Wall(1_100 * HOUR), events: 50, months_from: "1970-01-01".to_owned() };
    let mut steps = 1;
    while store.prune(&keep).unwrap() == Pruned::Some {
        steps += 1;
    }
    assert_eq!(steps, 3, "500 of a kind at a time");
    assert_eq!(keys(&mut store, UsageBy::Total), [(String::new(), 100, 100)]);
    let kept = numbers(&mut store, EventQuery { limit: 9_999, ..EventQuery::default() });
    assert_eq!((kept.len(), kept[0]), (50, 1_251));
    assert_eq!(store.spent().unwrap()[0].amount, Micros(1_200_000_000));
    store.prune(&Retention { months_from: "1970-02-01".to_owned(), ..keep }).unwrap();
    assert_eq!(store.spent().unwrap(), []);
}

#[test]
fn the_database_looks_up_what_is_asked_by_its_indices() {
    let store = store();
    let plan = |sql: &str| {
        let mut asked = store.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nothing = vec![rusqlite::types::Null; asked.parameter_count()];
        let steps = asked.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<rusqlite::Result<Vec<_>>>().unwrap().join("; ")
    };
    for (sql, index) in [(read::sums(UsageBy::Model).as_str(), "usage_at"), (write::DROP_USAGE, "usage_at")] {
        assert!(plan(sql).contains(index), "{}", plan(sql));
    }
    assert!(plan(write::DROP_EVENTS).contains("events_at"), "{}", plan(write::DROP_EVENTS));
    assert!(!plan(read::EVENTS).contains("TEMP B-TREE"), "{}", plan(read::EVENTS));
}

#[test]
fn a_store_that_is_not_damaged_says_so_of_none_of_its_failures() {
    let store = store();
    let ours = store.connection.execute_batch("SELECT nothing FROM nowhere").unwrap_err();
    assert!(!is_damage(&ours), "{ours}");
    assert!(is_damage(&rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(11), None)));
    assert!(is_damage(&rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(26), None)));
    for passing in [5, 8, 10, 13, 14] {
        assert!(!is_damage(&rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(passing), None)));
    }
}
