//! ccflare's database: its table of accounts, opened for reading alone.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row};

use super::{ImportError, Plain, Plan, Planned, PlannedSource, unreadable, warn_of_copies};

pub(super) fn read(path: &Path) -> Result<Plan, ImportError> {
    // A database that is not there would be told as one that makes no sense.
    std::fs::File::open(path).map_err(unreadable(path))?;
    let mut plan = Plan { accounts: accounts(path).map_err(|error| shape(path, &error))?, notes: Vec::new() };
    warn_of_copies(&mut plan, "ccflare");
    Ok(plan)
}

fn shape(path: &Path, error: &rusqlite::Error) -> ImportError {
    ImportError::Shape { path: path.to_owned(), program: "ccflare", why: error.to_string() }
}

fn accounts(path: &Path) -> rusqlite::Result<Vec<Planned>> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
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
    ];
    let list = wanted.map(column).join(", ");
    let mut statement = database.prepare(&format!("SELECT {list} FROM accounts ORDER BY created_at, name"))?;
    let rows = statement.query_map([], |row| Ok(Account::of(row)))?;
    let all: Vec<Account> = rows.collect::<rusqlite::Result<_>>()?;
    let any_priority = all.iter().any(|account| account.priority != 0);
    Ok(all.iter().map(|account| account.planned(any_priority)).collect())
}

fn columns(database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = database.prepare("SELECT name FROM pragma_table_info('accounts')")?;
    statement.query_map([], |row| row.get(0))?.collect()
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
        }
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
        if !is_claude || self.endpoint.is_some() {
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
