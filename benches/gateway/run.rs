//! Leads a run: what is measured, in which order, and what of it must hold.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::Args;
use crate::lease::{self, Asked};
use crate::load::calls::{Called, Calls};
use crate::load::stalls::{Stalled, Stalls};
use crate::load::streams::{Streamed, Streams};
use crate::report::{Aim, Report};
use crate::rounds::{Fresh, Rig, Ways};
use crate::spread::Spread;

/// More than any run opens; some systems refuse to set more.
const OPEN_FILES: u64 = 10_000;

/// The sizes of requests.
const BODIES: [(&str, usize); 3] = [("600 B", 600), ("100 KB", 100_000), ("3 MB", 3_000_000)];

/// How many accounts admission chooses from.
const FLEETS: [u32; 3] = [10, 100, 1_000];

/// How long opening all streams may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a wait for a delayed acknowledgement shows, in microseconds above the direct way.
const TIMER: std::ops::RangeInclusive<f64> = 35_000.0..=45_000.0;

/// How often a wait there must come back to be the timer and not the machine.
const ATTEMPTS: usize = 3;

/// How long and how much.
#[derive(Clone, Copy, Debug)]
struct Extent {
    rounds: usize,
    call: Duration,
    streams: u64,
    window: Duration,
    ramp: Duration,
    stalls: Stalls,
    leases: u32,
}

impl Extent {
    fn of(args: &Args) -> Result<Self> {
        let (rounds, call, streams, window, ramp, stalls, leases) = if args.quick {
            (5, 200, 200, 800, 500, Stalls { bursts: 60, pairs: 8 }, 2_000)
        } else {
            (7, 1_000, 1_000, 5_000, 4_000, Stalls { bursts: 1_000, pairs: 100 }, 10_000)
        };
        Ok(Self {
            rounds: args.rounds.unwrap_or(rounds),
            call: Duration::from_millis(call),
            streams: args.streams.map_or(Ok(streams), u64::try_from)?,
            window: Duration::from_millis(window),
            ramp: Duration::from_millis(ramp),
            stalls,
            leases,
        })
    }
}

/// Measures everything, prints the table, keeps it under `target/bench`.
#[expect(clippy::print_stdout, reason = "the table is what the benchmark is for")]
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    allow_open_files()?;
    let extent = Extent::of(args)?;
    let circumstances = circumstances(args, extent);
    let mut report = Report::default();
    if args.leases {
        leases(extent, &mut report)?;
    } else {
        let home = tempfile::tempdir().context("no place for temporary files")?;
        measure(&Rig::start(args.gateway_cmd.as_deref(), home.path())?, extent, &mut report)?;
    }
    let table = report.markdown(&circumstances);
    println!("{table}");
    keep(&table)?;
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(rig: &Rig, extent: Extent, report: &mut Report) -> Result<()> {
    for (name, bytes) in BODIES {
        calls(rig, extent, (name, bytes), report)?;
    }
    stalls(rig, extent, report)?;
    streams(rig, extent, report)?;
    leases(extent, report)
}

fn leases(extent: Extent, report: &mut Report) -> Result<()> {
    progress("leases");
    for accounts in FLEETS {
        for asked in Asked::ALL {
            let figures = lease::rounds(extent.rounds, extent.leases, accounts, asked)?;
            let what = format!("lease, {accounts} accounts, {}", asked.name());
            let rounds = Ways { direct: Vec::new(), proxy: Vec::new(), gateway: figures };
            report.beside(what, "µs", &rounds, (accounts == 1_000).then_some(Aim::Figure(20.0)));
        }
    }
    Ok(())
}

fn calls(rig: &Rig, extent: Extent, (name, bytes): (&str, usize), report: &mut Report) -> Result<()> {
    progress(&format!("requests of {name}"));
    let alone = rig.calls(extent.rounds, Calls { bytes, connections: 1, lasting: extent.call })?;
    let many = rig.calls(extent.rounds, Calls { bytes, connections: 16, lasting: extent.call })?;
    let p50 = figures(&alone, |called| called.p50_us);
    report.beside(format!("{name}, c=1: p50"), "µs", &p50, None);
    report.row(format!("{name}, c=1: added p50"), "µs", &added(&p50), Some(Aim::Times(2.0)));
    report.beside(format!("{name}, c=1: p99"), "µs", &figures(&alone, |called| called.p99_us), None);
    let cpu = figures(&many, |called| called.cpu_us_per_request);
    report.row(format!("{name}, c=16: CPU per request"), "µs", &without_direct(cpu), Some(Aim::Times(2.0)));
    let rate = figures(&many, |called| called.requests_per_second);
    report.row(format!("{name}, c=16: requests per second"), "1/s", &rate, None);
    for called in [&alone, &many] {
        called.named().into_iter().for_each(|(way, rounds)| check_calls(name, way, rounds, report));
    }
    Ok(())
}

