//! Typed values out of the tree, by serde: what does not fit is a [`Fault`] with its path and place.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::{StrDeserializer, U32Deserializer};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::fault::{Fault, Segment};
use super::{Entry, Node, Value};

/// Stands for a place in the document that made it; by default for the document as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark(pub(super) u32);

/// A value with the place it came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// Its place.
    pub(crate) mark: Mark,
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A table whose keys are names of the user's own, in file order.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, At<T>)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

const AT: &str = "a value with its place";
const AT_FIELDS: &[&str] = &["mark", "value"];

impl Node {
    fn loose(&self) -> Option<&str> {
        if let Value::Loose(text) = &self.value { Some(text) } else { None }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.value {
            Value::Text(text) | Value::Loose(text) => visitor.visit_borrowed_str(text),
            Value::Whole(number) => visitor.visit_i64(*number),
            Value::Fraction(number) => visitor.visit_f64(*number),
            Value::Flag(flag) => visitor.visit_bool(*flag),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter(), index: 0 }),
            Value::Table(entries) => visitor.visit_map(Entries { entries: entries.iter(), current: None }),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.loose() {
            Some(text) => parse_loose(text, "true or false").and_then(|flag| visitor.visit_bool(flag)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.loose() {
            Some(text) => parse_loose(text, "a whole number").and_then(|number| visitor.visit_i64(number)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.loose() {
            Some(text) => parse_loose(text, "a number").and_then(|number| visitor.visit_f64(number)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.value {
            Value::Text(text) => visitor.visit_enum(StrDeserializer::new(text)),
            Value::Loose(text) => visitor
                .visit_enum(StrDeserializer::new(text))
                .map_err(|_: Fault| Fault::wrong("the value is none of those known here".to_owned())),
            Value::Whole(_) | Value::Fraction(_) | Value::Flag(_) | Value::List(_) | Value::Table(_) => {
                self.deserialize_any(visitor)
            }
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == AT { visitor.visit_seq(Placed { node: self, step: 0 }) } else { self.deserialize_any(visitor) }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

fn parse_loose<T: std::str::FromStr>(text: &str, wanted: &str) -> Result<T, Fault> {
    text.trim().parse().map_err(|_| Fault::wrong(format!("expected {wanted}")))
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, Entry>,
    current: Option<&'de Entry>,
}

impl Entries<'_> {
    fn here(&self, fault: Fault) -> Fault {
        match self.current {
            Some(entry) => fault.under(Segment::Key(entry.key.clone()), entry.mark),
            None => fault,
        }
    }
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.current = self.entries.next();
        let Some(entry) = self.current else { return Ok(None) };
        seed.deserialize(StrDeserializer::new(&entry.key)).map(Some).map_err(|fault| self.here(fault))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let entry = self.current.ok_or_else(|| Fault::wrong("a value without a key".to_owned()))?;
        seed.deserialize(&entry.node).map_err(|fault| self.here(fault))
    }
}

struct Items<'de> {
    items: std::slice::Iter<'de, Node>,
    index: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let segment = Segment::Index(self.index);
        self.index += 1;
        seed.deserialize(item).map(Some).map_err(|fault| fault.under(segment, item.mark))
    }
}

/// Gives a mark, then the value: what [`At`] asks for.
struct Placed<'de> {
    node: &'de Node,
    step: u8,
}

impl<'de> de::SeqAccess<'de> for Placed<'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        self.step += 1;
        match self.step {
            1 => seed.deserialize(U32Deserializer::<Fault>::new(self.node.mark.0)).map(Some),
            2 => seed.deserialize(self.node).map(Some),
            _ => Ok(None),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AtVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for AtVisitor<T> {
            type Value = At<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(AT)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<At<T>, A::Error> {
                let missing = || de::Error::custom("a value without its place");
                let mark = Mark(seq.next_element()?.ok_or_else(missing)?);
                let value = seq.next_element()?.ok_or_else(missing)?;
                Ok(At { value, mark })
            }
        }
        deserializer.deserialize_struct(AT, AT_FIELDS, AtVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderedVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OrderedVisitor<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(OrderedVisitor(PhantomData))
    }
}
