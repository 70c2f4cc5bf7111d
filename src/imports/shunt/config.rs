//! shunt's configuration, TOML or YAML, as one kind of tree; and what in it is about Claude accounts.

use std::collections::HashMap;
use std::path::Path;

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use saphyr_parser::{Event, Parser};
use toml::{Table, Value};

use crate::imports::{ImportError, reading, unreadable};

/// The tree of a file. YAML is told by its ending, as shunt does it.
pub(super) fn parsed(path: &Path) -> Result<Table, ImportError> {
    let shape = |why: &str| ImportError::Shape { path: path.to_owned(), program: "shunt", why: why.to_owned() };
    let text = reading::text(path).map_err(unreadable(path))?;
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml") {
        return yaml(&text).ok_or_else(|| shape("it is not valid YAML"));
    }
    text.parse().map_err(|_| shape("it is not valid TOML"))
}

fn yaml(text: &str) -> Option<Table> {
    if !is_of_this_world(text) {
        return None;
    }
    let documents = Yaml::load_from_str(text).ok()?;
    match documents.first().map(value) {
        None | Some(None) => Some(Table::new()),
        Some(Some(Value::Table(table))) => Some(table),
        Some(Some(_)) => None,
    }
}

/// Deeper than this no configuration is nested; a tree that is made of it would overflow the stack.
const DEEPEST: usize = 64;
/// More parts than these no configuration has, each counted as often as it is referred to.
const MOST: usize = 100_000;

/// Whether it makes a tree that can be had: seen before one is made.
fn is_of_this_world(text: &str) -> bool {
    let mut open = vec![(0, 0)];
    let mut named = HashMap::new();
    for event in Parser::new_from_str(text) {
        let Ok((event, _)) = event else { return false };
        let size = match event {
            Event::SequenceStart(name, _) | Event::MappingStart(name, _) => {
                open.push((name, 1));
                0
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (name, size) = open.pop().unwrap_or_default();
                named.insert(name, size);
                size
            }
            Event::Scalar(..) => 1,
            Event::Alias(name) => named.get(&name).copied().unwrap_or(1),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => 0,
        };
        let Some((_, around)) = open.last_mut() else { return false };
        *around += size;
        if *around > MOST || open.len() > DEEPEST {
            return false;
        }
    }
    true
}

/// A value; none where nothing is said.
fn value(yaml: &Yaml<'_>) -> Option<Value> {
    match yaml {
        Yaml::Value(Scalar::Null) | Yaml::Alias(_) | Yaml::BadValue | Yaml::Representation(..) => None,
        Yaml::Value(Scalar::Boolean(flag)) => Some(Value::Boolean(*flag)),
        Yaml::Value(Scalar::Integer(number)) => Some(Value::Integer(*number)),
        Yaml::Value(Scalar::FloatingPoint(number)) => Some(Value::Float(**number)),
        Yaml::Value(Scalar::String(text)) => Some(Value::String(text.to_string())),
        Yaml::Sequence(items) => Some(Value::Array(items.iter().filter_map(value).collect())),
        Yaml::Mapping(pairs) => {
            let named = pairs.iter().filter_map(|(key, inner)| Some((key.as_str()?.to_owned(), value(inner)?)));
            Some(Value::Table(named.collect()))
        }
        Yaml::Tagged(_, inner) => value(inner),
    }
}

/// The accounts of its Claude pools.
#[derive(Default)]
pub(super) struct Pools {
    /// What is listed, by name, once.
    pub(super) listed: Vec<Table>,
    /// Whether what is in the store and not listed serves nowhere.
    pub(super) are_all_listed: bool,
}

impl Pools {
    /// In both forms of a configuration: providers by name, and a chain.
    pub(super) fn of(table: &Table) -> Self {
        let providers = table.get("providers").and_then(Value::as_table).into_iter().flat_map(Table::values);
        let of_providers = providers.filter(|p| is_claude(p.get("auth"))).map(|p| members(p, &[]));
        let upstreams = table.get("upstreams").and_then(Value::as_array).into_iter().flatten();
        let of_upstreams = upstreams.filter(|u| is_claude(u.get("auth"))).map(|u| match u.get("auth") {
            Some(auth) => members(auth, &["account"]),
            None => Vec::new(),
        });
        let all: Vec<Vec<Table>> = of_providers.chain(of_upstreams).collect();
        // A pool without a list is the whole store.
        let are_all_listed = !all.is_empty() && all.iter().all(|pool| !pool.is_empty());
        let mut listed = Vec::new();
        all.into_iter().flatten().for_each(|entry| put(&mut listed, entry));
        Self { listed, are_all_listed }
    }

