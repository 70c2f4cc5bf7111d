//! Logins that were begun and are not finished: few, for a while, each for one use. Pure: `now` is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use duduclaw_actors::clock::Timestamp;

/// How many logins may be under way.
pub const PENDING_AT_ONCE: usize = 5;
/// How long one may take.
pub const PENDING_FOR: Duration = Duration::from_secs(600);

/// Logins that are under way, by their ids.
#[derive(Debug)]
pub struct Pendings<T> {
    all: BTreeMap<String, (Timestamp, T)>,
}

/// As many as may be are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{PENDING_AT_ONCE} logins are under way; finish one, or wait: each ends by itself after 10 minutes")]
pub struct TooMany;

impl<T> Default for Pendings<T> {
    fn default() -> Self {
        Self { all: BTreeMap::new() }
    }
}

impl<T> Pendings<T> {
    /// Takes one in.
    ///
    /// # Errors
    /// When as many as may be are under way.
    pub fn begin(&mut self, id: String, login: T, now: Timestamp) -> Result<(), TooMany> {
        self.forget_late(now);
        if self.all.len() >= PENDING_AT_ONCE {
            return Err(TooMany);
        }
        self.all.insert(id, (now, login));
        Ok(())
    }

    /// One of them, if it is still under way; it stays so.
    pub fn look(&mut self, id: &str, now: Timestamp) -> Option<&T> {
        self.forget_late(now);
        self.all.get(id).map(|(_, login)| login)
    }

    /// One of them, which is under way no longer: whoever takes it finishes it.
    pub fn take(&mut self, id: &str, now: Timestamp) -> Option<T> {
        self.forget_late(now);
        self.all.remove(id).map(|(_, login)| login)
    }

    fn forget_late(&mut self, now: Timestamp) {
        self.all.retain(|_, (began, _)| now.since(*began) < PENDING_FOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duduclaw_actors::clock::{Boot, Clock, ManualClock, Wall};

    fn clock() -> ManualClock {
        ManualClock::at(Timestamp { wall: Wall(0), boot: Boot(0) })
    }

    #[test]
    fn a_sixth_login_waits_until_one_ends() {
        let (clock, mut pendings) = (clock(), Pendings::default());
        for id in ["a", "b", "c", "d", "e"] {
            pendings.begin(id.into(), (), clock.now()).unwrap();
        }
        assert_eq!(pendings.begin("f".into(), (), clock.now()), Err(TooMany));
        assert_eq!(pendings.take("c", clock.now()), Some(()));
        assert_eq!(pendings.begin("f".into(), (), clock.now()), Ok(()));
        clock.advance(PENDING_FOR);
        assert_eq!(pendings.begin("g".into(), (), clock.now()), Ok(()));
        assert_eq!(pendings.look("a", clock.now()), None);
    }

    #[test]
    fn a_login_is_taken_once_and_in_its_time() {
        let (clock, mut pendings) = (clock(), Pendings::default());
        pendings.begin("a".into(), 1, clock.now()).unwrap();
        pendings.begin("b".into(), 2, clock.now()).unwrap();
        assert_eq!(pendings.look("a", clock.now()), Some(&1));
        assert_eq!(pendings.take("a", clock.now()), Some(1));
        assert_eq!(pendings.take("a", clock.now()), None);
        clock.advance(PENDING_FOR - Duration::from_millis(1));
        assert_eq!(pendings.look("b", clock.now()), Some(&2));
        clock.advance(Duration::from_millis(1));
        assert_eq!(pendings.take("b", clock.now()), None);
    }
}
