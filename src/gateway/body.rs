//! Reading a request's body: once, whole, bounded, into one buffer of the right size.
//!
//! A body takes up room as it comes, not when it is announced: whoever announces much and sends little keeps nobody out.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::gateway::error::ApiError;

/// How many bytes one unit of the shared bound stands for.
const UNIT: usize = 4096;
/// The first buffer of a body that is announced larger.
const FIRST: usize = 1024 * 1024;
/// How long a client may pause within a body: whoever stalls holds room that others need.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The bound on all bodies that are in memory at one time.
#[derive(Clone, Debug)]
pub struct Room {
    units: Arc<Semaphore>,
}

/// A body and its place in the room, which is free again when this is dropped.
#[derive(Debug)]
pub struct Buffered {
    /// The bytes.
    pub bytes: Bytes,
    _place: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Room for this many bytes in all.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { units: Arc::new(Semaphore::new(bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS))) }
    }

    /// Reads a whole body of at most `limit` bytes.
    ///
    /// # Errors
    /// When it is larger, when the room is full, or when the client broke off.
    pub async fn read(&self, body: Incoming, limit: usize) -> Result<Buffered, ApiError> {
        let declared = declared(&body);
        if declared.is_some_and(|length| length > limit as u64) {
            return Err(ApiError::TooLarge(limit));
        }
        let expected = declared.and_then(|length| usize::try_from(length).ok()).unwrap_or(UNIT);
        let mut reading = Reading { room: self, place: None, limit };
        let bytes = reading.collect(body, expected).await?;
        Ok(Buffered { bytes, _place: reading.place })
    }
}

struct Reading<'a> {
    room: &'a Room,
    place: Option<OwnedSemaphorePermit>,
    limit: usize,
}

impl Reading<'_> {
    /// A body in one packet, the common case of small ones, is not copied.
    async fn collect(&mut self, mut body: Incoming, expected: usize) -> Result<Bytes, ApiError> {
        let Some(first) = next(&mut body).await? else { return Ok(Bytes::new()) };
        self.check(first.len())?;
        if body.is_end_stream() {
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(expected.min(FIRST).max(first.len()));
        whole.extend_from_slice(&first);
        while let Some(packet) = next(&mut body).await? {
            self.check(whole.len() + packet.len())?;
            if whole.capacity() - whole.len() < packet.len() {
                whole.reserve(expected.min(4 * whole.len()).saturating_sub(whole.len()).max(packet.len()));
            }
            whole.extend_from_slice(&packet);
        }
        Ok(whole.freeze())
    }

    fn check(&mut self, length: usize) -> Result<(), ApiError> {
        if length > self.limit {
            return Err(ApiError::TooLarge(self.limit));
        }
        self.make_room(length)
    }

    fn make_room(&mut self, length: usize) -> Result<(), ApiError> {
        let taken = self.place.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Ok(units) = u32::try_from(length.div_ceil(UNIT).saturating_sub(taken)) else { return Err(full()) };
        let more = Arc::clone(&self.room.units).try_acquire_many_owned(units).map_err(|_| full())?;
        match &mut self.place {
            Some(place) => place.merge(more),
            None => self.place = Some(more),
        }
        Ok(())
    }
}

async fn next(body: &mut (impl Body<Data = Bytes, Error = hyper::Error> + Unpin)) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = timeout(PAUSE_MAX, body.frame()).await.map_err(|_| stalled())? {
        let frame = frame.map_err(|error| broken(&error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn stalled() -> ApiError {
    ApiError::Invalid(format!("nothing of the request body came for {} seconds", PAUSE_MAX.as_secs()))
}

/// An end before the end is a client that went away; anything else is no HTTP.
fn broken(error: &hyper::Error) -> ApiError {
    let cause = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    match cause.map(std::io::Error::kind) {
        Some(std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData) => {
            ApiError::Invalid("the chunks of the request body are not framed as HTTP has it".to_owned())
        }
        Some(_) | None => ApiError::BrokenOff,
    }
}

fn declared(body: &Incoming) -> Option<u64> {
    body.size_hint().exact()
}

fn full() -> ApiError {
    ApiError::Overloaded(
        "too many request bodies are in memory at once ([server.limits] max_buffered_bytes); try again",
    )
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::*;

    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = hyper::Error;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_does_not_keep_its_room() {
        let read = timeout(Duration::from_secs(120), next(&mut Silent)).await;
        assert!(matches!(read, Ok(Err(ApiError::Invalid(_)))), "{read:?}");
    }
}
