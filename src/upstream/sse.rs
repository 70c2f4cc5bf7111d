//! Event streams, read from the bytes that pass by.
//!
//! A [`Framer`] is shown the packets of a stream, cut anywhere, and tells a [`Sink`] of the events in them, by the
//! rules of the HTML standard: lines end with CR, LF or CRLF, data may take several lines, comments and a leading byte
//! order mark are passed over. A last event that no blank line ends is told by [`Framer::finish`].
//!
//! It is made for relaying: events of no interest cost two searches for a line end and a comparison of names; their data
//! is neither copied nor parsed. Of many events of one kind (text deltas) a sink may be shown the lines as they stand in
//! the packet. Only events that the sink wants are collected, each up to [`DATA_MAX`].
//!
//! What never enters: an error (any bytes are a stream), a buffer of the stream, knowledge of a protocol.

mod pending;
#[cfg(test)]
mod tests;

use memchr::memchr2;

pub use self::pending::DATA_MAX;
use self::pending::Pending;

/// The longest unfinished line that is kept: data that fits, with its field name.
const LINE_MAX: usize = DATA_MAX + b"data: ".len();
/// The byte order mark that may stand before the first line.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Who is told of the events.
pub trait Sink {
    /// Whether events of this name are wanted. Asked often, so it should only compare; the name is empty for an event
    /// that has none.
    fn wants(&self, name: &[u8]) -> Interest;

    /// A wanted event is complete.
    fn event(&mut self, event: Event<'_>);

    /// A line of data of an event that is only glanced at.
    fn line(&mut self, _data: &[u8]) {}
}

/// Whether an event is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Collect it and tell of it.
    Take,
    /// Show its lines of data, where its name comes before them.
    Glance,
    /// Pass over it.
    Skip,
}

impl Interest {
    /// Takes the names of a short list.
    #[must_use]
    pub fn among(names: &[&str], name: &[u8]) -> Self {
        if names.iter().any(|known| known.as_bytes() == name) { Self::Take } else { Self::Skip }
    }
}

/// One event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event:` line, else the `type` with which its JSON data begins, else nothing.
    pub name: &'a str,
    /// Its data, several lines joined by LF.
    pub data: &'a [u8],
    /// Where it ends in the packet that completed it: just behind its blank line.
    pub end: usize,
}

/// How far the line is known that the last packet left unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    /// Nothing of it came yet.
    #[default]
    Fresh,
    /// Its beginning is kept.
    Kept,
    /// It says nothing of interest: only its end matters.
    Skipped,
}

/// The state of a stream between two packets.
#[derive(Debug, Default)]
pub struct Framer {
    line: Line,
    kept: Vec<u8>,
    event: Pending,
    started: bool,
    between: bool,
    boundary: Option<usize>,
    after_cr: bool,
    bare_cr: bool,
}

impl Framer {
    /// A stream of which nothing came yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next packet of the stream.
    #[inline]
    pub fn push(&mut self, packet: &[u8], sink: &mut impl Sink) {
        self.boundary = None;
        let mut at = self.skip_line_feed(packet);
        while let Some(length) = line_length(&packet[at..]) {
            let next = self.past_line_end(packet, at + length);
            self.end_line(&packet[at..at + length], next, sink);
            at = next;
        }
        self.keep(&packet[at..], sink);
    }

