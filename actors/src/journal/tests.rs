//! A store that fails, stalls, or answers "no" to what it kept; and a journal that dies meanwhile.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};

use ractor::{Actor, ActorRef};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::event::{Event, EventKind};
use crate::ports::{ActorKind, Batch, EventSink, Heartbeat, Pruned, SetAside};
use crate::rows::Retention;
use crate::rows::UsageSum;
use crate::slot::Slot;

/// A store that does what the test says. Every opening is the same.
#[derive(Clone, Default)]
struct Script(Arc<(Mutex<Play>, Condvar)>);

#[derive(Default)]
struct Play {
    kept: BTreeMap<String, Vec<u8>>,
    /// Every batch that was kept, and each that was tried.
    batches: usize,
    tried: usize,
    opened: usize,
    openings_fail: bool,
    writes_fail: bool,
    /// A write waits as long as this is set.
    stalled: bool,
    at_it: usize,
    /// The next opening says that it put this aside.
    aside: Option<SetAside>,
    prunings: Vec<Retention>,
    /// How many more steps pruning takes.
    steps: usize,
}

impl Script {
    fn play<T>(&self, change: impl FnOnce(&mut Play) -> T) -> T {
        let changed = change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
        changed
    }

    fn value(&self, key: &str) -> Option<String> {
        self.play(|play| play.kept.get(key).map(|value| String::from_utf8_lossy(value).into_owned()))
    }

    fn opener(&self) -> OpenStore {
        let script = self.clone();
        Arc::new(move || {
            let (fails, set_aside) = script.play(|play| {
                play.opened += 1;
                (play.openings_fail, play.aside.take())
            });
            if fails {
                return Err(StoreError::Unavailable("no permission".to_owned()));
            }
            Ok(Opened { set_aside, ..script.clone().into() })
        })
    }
}

impl Store for Script {
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError> {
        let of_table = |play: &mut Play| {
            let kept = play.kept.iter().filter(|_| table == Table::Health);
            kept.map(|(key, value)| Record { key: key.clone(), version: 1, value: value.clone() }).collect()
        };
        Ok(self.play(of_table))
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let (lock, moved) = &*self.0;
        let mut play = lock.lock().unwrap();
        play.tried += 1;
        play.at_it += 1;
        play = moved.wait_while(play, |play| play.stalled).unwrap();
        play.at_it -= 1;
        if play.writes_fail {
            return Err(StoreError::Unavailable("disk full".to_owned()));
        }
        play.batches += 1;
        for write in &batch.records {
            match &write.value {
                Some((_, value)) => play.kept.insert(write.key.clone(), value.clone()),
                None => play.kept.remove(&write.key),
            };
        }
        Ok(())
    }

    fn spent(&mut self) -> Result<Vec<SpentRow>, StoreError> {
        Ok(Vec::new())
    }

    fn usage(&mut self, _: &UsageQuery) -> Result<Vec<UsageSum>, StoreError> {
        Ok(Vec::new())
    }

    fn events(&mut self, _: &EventQuery) -> Result<Vec<EventRow>, StoreError> {
        Ok(Vec::new())
    }

    fn prune(&mut self, keep: &Retention) -> Result<Pruned, StoreError> {
        let prune = |play: &mut Play| {
            play.prunings.push(keep.clone());
            play.steps = play.steps.saturating_sub(1);
            if play.steps == 0 { Pruned::All } else { Pruned::Some }
        };
        Ok(self.play(prune))
    }
}

#[derive(Default)]
struct Ears(Mutex<Vec<EventKind>>);

impl EventSink for Ears {
    fn emit(&self, event: Event) {
        self.0.lock().unwrap().push(event.kind);
    }
}

struct Quiet;

impl Heartbeat for Quiet {
    fn beat(&self, _: ActorKind) {}
}

struct Rig {
    journal: Journal,
    slot: Slot<Msg>,
    dirty: Arc<Dirty>,
    script: Script,
    clock: Arc<ManualClock>,
    ears: Arc<Ears>,
    actor: ActorRef<Msg>,
    tasks: TaskTracker,
}

