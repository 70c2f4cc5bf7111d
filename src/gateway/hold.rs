//! Waiting instead of a final refusal: which conversation has waited since when, how long this answer may wait, and how
//! many may wait at once.
//!
//! The client gets no byte while it waits, so it must be answered before its own patience ends: Claude Code gives up on
//! a silent head after 360 s. A wait is cut into slices; between two of them the client comes back by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::id::ConversationKey;
use http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest slice.
const SLICE_MAX: Duration = Duration::from_secs(330);
/// What is left of the client's own time-out.
const MARGIN: Duration = Duration::from_secs(30);
/// A conversation that did not come back for this long begins anew.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// The first rest of a request that has used up its tries, and the longest.
const REST_FIRST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(60);
/// More conversations than this are not remembered.
const REMEMBERED_MAX: usize = 65_536;

/// Everybody who waits.
#[derive(Debug)]
pub struct Holds {
    places: Arc<Semaphore>,
    since: Mutex<HashMap<ConversationKey, Waited>>,
}

#[derive(Clone, Copy, Debug)]
struct Waited {
    first: Timestamp,
    forgotten_at: Deadline,
}

/// A place among those who wait.
#[derive(Debug)]
pub struct Place {
    /// When this slice ends.
    pub slice_end: Deadline,
    /// Whether the whole wait ends with it.
    pub last: LastSlice,
    _permit: OwnedSemaphorePermit,
}

/// Whether a slice is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastSlice {
    /// The client gets the true answer when it ends.
    Yes,
    /// The client is asked to come back at once.
    No,
}

impl Holds {
    /// Room for this many.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), since: Mutex::default() }
    }

    /// A place for a request that nothing can serve, if it may still wait.
    pub fn enter(
        &self,
        conversation: Option<ConversationKey>,
        headers: &HeaderMap,
        hold: Duration,
        began: Timestamp,
        now: Timestamp,
    ) -> Option<Place> {
        let slice = slice(headers);
        let first = conversation.map_or(began, |key| self.first_wait(key, slice, began, now));
        let whole = Deadline::after(first, hold);
        if whole.is_due(now) {
            return None;
        }
        let slice = Deadline::after(began, slice);
        let last = if whole.sooner(slice, now) == whole { LastSlice::Yes } else { LastSlice::No };
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(Place { slice_end: whole.sooner(slice, now), last, _permit: permit })
    }

    /// The conversation was served, or told the truth: its next wait begins anew.
    pub fn over(&self, conversation: Option<ConversationKey>) {
        if let Some(key) = conversation {
            self.since().remove(&key);
        }
    }

    /// The time to come back begins when the slice is over, however long that was.
    fn first_wait(&self, key: ConversationKey, slice: Duration, began: Timestamp, now: Timestamp) -> Timestamp {
        let mut since = self.since();
        if since.len() >= REMEMBERED_MAX {
            since.retain(|_, waited| !waited.forgotten_at.is_due(now));
        }
        let forgotten_at = Deadline::after(now, slice + FORGET_AFTER);
        let waited = since.entry(key).or_insert(Waited { first: began, forgotten_at });
        if waited.forgotten_at.is_due(began) {
            waited.first = began;
        }
        waited.forgotten_at = forgotten_at;
        waited.first
    }

    fn since(&self) -> MutexGuard<'_, HashMap<ConversationKey, Waited>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long one answer may wait, by what the client says of its own time-out.
fn slice(headers: &HeaderMap) -> Duration {
    stainless_timeout(headers).map_or(SLICE_MAX, |timeout| timeout.saturating_sub(MARGIN).min(SLICE_MAX))
}

/// How long a request rests that has rested so often already: 1, 2, 4 … 60 s, as between two probes of an account.
pub(super) fn rest(rests: u32) -> Duration {
    REST_FIRST.saturating_mul(1 << rests.min(6)).min(REST_MAX)
}

/// The client's own time-out, if it says one: some say `NOT_GIVEN`.
#[must_use]
pub fn stainless_timeout(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("x-stainless-timeout")?.to_str().ok()?.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Option<ConversationKey> = Some(ConversationKey(7));

    fn at(seconds: i64) -> Timestamp {
        Timestamp::at_millis(seconds * 1000)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn says(timeout: &'static str) -> HeaderMap {
        HeaderMap::from_iter([("x-stainless-timeout".parse().unwrap(), timeout.parse().unwrap())])
    }

    #[test]
    fn a_wait_shorter_than_a_slice_ends_with_the_true_answer() {
        let holds = Holds::new(1);
        let place = holds.enter(KEY, &HeaderMap::new(), seconds(120), at(0), at(0)).unwrap();
        assert_eq!((place.slice_end, place.last), (Deadline::after(at(0), seconds(120)), LastSlice::Yes));
    }

    #[test]
    fn a_long_wait_is_counted_from_the_conversations_first_held_request() {
        let holds = Holds::new(1);
        let first = holds.enter(KEY, &HeaderMap::new(), seconds(500), at(0), at(0)).unwrap();
        assert_eq!((first.slice_end, first.last), (Deadline::after(at(0), seconds(330)), LastSlice::No));
        drop(first);
        let second = holds.enter(KEY, &HeaderMap::new(), seconds(500), at(331), at(331)).unwrap();
        assert_eq!((second.slice_end, second.last), (Deadline::after(at(0), seconds(500)), LastSlice::Yes));
        drop(second);
        assert!(holds.enter(KEY, &HeaderMap::new(), seconds(500), at(501), at(501)).is_none());
    }

    #[test]
    fn a_conversation_that_was_served_begins_anew() {
        let holds = Holds::new(1);
        drop(holds.enter(KEY, &HeaderMap::new(), seconds(100), at(0), at(0)));
        holds.over(KEY);
        assert!(holds.enter(KEY, &HeaderMap::new(), seconds(100), at(150), at(150)).is_some());
    }

    #[test]
    fn a_conversation_that_stayed_away_begins_anew() {
        let holds = Holds::new(1);
        drop(holds.enter(KEY, &HeaderMap::new(), seconds(100), at(0), at(0)));
        assert!(holds.enter(KEY, &HeaderMap::new(), seconds(100), at(3600), at(3600)).is_some());
    }

    #[test]
    fn the_clients_own_time_out_shortens_a_slice_and_nonsense_does_not() {
        for (said, expected) in [("600", 330), ("100", 70), ("NOT_GIVEN", 330), ("-3", 330), ("nan", 330), ("0", 330)] {
            assert_eq!(slice(&says(said)), seconds(expected), "{said}");
        }
    }

    #[test]
    fn a_request_rests_longer_each_time() {
        let rests: Vec<u64> = (0..9).map(|nth| rest(nth).as_secs()).collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn only_so_many_may_wait() {
        let holds = Holds::new(1);
        let place = holds.enter(KEY, &HeaderMap::new(), seconds(9), at(0), at(0));
        assert!(place.is_some());
        assert!(holds.enter(None, &HeaderMap::new(), seconds(9), at(0), at(0)).is_none());
    }
}
