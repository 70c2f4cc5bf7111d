//! The monotonic clock of the machine: the same in every process, so a frame can carry the moment it was written.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let whole = u64::try_from(time.tv_sec).unwrap_or_default();
    whole * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}
