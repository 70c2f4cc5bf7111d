//! A readable copy of what a provider sends compressed, for those who only look: the relay itself passes the bytes on
//! as they are.
//!
//! Whatever cannot be read is not read; nothing here fails. What never enters: a second way to the client.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// Compressed bytes that are decoded at a time.
const STEP: usize = 16 * 1024;
/// The most that one step may come to; more is no answer of a model, and reading it would cost too much.
const STEP_MAX: usize = 1024 * 1024;
/// The byte with which everything that is gzip begins, and no text.
const GZIP_MAGIC: u8 = 0x1f;

/// How a body is coded, by its `content-encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Not at all.
    Identity,
    /// With gzip.
    Gzip,
    /// In a way that we do not read.
    Unknown,
}

impl Coding {
    /// What the headers say.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(CONTENT_ENCODING).into_iter();
        let codings = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let mut codings = codings.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
        match (codings.next(), codings.next()) {
            (None, _) => Self::Identity,
            (Some(coding), None) if is_gzip(coding) => Self::Gzip,
            (Some(_), _) => Self::Unknown,
        }
    }
}

fn is_gzip(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip")
}

/// Makes the readable copy of one body.
#[derive(Debug)]
pub struct Decoder(State);

#[derive(Debug)]
enum State {
    Identity,
    LabelledGzip,
    Gzip(Box<MultiGzDecoder<Bounded>>),
    Unreadable,
}

impl Decoder {
    /// For a body coded so.
    #[must_use]
    pub fn new(coding: Coding) -> Self {
        Self(match coding {
            Coding::Identity => State::Identity,
            Coding::Gzip => State::LabelledGzip,
            Coding::Unknown => State::Unreadable,
        })
    }

    /// Whether there is still something to be read from this body.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        !matches!(self.0, State::Unreadable)
    }

    /// The next packet: what it says is passed on in pieces, perhaps none.
    #[inline]
    pub fn read(&mut self, packet: &[u8], mut reader: impl FnMut(&[u8])) {
        if let (State::LabelledGzip, Some(first)) = (&self.0, packet.first()) {
            self.0 = begin(*first);
        }
        match &mut self.0 {
            State::Identity => reader(packet),
            State::LabelledGzip | State::Unreadable => {}
            State::Gzip(decoder) => {
                if decode(decoder, packet, reader).is_err() {
                    self.0 = State::Unreadable;
                }
            }
        }
    }

    /// The body is over: one that broke off, or whose checksum is wrong, was not readable after all.
    pub fn finish(&mut self, reader: impl FnMut(&[u8])) {
        let State::Gzip(decoder) = &mut self.0 else { return };
        let ended = decoder.try_finish();
        drain(decoder, reader);
        if ended.is_err() {
            self.0 = State::Unreadable;
        }
    }
}

/// A body that is labelled gzip and is plain text is read as what it is.
fn begin(first: u8) -> State {
    if first == GZIP_MAGIC { State::Gzip(Box::new(MultiGzDecoder::new(Bounded::default()))) } else { State::Identity }
}

fn decode(decoder: &mut MultiGzDecoder<Bounded>, packet: &[u8], mut reader: impl FnMut(&[u8])) -> io::Result<()> {
    for step in packet.chunks(STEP) {
        let decoded = decoder.write_all(step).and_then(|()| decoder.flush());
        drain(decoder, &mut reader);
        decoded?;
    }
    Ok(())
}

fn drain(decoder: &mut MultiGzDecoder<Bounded>, mut reader: impl FnMut(&[u8])) {
    reader(&decoder.get_ref().0);
    decoder.get_mut().0.clear();
}

