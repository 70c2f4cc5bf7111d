//! Shapes of single values: durations, and one string or several.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A duration written as text: `"30s"`, `"1h30m"`, `"500ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

/// A duration under a key that ends in `_seconds`: a number, or text as for [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) Duration);

/// One string or an array of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OneOrMany(pub(crate) Vec<String>);

const FORM: &str = "a duration such as \"30s\", \"2m\", \"1h30m\" or \"500ms\"";

/// Reads `"1h30m"` and the like: whole numbers, each with its unit (`ms`, `s`, `m`, `h`, `d`).
fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = None;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        let unit = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let millis = number.checked_mul(millis_of(&tail[..unit])?)?;
        total = Some(total.unwrap_or(Duration::ZERO).checked_add(Duration::from_millis(millis))?);
        rest = &tail[unit..];
    }
    total
}

fn millis_of(unit: &str) -> Option<u64> {
    match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpanVisitor;
        impl Visitor<'_> for SpanVisitor {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORM)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                parse(text).map(Span).ok_or_else(|| E::custom(format!("expected {FORM}")))
            }
        }
        deserializer.deserialize_any(SpanVisitor)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SecondsVisitor;
        impl Visitor<'_> for SecondsVisitor {
            type Value = Seconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of seconds, 0 or more, or {FORM}")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Seconds, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(number), &self);
                u64::try_from(number).map(|n| Seconds(Duration::from_secs(n))).map_err(|_| wrong())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Seconds, E> {
                let wrong = || E::invalid_value(de::Unexpected::Float(number), &self);
                Duration::try_from_secs_f64(number).map(Seconds).map_err(|_| wrong())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Seconds, E> {
                let plain = text.trim().parse().ok().map(Duration::from_secs);
                plain.or_else(|| parse(text)).map(Seconds).ok_or_else(|| E::custom(format!("expected {FORM}")))
            }
        }
        deserializer.deserialize_any(SecondsVisitor)
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrManyVisitor;
        impl<'de> Visitor<'de> for OneOrManyVisitor {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![text.to_owned()]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(OneOrMany(items))
            }
        }
        deserializer.deserialize_any(OneOrManyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_whole_numbers_each_with_its_unit() {
        let cases = [
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1m500ms", 60_500),
            ("0s", 0),
            ("1d", 86_400_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "30", "s", "1.5s", "-1s", "1 s", "1w", "30S", "99999999999999999999s", "18446744073709551615d"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
