//! The built `duduclaw serve`, killed with SIGKILL again and again under load: at random instants, also while it starts.
//!
//! The judges are the clients' own logs. After each kill the database opens and is whole; every control action that was
//! answered holds; holds, strikes, figures and a conversation's place are there; nothing counts twice; and the next
//! daemon is ready soon.
//!
//! `DUDUCLAW_KILLS=1000` kills so often in place of 50. `DUDUCLAW_KILL_SEED=7` repeats the instants of a run, whose seed
//! is printed. "Soon" is a second, or, on a machine that is busy with other things, four times what an undisturbed
//! start takes there: one is timed after every tenth kill.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "all of it is a test: it fails by panics, tells its seed, and lives in real time"
)]

mod clients;
mod judge;
mod operators;
mod stage;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clients::Clients;
use judge::Judge;
use operators::Operators;
use stage::{Daemon, Stage};
use tokio::time::{Instant, sleep};

/// How soon a killed daemon is ready again.
const SOON: Duration = Duration::from_secs(1);
/// How many times longer than an undisturbed start a start may take on a busy machine.
const BUSY: u32 = 4;

/// A whole number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_moment_loses_nothing_that_was_acknowledged() {
    let kills = number("DUDUCLAW_KILLS").unwrap_or(50);
    let seed = number("DUDUCLAW_KILL_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000));
    eprintln!("{kills} kills with DUDUCLAW_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Arc::new(Stage::set().await);
    let mut judge = Judge::new(Arc::clone(&stage));
    judge.establish().await;
    let clients = Clients::start(&stage);
    let operators = Operators::start(&stage);
    let mut starts = Starts::default();
    for kill in 0..kills {
        if kill % 10 == 0 {
            starts.undisturbed(&stage).await;
        }
        let began = Instant::now();
        let mut daemon = stage.spawn();
        if random.u8(..4) > 0 {
            stage.until_ready(&mut daemon).await;
            starts.ready.push(began.elapsed());
            judge.hears(&operators).await;
            stage.open();
            sleep(Duration::from_millis(random.u64(..700))).await;
        } else {
            sleep(Duration::from_millis(random.u64(..400))).await;
        }
        stage.close();
        daemon.kill().await;
        judge.opens_the_database(kill);
    }
    let (served, written) = (clients.stop().await, operators.stop().await);
    judge.sums_up(&served);
    starts.were_soon();
    let open = stage.open_for().as_secs_f64();
    let (requests, writes) = (served.whole.load(Ordering::Relaxed), written);
    let (a_second, b_second) = (requests as f64 / open, writes as f64 / open);
    eprintln!(
        "{kills} kills, {open:.1} s under load: {requests} requests ({a_second:.0}/s), {writes} control actions \
         ({b_second:.0}/s); {}",
        starts.told()
    );
    assert!(a_second >= 20.0 && b_second >= 5.0, "too little went on for the kills to mean anything");
}

/// How long starts took.
#[derive(Default)]
struct Starts {
    ready: Vec<Duration>,
    undisturbed: Vec<Duration>,
}

impl Starts {
    /// Times a start in a home of its own: as busy as the machine is just now, and nothing to recover.
    async fn undisturbed(&mut self, stage: &Stage) {
        let fresh = stage.beside();
        let began = Instant::now();
        let mut daemon: Daemon = fresh.spawn();
        fresh.until_ready(&mut daemon).await;
        self.undisturbed.push(began.elapsed());
        daemon.kill().await;
    }

    fn slowest(starts: &[Duration]) -> Duration {
        starts.iter().copied().max().unwrap_or_default()
    }

    fn median(starts: &[Duration]) -> Duration {
        let mut sorted = starts.to_vec();
        sorted.sort();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    fn were_soon(&self) {
        let limit = SOON.max(Self::slowest(&self.undisturbed) * BUSY);
        assert!(Self::slowest(&self.ready) <= limit, "ready only {} (allowed: {limit:?})", self.told());
    }

    fn told(&self) -> String {
        let (median, slowest) = (Self::median(&self.ready), Self::slowest(&self.ready));
        let undisturbed = Self::slowest(&self.undisturbed);
        format!("ready after {median:?} at the median, {slowest:?} at most (undisturbed: at most {undisturbed:?})")
    }
}