    /// The stream is over: an event that lacks only its end is told of.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.end_line(b"", 0, sink);
        self.event.dispatch(0, sink);
    }

    /// Whether the stream stands exactly between two events, so that one of our own may be put in.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.between && (!self.after_cr || self.bare_cr)
    }

    /// Where the last blank line of the last packet ended in it, if it had one: what is before it is whole events.
    #[must_use]
    pub fn boundary(&self) -> Option<usize> {
        self.boundary
    }

    /// How many wanted events were passed over because they were too large.
    #[must_use]
    pub fn oversized(&self) -> u64 {
        self.event.oversized()
    }

    /// The second half of a CRLF that the packets cut apart.
    #[inline]
    fn skip_line_feed(&mut self, packet: &[u8]) -> usize {
        let Some(first) = packet.first().filter(|_| self.after_cr) else { return 0 };
        self.after_cr = false;
        self.bare_cr |= *first != b'\n';
        usize::from(*first == b'\n')
    }

    /// Where the next line begins, for a line that ends at `end`.
    #[inline]
    fn past_line_end(&mut self, packet: &[u8], end: usize) -> usize {
        if packet[end] == b'\n' {
            return end + 1;
        }
        match packet.get(end + 1) {
            Some(b'\n') => return end + 2,
            Some(_) => self.bare_cr = true,
            None => self.after_cr = true,
        }
        end + 1
    }

    #[inline]
    fn end_line(&mut self, rest: &[u8], next: usize, sink: &mut impl Sink) {
        match std::mem::take(&mut self.line) {
            Line::Fresh => self.take_line(rest, next, sink),
            Line::Skipped => self.between = false,
            Line::Kept => self.end_kept_line(rest, next, sink),
        }
    }

    #[inline(never)]
    fn end_kept_line(&mut self, rest: &[u8], next: usize, sink: &mut impl Sink) {
        let mut line = std::mem::take(&mut self.kept);
        if line.len() + rest.len() > LINE_MAX {
            self.event.lose();
            self.between = false;
        } else {
            line.extend_from_slice(rest);
            self.take_line(&line, next, sink);
            line.clear();
            self.kept = line;
        }
    }

    #[inline]
    fn take_line(&mut self, line: &[u8], next: usize, sink: &mut impl Sink) {
        let line = if self.started { line } else { self.first_line(line) };
        self.between = line.is_empty();
        match line {
            [] => {
                self.boundary = Some(next);
                self.event.dispatch(next, sink);
            }
            [b'd', b'a', b't', b'a', value @ ..] => self.take_data(value, sink),
            [b'e', b'v', b'e', b'n', b't', value @ ..] => self.take_name(value, sink),
            _ => {}
        }
    }

    #[inline]
    fn take_data(&mut self, rest: &[u8], sink: &mut impl Sink) {
        if let Some(value) = value_of(rest) {
            self.event.data(value, sink);
        }
    }

    #[inline]
    fn take_name(&mut self, rest: &[u8], sink: &impl Sink) {
        if let Some(value) = value_of(rest) {
            self.event.name(value, sink);
        }
    }

    fn first_line<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        self.started = true;
        line.strip_prefix(BOM).unwrap_or(line)
    }

    /// The packet ends within a line: its beginning is kept unless it is already plain that it says nothing.
    fn keep(&mut self, rest: &[u8], sink: &impl Sink) {
        if rest.is_empty() {
            return;
        }
        self.between = false;
        let line = self.line;
        match line {
            Line::Skipped => {}
            Line::Fresh if self.says_nothing(rest, sink) => self.skip_line(),
            Line::Fresh | Line::Kept => self.keep_more(rest, sink),
        }
    }

    #[inline(never)]
    fn keep_more(&mut self, rest: &[u8], sink: &impl Sink) {
        if self.kept.len() + rest.len() > LINE_MAX {
            self.event.lose();
            self.kept = Vec::new();
            return self.skip_line();
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(rest);
        self.line = Line::Kept;
        if self.says_nothing(&kept, sink) {
            kept.clear();
            self.skip_line();
        }
        self.kept = kept;
    }

    fn skip_line(&mut self) {
        self.started = true;
        self.line = Line::Skipped;
    }

    /// Whether a line that begins so can be passed over, whatever follows.
    fn says_nothing(&mut self, begun: &[u8], sink: &impl Sink) -> bool {
        let begun = match begun.strip_prefix(BOM) {
            Some(rest) if !self.started => rest,
            None if !self.started && BOM.starts_with(begun) => return false,
            Some(_) | None => begun,
        };
        if let Some(value) = begun.strip_prefix(b"data:") {
            return self.event.passes_over(value.strip_prefix(b" ").unwrap_or(value), sink);
        }
        !(b"data:".starts_with(begun) || b"event:".starts_with(begun) || begun.starts_with(b"event:"))
    }
}

/// The length of the first line, if it ends here.
#[inline]
fn line_length(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'\n' | b'\r' => Some(0),
        _ => memchr2(b'\n', b'\r', bytes),
    }
}

/// The value behind a field's name: what follows the colon and one space, or nothing. None if the name goes on.
#[inline]
fn value_of(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}