impl Rig {
    async fn new() -> Self {
        Self::on(Script::default()).await
    }

    async fn on(script: Script) -> Self {
        let (dirty, slot) = (Arc::new(Dirty::default()), Slot::default());
        let journal = Journal::new(Arc::clone(&dirty), slot.handle());
        let clock = Arc::new(ManualClock::at(Timestamp::at_millis(1_796_000_000_000)));
        let (ears, tasks) = (Arc::new(Ears::default()), TaskTracker::new());
        let actor = Self::actor(&dirty, &script, &clock, &ears, &tasks).await;
        slot.fill(actor.clone(), Msg::Dirty);
        Self { journal, slot, dirty, script, clock, ears, actor, tasks }
    }

    async fn actor(
        dirty: &Arc<Dirty>,
        script: &Script,
        clock: &Arc<ManualClock>,
        ears: &Arc<Ears>,
        tasks: &TaskTracker,
    ) -> ActorRef<Msg> {
        let args = Args {
            dirty: Arc::clone(dirty),
            open: script.opener(),
            keep: Keep::default(),
            events: Arc::clone(ears) as _,
            clock: Arc::clone(clock) as _,
            tasks: tasks.clone(),
            heartbeat: Arc::new(Quiet),
        };
        JournalActor::spawn(None, JournalActor, args).await.unwrap().0
    }

    /// The actor dies at once, with whatever it was about to do, and another takes its place.
    async fn dies(&mut self) {
        self.actor.kill();
        self.actor = Self::actor(&self.dirty, &self.script, &self.clock, &self.ears, &self.tasks).await;
        self.slot.fill(self.actor.clone(), Msg::Dirty);
    }

    fn remember(&self, key: &str, value: &str) {
        self.journal.remember(Table::Health, key.to_owned(), 1, value.into());
    }

    fn flush(&self) -> JoinHandle<Result<(), StoreError>> {
        let journal = self.journal.clone();
        self.tasks.spawn(async move { journal.flush().await })
    }

    fn events(&self) -> Vec<EventKind> {
        self.ears.0.lock().unwrap().clone()
    }

    fn state(&self) -> StoreState {
        self.journal.state(self.clock.now())
    }

    /// The actor sets its timer after the thread is done, so time goes on until what is waited for is there.
    async fn as_time_passes(&self, there: impl Fn(&mut Play) -> bool) {
        eventually(|| {
            let arrived = self.script.play(&there);
            if !arrived {
                self.clock.advance(Duration::from_secs(5));
            }
            arrived
        })
        .await;
    }

    async fn until(&self, there: impl Fn(&mut Play) -> bool) {
        eventually(|| self.script.play(&there)).await;
    }
}

async fn eventually(mut there: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if there() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it did not come about");
}

#[tokio::test]
async fn what_is_told_is_written_within_the_second_by_itself() {
    let rig = Rig::new().await;
    rig.remember("a", "1");
    rig.remember("b", "2");
    // The timer is a task.
    eventually(|| !rig.tasks.is_empty()).await;
    rig.clock.advance(Duration::from_millis(500));
    rig.until(|play| play.kept.len() == 2).await;
    assert_eq!(rig.script.play(|play| play.batches), 1);
}

#[tokio::test]
async fn a_flush_keeps_what_its_caller_told_also_while_an_older_write_runs() {
    let rig = Rig::new().await;
    rig.script.play(|play| play.stalled = true);
    rig.remember("older", "1");
    let older = rig.flush();
    rig.until(|play| play.at_it == 1).await;
    rig.remember("mine", "2");
    let mine = rig.flush();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!older.is_finished() && !mine.is_finished(), "nothing is kept yet");
    rig.script.play(|play| play.stalled = false);
    mine.await.unwrap().unwrap();
    assert_eq!((rig.script.value("older"), rig.script.value("mine")), (Some("1".into()), Some("2".into())));
    older.await.unwrap().unwrap();
}

