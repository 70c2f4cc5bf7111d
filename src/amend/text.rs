//! The text of a configuration with one account's entry changed: every comment, blank line and order stays.
//!
//! Accounts stand in both forms of a configuration, as tables, inline tables, or bare names in a list. Never here: files.

use duduclaw_actors::id::EntryId;
use duduclaw_actors::roster::Switch;
use toml_edit::{Array, DocumentMut, InlineTable, Item, RawString, TableLike, Value};

use super::Change;

/// Why an entry cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The text is no TOML.
    #[error("the configuration is not valid TOML; `duduclaw check` shows where")]
    Syntax,
    /// The provider has no list of accounts: they come by shorthand, or from the account store.
    #[error("account {0} has no entry of its own in the configuration")]
    NoList(EntryId, Form),
    /// There is a list, and the account is not in it by this name.
    #[error("account {0} is not in the configuration under this name; it may be written with a ${{…}} reference")]
    NoEntry(EntryId),
    /// Without its last account a provider would take every account of the store.
    #[error("account {0} is the only one of its provider, and a provider without a list takes the whole account store")]
    LastOne(EntryId),
}

/// The two ways to write a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `[providers.<name>]`.
    Providers,
    /// `[[upstreams]]`.
    Upstreams,
}

/// How a configuration of this text writes its fleet.
pub(super) fn form(text: &str) -> Form {
    let document: Option<DocumentMut> = text.strip_prefix('\u{feff}').unwrap_or(text).parse().ok();
    let is_by_upstreams = document.is_some_and(|document| document.contains_key("upstreams"));
    if is_by_upstreams { Form::Upstreams } else { Form::Providers }
}

/// The text with this change.
pub(super) fn change(text: &str, entry: &EntryId, change: Change) -> Result<String, TextError> {
    let bare = text.strip_prefix('\u{feff}');
    let mut document: DocumentMut = bare.unwrap_or(text).parse().map_err(|_| TextError::Syntax)?;
    if change == Change::Add {
        listed(&mut document, entry);
    }
    let place = place(&mut document, entry)?;
    match change {
        Change::Switch(Switch::Off) => set(place, entry, "disabled", true.into())?,
        Change::Switch(Switch::On) => set_if_there(place, entry, "disabled", false.into())?,
        Change::Priority(priority) => set(place, entry, "priority", i64::from(priority).into())?,
        Change::Remove => remove(place, entry)?,
        Change::Add => append(place, entry),
    }
    let changed = like(text, document.to_string());
    Ok(if bare.is_some() { format!("\u{feff}{changed}") } else { changed })
}

/// Line ends as the text had them.
fn like(text: &str, changed: String) -> String {
    let lines = text.matches('\n').count();
    if lines == 0 || text.matches("\r\n").count() < lines {
        return changed;
    }
    changed.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Where a provider's accounts stand.
fn place<'d>(document: &'d mut DocumentMut, entry: &EntryId) -> Result<&'d mut Item, TextError> {
    let providers = document.get("providers").and_then(Item::as_table_like);
    if providers.is_some_and(|providers| providers.contains_key(&entry.provider)) {
        let none = TextError::NoList(entry.clone(), Form::Providers);
        let accounts = document["providers"][&*entry.provider].get_mut("accounts");
        return accounts.filter(|accounts| !accounts.is_none()).ok_or(none);
    }
    let none = TextError::NoList(entry.clone(), Form::Upstreams);
    let upstream = document.get_mut("upstreams").and_then(|upstreams| named(upstreams, &entry.provider));
    let auth = upstream.and_then(|upstream| upstream.get_mut("auth")).and_then(Item::as_table_like_mut);
    let auth = auth.ok_or_else(|| none.clone())?;
    let key = if auth.contains_key("accounts") { "accounts" } else { "account" };
    auth.get_mut(key).ok_or(none)
}

