//! The headers of an answer on its way back to the client.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::Dropped;

/// What a header of ours cannot show plainly.
const UNSHOWABLE: &AsciiSet = &CONTROLS.add(b'%');

/// The most characters that a header of ours shows: clients refuse an answer with a larger head, and a model's name is as
/// long as its client likes.
const SHOWN_MAX: usize = 256;

/// Whether the body that goes to the client is the provider's, byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relay {
    /// It is: its length stays true.
    Unchanged,
    /// Something may be put in or exchanged: its length is not known beforehand.
    Changed,
}

/// What we say about how the answer came about.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// The upstream that answered.
    pub upstream: Option<&'a str>,
    /// The model that answered, by the name the provider knows.
    pub model: Option<&'a str>,
    /// How many attempts the request took.
    pub attempts: u32,
    /// The request's id in our records.
    pub request_id: &'a str,
    /// The configured name of the account header.
    pub account_header: &'a HeaderName,
    /// The account, unless it is not to be shown.
    pub account: Option<&'a str>,
}

/// The headers of a relayed answer: the provider's, without those of its connection and any that look like ours, and
/// ours.
#[must_use]
pub fn relayed(upstream: &HeaderMap, relay: Relay, stamp: &Stamp<'_>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(upstream.len() + 5);
    let dropped = Dropped::new(upstream);
    let length_stays = relay == Relay::Unchanged;
    for (name, value) in upstream {
        let ours = name == stamp.account_header;
        if !dropped.covers(name) && !ours && (length_stays || name != CONTENT_LENGTH) {
            headers.append(name.clone(), value.clone());
        }
    }
    stamp.set(&mut headers);
    headers
}

impl Stamp<'_> {
    /// Sets our headers, on an answer of our own too.
    pub fn set(&self, headers: &mut HeaderMap) {
        let mut set = |name: HeaderName, text: &str| headers.insert(name, shown(text));
        set(HeaderName::from_static("x-duduclaw-attempts"), &self.attempts.to_string());
        set(HeaderName::from_static("x-duduclaw-request-id"), self.request_id);
        if let Some(upstream) = self.upstream {
            set(HeaderName::from_static("x-duduclaw-upstream"), upstream);
        }
        if let Some(model) = self.model {
            set(HeaderName::from_static("x-duduclaw-model"), model);
        }
        if let Some(account) = self.account {
            set(self.account_header.clone(), account);
        }
    }
}

/// A text as a header shows it: one that is not plain ASCII is percent-encoded, a very long one is cut.
fn shown(text: &str) -> HeaderValue {
    let text = text.char_indices().nth(SHOWN_MAX).map_or(text, |(end, _)| &text[..end]);
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let shown = if plain { text.to_owned() } else { utf8_percent_encode(text, UNSHOWABLE).to_string() };
    HeaderValue::try_from(shown).expect("printable ASCII is a header value")
}
