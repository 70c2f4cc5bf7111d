//! Opening a database file: whether it is ours, whole, and of a version that we know; and bringing it to the present one.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::is_damage;

/// Marks a file as ours: "ddst".
const APPLICATION: i64 = 0x6464_7374;
/// One file a version, oldest first. What was released is never changed.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001.sql")];
/// How long others may hold the file, e.g. to copy it.
const BUSY: Duration = Duration::from_secs(5);
/// A file up to this size is checked as a whole when it is opened: that takes less than a tenth of a second.
const WHOLE: u64 = 64 * 1024 * 1024;
/// What a start stands on is checked in any file.
const VITAL: [&str; 2] = ["records", "spent"];

/// Why a database cannot be used.
#[derive(Debug)]
pub(in crate::store) enum Flaw {
    /// It is damaged, or nothing of ours.
    Damaged(String),
    /// A newer program made it.
    Newer(i64),
    /// It cannot be reached just now.
    Unreachable(rusqlite::Error),
}

impl From<rusqlite::Error> for Flaw {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::Damaged(error.to_string()) } else { Self::Unreachable(error) }
    }
}

/// Opens a file that is there, and brings it to the present version.
pub(in crate::store) fn open(path: &Path) -> Result<Connection, Flaw> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    leave_as_it_is(&connection, true)?;
    identify(&connection)?;
    is_whole(&connection, path)?;
    leave_as_it_is(&connection, false)?;
    configure(&connection)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Whether a database that is opened to be read is ours and of the present version.
pub(in crate::store) fn look_at(connection: &Connection) -> Result<(), Flaw> {
    connection.busy_timeout(BUSY)?;
    identify(connection)?;
    let version = number(connection, "user_version")?;
    if version == newest() { Ok(()) } else { Err(Flaw::Newer(version)) }
}

/// Makes an empty database ours.
pub(in crate::store) fn prepare(connection: &mut Connection) -> Result<(), Flaw> {
    connection.pragma_update(None, "application_id", APPLICATION)?;
    Ok(migrate(connection)?)
}

/// Whether closing the database leaves its log beside it: nothing is moved into a file that is put aside.
pub(super) fn leave_as_it_is(connection: &Connection, leave: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave).map(|_| ())
}

fn identify(connection: &Connection) -> Result<(), Flaw> {
    let application = number(connection, "application_id")?;
    let version = number(connection, "user_version")?;
    match application {
        APPLICATION if version > newest() => Err(Flaw::Newer(version)),
        APPLICATION if version > 0 => Ok(()),
        APPLICATION => Err(Flaw::Damaged("it has no version".to_owned())),
        0 if version == 0 => Err(Flaw::Damaged("it is empty, or another program's".to_owned())),
        _ => Err(Flaw::Damaged("it is another program's database".to_owned())),
    }
}

/// Whether what is in it makes sense.
pub(in crate::store) fn is_whole(connection: &Connection, path: &Path) -> Result<(), Flaw> {
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() <= WHOLE) {
        return is_sound(connection, "PRAGMA quick_check(1)");
    }
    VITAL.iter().try_for_each(|table| is_sound(connection, &format!("PRAGMA quick_check({table})")))
}

fn is_sound(connection: &Connection, question: &str) -> Result<(), Flaw> {
    let found: String = connection.query_row(question, [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(Flaw::Damaged(found.replace('\n', "; "))) }
}

/// Every commit is on the disk when it returns. A file system that knows no shared memory keeps its older journal.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update_and_check(None, "journal_size_limit", WHOLE.cast_signed(), |_| Ok(()))
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let version = number(connection, "user_version")?;
    let missing = MIGRATIONS.iter().zip(1_i64..).filter(|(_, of)| *of > version);
    for (migration, of) in missing {
        let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        step.execute_batch(migration)?;
        step.pragma_update(None, "user_version", of)?;
        step.commit()?;
    }
    Ok(())
}

fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}
