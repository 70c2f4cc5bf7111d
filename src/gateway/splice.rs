//! A request body with a few places exchanged: slices of the client's bytes with ours between them.
//!
//! Nothing is copied and nothing re-serialised; the length is exact; a copy costs a reference count, so that an attempt
//! can be sent again from the start. What never enters: JSON.

use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// One place exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// What is left out of the original; may be empty.
    pub range: Range<usize>,
    /// What comes in its place; may be empty.
    pub with: Bytes,
}

/// Why a body cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// A place lies outside the body or ends before it begins.
    #[error("a replaced range lies outside the body")]
    OutOfBounds,
    /// Two places overlap.
    #[error("two replaced ranges overlap")]
    Overlap,
}

/// A body that is sent in slices.
#[derive(Clone)]
pub struct Body {
    parts: Arc<[Bytes]>,
    next: usize,
    remaining: u64,
}

impl Body {
    /// The original, unchanged.
    #[must_use]
    pub fn whole(original: Bytes) -> Self {
        Self::of(vec![original])
    }

    /// The original with places exchanged, given in any order.
    ///
    /// # Errors
    /// If a place lies outside the original, or two overlap.
    pub fn spliced(original: &Bytes, mut splices: Vec<Splice>) -> Result<Self, SpliceError> {
        splices.sort_by_key(|splice| (splice.range.start, splice.range.end));
        let mut parts = Vec::with_capacity(2 * splices.len() + 1);
        let mut at = 0;
        for Splice { range, with } in splices {
            check(&range, at, original.len())?;
            parts.extend([original.slice(at..range.start), with]);
            at = range.end;
        }
        parts.push(original.slice(at..));
        Ok(Self::of(parts))
    }

    /// How many bytes are still to be sent.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.remaining
    }

    /// Whether nothing is left to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// All that is still to be sent, in one piece; copies unless it is one piece already.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match &self.parts[self.next..] {
            [] => Bytes::new(),
            [only] => only.clone(),
            several => several.concat().into(),
        }
    }

    fn of(mut parts: Vec<Bytes>) -> Self {
        parts.retain(|part| !part.is_empty());
        let remaining = parts.iter().map(|part| part.len() as u64).sum();
        Self { parts: parts.into(), next: 0, remaining }
    }
}

fn check(range: &Range<usize>, at: usize, length: usize) -> Result<(), SpliceError> {
    if range.start > range.end || range.end > length {
        Err(SpliceError::OutOfBounds)
    } else if range.start < at {
        Err(SpliceError::Overlap)
    } else {
        Ok(())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(part) = self.parts.get(self.next).cloned() else { return Poll::Ready(None) };
        self.next += 1;
        self.remaining -= part.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

/// Shows lengths only: a body is the user's.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("parts", &self.parts.len()).field("remaining", &self.remaining).finish()
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use proptest::prelude::*;

    use super::*;

    fn splice(range: Range<usize>, with: &'static str) -> Splice {
        Splice { range, with: Bytes::from_static(with.as_bytes()) }
    }

    #[test]
    fn places_are_exchanged_in_whatever_order_they_are_given() {
        let original = Bytes::from_static(b"{\"model\":\"a\",\"id\":\"\"}");
        let body = Body::spliced(&original, vec![splice(19..19, "uuid"), splice(9..12, "\"long\"")]).unwrap();
        assert_eq!(body.into_bytes(), "{\"model\":\"long\",\"id\":\"uuid\"}");
    }

    #[test]
    fn two_insertions_at_one_place_and_neighbours_are_no_overlap() {
        let original = Bytes::from_static(b"abcd");
        let body = Body::spliced(&original, vec![splice(0..2, "x"), splice(2..4, "y"), splice(2..2, "-")]).unwrap();
        assert_eq!(body.into_bytes(), "x-y");
    }

    #[test]
    fn a_place_outside_and_overlapping_places_are_refused() {
        let original = Bytes::from_static(b"abcd");
        let spliced = |splices| Body::spliced(&original, splices).map(Body::into_bytes);
        assert_eq!(spliced(vec![splice(3..5, "")]), Err(SpliceError::OutOfBounds));
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let reversed = splice(3..1, "");
        assert_eq!(spliced(vec![reversed]), Err(SpliceError::OutOfBounds));
        assert_eq!(spliced(vec![splice(0..3, ""), splice(2..4, "")]), Err(SpliceError::Overlap));
    }

    #[test]
    fn its_debug_output_shows_no_byte_of_the_body() {
        assert!(!format!("{:?}", Body::whole(Bytes::from_static(b"secret"))).contains("secret"));
    }

    #[test]
    fn an_empty_body_is_at_its_end_from_the_start() {
        let body = Body::whole(Bytes::new());
        assert!(body.is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(0));
    }

    proptest! {
        /// Whatever is exchanged, the frames add up to the announced length, and a copy taken before sending sends the
        /// same again.
        #[test]
        fn the_announced_length_is_what_is_sent(original in ".{0,64}", cuts in proptest::collection::vec((0usize..64, "[a-z]{0,5}"), 0..4)) {
            let original = Bytes::from(original);
            let splices = cuts.into_iter().filter(|(at, _)| *at <= original.len());
            let splices: Vec<_> = splices.map(|(at, with)| Splice { range: at..at, with: with.into() }).collect();
            let inserted: usize = splices.iter().map(|splice| splice.with.len()).sum();
            let body = Body::spliced(&original, splices).unwrap();
            let again = body.clone();
            prop_assert_eq!(body.size_hint().exact(), Some((original.len() + inserted) as u64));
            let sent = futures_util::FutureExt::now_or_never(body.collect()).unwrap().unwrap().to_bytes();
            prop_assert_eq!(sent.len(), original.len() + inserted);
            prop_assert_eq!(again.into_bytes(), sent);
        }
    }
}
