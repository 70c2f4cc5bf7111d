//! What `${…}` references of a configuration stood for: it may be secret, so it is taken out of whatever is shown.

use std::fmt;

/// Shorter values are no secrets, and occur in texts by chance.
const SHORTEST_SECRET: usize = 6;

/// The values that came from outside the file.
#[derive(Clone, Default)]
pub struct Referred(Vec<String>);

impl Referred {
    /// These values.
    #[must_use]
    pub fn new(values: Vec<String>) -> Self {
        Self(values)
    }

    /// A text without any of them, however an address among them was spelt anew: in small letters, or without the slash
    /// at its end.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let spelt = self.0.iter().map(|value| value.trim().trim_end_matches('/'));
        spelt.filter(|value| value.len() >= SHORTEST_SECRET).fold(text.to_owned(), |text, value| without(&text, value))
    }
}

/// The text with each place of a value, whatever its case, taken out.
fn without(text: &str, value: &str) -> String {
    let (small, value) = (text.to_ascii_lowercase(), value.to_ascii_lowercase());
    let mut left = String::with_capacity(text.len());
    let mut from = 0;
    while let Some(at) = small[from..].find(&value) {
        left.push_str(&text[from..from + at]);
        left.push_str("(not shown)");
        from += at + value.len();
    }
    left + &text[from..]
}

impl fmt::Debug for Referred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Referred({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_out_however_it_is_spelt_and_as_often_as_it_occurs() {
        let referred = Referred::new(vec!["https://Host.example/Pä/".to_owned(), "short".to_owned()]);
        assert_eq!(referred.scrub("at https://host.example/Pä: short"), "at (not shown): short");
        let twice = Referred::new(vec!["secret".to_owned()]);
        assert_eq!(twice.scrub("ä SECRET, secret"), "ä (not shown), (not shown)");
        assert_eq!(Referred::default().scrub("as it is"), "as it is");
    }
}