/// Takes what is decoded, up to a bound.
#[derive(Debug, Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > STEP_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read<'a>(coding: Coding, packets: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Decoder) {
        let (mut decoder, mut text) = (Decoder::new(coding), Vec::new());
        for packet in packets {
            decoder.read(packet, |piece| text.extend_from_slice(piece));
        }
        decoder.finish(|piece| text.extend_from_slice(piece));
        (text, decoder)
    }

    #[test]
    fn the_coding_is_read_from_the_header_whatever_its_spelling() {
        let of = |values: &[&'static str]| {
            let pairs = values.iter().map(|value| (CONTENT_ENCODING, HeaderValue::from_static(value)));
            let mut headers = HeaderMap::new();
            pairs.for_each(|(name, value)| _ = headers.append(name, value));
            Coding::of(&headers)
        };
        assert_eq!(of(&[]), Coding::Identity);
        assert_eq!(of(&["identity"]), Coding::Identity);
        assert_eq!(of(&["GZIP"]), Coding::Gzip);
        assert_eq!(of(&["x-gzip, identity"]), Coding::Gzip);
        assert_eq!(of(&["br"]), Coding::Unknown);
        assert_eq!(of(&["gzip", "gzip"]), Coding::Unknown);
    }

    #[test]
    fn what_a_server_flushes_can_be_read_at_once() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut decoder = Decoder::new(Coding::Gzip);
        for text in ["event: ping\n", "data: {}\n\n", "data: 北京😀\n\n"] {
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let mut seen = Vec::new();
            decoder.read(&std::mem::take(encoder.get_mut()), |piece| seen.extend_from_slice(piece));
            assert_eq!(String::from_utf8(seen).unwrap(), text);
        }
    }

    /// C66.
    #[test]
    fn plain_text_labelled_gzip_is_read_as_what_it_is() {
        let (text, decoder) = read(Coding::Gzip, [b"".as_slice(), b"{\"type\":", b"\"error\"}"]);
        assert_eq!(text, b"{\"type\":\"error\"}");
        assert!(decoder.is_readable());
    }

    #[test]
    fn broken_gzip_is_no_longer_read_and_is_no_error() {
        let mut broken = gzip(&b"0123456789abcdef".repeat(1000));
        broken[12] ^= 0xff;
        broken[13] ^= 0xff;
        let (_, mut decoder) = read(Coding::Gzip, [broken.as_slice()]);
        assert!(!decoder.is_readable());
        decoder.read(b"more", |_| panic!("nothing more is read"));
    }

    #[test]
    fn gzip_that_breaks_off_or_has_a_wrong_checksum_was_not_readable() {
        let mut packed = gzip(b"{}");
        assert!(read(Coding::Gzip, [packed.as_slice()]).1.is_readable());
        let (text, decoder) = read(Coding::Gzip, [&packed[..packed.len() - 1]]);
        assert_eq!((text.as_slice(), decoder.is_readable()), (b"{}".as_slice(), false));
        let checksum = packed.len() - 8;
        packed[checksum] ^= 0xff;
        assert!(!read(Coding::Gzip, [packed.as_slice()]).1.is_readable());
    }

    #[test]
    fn a_body_that_unpacks_to_far_too_much_is_given_up() {
        let bomb = gzip(&vec![0; 32 * 1024 * 1024]);
        let (text, decoder) = read(Coding::Gzip, [bomb.as_slice()]);
        assert!(!decoder.is_readable());
        assert!(text.len() <= STEP_MAX);
    }

    proptest! {
        #[test]
        fn gzip_cut_anywhere_reads_the_same(text in ".{0,200}", size in 1usize..40) {
            let packed = gzip(text.as_bytes());
            let (read, decoder) = read(Coding::Gzip, packed.chunks(size));
            prop_assert_eq!(read, text.as_bytes());
            prop_assert!(decoder.is_readable());
        }

        #[test]
        fn any_bytes_labelled_gzip_do_no_harm(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..8)) {
            let packets: Vec<_> = packets.iter().map(|packet| [&[GZIP_MAGIC, 0x8b, 8, 0], packet.as_slice()].concat()).collect();
            let (_, decoder) = read(Coding::Gzip, packets.iter().map(Vec::as_slice));
            let _ = decoder.is_readable();
        }
    }
}