/// The account of an upstream that names one alone, as a list of one.
fn listed(document: &mut DocumentMut, entry: &EntryId) {
    let upstream = document.get_mut("upstreams").and_then(|upstreams| named(upstreams, &entry.provider));
    let auth = upstream.and_then(|upstream| upstream.get_mut("auth")).and_then(Item::as_table_like_mut);
    let Some(auth) = auth.filter(|auth| !auth.contains_key("accounts")) else { return };
    if let Some(Item::Value(mut account)) = auth.remove("account") {
        let decor = account.decor().clone();
        account.decor_mut().clear();
        let mut accounts = Value::Array(Array::from_iter([account]));
        *accounts.decor_mut() = decor;
        auth.insert("accounts", Item::Value(accounts));
    }
}

/// The table of this name in a list of tables, however the list is written.
pub(super) fn named<'i>(list: &'i mut Item, name: &str) -> Option<&'i mut dyn TableLike> {
    match list {
        Item::ArrayOfTables(tables) => {
            tables.iter_mut().find(|table| is_named(*table, name)).map(|table| table as &mut dyn TableLike)
        }
        Item::Value(Value::Array(array)) => {
            let mut tables = array.iter_mut().filter_map(Value::as_inline_table_mut);
            tables.find(|table| is_named(*table, name)).map(|table| table as &mut dyn TableLike)
        }
        Item::Value(Value::InlineTable(table)) if is_named(table, name) => Some(table),
        Item::None | Item::Value(_) | Item::Table(_) => None,
    }
}

fn is_named(table: &dyn TableLike, name: &str) -> bool {
    table.get("name").and_then(Item::as_str).is_some_and(|found| found.trim() == name)
}

fn is_bare_name(value: &Value, name: &str) -> bool {
    value.as_str().is_some_and(|found| found.trim() == name)
}

/// Sets a key of an account, which becomes a table for it if it is a bare name.
fn set(place: &mut Item, entry: &EntryId, key: &str, value: Value) -> Result<(), TextError> {
    unfold(place, &entry.name);
    let account = named(place, &entry.name).ok_or_else(|| TextError::NoEntry(entry.clone()))?;
    match account.get_mut(key).and_then(Item::as_value_mut) {
        Some(there) => exchange(there, value),
        None => add(account, key, value),
    }
    Ok(())
}

/// Sets a key that is there; without it the account is that way already.
fn set_if_there(place: &mut Item, entry: &EntryId, key: &str, value: Value) -> Result<(), TextError> {
    let account = named(place, &entry.name);
    if account.is_none() && holds_bare(place, &entry.name) {
        return Ok(());
    }
    let account = named(place, &entry.name).ok_or_else(|| TextError::NoEntry(entry.clone()))?;
    if let Some(there) = account.get_mut(key).and_then(Item::as_value_mut) {
        exchange(there, value);
    }
    Ok(())
}

/// Puts another value in a value's place, between the same blanks and before the same comment.
fn exchange(there: &mut Value, value: Value) {
    let decor = there.decor().clone();
    *there = value;
    *there.decor_mut() = decor;
}

/// A new key goes last. In an inline table the blank before the brace goes behind it.
fn add(account: &mut dyn TableLike, key: &str, mut value: Value) {
    let last = account.iter().last().map(|(key, _)| key.to_owned());
    let last = last.and_then(|last| account.get_mut(&last)).and_then(Item::as_value_mut);
    if let Some(last) = last.filter(|last| last.decor().suffix().and_then(|s| s.as_str()) == Some(" ")) {
        last.decor_mut().set_suffix("");
        value.decor_mut().set_suffix(" ");
    }
    account.insert(key, Item::Value(value));
}

fn holds_bare(place: &Item, name: &str) -> bool {
    match place {
        Item::Value(Value::Array(array)) => array.iter().any(|value| is_bare_name(value, name)),
        Item::Value(value) => is_bare_name(value, name),
        Item::None | Item::Table(_) | Item::ArrayOfTables(_) => false,
    }
}

