//! The text of a configuration with more accounts in a provider's list, each with keys of its own. A provider without a
//! list gets one, in which those that it has now come first. Never here: files.

use duduclaw_actors::id::EntryId;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::text::{Form, TextError, named};

/// An account's entry.
#[derive(Clone, Debug)]
pub(crate) struct NewEntry {
    /// Its name.
    pub(crate) name: String,
    /// Its other keys.
    pub(crate) keys: Vec<(&'static str, Value)>,
}

/// The text with these entries; one whose name is there already stays as it is.
pub(crate) fn bring(text: &str, provider: &str, there: &[NewEntry], new: &[NewEntry]) -> Result<String, TextError> {
    let mut document: DocumentMut = text.parse().map_err(|_| TextError::Syntax)?;
    let missing = |form| TextError::NoList(EntryId { provider: provider.into(), name: first_name(new).into() }, form);
    let providers = document.get_mut("providers").and_then(Item::as_table_like_mut);
    if let Some(table) = providers.and_then(|providers| providers.get_mut(provider)).and_then(Item::as_table_like_mut) {
        if table.contains_key("api_key_env") && !table.contains_key("accounts") {
            return Err(missing(Form::Providers));
        }
        let empty = || Item::ArrayOfTables(ArrayOfTables::new());
        add(list(table, there, empty), new);
        return Ok(document.to_string());
    }
    let upstream = document.get_mut("upstreams").and_then(|upstreams| named(upstreams, provider));
    let auth = upstream.and_then(|upstream| upstream.get_mut("auth")).ok_or_else(|| missing(Form::Upstreams))?;
    if let Some(mode) = auth.as_str().map(str::to_owned) {
        let mut long = InlineTable::new();
        long.insert("mode", mode.into());
        *auth = Item::Value(long.into());
    }
    let auth = auth.as_table_like_mut().ok_or_else(|| missing(Form::Upstreams))?;
    if let Some(Item::Value(mut one)) = auth.remove("account") {
        let decor = one.decor().clone();
        one.decor_mut().clear();
        let mut accounts = Value::Array(Array::from_iter([one]));
        *accounts.decor_mut() = decor;
        auth.insert("accounts", Item::Value(accounts));
    }
    add(list(auth, there, || Item::Value(Array::new().into())), new);
    Ok(document.to_string())
}

fn first_name(new: &[NewEntry]) -> &str {
    new.first().map_or("", |entry| entry.name.as_str())
}

/// The list of accounts in a table, made of those that are there if it is none yet.
fn list<'t>(table: &'t mut dyn TableLike, there: &[NewEntry], empty: impl Fn() -> Item) -> &'t mut Item {
    if !table.contains_key("accounts") {
        let mut begun = empty();
        add(&mut begun, there);
        table.insert("accounts", begun);
    }
    table.get_mut("accounts").expect("it was put there")
}

fn add(list: &mut Item, entries: &[NewEntry]) {
    for entry in entries {
        if named(list, &entry.name).is_some() || is_bare(list, &entry.name) {
            continue;
        }
        match list {
            Item::ArrayOfTables(tables) => {
                let mut table = Table::new();
                table.insert("name", toml_edit::value(entry.name.as_str()));
                entry.keys.iter().for_each(|(key, value)| drop(table.insert(key, Item::Value(value.clone()))));
                tables.push(table);
            }
            Item::Value(Value::Array(array)) => array.push(inline(entry)),
            Item::None | Item::Value(_) | Item::Table(_) => {}
        }
    }
}

fn inline(entry: &NewEntry) -> Value {
    if entry.keys.is_empty() {
        return entry.name.as_str().into();
    }
    let mut table = InlineTable::new();
    table.insert("name", entry.name.as_str().into());
    entry.keys.iter().for_each(|(key, value)| drop(table.insert(*key, value.clone())));
    table.into()
}

fn is_bare(list: &Item, name: &str) -> bool {
    list.as_array().is_some_and(|array| array.iter().any(|value| value.as_str() == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, keys: &[(&'static str, i64)]) -> NewEntry {
        NewEntry { name: name.to_owned(), keys: keys.iter().map(|(key, value)| (*key, (*value).into())).collect() }
    }

    #[test]
    fn a_list_grows_and_what_is_there_stays() {
        let text = "# mine\n[providers.a]\nauth = \"x\" # why\n[[providers.a.accounts]]\nname = \"one\" # first\n";
        let brought =
            bring(text, "a", &[], &[entry("one", &[("priority", 9)]), entry("two", &[("priority", 3)])]).unwrap();
        assert_eq!(brought, format!("{text}\n[[providers.a.accounts]]\nname = \"two\"\npriority = 3\n"));
    }

    #[test]
    fn a_provider_without_a_list_gets_one_with_all_that_it_has() {
        let text = "[providers.a]\nauth = \"x\"\n";
        let brought = bring(text, "a", &[entry("old", &[])], &[entry("new", &[("priority", 1)])]).unwrap();
        let expected =
            "[[providers.a.accounts]]\nname = \"old\"\n\n[[providers.a.accounts]]\nname = \"new\"\npriority = 1\n";
        assert!(brought.ends_with(expected), "{brought}");
        let text = "[[upstreams]]\nname = \"a\"\nauth = \"claude_oauth\"\n";
        let brought = bring(text, "a", &[entry("old", &[])], &[entry("new", &[("priority", 1)])]).unwrap();
        let expected = "auth = { mode = \"claude_oauth\", accounts = [\"old\", { name = \"new\", priority = 1 }] }";
        assert!(brought.contains(expected), "{brought}");
    }

    #[test]
    fn one_account_alone_becomes_one_of_a_list() {
        let text = "[[upstreams]]\nname = \"a\"\nauth = { mode = \"claude_oauth\", account = \"one\" }\n";
        let brought = bring(text, "a", &[], &[entry("two", &[])]).unwrap();
        assert!(brought.contains("accounts = [\"one\", \"two\"]"), "{brought}");
    }
}