fn check_calls(name: &str, way: &str, rounds: &[Called], report: &mut Report) {
    for called in rounds.iter().filter(|called| called.wrong > 0) {
        let first = called.first_wrong.as_deref().unwrap_or_default();
        report.fail(format!(
            "{way}, {name}: {} answers lost or changed, {} right; {first}",
            called.wrong, called.requests
        ));
    }
}

/// A wait at the timer that comes back each time is a leg that gathers small packets; one that does not is the machine.
fn stalls(rig: &Rig, extent: Extent, report: &mut Report) -> Result<()> {
    progress("streams of many small frames");
    let mut seen = Ways::<Vec<Stalled>>::default();
    let mut counts = Vec::new();
    while counts.len() < ATTEMPTS {
        let once = rig.stalls(extent.stalls)?;
        counts.push(waits(&once));
        once.named().into_iter().for_each(|(way, rounds)| check_stalls(way, rounds, report));
        seen.direct.extend(once.direct);
        seen.proxy.extend(once.proxy);
        seen.gateway.extend(once.gateway);
    }
    let first = figures(&seen, |stalled| median(&stalled.first));
    report.row("stream, c=1: added time to the first frame, p50".into(), "µs", &added(&first), None);
    let whole = figures(&seen, |stalled| median(&stalled.whole));
    report.row("burst of 55 frames, c=1: added p50".into(), "µs", &added(&whole), None);
    let waited = Ways { direct: Vec::new(), ..figures_of(&counts) };
    report.beside("stream, c=1: waits of 35–45 ms above direct".into(), "count", &waited, Some(Aim::Figure(0.0)));
    if counts.iter().all(|count| count.gateway > 0.0) {
        report.fail(format!("gateway: waits near 40 ms in each of {ATTEMPTS} attempts"));
    }
    Ok(())
}

fn check_stalls(way: &str, rounds: &[Stalled], report: &mut Report) {
    for wrong in rounds.iter().filter_map(|stalled| stalled.wrong.as_deref()) {
        report.fail(format!("{way}, streams one at a time: {wrong}"));
    }
}

fn waits(once: &Ways<Vec<Stalled>>) -> Ways<f64> {
    let count = |way: &[Stalled]| {
        let of = |samples: fn(&Stalled) -> &Vec<f64>| {
            let base = once.direct.iter().map(|stalled| median(samples(stalled))).fold(0.0, f64::max);
            way.iter().flat_map(samples).filter(|sample| TIMER.contains(&(**sample - base))).count()
        };
        (of(|stalled| &stalled.first) + of(|stalled| &stalled.whole) + of(|stalled| &stalled.delay)) as f64
    };
    Ways { direct: count(&once.direct), proxy: count(&once.proxy), gateway: count(&once.gateway) }
}

fn streams(rig: &Rig, extent: Extent, report: &mut Report) -> Result<()> {
    let mut asked = Streams { streams: extent.streams, window: extent.window, ramp: extent.ramp, resident_before: 0 };
    let mut seen = Ways::<Vec<(Fresh, Streamed)>>::default();
    while seen.gateway.len() < extent.rounds {
        progress(&format!("{} streams, round {}", extent.streams, seen.gateway.len() + 1));
        let once = rig.streams(asked)?;
        once.named().into_iter().for_each(|(way, (_, streamed))| check_streams(way, streamed, report));
        if once.named().iter().any(|(_, (_, streamed))| !streamed.all_open && streamed.first_wrong.is_none()) {
            asked.ramp *= 2;
            ensure!(asked.ramp < PATIENCE, "this machine cannot open {} streams in {PATIENCE:?}", extent.streams);
            continue;
        }
        seen.direct.push(once.direct);
        seen.proxy.push(once.proxy);
        seen.gateway.push(once.gateway);
    }
    stream_rows(extent.streams, &seen, report);
    note_lost_pace(extent, &seen, report);
    fresh_rows(&seen, report);
    Ok(())
}

fn check_streams(way: &str, streamed: &Streamed, report: &mut Report) {
    if streamed.missing + streamed.changed > 0 {
        let first = streamed.first_wrong.as_deref().unwrap_or_default();
        let (missing, changed) = (streamed.missing, streamed.changed);
        report.fail(format!("{way}: {missing} frames lost, {changed} streams changed; {first}"));
    }
}

