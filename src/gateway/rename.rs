//! The model's name in a reply, as the client knows it.
//!
//! Where a map, or the suffix that asks for the long context, changed the model's name on its way to the provider, the
//! reply's `model` is exchanged for the name that the client used: in the `message_start` of a stream, or in a JSON
//! message. Nothing else of a reply changes. What never enters: a compressed byte; such a reply goes as it is.

use bytes::Bytes;
use duduclaw_actors::provider::anthropic::event::EventKind;
use http::header::{CONTENT_LENGTH, HeaderValue};
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::gateway::reading::Beginning;
use crate::upstream::coding::Coding;
use crate::upstream::sse::{Event, Framer, Interest, Sink};
use crate::upstream::tee::Shape;

/// The name that a reply is to show.
#[derive(Clone, Debug)]
pub struct Renaming {
    /// As a JSON string, with its quotes.
    name: Vec<u8>,
}

/// What became of the beginning of a stream.
#[derive(Debug)]
pub enum Begun {
    /// It shows the model's name, or never will: the rest goes as it comes.
    Yes(Bytes),
    /// Only pings so far.
    NotYet(Bytes),
}

impl Renaming {
    /// Replies are to show this name.
    #[must_use]
    pub fn to(name: &str) -> Self {
        Self { name: serde_json::Value::from(name).to_string().into() }
    }

    /// Whether a reply with this beginning is one whole JSON message that can be read.
    #[must_use]
    pub fn needs_whole(beginning: &Beginning) -> bool {
        let headers = &beginning.head.headers;
        beginning.head.status.is_success()
            && Shape::of(headers) == Shape::Document
            && Coding::of(headers) == Coding::Identity
    }

    /// Renames a whole JSON message in place, its length included; leaves anything else as it is.
    pub(super) fn document(&self, beginning: &mut Beginning) {
        if !Self::needs_whole(beginning) || !beginning.is_whole() {
            return;
        }
        let body = Bytes::from(beginning.packets.concat());
        let renamed = model_of(&body).map_or_else(|| body.clone(), |model| self.instead_of(model, &body, &body));
        beginning.head.headers.insert(CONTENT_LENGTH, HeaderValue::from(renamed.len()));
        beginning.packets = vec![renamed];
    }

    /// Renames the first whole events of a stream.
    pub(super) fn events(&self, events: Bytes) -> Begun {
        let mut first = First::default();
        Framer::new().push(&events, &mut first);
        let Some(data) = first.0 else { return Begun::NotYet(events) };
        Begun::Yes(match started_by(&data) {
            Some(model) => self.instead_of(model, &data, &events),
            None => events,
        })
    }

    /// The text with the name in place of `model`, a string of `data`. The text holds the data, perhaps in several
    /// lines; a JSON string never spans two.
    fn instead_of(&self, model: &str, data: &[u8], text: &Bytes) -> Bytes {
        let token = model.as_bytes();
        let before = (token.as_ptr() as usize).saturating_sub(data.as_ptr() as usize);
        let nth = memmem::find_iter(&data[..before.min(data.len())], token).count();
        let Some(at) = memmem::find_iter(text, token).nth(nth) else { return text.clone() };
        Bytes::from([&text[..at], &self.name, &text[at + token.len()..]].concat())
    }
}

/// The first event that is no ping.
#[derive(Default)]
struct First(Option<Vec<u8>>);

impl Sink for First {
    fn wants(&self, _: &[u8]) -> Interest {
        if self.0.is_none() { Interest::Take } else { Interest::Skip }
    }

    fn event(&mut self, event: Event<'_>) {
        if self.0.is_none() && EventKind::of(Some(event.name), event.data) != EventKind::Ping {
            self.0 = Some(event.data.to_vec());
        }
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Start<'a> {
    #[serde(borrow)]
    message: Message<'a>,
}

/// The `model` of a JSON message, with its quotes.
fn model_of(body: &[u8]) -> Option<&str> {
    name_of(serde_json::from_slice::<Message<'_>>(body).ok()?)
}

/// The `model` of a `message_start`, with its quotes.
fn started_by(data: &[u8]) -> Option<&str> {
    name_of(serde_json::from_slice::<Start<'_>>(data).ok()?.message)
}

fn name_of(message: Message<'_>) -> Option<&str> {
    message.model.map(RawValue::get).filter(|model| model.starts_with('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(events: &'static str) -> String {
        match Renaming::to("fast").events(Bytes::from_static(events.as_bytes())) {
            Begun::Yes(events) => String::from_utf8(events.to_vec()).unwrap(),
            Begun::NotYet(events) => format!("not yet: {}", String::from_utf8(events.to_vec()).unwrap()),
        }
    }

    #[test]
    fn only_the_models_name_of_a_message_start_changes() {
        let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"claude-x\",\"model\":\
                     \"claude-x\",\"content\":[]}}\n\nevent: other\ndata: {\"model\":\"claude-x\"}\n\n";
        let expected = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"claude-x\",\
                        \"model\":\"fast\",\"content\":[]}}\n\nevent: other\ndata: {\"model\":\"claude-x\"}\n\n";
        assert_eq!(renamed(start), expected);
    }

    #[test]
    fn framing_spacing_and_several_lines_stay_as_they_are() {
        let start = "\u{feff}: hi\r\n\r\nevent:message_start\r\ndata:{\"message\" : {\r\ndata: \"model\" :\"claude-x\" ,\
                     \"a\":\"\u{5317}\"}}\r\n\r\n";
        assert_eq!(renamed(start), start.replace("claude-x", "fast"));
    }

    #[test]
    fn pings_are_passed_over_and_anything_else_ends_the_search() {
        assert_eq!(
            renamed("event: ping\ndata: {\"type\": \"ping\"}\n\n"),
            "not yet: event: ping\ndata: {\"type\": \"ping\"}\n\n"
        );
        for other in ["event: error\ndata: {\"model\":\"claude-x\"}\n\n", "data: no json\n\n"] {
            assert_eq!(renamed(other), other);
        }
    }

    #[test]
    fn a_message_keeps_all_but_its_own_model() {
        let body = br#"{ "content":[{"model":"claude-x","text":"\"model\":\"claude-x\""}], "model" : "claude-x" }"#;
        let bytes = Bytes::from_static(body);
        let named = Renaming::to("a \"b\"").instead_of(model_of(&bytes).unwrap(), &bytes, &bytes);
        let expected = r#"{ "content":[{"model":"claude-x","text":"\"model\":\"claude-x\""}], "model" : "a \"b\"" }"#;
        assert_eq!(named, expected.as_bytes());
        assert_eq!(model_of(b"{\"model\":7}"), None);
        assert_eq!(model_of(b"[1]"), None);
    }
}
