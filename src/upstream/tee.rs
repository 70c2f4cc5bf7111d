//! Looks at an answer while it is relayed: tells an [`Observer`] of the events of a stream, or of a whole JSON body.
//!
//! The relay passes the provider's own bytes on; the tee sees each packet on its way, decoding a copy where it is
//! compressed. What it cannot read it does not observe. What never enters: a changed byte, an error, what an event
//! means.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::coding::{Coding, Decoder};
use super::sse::{Framer, Sink};

/// The largest JSON body that is observed.
pub const DOCUMENT_MAX: usize = 4 * 1024 * 1024;

/// Who is told of what passes by.
pub trait Observer: Sink {
    /// A JSON body, as far as it came. One over [`DOCUMENT_MAX`], or compressed and broken off, is not told of.
    fn document(&mut self, body: &[u8]);
}

/// What kind of body it is, by its `content-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A stream of events.
    Events,
    /// One JSON document.
    Document,
    /// Anything else.
    Other,
}

impl Shape {
    /// What the headers say.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(CONTENT_TYPE).map_or(&b""[..], http::HeaderValue::as_bytes);
        let kind = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        if kind == b"text/event-stream" {
            Self::Events
        } else if kind == b"application/json" || kind.ends_with(b"+json") {
            Self::Document
        } else {
            Self::Other
        }
    }
}

/// Observes one answer.
#[derive(Debug)]
pub struct Tee {
    coding: Coding,
    decoder: Decoder,
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    Events(Framer),
    Document(Vec<u8>),
    Nothing,
}

impl Tee {
    /// For an answer with these headers.
    #[must_use]
    pub fn new(headers: &HeaderMap) -> Self {
        let coding = Coding::of(headers);
        let reader = match Shape::of(headers) {
            Shape::Events => Reader::Events(Framer::new()),
            Shape::Document => Reader::Document(Vec::new()),
            Shape::Other => Reader::Nothing,
        };
        Self { coding, decoder: Decoder::new(coding), reader }
    }

    /// A packet passes.
    #[inline]
    pub fn push(&mut self, packet: &[u8], observer: &mut impl Observer) {
        let Self { decoder, reader, .. } = self;
        if !matches!(reader, Reader::Nothing) {
            decoder.read(packet, |text| reader.read(text, observer));
        }
    }

    /// The answer is over, wholly or not: an event that lacks only its end is told of, and so is the JSON body.
    pub fn finish(&mut self, observer: &mut impl Observer) {
        let Self { decoder, reader, .. } = self;
        decoder.finish(|text| reader.read(text, observer));
        match std::mem::replace(&mut self.reader, Reader::Nothing) {
            Reader::Events(mut framer) => framer.finish(observer),
            Reader::Document(body) if !body.is_empty() && self.decoder.is_readable() => observer.document(&body),
            Reader::Document(_) | Reader::Nothing => {}
        }
    }

    /// For an uncompressed stream, where the last whole event of the last packet ended in it.
    #[must_use]
    pub fn boundary(&self) -> Option<usize> {
        match &self.reader {
            Reader::Events(framer) if self.coding == Coding::Identity => framer.boundary(),
            Reader::Events(_) | Reader::Document(_) | Reader::Nothing => None,
        }
    }
}