/// Writes a bare name as `{ name = "…" }`, which means the same.
fn unfold(place: &mut Item, name: &str) {
    match place {
        Item::Value(Value::Array(array)) => {
            array
                .iter_mut()
                .filter(|value| is_bare_name(value, name))
                .for_each(|value| exchange(value, table_of(name)));
        }
        Item::Value(value) if is_bare_name(value, name) => exchange(value, table_of(name)),
        Item::None | Item::Value(_) | Item::Table(_) | Item::ArrayOfTables(_) => {}
    }
}

fn table_of(name: &str) -> Value {
    let mut table = InlineTable::new();
    table.insert("name", name.into());
    table.into()
}

/// A new entry goes last. In a list of bare names it is one too.
fn append(place: &mut Item, entry: &EntryId) {
    let is_there = holds_bare(place, &entry.name) || named(place, &entry.name).is_some();
    match place {
        _ if is_there => {}
        Item::ArrayOfTables(tables) => {
            let mut table = toml_edit::Table::new();
            table.insert("name", toml_edit::value(&*entry.name));
            tables.push(table);
        }
        Item::Value(Value::Array(array)) => {
            let bare = array.iter().any(Value::is_str);
            array.push(if bare { Value::from(&*entry.name) } else { table_of(&entry.name) });
        }
        Item::None | Item::Value(_) | Item::Table(_) => {}
    }
}

fn remove(place: &mut Item, entry: &EntryId) -> Result<(), TextError> {
    let missing = || TextError::NoEntry(entry.clone());
    match place {
        Item::ArrayOfTables(tables) => {
            let at = tables.iter().position(|table| is_named(table, &entry.name)).ok_or_else(missing)?;
            if tables.len() == 1 {
                return Err(TextError::LastOne(entry.clone()));
            }
            tables.remove(at);
            Ok(())
        }
        Item::Value(Value::Array(array)) => {
            let at = array.iter().position(|value| is_account(value, &entry.name)).ok_or_else(missing)?;
            if array.len() == 1 {
                return Err(TextError::LastOne(entry.clone()));
            }
            take_out(array, at);
            Ok(())
        }
        Item::Value(value) if is_account(value, &entry.name) => Err(TextError::LastOne(entry.clone())),
        Item::None | Item::Value(_) | Item::Table(_) => Err(missing()),
    }
}

fn is_account(value: &Value, name: &str) -> bool {
    is_bare_name(value, name) || value.as_inline_table().is_some_and(|table| is_named(table, name))
}

/// Takes an item out of a list. A comment at the end of its line goes with it, and those of its neighbours stay: the
/// parser counts what follows a comma on its line to the next item.
fn take_out(array: &mut Array, at: usize) {
    let gone = array.remove(at);
    let before = blank(gone.decor().prefix());
    let (own_line, _) = line_and_rest(&before);
    if let Some(next) = array.get_mut(at) {
        let prefix = match line_and_rest(&blank(next.decor().prefix())) {
            (_, "") => before.clone(),
            (_, rest) => format!("{own_line}{rest}"),
        };
        next.decor_mut().set_prefix(prefix);
    } else if array.trailing_comma() {
        let trailing = array.trailing().as_str().unwrap_or_default().to_owned();
        let (_, rest) = line_and_rest(&trailing);
        if !rest.is_empty() {
            array.set_trailing(format!("{own_line}{rest}"));
        }
    } else if let Some(last) = at.checked_sub(1).and_then(|at| array.get_mut(at)) {
        let after = blank(gone.decor().suffix());
        match line_and_rest(&after) {
            (_, "") => last.decor_mut().set_suffix(after.clone()),
            (_, rest) => last.decor_mut().set_suffix(format!("{own_line}{rest}")),
        }
    }
}

fn blank(raw: Option<&RawString>) -> String {
    raw.and_then(RawString::as_str).unwrap_or_default().to_owned()
}

/// What stands before the first line end, and the rest with it.
fn line_and_rest(text: &str) -> (&str, &str) {
    text.split_at(text.find('\n').unwrap_or(text.len()))
}

#[cfg(test)]
mod tests;
