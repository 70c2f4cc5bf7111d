//! A store that hangs, fails, is full, or is somebody else's: no request notices, nothing that was acknowledged is lost.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use duduclaw::app::Memory;
use duduclaw::sim::AccountSpec;
use duduclaw::store::in_memory;
use duduclaw_actors::clock::Wall;
use duduclaw_actors::event::Severity;
use duduclaw_actors::journal::OpenStore;
use duduclaw_actors::ports::{Batch, Opened, Pruned, Record, Store, StoreError, Table};
use duduclaw_actors::rows::{EventQuery, EventRow, Retention, SpentRow, UsageQuery, UsageSum};
use tokio::io::AsyncWriteExt;

#[cfg(target_os = "linux")]
use crate::binary::{Daemon, Setting, ask, client};
use crate::seen::got;
use crate::support::{PATIENCE, World, eventually, read_until, status};

/// A disk that does what the test says.
#[derive(Clone, Default)]
struct Disk(Arc<(Mutex<Trouble>, Condvar)>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Trouble {
    #[default]
    None,
    /// Writes wait until the trouble is over.
    Hangs,
    /// Writes fail.
    Full,
}

/// A store on that disk.
struct OnDisk {
    inner: Box<dyn Store>,
    disk: Disk,
}

impl Disk {
    fn is(&self, trouble: Trouble) {
        *self.0.0.lock().unwrap() = trouble;
        self.0.1.notify_all();
    }

    fn opener(&self) -> OpenStore {
        let (open, disk) = (in_memory(), self.clone());
        Arc::new(move || {
            let inner = open()?.store;
            Ok(Opened::from(OnDisk { inner, disk: disk.clone() }))
        })
    }
}

impl Store for OnDisk {
    fn load(&mut self, table: Table) -> Result<Vec<Record>, StoreError> {
        self.inner.load(table)
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let (lock, over) = &*self.disk.0;
        let trouble = *over.wait_while(lock.lock().unwrap(), |trouble| *trouble == Trouble::Hangs).unwrap();
        match trouble {
            Trouble::Full => Err(StoreError::Unavailable("no space left on device".to_owned())),
            Trouble::None | Trouble::Hangs => self.inner.write(batch),
        }
    }

    fn spent(&mut self) -> Result<Vec<SpentRow>, StoreError> {
        self.inner.spent()
    }

    fn usage(&mut self, ask: &UsageQuery) -> Result<Vec<UsageSum>, StoreError> {
        self.inner.usage(ask)
    }

    fn events(&mut self, ask: &EventQuery) -> Result<Vec<EventRow>, StoreError> {
        self.inner.events(ask)
    }

    fn prune(&mut self, keep: &Retention) -> Result<Pruned, StoreError> {
        self.inner.prune(keep)
    }
}

async fn on(disk: &Disk) -> World {
    World::with(["a", "b"].map(AccountSpec::oauth)).memory(Memory::Of(disk.opener())).start().await
}

async fn figure(world: &World, name: &str) -> Option<String> {
    let metrics = got(world.client.get(format!("{}/metrics", world.url))).await.text();
    metrics.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

async fn pulse(world: &World) -> String {
    let got = got(world.client.get(format!("{}/healthz", world.url))).await;
    assert_eq!(got.status, 200, "the process is alive");
    got.text()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_stops_no_stream_delays_no_request_and_loses_nothing_acknowledged() {
    let disk = Disk::default();
    let mut world = on(&disk).await;
    world.sim.set_pace(40);
    let stream = got(world.ask("long", "[[words: 30]]", true));
    let stream = tokio::task::spawn(stream);
    eventually(|| (!world.messages().is_empty()).then_some(())).await;
    disk.is(Trouble::Hangs);
    world.turn("hung", false).await;
    let mut pause = Box::pin(got(world.control("POST", "/admin/api/accounts/a/pause")));
    // Someone waits for the disk; half a minute goes by for everybody else.
    for turn in 0..30 {
        let session = format!("s{turn}");
        let quick = tokio::time::timeout(Duration::from_secs(5), world.turn(&session, turn % 2 == 0));
        tokio::select! {
            biased;
            early = &mut pause => panic!("nothing can be written, and yet: {}", early.text()),
            turn = quick => assert_eq!(turn.expect("at once").status, 200),
        }
        world.advance(1);
    }
    assert!(stream.await.unwrap().whole, "a stream goes on");
    assert!(pulse(&world).await.starts_with("ok\nstore: slow for "));
    disk.is(Trouble::None);
    let paused = tokio::time::timeout(PATIENCE, pause).await.expect("it is written now");
    assert_eq!(paused.status, 200);
    assert_eq!(pulse(&world).await, "ok\n");
    assert!(world.account("a").await.paused);
    world.restart().await;
    assert!(world.account("a").await.paused, "what was acknowledged is kept");
    assert_eq!(world.events.of("store_failing").len(), 0);
}

#[tokio::test]
async fn a_full_disk_is_told_everywhere_once_and_heals_by_itself() {
    let disk = Disk::default();
    let mut world = on(&disk).await;
    world.turn("s", false).await;
    disk.is(Trouble::Full);
    let pause = got(world.control("POST", "/admin/api/accounts/a/pause")).await;
    assert_eq!(pause.status, 503, "it could not be promised: {}", pause.text());
    assert_eq!(world.turn("s", false).await.status, 200, "requests go on");
    let told = eventually(|| world.events.of("store_failing").pop()).await;
    assert_eq!(
        (told["severity"].as_str(), told["kind"]["why"].as_str().unwrap().contains("no space left")),
        (Some("error"), true)
    );
    assert!(pulse(&world).await.starts_with("ok\nstore: failing for "));
    assert_eq!(figure(&world, "duduclaw_store_failing").await.as_deref(), Some("1"));
    let pool = world.control("GET", "/admin/api/pool");
    let store = got(pool).await.json()["store"].clone();
    assert_eq!(store["state"], "failing");
    assert!(store["why"].as_str().unwrap().contains("no space left") && store["since"].as_i64().unwrap() > 0);
    let health = got(world.control("GET", "/admin/api/health")).await.json();
    assert_eq!((&health["status"], &health["store"]["state"]), (&"degraded".into(), &"failing".into()));
    world.advance(60);
    disk.is(Trouble::None);
    world.advance(5);
    let healed = eventually(|| world.events.of("store_healed").pop()).await;
    assert!(healed["kind"]["failed_ms"].as_u64().unwrap() >= 60_000, "{healed}");
    assert_eq!((pulse(&world).await.as_str(), world.events.of("store_failing").len()), ("ok\n", 1));
    assert_eq!(figure(&world, "duduclaw_store_failing").await.as_deref(), Some("0"));
    world.restart().await;
    assert!(world.account("a").await.paused, "it acted, and is kept since the disk has room");
}

/// What a request costs must be written down, sooner or later: there is an end to what waits for that.
#[tokio::test]
async fn when_too_much_waits_for_the_store_new_requests_are_refused_before_their_body_and_old_ones_go_on() {
    let disk = Disk::default();
    let world = on(&disk).await;
    world.sim.set_pace(50);
    let stream = tokio::task::spawn(got(world.ask("long", "[[words: 30]]", true)));
    eventually(|| (!world.messages().is_empty()).then_some(())).await;
    disk.is(Trouble::Full);
    let journal = &world.running.as_ref().unwrap().gateway.fleet.journal;
    let large = |seq| EventRow {
        seq,
        at: Wall(0),
        severity: Severity::Info,
        kind: "ballast".to_owned(),
        account: None,
        agent: None,
        request_id: None,
        json: "x".repeat(33 * 1024 * 1024),
    };
    journal.note_event(large(900_001));
    assert_eq!(world.turn("s", false).await.status, 200, "there is room still");
    journal.note_event(large(900_002));
    let asked = world.messages().len();
    let mut connection = world.connect().await;
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
                content-length: 1000000\r\n\r\n";
    connection.write_all(head.as_bytes()).await.unwrap();
    let refused = read_until(&mut connection, "}").await;
    assert_eq!(status(&refused), 503, "{refused}");
    assert!(refused.contains("retry-after: 1\r\n") && refused.contains("overloaded_error"), "{refused}");
    assert!(refused.contains("the store cannot be written"), "{refused}");
    assert_eq!(world.messages().len(), asked);
    let stream = stream.await.unwrap();
    assert!(stream.whole && stream.status == 200, "what is under way goes on");
    disk.is(Trouble::None);
    journal.flush().await.unwrap();
    assert_eq!(world.turn("s", false).await.status, 200);
}

/// The built program on a disk that takes no more: a limit of the system's on what it may write.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_whose_disk_is_full_serves_on_and_writes_everything_when_there_is_room() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let setting = Setting::with(&["a", "b"], "").await;
    let mut command = setting.command(&[]);
    let program = command.as_std().get_program().to_owned();
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" serve"]).arg(program).env_clear().kill_on_drop(true);
    for (name, value) in command.as_std_mut().get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let mut daemon = Daemon::of(shell).await;
    let pid = Pid::from_raw(i32::try_from(daemon.child.id().unwrap()).unwrap());
    let may_write = |bytes: Option<u64>| {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(pid, Resource::Fsize, limit).unwrap();
    };
    let client = client();
    let key = std::fs::read_to_string(setting.home.path().join("admin-token")).unwrap();
    let url = daemon.url().to_owned();
    let act = async |verb: &str| {
        let url = format!("{url}/admin/api/accounts/a/{verb}");
        client.post(url).bearer_auth(key.trim()).send().await.unwrap().status().as_u16()
    };
    assert_eq!(act("pause").await, 200);
    may_write(Some(0));
    assert_eq!(act("resume").await, 503);
    for _ in 0..5 {
        assert_eq!(ask(&client, daemon.url(), "[[say: hi]]", true).send().await.unwrap().status(), 200);
    }
    let (code, _, said) = setting.run(&["status"]).await;
    assert!(code == 3 && said.contains("nothing could be written down"), "{code}: {said}");
    may_write(None);
    daemon.until("store_healed").await;
    assert_eq!(act("resume").await, 200);
    daemon.signal(rustix::process::Signal::KILL);
    daemon.ended().await;
    let daemon = setting.serve().await;
    let pool = client.get(format!("{}/admin/api/pool", daemon.url())).bearer_auth(key.trim());
    let pool: serde_json::Value = pool.send().await.unwrap().json().await.unwrap();
    assert_eq!(pool["providers"][0]["accounts"][0]["paused"], false);
    assert_eq!(pool["store"]["state"], "fine");
}
