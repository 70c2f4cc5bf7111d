//! What routing needs to know of a request's body, read from its bytes in one pass.
//!
//! Nothing is built that is not asked for: messages and system texts are passed over, and no type is imposed on them,
//! since clients send roles and blocks that no list names. A known field of an unexpected type counts as absent; the
//! provider will say what is wrong with it. What never enters: a tree of the body, a changed byte.

mod escape;
pub mod estimate;
mod reader;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::splice::Splice;

/// What routing needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// `model`.
    pub model: Option<Text<'a>>,
    /// `stream`.
    pub streaming: Streaming,
    /// `max_tokens`, or what other protocols call it; the largest if several are given.
    pub max_tokens: Option<u64>,
    /// `metadata.user_id`.
    pub user_id: Option<Text<'a>>,
    /// The value of `account_uuid` within `metadata.user_id`, without its quotes: only when that is a string that holds
    /// a JSON object with such a string. What is put in its place must need no escape.
    pub account_uuid: Option<Range<usize>>,
    /// `tools`.
    pub tools: Vec<Tool<'a>>,
    /// Whether the model is asked to think.
    pub thinking: Thinking,
}

/// A JSON string of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// What it says.
    pub value: Cow<'a, str>,
    /// Where it stands in the body, with its quotes.
    pub span: Range<usize>,
}

/// A tool that the request offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool<'a> {
    /// Its name.
    pub name: Option<Cow<'a, str>>,
    /// The model it runs, if it runs one of its own.
    pub model: Option<Text<'a>>,
}

/// Whether a stream is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streaming {
    /// It is.
    Yes,
    /// The answer is to come whole.
    #[default]
    No,
}

/// Whether the model is asked to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// It is.
    On,
    /// It is not.
    #[default]
    Off,
}

/// Whether the long context is asked for by the model's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongContext {
    /// It is.
    Asked,
    /// It is not.
    #[default]
    NotAsked,
}

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FieldsError {
    /// It is no JSON.
    #[error("the request body is not valid JSON")]
    Invalid(#[source] serde_json::Error),
    /// It is JSON, but no object.
    #[error("the request body must be a JSON object")]
    NotAnObject,
    /// A key stands twice in it, so that two programs may read it differently.
    #[error("the request body has the key `{0}` twice; send it once")]
    Doubled(String),
}

/// Reads a body.
///
/// # Errors
/// If it is no JSON object, or a key stands twice in it.
pub fn read(body: &[u8]) -> Result<Fields<'_>, FieldsError> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(FieldsError::NotAnObject);
    }
    let found = reader::read(body).map_err(FieldsError::Invalid)?;
    match found.doubled {
        Some(key) => Err(FieldsError::Doubled(key)),
        None => Ok(found.into_fields(body)),
    }
}

impl Fields<'_> {
    /// The places to exchange so that the provider is asked for this model and told this account's uuid. Nothing is put
    /// where nothing stood: a request without the field stays as it is.
    #[must_use]
    pub fn rewrites(&self, model: &str, account_uuid: Option<&str>) -> Vec<Splice> {
        let renamed = self.model.as_ref().filter(|asked| asked.value != model).map(|asked| asked.exchanged(model));
        let uuid = account_uuid.filter(|uuid| needs_no_escape(uuid)).zip(self.account_uuid.clone());
        let reassigned = uuid.map(|(uuid, range)| Splice { range, with: Bytes::copy_from_slice(uuid.as_bytes()) });
        renamed.into_iter().chain(reassigned).collect()
    }

    /// The same, independent of the body.
    #[must_use]
    pub fn into_owned(self) -> Fields<'static> {
        Fields {
            model: self.model.map(Text::into_owned),
            user_id: self.user_id.map(Text::into_owned),
            tools: self.tools.into_iter().map(Tool::into_owned).collect(),
            streaming: self.streaming,
            max_tokens: self.max_tokens,
            account_uuid: self.account_uuid,
            thinking: self.thinking,
        }
    }
}

impl Text<'_> {
    /// Another string in its place.
    #[must_use]
    pub fn exchanged(&self, with: &str) -> Splice {
        Splice { range: self.span.clone(), with: serde_json::Value::from(with).to_string().into() }
    }

    fn into_owned(self) -> Text<'static> {
        Text { value: Cow::Owned(self.value.into_owned()), span: self.span }
    }
}

impl Tool<'_> {
    fn into_owned(self) -> Tool<'static> {
        Tool { name: self.name.map(|name| Cow::Owned(name.into_owned())), model: self.model.map(Text::into_owned) }
    }
}

/// Whether a text may stand in a JSON string, and in one within another, as it is.
fn needs_no_escape(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

/// A model's name without the `[1m]` at its end by which clients ask for the long context.
#[must_use]
pub fn split_long_context(model: &str) -> (&str, LongContext) {
    let mut base = model;
    while let Some((rest, suffix)) = base.len().checked_sub(4).and_then(|at| base.split_at_checked(at))
        && suffix.eq_ignore_ascii_case("[1m]")
        && !rest.is_empty()
    {
        base = rest;
    }
    (base, if base.len() < model.len() { LongContext::Asked } else { LongContext::NotAsked })
}