    pub(super) fn names(&self, name: &str) -> bool {
        self.listed.iter().any(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
    }
}

fn is_claude(auth: Option<&Value>) -> bool {
    let mode = auth.and_then(|auth| auth.as_str().or_else(|| auth.get("mode")?.as_str()));
    mode == Some("claude_oauth")
}

/// The accounts that a pool lists, by name or as tables.
fn members(pool: &Value, single: &[&str]) -> Vec<Table> {
    let one = single.iter().filter_map(|key| pool.get(key)).cloned();
    let all = pool.get("accounts").and_then(Value::as_array).cloned().unwrap_or_default();
    one.chain(all).filter_map(entry).collect()
}

/// An account as a table.
fn entry(value: Value) -> Option<Table> {
    match value {
        Value::String(_) => Some([("name".to_owned(), value)].into_iter().collect()),
        Value::Table(table) => Some(table),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) => None,
    }
}

/// An account that several pools list is one; what any of them says of it counts, the first first.
fn put(listed: &mut Vec<Table>, entry: Table) {
    match listed.iter_mut().find(|known| known.get("name") == entry.get("name")) {
        None => listed.push(entry),
        Some(known) => {
            for (key, value) in entry {
                known.entry(key).or_insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_toml_of_the_same_meaning_are_the_same() {
        let toml: Table = "a = 1\nb = [true, 1.5, \"x\"]\n[c]\nd = \"no\"\n".parse().unwrap();
        assert_eq!(yaml("a: 1\nb: [true, 1.5, x]\nc: {d: \"no\", e: ~}\n"), Some(toml));
        assert_eq!(yaml(""), Some(Table::new()));
        assert_eq!(yaml("pool: &p {x: 1}\nagain: *p\n").unwrap()["again"]["x"], Value::Integer(1));
        for odd in ["a: [", "- a\n", "text"] {
            assert_eq!(yaml(odd), None, "{odd}");
        }
    }

    #[test]
    fn yaml_that_is_too_deep_or_multiplies_itself_is_none() {
        let nested = |depth| format!("{}x{}", "{a: ".repeat(depth), "}".repeat(depth));
        assert!(yaml(&nested(DEEPEST - 1)).is_some());
        assert_eq!(yaml(&nested(DEEPEST)), None);
        assert_eq!(yaml(&format!("a: {}x", "- ".repeat(100_000))), None);
        assert_eq!(yaml(&format!("{}x", "- ".repeat(100_000))), None);
        let blocks: String = (0..3_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        assert_eq!(yaml(&blocks), None);
        let tenfold = |at: usize| format!("a{}: &a{} [{}]\n", at + 1, at + 1, format!("*a{at} ,").repeat(10));
        let bomb: String = (0..9).map(tenfold).collect();
        assert_eq!(yaml(&format!("a0: &a0 [x]\n{bomb}")), None);
    }

    #[test]
    fn an_account_that_two_pools_list_is_one_with_what_either_says() {
        let text = "[[upstreams]]\nauth = { mode = \"claude_oauth\", account = \"work\" }\n\
                    [[upstreams]]\nauth = { mode = \"claude_oauth\", accounts = [\"b\", { name = \"work\", priority = 3 }] }\n";
        let pools = Pools::of(&text.parse().unwrap());
        assert!(pools.are_all_listed && pools.names("b"));
        assert_eq!((pools.listed.len(), pools.listed[0]["priority"].as_integer()), (2, Some(3)));
        let whole = format!("{text}[[upstreams]]\nauth = \"claude_oauth\"\n");
        assert!(!Pools::of(&whole.parse().unwrap()).are_all_listed);
        assert!(!Pools::of(&Table::new()).are_all_listed);
    }
}
