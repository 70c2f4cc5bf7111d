//! Reads one event stream and holds it against its script: each piece has a known length, so each byte is compared
//! wherever the packets were cut.

use bytes::{Buf, Bytes, BytesMut};

use crate::clock;
use crate::script::{self, Script};

/// One stream, as far as it has come.
pub(crate) struct Reader {
    script: Script,
    opening: Bytes,
    closing: Bytes,
    frame: usize,
    pending: BytesMut,
    part: Part,
}

/// Which piece is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Opening,
    Delta(u64),
    Closing,
    Over,
}

/// A piece that arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// What stands before the first delta.
    Opening,
    /// A delta, and the moment it was written.
    Delta {
        /// When the provider wrote it.
        written: u64,
        /// When it was read here.
        read: u64,
    },
    /// What stands after the last.
    Closing,
}

impl Reader {
    /// A reader for the answer to a script's request.
    pub(crate) fn new(script: Script) -> Self {
        let opening = Script::opening(script::fingerprint(&script.request()));
        let frame = script.delta(0, 0).len();
        Self { script, opening, closing: script.closing(), frame, pending: BytesMut::new(), part: Part::Opening }
    }

    /// Takes bytes as they came; reports each piece they complete. An error says what was changed.
    pub(crate) fn take(&mut self, bytes: &[u8], mut report: impl FnMut(Piece)) -> Result<(), String> {
        self.pending.extend_from_slice(bytes);
        let read = clock::now();
        while self.pending.len() >= self.needed() {
            if self.part == Part::Over {
                return if self.pending.is_empty() { Ok(()) } else { Err(self.changed()) };
            }
            let piece = self.check(read).ok_or_else(|| self.changed())?;
            self.pending.advance(self.needed());
            self.part = self.following();
            report(piece);
        }
        Ok(())
    }

    /// How many pieces are missing, now that the stream is over.
    pub(crate) fn missing(&self) -> u64 {
        match self.part {
            Part::Opening => self.script.frames + 2,
            Part::Delta(number) => self.script.frames + 1 - number,
            Part::Closing => 1,
            Part::Over => 0,
        }
    }

    fn needed(&self) -> usize {
        match self.part {
            Part::Opening => self.opening.len(),
            Part::Delta(_) => self.frame,
            Part::Closing => self.closing.len(),
            Part::Over => 0,
        }
    }

    fn check(&self, read: u64) -> Option<Piece> {
        let piece = &self.pending[..self.needed()];
        match self.part {
            Part::Opening => (piece == self.opening).then_some(Piece::Opening),
            Part::Delta(number) => self.script.moment(number, piece).map(|written| Piece::Delta { written, read }),
            Part::Closing => (piece == self.closing).then_some(Piece::Closing),
            Part::Over => None,
        }
    }

    fn following(&self) -> Part {
        match self.part {
            Part::Opening => self.delta_or_closing(0),
            Part::Delta(number) => self.delta_or_closing(number + 1),
            Part::Closing | Part::Over => Part::Over,
        }
    }

    fn delta_or_closing(&self, number: u64) -> Part {
        if number < self.script.frames { Part::Delta(number) } else { Part::Closing }
    }

    fn changed(&self) -> String {
        let seen = String::from_utf8_lossy(&self.pending[..self.pending.len().min(400)]);
        format!("stream {}: at {:?} came: {seen:?}", self.script.seed, self.part)
    }
}
