//! What is wrong with a configuration: one line for each problem, with where it stands and what to do.
//!
//! Never in a problem: the value of a secret, or any value that came from a variable or a file.

use std::fmt;

/// How grave a problem is. Declared from least to gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; `check` exits with 3, `serve` starts.
    Warning,
    /// Wrong: `check` exits with 1, `serve` does not start.
    Error,
}

impl Severity {
    /// The word in front of the problem.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, on a line counted from 1.
    Line {
        /// The file as it was named.
        file: String,
        /// The line.
        line: u32,
    },
    /// In an environment variable of this name.
    Variable(String),
    /// In what is used when there is no configuration.
    BuiltIn,
    /// Nowhere in particular: it concerns the file as a whole, or something that is missing.
    Whole(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::BuiltIn => f.write_str("built-in defaults"),
            Self::Whole(file) => f.write_str(file),
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How grave.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// What, and what to do.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity.as_str(), self.place, self.text)
    }
}

/// The nearest of some known words, if one is near enough to have been meant.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate));
    let (distance, candidate) = scored.min_by_key(|(distance, _)| *distance)?;
    let length = word.chars().count();
    let allowed = 1.max(length / 3);
    (distance <= allowed && distance < length).then_some(candidate)
}

/// A configured value as it may be shown: quoted, unless it is long or looks like a secret.
#[must_use]
pub fn shown(value: &str) -> String {
    if is_secretive(value) || value.chars().count() > 64 { "(not shown)".to_owned() } else { format!("{value:?}") }
}

/// Whether a value looks like a secret.
#[must_use]
pub fn is_secretive(value: &str) -> bool {
    ["sk-", "ddj_", "dda_", "eyJ", "AIza"].iter().any(|prefix| value.contains(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_only_if_it_can_have_been_meant() {
        let known = ["threshold", "threshold_5h", "priority"];
        assert_eq!(nearest("treshold", known), Some("threshold"));
        assert_eq!(nearest("thresholds_5h", known), Some("threshold_5h"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("c", ["a"]), None);
    }

    #[test]
    fn a_value_that_looks_like_a_secret_is_not_shown() {
        assert_eq!(shown("sk-ant-oat01-canary"), "(not shown)");
        assert_eq!(shown(&"x".repeat(65)), "(not shown)");
        assert_eq!(shown("round-robin"), "\"round-robin\"");
    }
}
