//! The configuration as a tree of values, each with the place it came from.
//!
//! TOML text becomes [`Node`]s; environment variables are laid over it, `${…}` references are resolved, and the rest of
//! the configuration reads typed values out of it. Keys keep their order in the file, which is the order of failover.
//! Nothing here knows what a key means.

mod deserialize;
mod fault;
mod overlay;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) use deserialize::{At, Mark, Ordered};

use crate::config::problem::{Place, Problem, Severity};
use crate::config::referred::Referred;
use crate::config::surroundings::Surroundings;
use fault::{Fault, Segment};

/// One value and where it came from.
pub(crate) struct Node {
    mark: Mark,
    value: Value,
}

enum Value {
    Text(String),
    /// Text from outside the file: read as whatever type is wanted there, and never shown.
    Loose(String),
    Whole(i64),
    Fraction(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

struct Entry {
    key: String,
    mark: Mark,
    node: Node,
}

/// The whole tree, with the places that its marks stand for.
pub(crate) struct Document {
    root: Node,
    places: Vec<Place>,
    whole: Place,
    /// What `${…}` references stood for.
    referred: Referred,
    /// Tables that something was left out of.
    fragments: Vec<Mark>,
}

impl Document {
    /// Reads TOML text. A syntax error is one problem, and there is no tree.
    pub(crate) fn parse(text: &str, file: &str) -> Result<Self, Problem> {
        let parsed = DeTable::parse(text).map_err(|error| syntax_problem(&error, text, file))?;
        let whole = if file.is_empty() { Place::BuiltIn } else { Place::Whole(file.to_owned()) };
        let empty = Node { mark: Mark(0), value: Value::Table(Vec::new()) };
        let mut document = Self {
            root: empty,
            places: vec![whole.clone()],
            whole,
            referred: Referred::default(),
            fragments: Vec::new(),
        };
        let lines = Lines { text, file };
        document.root.value = document.table(parsed.into_inner(), &lines);
        Ok(document)
    }

    /// The place of a mark.
    pub(crate) fn place(&self, mark: Mark) -> Place {
        self.places.get(mark.0 as usize).unwrap_or(&self.whole).clone()
    }

    /// Lays `DUDUCLAW_<SECTION>__<KEY>` variables over the tree, then resolves `${…}`.
    pub(crate) fn overlay(&mut self, surroundings: &dyn Surroundings) -> Vec<Problem> {
        let mut problems = overlay::environment(self, surroundings);
        problems.extend(overlay::references(self, surroundings));
        problems
    }

    /// Reads the tree as `T`. Each value that does not fit is one problem and is left out.
    pub(crate) fn read<T: DeserializeOwned + Default>(&mut self) -> (T, Vec<Problem>) {
        let mut problems = Vec::new();
        loop {
            match T::deserialize(&self.root) {
                Ok(read) => return (read, problems),
                Err(fault) => {
                    problems.push(self.problem(&fault));
                    if !self.leave_out(&fault.path) {
                        return (T::default(), problems);
                    }
                }
            }
        }
    }

    /// Takes out of a text whatever a `${…}` reference stood for: that may be a secret.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.referred.scrub(text)
    }

    /// What `${…}` references stood for.
    pub(crate) fn referred(&self) -> &Referred {
        &self.referred
    }

    /// Whether something that does not fit was left out of this table: what is missing there may have been it.
    pub(crate) fn is_fragment(&self, table: Mark) -> bool {
        self.fragments.contains(&table)
    }

    fn leave_out(&mut self, path: &[Segment]) -> bool {
        let table = self.root.remove(path);
        self.fragments.extend(table);
        table.is_some()
    }

    fn problem(&self, fault: &Fault) -> Problem {
        Problem {
            severity: Severity::Error,
            place: fault.mark.map_or_else(|| self.whole.clone(), |m| self.place(m)),
            text: fault.text(),
        }
    }

    fn mark(&mut self, place: Place) -> Mark {
        self.places.push(place);
        Mark(u32::try_from(self.places.len() - 1).unwrap_or(0))
    }

    fn table(&mut self, table: DeTable<'_>, lines: &Lines<'_>) -> Value {
        let mut ordered: Vec<_> = table.into_iter().collect();
        ordered.sort_by_key(|(key, _)| key.span().start);
        let entries = ordered.into_iter().map(|(key, value)| {
            let mark = self.mark(lines.place(key.span().start));
            Entry { key: key.into_inner().into_owned(), mark, node: self.node(value, lines) }
        });
        Value::Table(entries.collect())
    }

    fn node(&mut self, spanned: Spanned<DeValue<'_>>, lines: &Lines<'_>) -> Node {
        let mark = self.mark(lines.place(spanned.span().start));
        let value = match spanned.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::Fraction(f64::INFINITY), Value::Whole),
            DeValue::Float(number) => Value::Fraction(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Datetime(date) => Value::Text(date.to_string()),
            DeValue::Array(list) => Value::List(list.into_iter().map(|item| self.node(item, lines)).collect()),
            DeValue::Table(table) => self.table(table, lines),
        };
        Node { mark, value }
    }
}

impl Node {
    /// Takes out what stands at this path; an item of an array takes the whole array with it, so that the numbers of
    /// the others stay true.
    /// Gives the table that lost it.
    fn remove(&mut self, path: &[Segment]) -> Option<Mark> {
        match (path, &mut self.value) {
            ([Segment::Key(key), rest @ ..], Value::Table(entries)) => {
                let at = entries.iter().position(|entry| entry.key == *key)?;
                if let [] | [Segment::Index(_)] = rest {
                    entries.remove(at);
                    return Some(self.mark);
                }
                entries[at].node.remove(rest)
            }
            ([Segment::Index(index), rest @ ..], Value::List(items)) => items.get_mut(*index)?.remove(rest),
            _ => None,
        }
    }
}

struct Lines<'a> {
    text: &'a str,
    file: &'a str,
}

impl Lines<'_> {
    fn place(&self, offset: usize) -> Place {
        if self.file.is_empty() {
            return Place::BuiltIn;
        }
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = bytecount::count(before, b'\n') + 1;
        Place::Line { file: self.file.to_owned(), line: u32::try_from(line).unwrap_or(u32::MAX) }
    }
}

/// The parser's own rendering quotes the line, which may hold a secret; its message alone does not.
fn syntax_problem(error: &toml::de::Error, text: &str, file: &str) -> Problem {
    let start = error.span().map_or(0, |span| span.start);
    Problem {
        severity: Severity::Error,
        place: Lines { text, file }.place(start),
        text: format!("this is not valid TOML: {}", error.message().trim().replace('\n', "; ")),
    }
}

#[cfg(test)]
mod tests;
