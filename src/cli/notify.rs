//! Telling a service manager how the daemon fares: ready, alive, stopping. Where none asked, nothing is told.
//!
//! Never here: what the daemon does about it.

use std::convert::Infallible;
use std::time::Duration;

use duduclaw_actors::root::Fleet;
use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// It listens.
pub(super) fn ready() {
    tell(NotifyState::Ready);
}

/// It takes no new work.
pub(super) fn stopping() {
    tell(NotifyState::Stopping);
}

/// Tells that the daemon is alive twice within the time that the service manager waits, as long as the fleet answers a
/// question: a process that merely exists serves nobody. Never ends.
pub(super) async fn alive(fleet: Fleet) -> Infallible {
    let Some(patience) = sd_notify::watchdog_enabled().filter(|patience| !patience.is_zero()) else {
        return std::future::pending().await;
    };
    let answers = async || fleet.failover.snapshot().await.is_ok();
    keep_telling(patience / 2, answers, || tell(NotifyState::Watchdog)).await
}

/// A question without an answer until the next one is due is given up and asked again.
async fn keep_telling(every: Duration, answers: impl AsyncFn() -> bool, tell: impl Fn()) -> Infallible {
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        match timeout(every, answers()).await {
            Ok(true) => tell(),
            Ok(false) | Err(_) => {
                tracing::error!("the fleet does not answer; the service manager is not told it lives")
            }
        }
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be told how the daemon fares");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use super::*;

    const EVERY: Duration = Duration::from_secs(15);

    async fn told_within(seconds: u64, answers: impl AsyncFn() -> bool) -> u32 {
        let told = Cell::new(0);
        let telling = keep_telling(EVERY, answers, || told.set(told.get() + 1));
        timeout(Duration::from_secs(seconds), telling).await.expect_err("it never ends");
        told.get()
    }

    #[tokio::test(start_paused = true)]
    async fn a_fleet_that_answers_is_alive_at_every_beat() {
        assert_eq!(told_within(46, async || true).await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fleet_that_hangs_or_is_gone_is_not_alive() {
        assert_eq!(told_within(600, async || pending().await).await, 0);
        assert_eq!(told_within(600, async || false).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fleet_that_hung_once_is_asked_again_before_patience_ends() {
        let asked = Cell::new(0);
        let answers = async || {
            asked.set(asked.get() + 1);
            if asked.get() == 2 { pending().await } else { true }
        };
        // Told at 0 s, asked in vain at 15 s, told again at 30 s.
        assert_eq!(told_within(31, answers).await, 2);
    }
}
