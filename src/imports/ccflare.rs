//! ccflare's database: its table of accounts, opened for reading alone. better-ccflare, which goes on where ccflare
//! stopped, has the same table with more columns.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rusqlite::{Connection, OpenFlags, Row};

use super::places::{Usual, named_by, settings_folder};
use super::{ImportError, Plain, Plan, Planned, PlannedSource, unreadable, warn_of_copies};
use crate::config::surroundings::Surroundings;
use crate::credentials::open_file;

const NAMES: [&str; 2] = ["better-ccflare.db", "ccflare.db"];
/// What means something else in the address of a database.
const SPECIAL: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');

/// `named` is its database, or the folder with it.
pub(super) fn read(named: Option<&Path>, machine: &dyn Surroundings) -> Result<Plan, ImportError> {
    let path = Usual { program: "ccflare", names: &NAMES, files: usual(machine) }.find(named)?;
    // A pipe would be waited for without end, and a database that is not there would be told as one that makes no sense.
    open_file(&path).map_err(unreadable(&path))?;
    let accounts = accounts(&path).map_err(|error| shape(&path, &error))?;
    let mut plan = Plan {
        accounts: accounts.iter().map(|account| account.planned(is_any_ranked(&accounts))).collect(),
        notes: accounts.iter().filter_map(Account::paused_itself).collect(),
        from: vec![path],
    };
    warn_of_copies(&mut plan, "ccflare");
    Ok(plan)
}

fn usual(machine: &dyn Surroundings) -> Vec<PathBuf> {
    if let Some(file) = named_by(&["BETTER_CCFLARE_DB_PATH", "ccflare_DB_PATH"], machine) {
        return vec![file];
    }
    let folder = settings_folder(machine);
    vec![folder.join("better-ccflare/better-ccflare.db"), folder.join("ccflare/ccflare.db")]
}

fn is_any_ranked(accounts: &[Account]) -> bool {
    accounts.iter().any(|account| account.priority != 0)
}

/// Opens it so that nothing is changed and nothing comes to lie beside it. What a ccflare that runs has not moved into
/// the database yet is in a log beside it, and counts; without such a log the file alone is read.
fn opened(path: &Path) -> rusqlite::Result<Connection> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let has_log = std::fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    let (Some(text), false) = (path.to_str(), has_log) else {
        return Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    };
    let address = format!("file:{}?immutable=1", utf8_percent_encode(text, SPECIAL));
    Connection::open_with_flags(address, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

fn shape(path: &Path, error: &rusqlite::Error) -> ImportError {
    ImportError::Shape { path: path.to_owned(), program: "ccflare", why: error.to_string() }
}

fn accounts(path: &Path) -> rusqlite::Result<Vec<Account>> {
    let database = opened(path)?;
    let known = columns(&database)?;
    // Columns came with time; one that is not there yet holds nothing.
    let column =
        |name: &str| if known.iter().any(|column| column == name) { name.to_owned() } else { "NULL".to_owned() };
    let wanted = [
        "name",
        "provider",
        "api_key",
        "refresh_token",
        "access_token",
        "expires_at",
        "priority",
        "paused",
        "custom_endpoint",
        "pause_reason",
    ];
    let list = wanted.map(column).join(", ");
    let mut statement = database.prepare(&format!("SELECT {list} FROM accounts ORDER BY created_at, name"))?;
    let rows = statement.query_map([], |row| Ok(Account::of(row)))?;
    rows.collect()
}

fn columns(database: &Connection) -> rusqlite::Result<Vec<String>> {
    // A view of that name may find no end.
    let table = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = 'accounts'";
    let name: String = database.query_row(table, [], |row| row.get(0))?;
    let mut statement = database.prepare("SELECT name FROM pragma_table_info(?)")?;
    statement.query_map([name], |row| row.get(0))?.collect()
}

struct Account {
    name: String,
    provider: String,
    key: Option<String>,
    refresh: Option<String>,
    access: Option<String>,
    expires_at: Option<i64>,
    priority: i64,
    is_paused: bool,
    endpoint: Option<String>,
    pause_reason: Option<String>,
}

impl Account {
    fn of(row: &Row<'_>) -> Self {
        let text = |at: usize| row.get::<_, Option<String>>(at).ok().flatten().filter(|text| !text.trim().is_empty());
        let number = |at: usize| row.get::<_, Option<i64>>(at).ok().flatten();
        Self {
            name: text(0).unwrap_or_default(),
            provider: text(1).unwrap_or_else(|| "anthropic".to_owned()),
            key: text(2),
            refresh: text(3),
            access: text(4),
            expires_at: number(5),
            priority: number(6).unwrap_or(0),
            is_paused: number(7).is_some_and(|paused| paused != 0),
            endpoint: text(8),
            pause_reason: text(9),
        }
    }

    /// That it was ccflare itself that paused it, and not its owner.
    fn paused_itself(&self) -> Option<String> {
        let why = self.pause_reason.as_deref().filter(|why| self.is_paused && *why != "manual")?;
        let name = &self.name;
        Some(format!("{name} was paused by ccflare itself ({why:?}); it comes switched off, look whether it should be"))
    }

    fn planned(&self, any_priority: bool) -> Planned {
        let mut keys = Vec::new();
        if any_priority {
            keys.push(("priority", self.priority.clamp(0, i64::from(u32::MAX)).into()));
        }
        if self.is_paused {
            keys.push(("disabled", true.into()));
        }
        Planned { was: self.name.clone(), name: String::new(), source: self.source(), keys }
    }

    fn source(&self) -> PlannedSource {
        let is_claude = matches!(self.provider.as_str(), "anthropic" | "claude-oauth" | "claude-console-api");
        let is_elsewhere = self.endpoint.as_deref().is_some_and(|url| !url.contains("anthropic.com"));
        if !is_claude || is_elsewhere {
            let text = format!("it is of another provider ({}); configure that as one of [providers]", self.provider);
            return PlannedSource::None(text);
        }
        // For keys it writes the key into both places.
        let is_key = self.key.is_some();
        let login = |text: &Option<String>| if is_key { None } else { text.clone() };
        let (access, refresh) = (login(&self.access), login(&self.refresh));
        let plain = Plain {
            access: access.as_deref(),
            refresh: refresh.as_deref(),
            key: self.key.as_deref(),
            expires_at: self.expires_at,
            ..Plain::default()
        };
        plain.stored()
    }
}