impl Reader {
    #[inline]
    fn read(&mut self, text: &[u8], observer: &mut impl Observer) {
        match self {
            Self::Events(framer) => framer.push(text, observer),
            Self::Document(body) if body.len() + text.len() <= DOCUMENT_MAX => body.extend_from_slice(text),
            Self::Document(_) | Self::Nothing => *self = Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;
    use http::header::CONTENT_ENCODING;

    use super::*;
    use crate::upstream::sse::{Event, Interest};

    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        events: Vec<(String, String)>,
        documents: Vec<String>,
    }

    impl Sink for Seen {
        fn wants(&self, name: &[u8]) -> Interest {
            Interest::among(&["message_start", "message_delta", "error"], name)
        }

        fn event(&mut self, event: Event<'_>) {
            self.events.push((event.name.to_owned(), String::from_utf8(event.data.to_vec()).unwrap()));
        }
    }

    impl Observer for Seen {
        fn document(&mut self, body: &[u8]) {
            self.documents.push(String::from_utf8(body.to_vec()).unwrap());
        }
    }

    fn headers(kind: &'static str, coding: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(coding) = coding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        headers
    }

    fn observe(headers: &HeaderMap, body: &[u8], size: usize) -> Seen {
        let (mut tee, mut seen) = (Tee::new(headers), Seen::default());
        body.chunks(size).for_each(|packet| tee.push(packet, &mut seen));
        tee.finish(&mut seen);
        seen
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    const STREAM: &str = "event: message_start\ndata: {\"a\":1}\n\nevent: content_block_delta\ndata: {}\n\n\
                          event: message_delta\ndata: {\"usage\":{\"output_tokens\":15}}\n\n";

    #[test]
    fn a_stream_is_observed_alike_plain_and_compressed_and_however_it_is_cut() {
        let expected = ["message_start", "message_delta"];
        for size in [1, 7, 4096] {
            let plain = observe(&headers("text/event-stream; charset=utf-8", None), STREAM.as_bytes(), size);
            assert_eq!(plain.events.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), expected);
            let packed = observe(&headers("Text/Event-Stream", Some("gzip")), &gzip(STREAM), size);
            assert_eq!(packed, plain);
        }
    }

    #[test]
    fn a_json_body_is_told_of_whole() {
        let body = r#"{"type":"message","usage":{"input_tokens":3}}"#;
        for kind in ["application/json", "application/problem+json; charset=utf-8"] {
            assert_eq!(observe(&headers(kind, None), body.as_bytes(), 5).documents, [body]);
            assert_eq!(observe(&headers(kind, Some("gzip")), &gzip(body), 5).documents, [body]);
        }
    }

    /// C66: the label is wrong; nothing fails, and what can be read is.
    #[test]
    fn a_body_labelled_gzip_that_is_not_does_no_harm() {
        let seen = observe(&headers("application/json", Some("gzip")), b"{\"type\":\"error\"}", 4);
        assert_eq!(seen.documents, ["{\"type\":\"error\"}"]);
        let seen = observe(&headers("application/json", Some("gzip")), b"\x1f\x8bnot gzip at all", 4);
        assert_eq!(seen, Seen::default());
    }

    #[test]
    fn broken_gzip_yields_no_half_document() {
        let mut packed = gzip("{\"a\":\"0123456789\"}");
        packed[12..16].fill(0xff);
        assert_eq!(observe(&headers("application/json", Some("gzip")), &packed, 16), Seen::default());
    }

    #[test]
    fn other_bodies_and_other_codings_are_not_observed() {
        assert_eq!(observe(&headers("text/html", None), STREAM.as_bytes(), 64), Seen::default());
        assert_eq!(observe(&headers("text/event-stream", Some("br")), STREAM.as_bytes(), 64), Seen::default());
        assert_eq!(observe(&HeaderMap::new(), STREAM.as_bytes(), 64), Seen::default());
    }

    #[test]
    fn a_json_body_over_the_bound_is_given_up_and_its_memory_with_it() {
        let (mut tee, mut seen) = (Tee::new(&headers("application/json", None)), Seen::default());
        (0..5).for_each(|_| tee.push(&[b' '; 1024 * 1024], &mut seen));
        assert!(matches!(tee.reader, Reader::Nothing));
        tee.finish(&mut seen);
        assert_eq!(seen, Seen::default());
    }

    #[test]
    fn only_an_uncompressed_stream_has_a_place_for_an_event_of_ours() {
        let boundary = |headers: &HeaderMap, body: &[u8]| {
            let mut tee = Tee::new(headers);
            tee.push(body, &mut Seen::default());
            tee.boundary() == Some(body.len())
        };
        assert!(boundary(&headers("text/event-stream", None), STREAM.as_bytes()));
        assert!(!boundary(&headers("text/event-stream", None), &STREAM.as_bytes()[..STREAM.len() - 1]));
        assert!(!boundary(&headers("text/event-stream", Some("gzip")), &gzip(STREAM)));
        assert!(!boundary(&headers("text/event-stream", Some("gzip")), STREAM.as_bytes()));
        assert!(!boundary(&headers("application/json", None), STREAM.as_bytes()));
    }
}
