//! The pass over the body: a visitor that stops at the known keys and lets the rest go by.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Fields, Streaming, Text, Thinking, Tool, escape};

/// A `user_id` above this is not looked into.
const USER_ID_MAX: usize = 16 * 1024;

/// Reads the body; fails only if it is no JSON.
pub(super) fn read(body: &[u8]) -> Result<Found<'_>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let found = Found::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(found)
}

/// The known fields as they stand in the body.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) doubled: Option<String>,
    model: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    max_tokens: Option<u64>,
    tools: Vec<RawTool<'a>>,
}

#[derive(Default)]
struct RawTool<'a> {
    name: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
}

impl<'a> Found<'a> {
    pub(super) fn into_fields(self, body: &'a [u8]) -> Fields<'a> {
        let user_id = self.metadata.and_then(user_id_of).and_then(|raw| text(body, raw));
        Fields {
            model: self.model.and_then(|raw| text(body, raw)),
            streaming: if self.stream.is_some_and(|raw| raw.get() == "true") { Streaming::Yes } else { Streaming::No },
            max_tokens: self.max_tokens,
            account_uuid: user_id.as_ref().and_then(|user_id| account_uuid(body, user_id)),
            user_id,
            tools: self.tools.into_iter().map(|tool| tool.into_tool(body)).collect(),
            thinking: self.thinking.map_or(Thinking::Off, thinking_of),
        }
    }

    fn max_tokens(&mut self, raw: &RawValue) {
        self.max_tokens = self.max_tokens.max(serde_json::from_str(raw.get()).ok());
    }
}

impl<'a> RawTool<'a> {
    fn into_tool(self, body: &'a [u8]) -> Tool<'a> {
        let name = self.name.and_then(|raw| text(body, raw)).map(|name| name.value);
        Tool { name, model: self.model.and_then(|raw| text(body, raw)) }
    }
}

/// A string of the body; nothing if the value is none.
fn text<'a>(body: &[u8], raw: &'a RawValue) -> Option<Text<'a>> {
    let span = span(body, raw.get())?;
    serde_json::from_str(raw.get()).ok().map(|Str(value)| Text { value, span })
}

/// Where a slice of `whole` stands in it.
fn span(whole: &[u8], part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

fn user_id_of(metadata: &RawValue) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow)]
        user_id: Option<&'a RawValue>,
    }
    serde_json::from_str::<Metadata<'_>>(metadata.get()).ok()?.user_id
}

fn thinking_of(thinking: &RawValue) -> Thinking {
    #[derive(Deserialize)]
    struct Config<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    match serde_json::from_str::<Config<'_>>(thinking.get()) {
        Ok(config) if config.kind != "disabled" => Thinking::On,
        Ok(_) | Err(_) => Thinking::Off,
    }
}

/// The place of the `account_uuid` in the JSON that the user id holds, as a place in the body.
fn account_uuid(body: &[u8], user_id: &Text<'_>) -> Option<Range<usize>> {
    #[derive(Deserialize)]
    struct UserId<'a> {
        #[serde(borrow)]
        account_uuid: &'a RawValue,
    }
    if user_id.span.len() > USER_ID_MAX || !user_id.value.trim_ascii_start().starts_with('{') {
        return None;
    }
    let uuid = serde_json::from_str::<UserId<'_>>(&user_id.value).ok()?.account_uuid.get();
    let quoted = span(user_id.value.as_bytes(), uuid).filter(|_| uuid.starts_with('"'))?;
    let begin = user_id.span.start + 1;
    let escaped = std::str::from_utf8(&body[begin..user_id.span.end - 1]).ok()?;
    let start = escape::raw_offset(escaped, quoted.start + 1)?;
    let end = escape::raw_offset(escaped, quoted.end - 1)?;
    Some(begin + start..begin + end)
}

/// A string, borrowed where it has no escapes.
struct Str<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Str<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(StrVisitor)
    }
}

struct StrVisitor;

impl<'de> Visitor<'de> for StrVisitor {
    type Value = Str<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Str(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Str(Cow::Owned(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Found<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut keys) = (Found::default(), HashSet::new());
        while let Some(Str(key)) = map.next_key()? {
            match &*key {
                "model" => found.model = Some(map.next_value()?),
                "stream" => found.stream = Some(map.next_value()?),
                "metadata" => found.metadata = Some(map.next_value()?),
                "thinking" => found.thinking = Some(map.next_value()?),
                "max_tokens" | "max_completion_tokens" | "max_output_tokens" => found.max_tokens(map.next_value()?),
                "tools" => found.tools = map.next_value::<OrNothing<_>>()?.0,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
            if let Some(key) = keys.replace(key) {
                found.doubled.get_or_insert(key.into_owned());
            }
        }
        Ok(found)
    }
}

/// A value of the shape `T` takes, or `T`'s default where it has another shape.
#[derive(Default)]
struct OrNothing<T>(T);

/// What can be read from one shape of value.
trait Shape<'de>: Default {
    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        IgnoredAny.visit_map(map).map(|_| Self::default())
    }

    fn from_seq<A: SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| Self::default())
    }
}

impl<'de> Shape<'de> for Vec<RawTool<'de>> {
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut tools = Vec::new();
        while let Some(OrNothing(tool)) = seq.next_element()? {
            tools.push(tool);
        }
        Ok(tools)
    }
}

impl<'de> Shape<'de> for RawTool<'de> {
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut tool = Self::default();
        while let Some(Str(key)) = map.next_key()? {
            match &*key {
                "name" => tool.name = Some(map.next_value()?),
                "model" => tool.model = Some(map.next_value()?),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(tool)
    }
}

impl<'de, T: Shape<'de>> Deserialize<'de> for OrNothing<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrNothingVisitor(std::marker::PhantomData))
    }
}

struct OrNothingVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Shape<'de>> Visitor<'de> for OrNothingVisitor<T> {
    type Value = OrNothing<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::from_map(map).map(OrNothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        T::from_seq(seq).map(OrNothing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(OrNothing::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(OrNothing::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(OrNothing::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(OrNothing::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(OrNothing::default())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(OrNothing::default())
    }
}
