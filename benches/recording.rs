//! What it costs a request to be recorded: its row of usage, with its charges to two budgets, from the note to the
//! synced file; and what an event costs that is kept, which a request that is served as usual has none of. Run with
//! `cargo bench --bench recording`; each figure is the CPU time of the whole process, the store's thread included,
//! divided by the requests.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

use std::sync::Arc;
use std::time::Duration;

use duduclaw::store::{StoreFile, in_memory};
use duduclaw_actors::clock::{Clock, SharedClock, SystemClock, Wall};
use duduclaw_actors::event::{Event, Severity};
use duduclaw_actors::id::{EntryId, IdentityKey, Principal};
use duduclaw_actors::journal::{Args, Dirty, Journal, JournalActor, Keep, Msg, OpenStore};
use duduclaw_actors::money::Micros;
use duduclaw_actors::outcome::Usage;
use duduclaw_actors::ports::{ActorKind, EventSink, Heartbeat};
use duduclaw_actors::rows::{AttemptEnd, Charge, EventRow, Figures, PriceBasis, UsageBy, UsageQuery, UsageRow};
use duduclaw_actors::slot::Slot;
use ractor::Actor;
use rustix::time::{ClockId, clock_gettime};
use tokio_util::task::TaskTracker;

/// Hears nothing.
struct Nobody;

impl EventSink for Nobody {
    fn emit(&self, _: Event) {}
}

impl Heartbeat for Nobody {
    fn beat(&self, _: ActorKind) {}
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}

async fn measure() {
    let clock: SharedClock = Arc::new(SystemClock::default());
    let place = tempfile::tempdir().expect("a folder");
    let of_file = || StoreFile::at(place.path().join("state.db"), SharedClock::clone(&clock)).opener();
    for (what, open) in [
        ("in memory", in_memory()),
        ("on disk, an empty store", of_file()),
        ("on disk, the same store again", of_file()),
    ] {
        let journal = journal(open, &clock).await;
        // A batch of 50 is what 100 requests a second come to.
        for batch in [50, 5] {
            for (thing, note) in [("request", note_request as Note), ("event", note_event)] {
                let (noting, all) = record(&journal, &*clock, batch, note).await;
                println!("{what}, batches of {batch}: {noting:.1} µs to note, {all:.1} µs in all, per {thing}");
            }
        }
        sums(&journal, what).await;
        journal.close_store().await.expect("it closes");
    }
    idle(journal(of_file(), &clock).await).await;
}

async fn journal(open: OpenStore, clock: &SharedClock) -> Journal {
    let (dirty, slot) = (Arc::new(Dirty::default()), Box::leak(Box::new(Slot::default())));
    let args = Args {
        dirty: Arc::clone(&dirty),
        open,
        keep: Keep::default(),
        events: Arc::new(Nobody),
        clock: SharedClock::clone(clock),
        tasks: TaskTracker::new(),
        heartbeat: Arc::new(Nobody),
    };
    let (actor, _) = JournalActor::spawn(None, JournalActor, args).await.expect("it starts");
    slot.fill(actor, Msg::Dirty);
    Journal::new(dirty, slot.handle())
}

/// Notes the nth thing.
type Note = fn(&Journal, Wall, u64);

fn note_request(journal: &Journal, now: Wall, _: u64) {
    journal.note_usage(used(now));
}

fn note_event(journal: &Journal, now: Wall, nth: u64) {
    journal.note_event(happened(now, nth));
}

/// CPU time for each, to note it alone, and in all.
async fn record(journal: &Journal, clock: &dyn Clock, batch: u64, note: Note) -> (f64, f64) {
    const BATCHES: u64 = 600;
    let (mut noting, from) = (Duration::ZERO, cpu());
    for at in 0..BATCHES {
        let begun = cpu();
        for nth in 0..batch {
            note(journal, clock.now().wall, at * batch + nth);
        }
        noting += cpu() - begun;
        journal.flush().await.expect("it is written");
    }
    let requests = (BATCHES * batch) as f64;
    (noting.as_secs_f64() * 1e6 / requests, (cpu() - from).as_secs_f64() * 1e6 / requests)
}

/// How long sums take; a batch that waits meanwhile waits so long.
async fn sums(journal: &Journal, what: &str) {
    for by in [UsageBy::Total, UsageBy::Account, UsageBy::Day] {
        let begun = cpu();
        let ask = UsageQuery { from: Wall(0), until: Wall(i64::MAX), by };
        let sums = journal.usage(ask).await.expect("it answers");
        let attempts: u64 = sums.sums.iter().map(|sum| sum.attempts).sum();
        println!("{what}, sums by {by:?} over {attempts} rows: {:.1} ms", (cpu() - begun).as_secs_f64() * 1e3);
    }
}

/// What a journal costs that has nothing to write.
async fn idle(journal: Journal) {
    journal.flush().await.expect("it is open");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let from = cpu();
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("idle for 5 s: {:.0} µs", (cpu() - from).as_secs_f64() * 1e6);
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("less than a second"))
}

fn used(now: Wall) -> UsageRow {
    UsageRow {
        request_id: duduclaw::gateway::ticket::request_id(now).into(),
        attempt: 1,
        at: now,
        day: "2026-11-29".to_owned(),
        identity: IdentityKey::Stored { family: duduclaw_actors::id::Family::Claude, name: "work".to_owned() },
        entry: EntryId { provider: "anthropic".into(), name: "work".into() },
        principal: Principal { client: Some("laptop".into()), ..Principal::default() },
        model: "claude-opus-5-5".to_owned(),
        usage: Usage { input: 1_000, output: 200, cache_read: 90_000, cache_write_5m: 2_000, cache_write_1h: 0 },
        cost: Micros(12_345),
        list_value: Micros(12_345),
        result: AttemptEnd::Complete,
        figures: Figures::Reported,
        price: PriceBasis::Listed,
        charges: ["account:stored:claude:work", "client:laptop"].map(charge).to_vec(),
    }
}

fn charge(budget: &str) -> Charge {
    Charge { budget: budget.into(), month: "2026-11-01".to_owned(), amount: Micros(12_345), requests: 1 }
}

fn happened(now: Wall, seq: u64) -> EventRow {
    let json =
        format!("{{\"seq\":{seq},\"kind\":\"conversation_moved\",\"from\":\"anthropic/home\",\"why\":\"quota\"}}");
    EventRow {
        seq: u64::try_from(now.0).unwrap_or_default() * 1_000_000 + seq,
        at: now,
        severity: Severity::Info,
        kind: "conversation_moved".to_owned(),
        account: Some("anthropic/work".to_owned()),
        agent: None,
        request_id: Some("91d244f7cea4d6d26fbcde97638bcb57".to_owned()),
        json,
    }
}
