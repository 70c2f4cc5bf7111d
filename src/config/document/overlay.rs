//! What the environment adds to the file: `DUDUCLAW_<SECTION>__<KEY>` variables, and `${…}` references.
//!
//! What a reference stands for is never shown, since it may be a secret.

use std::path::Path;

use toml::de::DeValue;

use super::fault::Segment;
use super::{Document, Entry, Lines, Mark, Node, Value};
use crate::config::problem::{Place, Problem, Severity};
use crate::config::referred::Referred;
use crate::config::surroundings::Surroundings;

const PREFIX: &str = "DUDUCLAW_";
const NESTING: &str = "__";

/// Lays the variables over the tree.
pub(super) fn environment(document: &mut Document, surroundings: &dyn Surroundings) -> Vec<Problem> {
    let names = surroundings.vars_beginning(PREFIX);
    let nested = names.into_iter().filter(|name| name.contains(NESTING));
    nested.filter_map(|name| lay(document, &name, surroundings).err()).collect()
}

fn lay(document: &mut Document, name: &str, surroundings: &dyn Surroundings) -> Result<(), Problem> {
    let Some(text) = surroundings.text_var(name) else { return Ok(()) };
    let place = Place::Variable(name.to_owned());
    let mark = document.mark(place.clone());
    let value = outside_value(document, text, &place);
    let path: Vec<&str> = name[PREFIX.len()..].split(NESTING).collect();
    let laid = set(&mut document.root, &path, Node { mark, value }, mark);
    laid.map_err(|text| Problem { severity: Severity::Error, place, text })
}

/// Arrays and tables are written as in the file; anything else is text that fits whatever type is wanted.
fn outside_value(document: &mut Document, text: String, place: &Place) -> Value {
    let Place::Variable(name) = place else { return Value::Loose(text) };
    if !text.trim_start().starts_with(['[', '{']) {
        return Value::Loose(text);
    }
    match DeValue::parse(text.trim()) {
        Ok(parsed) => {
            let first = document.places.len();
            let value = document.node(parsed, &Lines { text: "", file: name }).value;
            document.places[first..].fill(place.clone());
            value
        }
        Err(_) => Value::Loose(text),
    }
}

fn set(node: &mut Node, path: &[&str], new: Node, mark: Mark) -> Result<(), String> {
    let Value::Table(entries) = &mut node.value else {
        return Err("this variable points into something that is no table; set the whole value instead".to_owned());
    };
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    if first.is_empty() {
        return Err("empty part in the variable's name; it is DUDUCLAW_<SECTION>__<KEY>".to_owned());
    }
    let at = entries.iter().position(|entry| same_name(&entry.key, first)).unwrap_or_else(|| {
        let empty = Node { mark, value: Value::Table(Vec::new()) };
        entries.push(Entry { key: first.to_ascii_lowercase(), mark, node: empty });
        entries.len() - 1
    });
    if rest.is_empty() {
        entries[at].node = new;
        entries[at].mark = mark;
        return Ok(());
    }
    set(&mut entries[at].node, rest, new, mark)
}

/// Variables cannot hold hyphens or small letters where shells set them.
fn same_name(key: &str, part: &str) -> bool {
    let plain = |c: u8| if c == b'-' { b'_' } else { c.to_ascii_lowercase() };
    key.len() == part.len() && key.bytes().map(plain).eq(part.bytes().map(plain))
}

/// Replaces every `${VAR}` and `${file:/path}` by what it stands for; what stands for nothing is left out.
pub(super) fn references(document: &mut Document, surroundings: &dyn Surroundings) -> Vec<Problem> {
    let mut failed = Vec::new();
    let mut stood_for = Vec::new();
    let mut outside = |name: &str| {
        let value = referred(name, surroundings)?;
        stood_for.push(value.clone());
        Ok(value)
    };
    resolve(&mut document.root, &mut Vec::new(), &mut outside, &mut failed);
    for broken in failed.iter().filter(|f| f.severity == Severity::Error) {
        document.leave_out(&broken.path);
    }
    document.referred = Referred::new(stood_for);
    let problem = |f: Failed| Problem { severity: f.severity, place: document.place(f.mark), text: f.text };
    failed.into_iter().map(problem).collect()
}

/// Gives what a reference stands for.
type Outside<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

struct Failed {
    path: Vec<Segment>,
    mark: Mark,
    severity: Severity,
    text: String,
}

fn resolve(node: &mut Node, path: &mut Vec<Segment>, outside: &mut Outside<'_>, failed: &mut Vec<Failed>) {
    let mut fail = |severity, text| failed.push(Failed { path: path.clone(), mark: node.mark, severity, text });
    match &mut node.value {
        Value::Text(text) => match meaning(text, outside) {
            Meaning::Plain => {}
            Meaning::Inside => fail(Severity::Warning, INSIDE.to_owned()),
            Meaning::Escaped(plain) => *text = plain,
            Meaning::Stands(Ok(value)) => node.value = Value::Loose(value),
            Meaning::Stands(Err(why)) => fail(Severity::Error, why),
        },
        Value::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(Segment::Index(index));
                resolve(item, path, outside, failed);
                path.pop();
            }
        }
        Value::Table(entries) => {
            for entry in entries {
                path.push(Segment::Key(entry.key.clone()));
                resolve(&mut entry.node, path, outside, failed);
                path.pop();
            }
        }
        Value::Loose(_) | Value::Whole(_) | Value::Fraction(_) | Value::Flag(_) => {}
    }
}

const INSIDE: &str = "${…} stands for a whole value only; here it is kept as plain text";

enum Meaning {
    Plain,
    Inside,
    Escaped(String),
    Stands(Result<String, String>),
}

fn meaning(text: &str, outside: &mut Outside<'_>) -> Meaning {
    if let Some(rest) = text.strip_prefix("$${") {
        return Meaning::Escaped(format!("${{{rest}"));
    }
    match text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        Some(name) => Meaning::Stands(outside(name)),
        None if text.contains("${") => Meaning::Inside,
        None => Meaning::Plain,
    }
}

fn referred(name: &str, surroundings: &dyn Surroundings) -> Result<String, String> {
    let Some(path) = name.strip_prefix("file:") else {
        return surroundings.text_var(name).ok_or_else(|| format!("the variable {name} is not set; set it"));
    };
    if !Path::new(path).is_absolute() {
        return Err(format!("${{file:{path}}} needs an absolute path"));
    }
    let bytes = surroundings.read(Path::new(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{path} is not text"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
