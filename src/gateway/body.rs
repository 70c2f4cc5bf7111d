//! Reading a request's body: once, whole, bounded, into one buffer of the right size.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::gateway::error::ApiError;

/// How many bytes one unit of the shared bound stands for.
const UNIT: usize = 4096;

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
    _place: Vec<OwnedSemaphorePermit>,
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
        let mut reading = Reading { room: self, place: Vec::new(), taken: 0, limit };
        reading.make_room(expected)?;
        let bytes = reading.collect(body, expected).await?;
        Ok(Buffered { bytes, _place: reading.place })
    }
}

struct Reading<'a> {
    room: &'a Room,
    place: Vec<OwnedSemaphorePermit>,
    taken: usize,
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
        let mut whole = BytesMut::with_capacity(expected.max(first.len()));
        whole.extend_from_slice(&first);
        while let Some(packet) = next(&mut body).await? {
            self.check(whole.len() + packet.len())?;
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
        let wanted = length.div_ceil(UNIT).saturating_sub(self.taken);
        let Ok(units) = u32::try_from(wanted) else { return Err(full()) };
        if units == 0 {
            return Ok(());
        }
        let place = Arc::clone(&self.room.units).try_acquire_many_owned(units).map_err(|_| full())?;
        self.place.push(place);
        self.taken += wanted;
        Ok(())
    }
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
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