/// The older write had taken it out, and failed.
#[tokio::test]
async fn a_flush_keeps_what_an_older_write_took_along_and_lost() {
    let rig = Rig::new().await;
    rig.script.play(|play| (play.stalled, play.writes_fail) = (true, true));
    rig.remember("mine", "1");
    let older = rig.flush();
    rig.until(|play| play.at_it == 1).await;
    let mine = rig.flush();
    rig.script.play(|play| play.stalled = false);
    assert!(older.await.unwrap().is_err());
    assert!(mine.await.unwrap().is_err(), "a flush that says yes has kept it");
    rig.script.play(|play| play.writes_fail = false);
    rig.journal.flush().await.unwrap();
    assert_eq!(rig.script.value("mine"), Some("1".into()));
}

#[tokio::test]
async fn a_store_that_fails_is_told_once_tried_again_and_its_healing_told() {
    let rig = Rig::new().await;
    let began = rig.clock.now();
    rig.script.play(|play| play.writes_fail = true);
    rig.remember("a", "1");
    assert!(rig.journal.flush().await.is_err());
    let why = "the store cannot be reached: disk full".to_owned();
    eventually(|| rig.state() == StoreState::Failing { since: rig.clock.now(), why: why.clone() }).await;
    let opened = rig.script.play(|play| play.opened);
    rig.as_time_passes(|play| play.tried >= 6).await;
    assert!(rig.script.play(|play| play.opened) > opened, "it is opened anew for each try");
    rig.remember("a", "2");
    rig.script.play(|play| play.writes_fail = false);
    rig.as_time_passes(|play| play.kept.contains_key("a")).await;
    assert_eq!(rig.script.value("a"), Some("2".into()), "the latest value");
    eventually(|| rig.state() == StoreState::Fine).await;
    eventually(|| rig.events().len() == 2).await;
    let told = rig.events();
    assert_eq!(told[0], EventKind::StoreFailing { why });
    let EventKind::StoreHealed { failed_ms } = told[1] else { panic!("{told:?}") };
    let passed = rig.clock.now().since(began).as_millis();
    assert!((5_000..=passed).contains(&failed_ms.into()), "{failed_ms} of {passed} ms");
}

#[tokio::test]
async fn a_write_that_hangs_is_shown_and_loses_nothing() {
    let rig = Rig::new().await;
    rig.script.play(|play| play.stalled = true);
    rig.remember("a", "1");
    let flush = rig.flush();
    rig.until(|play| play.at_it == 1).await;
    let since = rig.clock.now();
    rig.clock.advance(Duration::from_secs(30));
    assert_eq!(rig.state(), StoreState::Slow { since });
    rig.remember("a", "2");
    rig.script.play(|play| play.stalled = false);
    flush.await.unwrap().unwrap();
    rig.journal.flush().await.unwrap();
    assert_eq!((rig.script.value("a"), rig.state()), (Some("2".into()), StoreState::Fine));
}

/// The thread of a dead actor may still be at its last batch: its successor's must neither overtake it nor say "kept"
/// before it.
#[tokio::test]
async fn a_successor_waits_for_the_last_write_of_the_dead() {
    let mut rig = Rig::new().await;
    rig.script.play(|play| play.stalled = true);
    rig.remember("a", "old");
    rig.remember("b", "1");
    drop(rig.flush());
    rig.until(|play| play.at_it == 1).await;
    rig.dies().await;
    rig.remember("a", "new");
    let flush = rig.flush();
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(rig.script.play(|play| play.at_it), 1, "one at a time");
    assert!(!flush.is_finished());
    rig.script.play(|play| play.stalled = false);
    flush.await.unwrap().unwrap();
    assert_eq!((rig.script.value("a"), rig.script.value("b")), (Some("new".into()), Some("1".into())));
}

