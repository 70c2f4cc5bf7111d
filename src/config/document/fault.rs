//! Why a value does not fit: with its path and place, in words for people.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::deserialize::Mark;
use crate::config::problem::{nearest, shown};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Key(String),
    Index(usize),
}

/// Why a value does not fit.
#[derive(Debug)]
pub(crate) struct Fault {
    /// From the root to the value.
    pub(super) path: Vec<Segment>,
    pub(super) mark: Option<Mark>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    UnknownKey { key: String, known: &'static [&'static str] },
    Wrong(String),
}

impl Fault {
    pub(super) fn text(&self) -> String {
        match &self.kind {
            Kind::Wrong(text) => format!("{}: {text}", dotted(&self.path)),
            Kind::UnknownKey { key, known } => {
                let table = dotted(&self.path[..self.path.len().saturating_sub(1)]);
                let within = if table.is_empty() { String::new() } else { format!(" in [{table}]") };
                format!("unknown key {}{within}{}", shown(key), guess(key, known))
            }
        }
    }

    #[cfg(test)]
    pub(super) fn known_keys(&self) -> Option<&'static [&'static str]> {
        match self.kind {
            Kind::UnknownKey { known, .. } => Some(known),
            Kind::Wrong(_) => None,
        }
    }

    pub(super) fn wrong(text: String) -> Self {
        Self { path: Vec::new(), mark: None, kind: Kind::Wrong(text) }
    }

    /// Adds where it happened: innermost first.
    pub(super) fn under(mut self, segment: Segment, mark: Mark) -> Self {
        self.path.insert(0, segment);
        self.mark.get_or_insert(mark);
        self
    }
}

fn guess(word: &str, known: &[&'static str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None if known.is_empty() => String::new(),
        None => format!("; known here: {}", known.join(", ")),
    }
}

fn dotted(path: &[Segment]) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Key(key) if text.is_empty() => text.push_str(key),
            Segment::Key(key) => text.extend([".", key]),
            Segment::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::wrong(text.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::wrong(format!("expected {}, found {}", in_plain_words(wanted), kind_of(found)))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::invalid_type(found, wanted)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        let near = nearest(found, known.iter().copied()).map(|n| format!("; did you mean {n:?}?")).unwrap_or_default();
        Self::wrong(format!("unknown value {}; one of {}{near}", shown(found), known.join(", ")))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self { path: Vec::new(), mark: None, kind: Kind::UnknownKey { key: key.to_owned(), known } }
    }
}

fn in_plain_words(wanted: &dyn Expected) -> String {
    match wanted.to_string().as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        other if other.starts_with("enum ") => "one of its words, in quotes".to_owned(),
        other if other.starts_with("struct ") || other == "a map" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

fn kind_of(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(_) | Unexpected::Char(_) => "a string".to_owned(),
        Unexpected::Signed(n) => n.to_string(),
        Unexpected::Unsigned(n) => n.to_string(),
        Unexpected::Float(n) => n.to_string(),
        Unexpected::Bool(flag) => flag.to_string(),
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        Unexpected::Bytes(_)
        | Unexpected::Unit
        | Unexpected::Option
        | Unexpected::NewtypeStruct
        | Unexpected::Enum
        | Unexpected::UnitVariant
        | Unexpected::NewtypeVariant
        | Unexpected::TupleVariant
        | Unexpected::StructVariant
        | Unexpected::Other(_) => "something else".to_owned(),
    }
}
