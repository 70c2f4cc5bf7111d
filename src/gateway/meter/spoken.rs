//! How much an answer has said so far: the characters of its text, its thinking and the arguments of its tools.
//!
//! Deltas come by the hundred a second. One that stands as the provider writes it is not parsed: its text lies between
//! two quotes.

use std::sync::LazyLock;

use memchr::memchr2;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::gateway::fields::estimate::{Characters, input_tokens};

static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"delta\":{"));
/// What stands before a delta's text.
const LEADS: [&[u8]; 3] = [
    br#""type":"text_delta","text":""#,
    br#""type":"input_json_delta","partial_json":""#,
    br#""type":"thinking_delta","thinking":""#,
];

/// How much an answer has said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spoken {
    characters: Characters,
    whole: u64,
}

impl Spoken {
    /// The data of a `content_block_delta`.
    #[inline]
    pub(super) fn delta(&mut self, data: &[u8]) {
        match plain_text(data) {
            Some(text) => self.characters.add_string(text),
            None => self.parsed(data),
        }
    }

    /// A whole answer that does not say how many tokens it has.
    pub(super) fn document(&mut self, body: &[u8]) {
        self.whole = input_tokens(body);
    }

    /// The tokens that it makes.
    pub(super) fn tokens(&self) -> u64 {
        self.characters.tokens() + self.whole
    }

    #[cold]
    fn parsed(&mut self, data: &[u8]) {
        let Ok(Carrier { delta }) = serde_json::from_slice(data) else { return };
        for value in [delta.text, delta.partial_json, delta.thinking].into_iter().flatten() {
            let quoted = value.get().as_bytes().strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
            self.characters.add_string(quoted.unwrap_or_default());
        }
    }
}

/// The text of a delta that is written as it usually is.
fn plain_text(data: &[u8]) -> Option<&[u8]> {
    let delta = &data[DELTA.find(data)? + DELTA.needle().len()..];
    let text = LEADS.iter().find_map(|lead| delta.strip_prefix(*lead))?;
    Some(&text[..end(text)?])
}

/// Where the closing quote stands.
fn end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

#[derive(Deserialize)]
struct Carrier<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    partial_json: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tokens(deltas: &[&str]) -> u64 {
        let mut spoken = Spoken::default();
        deltas.iter().for_each(|delta| spoken.delta(delta.as_bytes()));
        spoken.tokens()
    }

    fn plain(kind: &str, key: &str, text: &str) -> String {
        format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"{kind}","{key}":{}}}}}"#, json!(text))
    }

    #[test]
    fn texts_thinking_and_arguments_count_and_signatures_do_not() {
        let forty = "x".repeat(40);
        for (kind, key) in
            [("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json")]
        {
            assert_eq!(tokens(&[&plain(kind, key, &forty)]), 10, "{kind}");
            let spaced = json!({"delta": {key: forty, "type": kind}, "type": "content_block_delta"});
            assert_eq!(tokens(&[&format!("{spaced:#}")]), 10, "{kind}, written otherwise");
        }
        assert_eq!(tokens(&[&plain("signature_delta", "signature", &forty)]), 0);
    }

    #[test]
    fn characters_of_all_deltas_are_counted_together() {
        let delta = plain("text_delta", "text", "a");
        assert_eq!(tokens(&[delta.as_str(); 40]), 10);
        assert_eq!(tokens(&[&plain("text_delta", "text", &"北京の".repeat(10))]), 20);
        assert_eq!(tokens(&[&plain("text_delta", "text", &"\"\n".repeat(20))]), 10);
    }

    #[test]
    fn what_is_no_delta_says_nothing() {
        let cut = &plain("text_delta", "text", "abcdefgh")[..70];
        let odd = r#"{"delta":{"type":"text_delta","text":7,"thinking":null}}"#;
        assert_eq!(tokens(&["", "{}", "no", cut, odd, r#"{"delta":null}"#]), 0);
    }

    #[test]
    fn a_document_counts_by_its_characters() {
        let mut spoken = Spoken::default();
        spoken.document("y".repeat(400).as_bytes());
        assert_eq!(spoken.tokens(), 100);
    }

    proptest! {
        #[test]
        fn it_counts_alike_however_a_delta_is_written(text in any::<String>()) {
            let plain = plain("text_delta", "text", &text);
            let spaced = json!({"delta": {"text": text, "type": "text_delta"}, "type": "content_block_delta"});
            prop_assert_eq!(tokens(&[&plain]), tokens(&[&spaced.to_string()]));
        }

        #[test]
        fn any_bytes_do_no_harm(data in "(\"delta\":\\{|\"type\":\"text_delta\",\"text\":\"|[a\"}\\\\]){0,20}") {
            Spoken::default().delta(data.as_bytes());
        }
    }
}