#[tokio::test]
async fn old_rows_are_dropped_a_while_after_the_start_and_once_a_day_step_by_step() {
    let rig = Rig::new().await;
    rig.script.play(|play| play.steps = 3);
    rig.remember("a", "0");
    rig.journal.flush().await.unwrap();
    rig.clock.advance(Duration::from_secs(14 * 60));
    rig.remember("a", "0");
    rig.journal.flush().await.unwrap();
    assert_eq!(rig.script.play(|play| play.prunings.len()), 0, "the clock may be wrong yet");
    rig.clock.advance(Duration::from_secs(60));
    rig.remember("a", "1");
    rig.journal.flush().await.unwrap();
    rig.until(|play| play.prunings.len() == 3).await;
    rig.remember("a", "2");
    rig.journal.flush().await.unwrap();
    rig.clock.advance(Duration::from_secs(23 * 3600));
    rig.remember("a", "3");
    rig.journal.flush().await.unwrap();
    assert_eq!(rig.script.play(|play| play.prunings.len()), 3, "not twice a day");
    rig.clock.advance(Duration::from_secs(3600));
    rig.remember("a", "4");
    rig.journal.flush().await.unwrap();
    rig.until(|play| play.prunings.len() == 4).await;
    let days = rig.script.play(|play| play.prunings[3].before.0 - play.prunings[0].before.0);
    assert_eq!(days, 24 * 3_600_000);
}

/// Time passes, and nobody does anything: no timer, no write, no look.
#[tokio::test(start_paused = true)]
async fn an_idle_journal_does_nothing() {
    let rig = Rig::new().await;
    rig.clock.advance(Duration::from_secs(15 * 60));
    rig.remember("a", "1");
    rig.journal.flush().await.unwrap();
    rig.until(|play| play.prunings.len() == 1).await;
    // Whatever waits for a time or for the store is a task of the tracker.
    eventually(|| {
        rig.clock.advance(Duration::from_secs(1));
        rig.tasks.is_empty()
    })
    .await;
    for _ in 0..100 {
        rig.clock.advance(Duration::from_secs(3600));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(rig.tasks.is_empty(), "something waits");
    }
    assert_eq!(rig.script.play(|play| (play.tried, play.opened, play.prunings.len())), (1, 1, 1));
}

#[tokio::test]
async fn a_store_that_was_put_aside_is_told_and_what_is_known_is_asked_for_again() {
    let script = Script::default();
    let aside = SetAside { kept_at: "/h/state.db.corrupt".to_owned(), why: "half of it is gone".to_owned() };
    script.play(|play| play.aside = Some(aside.clone()));
    let rig = Rig::on(script).await;
    let comeback = rig.journal.comeback();
    rig.remember("a", "1");
    rig.journal.flush().await.unwrap();
    assert!(matches!(&*comeback.borrow(), Comeback::Empty));
    let told = EventKind::StoreSetAside { kept_at: aside.kept_at, why: aside.why };
    eventually(|| rig.events() == [told.clone()]).await;
}

/// An account that began without its record must not write over it.
#[tokio::test]
async fn a_record_that_could_not_be_read_is_given_before_anything_is_written_over_it() {
    let script = Script::default();
    script.play(|play| {
        play.openings_fail = true;
        play.kept.insert("known".to_owned(), b"dead".to_vec());
        play.kept.insert("stranger".to_owned(), b"orphan".to_vec());
    });
    let rig = Rig::on(script).await;
    assert!(rig.journal.load(Table::Health).await.is_err());
    for key in ["known", "new"] {
        rig.journal.begins_without(key.to_owned());
        rig.remember(key, "cold");
    }
    assert!(rig.journal.flush().await.is_err());
    rig.script.play(|play| play.openings_fail = false);
    rig.journal.flush().await.unwrap();
    let Comeback::Found(found) = rig.journal.comeback().borrow().clone() else { panic!("nothing was found") };
    assert_eq!(found.iter().map(|record| record.key.as_str()).collect::<Vec<_>>(), ["known"]);
    assert_eq!(rig.script.value("known"), Some("dead".into()), "as it was, until both are joined");
    assert_eq!(rig.script.value("new"), Some("cold".into()));
    assert_eq!(rig.script.value("stranger"), Some("orphan".into()));
    rig.remember("known", "joined");
    rig.journal.flush().await.unwrap();
    assert_eq!(rig.script.value("known"), Some("joined".into()));
}
