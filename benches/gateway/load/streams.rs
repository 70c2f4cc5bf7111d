//! Many paced event streams at once: frames lost or changed, their delay and rhythm, CPU per frame, memory per stream.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};

use super::calls::{histogram, micros};
use super::reader::{Piece, Reader};
use super::{Plan, request};
use crate::script::Script;
use crate::{clock, net, usage};

/// Between two frames of a stream.
const BEAT: Duration = Duration::from_millis(20);

/// How many connections are opened at a time.
const OPENING_AT_ONCE: usize = 64;

/// What to ask.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Streams {
    /// How many streams.
    pub(crate) streams: u64,
    /// How long all of them are watched while all are open.
    pub(crate) window: Duration,
    /// How long opening them may take.
    pub(crate) ramp: Duration,
    /// What the process held before, in KiB.
    pub(crate) resident_before: u64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Streamed {
    /// Whether all streams were open all the time that they were watched.
    pub(crate) all_open: bool,
    /// Frames read while all streams were open.
    pub(crate) frames: u64,
    pub(crate) missing: u64,
    pub(crate) changed: u64,
    pub(crate) first_wrong: Option<String>,
    pub(crate) delay_p50_us: f64,
    pub(crate) delay_p99_us: f64,
    pub(crate) gap_p50_ms: f64,
    pub(crate) gap_p99_ms: f64,
    pub(crate) cpu_us_per_frame: f64,
    pub(crate) kib_per_stream: f64,
}

impl Streams {
    pub(crate) async fn run(&self, plan: &Plan) -> Result<Streamed> {
        let tally = Arc::new(Tally::default());
        let tasks = self.open(plan, &tally);
        if !self.all_opened(&tally).await {
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            return Ok(tally.with(|watched| self.streamed(watched, 0, 0)));
        }
        let before = usage::cpu(plan.pid)?;
        tally.with(|watched| watched.watching = true);
        tokio::time::sleep(self.window).await;
        let after = usage::cpu(plan.pid)?;
        let resident = usage::resident_kib(plan.pid)?;
        tally.with(Watched::end_of_window);
        futures_util::future::join_all(tasks).await;
        Ok(tally.with(|watched| self.streamed(watched, after.since(&before), resident)))
    }

    #[expect(clippy::disallowed_methods, reason = "each stream is awaited before the process ends")]
    fn open(&self, plan: &Plan, tally: &Arc<Tally>) -> Vec<tokio::task::JoinHandle<()>> {
        let permits = Arc::new(tokio::sync::Semaphore::new(OPENING_AT_ONCE));
        let frames = u64::try_from((self.ramp + self.window).as_millis() / BEAT.as_millis()).unwrap_or(u64::MAX);
        let one = |seed| {
            let (plan, tally, permits) = (plan.clone(), Arc::clone(tally), Arc::clone(&permits));
            let script = Script { seed, frames, interval: BEAT, per_beat: 1 };
            tokio::spawn(async move {
                if let Err(error) = watch(&plan, script, &tally, &permits).await {
                    tally.with(|watched| watched.went_wrong(&format!("stream {seed}: {error:#}")));
                }
                tally.with(|watched| watched.over += 1);
            })
        };
        (0..self.streams).map(one).collect()
    }

    /// Waits until every stream has brought a frame, or one went wrong, which is reported as it is.
    async fn all_opened(&self, tally: &Tally) -> bool {
        let began = clock::now();
        while Duration::from_nanos(clock::now() - began) < self.ramp {
            if tally.with(|watched| watched.open == self.streams || watched.first_wrong.is_some()) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    fn streamed(&self, watched: &Watched, cpu_nanos: u64, resident: u64) -> Streamed {
        let grown = resident.saturating_sub(self.resident_before);
        Streamed {
            all_open: watched.all_open,
            frames: watched.delays.len(),
            missing: watched.missing,
            changed: watched.changed,
            first_wrong: watched.first_wrong.clone(),
            delay_p50_us: micros(&watched.delays, 0.5),
            delay_p99_us: micros(&watched.delays, 0.99),
            gap_p50_ms: micros(&watched.gaps, 0.5) / 1e3,
            gap_p99_ms: micros(&watched.gaps, 0.99) / 1e3,
            cpu_us_per_frame: cpu_nanos as f64 / 1e3 / watched.delays.len().max(1) as f64,
            kib_per_stream: grown as f64 / self.streams as f64,
        }
    }
}

async fn watch(plan: &Plan, script: Script, tally: &Tally, permits: &tokio::sync::Semaphore) -> Result<()> {
    let permit = permits.acquire().await?;
    let mut sender = net::connect(plan.target).await?;
    let request = request::post(&plan.target.to_string(), script.seed, script.request())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let mut body = response.into_body();
    if status != 200 {
        bail!("status {status}: {}", String::from_utf8_lossy(&body.collect().await?.to_bytes()));
    }
    drop(permit);
    let mut reader = Reader::new(script);
    let mut last = None;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        let Some(bytes) = frame.data_ref() else { continue };
        let taken = tally.with(|watched| reader.take(bytes, |piece| watched.arrived(piece, &mut last)));
        if let Err(how) = taken {
            tally.with(|watched| watched.changed(&how));
            return Ok(());
        }
    }
    tally.with(|watched| watched.ended(script, reader.missing()));
    Ok(())
}

/// What all streams saw together.
#[derive(Default)]
struct Tally(Mutex<Watched>);

impl Tally {
    fn with<R>(&self, act: impl FnOnce(&mut Watched) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Watched {
    watching: bool,
    all_open: bool,
    open: u64,
    over: u64,
    delays: Histogram<u64>,
    gaps: Histogram<u64>,
    missing: u64,
    changed: u64,
    first_wrong: Option<String>,
}

impl Default for Watched {
    fn default() -> Self {
        let (delays, gaps) = (histogram(), histogram());
        let (watching, all_open, first_wrong) = (false, false, None);
        Self { watching, all_open, open: 0, over: 0, delays, gaps, missing: 0, changed: 0, first_wrong }
    }
}

impl Watched {
    fn end_of_window(&mut self) {
        self.watching = false;
        self.all_open = self.over == 0;
    }

    fn arrived(&mut self, piece: Piece, last: &mut Option<u64>) {
        let Piece::Delta { written, read } = piece else { return };
        let earlier = last.replace(read);
        self.open += u64::from(earlier.is_none());
        if self.watching {
            self.delays.saturating_record(read.saturating_sub(written));
            self.gaps.saturating_record(earlier.map_or(0, |earlier| read - earlier));
        }
    }

    fn changed(&mut self, how: &str) {
        self.changed += 1;
        self.first_wrong.get_or_insert_with(|| how.to_owned());
    }

    fn went_wrong(&mut self, how: &str) {
        self.missing += 1;
        self.first_wrong.get_or_insert_with(|| how.to_owned());
    }

    fn ended(&mut self, script: Script, missing: u64) {
        self.missing += missing;
        if missing > 0 {
            self.first_wrong.get_or_insert(format!("stream {}: {missing} pieces missing at its end", script.seed));
        }
    }
}