fn stream_rows(streams: u64, seen: &Ways<Vec<(Fresh, Streamed)>>, report: &mut Report) {
    let name = |what: &str| format!("{streams} streams × 50/s: {what}");
    let of = |figure: fn(&Streamed) -> f64| figures(seen, |(_, streamed)| figure(streamed));
    let cpu = without_direct(of(|streamed| streamed.cpu_us_per_frame));
    report.row(name("CPU per frame"), "µs", &cpu, Some(Aim::Times(2.0)));
    report.beside(name("frame delay p50"), "µs", &of(|streamed| streamed.delay_p50_us), None);
    report.beside(name("frame delay p99"), "µs", &of(|streamed| streamed.delay_p99_us), None);
    report.beside(name("frame gap p50"), "ms", &of(|streamed| streamed.gap_p50_ms), None);
    report.beside(name("frame gap p99"), "ms", &of(|streamed| streamed.gap_p99_ms), None);
    report.beside(name("frames checked a round"), "count", &of(|streamed| streamed.frames as f64), None);
    let memory = without_direct(of(|streamed| streamed.kib_per_stream));
    report.row(name("memory per open stream"), "KiB", &memory, Some(Aim::Figure(40.0)));
}

/// Frames that come late come together: then a frame seems cheap, and a stream large.
fn note_lost_pace(extent: Extent, seen: &Ways<Vec<(Fresh, Streamed)>>, report: &mut Report) {
    let due = extent.streams as f64 * 50.0 * extent.window.as_secs_f64();
    for (way, rounds) in seen.named() {
        let read: Vec<f64> = rounds.iter().map(|(_, streamed)| streamed.frames as f64).collect();
        let share = 100.0 * median(&read) / due;
        if share < 95.0 {
            report.note(format!(
                "{way}: only {share:.0} % of the frames came in time, so this machine, as busy as it is, cannot carry \
                 {} streams: do not use the rows about them.",
                extent.streams
            ));
        }
    }
}

fn fresh_rows(seen: &Ways<Vec<(Fresh, Streamed)>>, report: &mut Report) {
    let idle = without_direct(figures(seen, |(fresh, _)| fresh.idle_kib as f64 / 1024.0));
    report.row("idle memory after the start".into(), "MiB", &idle, Some(Aim::Figure(12.0)));
    let ready = without_direct(figures(seen, |(fresh, _)| fresh.ready_ms));
    report.row("from start to first answer".into(), "ms", &ready, None);
}

/// One figure of each round.
fn figures<T>(rounds: &Ways<Vec<T>>, figure: impl Fn(&T) -> f64) -> Ways<Vec<f64>> {
    let of = |way: &[T]| way.iter().map(&figure).collect();
    Ways { direct: of(&rounds.direct), proxy: of(&rounds.proxy), gateway: of(&rounds.gateway) }
}

fn figures_of(counts: &[Ways<f64>]) -> Ways<Vec<f64>> {
    let of = |figure: fn(&Ways<f64>) -> f64| counts.iter().map(figure).collect();
    Ways { direct: of(|count| count.direct), proxy: of(|count| count.proxy), gateway: of(|count| count.gateway) }
}

/// What each way adds to the direct one, a round at a time.
fn added(rounds: &Ways<Vec<f64>>) -> Ways<Vec<f64>> {
    let above = |way: &[f64]| way.iter().zip(&rounds.direct).map(|(figure, direct)| figure - direct).collect();
    Ways { direct: Vec::new(), proxy: above(&rounds.proxy), gateway: above(&rounds.gateway) }
}

/// The direct way leads to the provider: its process is another program.
fn without_direct(rounds: Ways<Vec<f64>>) -> Ways<Vec<f64>> {
    Ways { direct: Vec::new(), ..rounds }
}

fn median(samples: &[f64]) -> f64 {
    Spread::over(samples.iter().copied()).map_or(0.0, |spread| spread.median)
}

/// A proxy of 1,000 streams has 2,000 sockets open; the processes inherit the limit.
fn allow_open_files() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).context("cannot raise the open file limit")
}

fn circumstances(args: &Args, extent: Extent) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().map_or_else(String::new, |load| format!(", load {load} before the run"));
    let subject = args.gateway_cmd.as_deref().unwrap_or(concat!("duduclaw ", env!("CARGO_PKG_VERSION"), " serve"));
    format!(
        "{} {}, {cores} cores shared by client, provider and what is measured{load}. {} rounds: median (least–greatest). \
         Gateway: `{subject}`.\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        extent.rounds,
    )
}

fn keep(table: &str) -> Result<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("the target folder has no parent")?;
    let file = folder.join("bench").join("gateway.md");
    std::fs::create_dir_all(folder.join("bench"))?;
    std::fs::write(&file, table).with_context(|| format!("cannot write {}", file.display()))
}

#[expect(clippy::print_stderr, reason = "progress for whoever waits at the terminal")]
fn progress(what: &str) {
    eprintln!("measuring: {what}");
}
