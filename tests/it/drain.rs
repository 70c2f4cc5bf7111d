//! Stopping and starting: the built program under signals, what it leaves behind, and whose sockets it takes.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use duduclaw::sim::{Fault, FaultRule};
use duduclaw::store::in_memory;
use duduclaw_actors::account::fact::Fact;
use duduclaw_actors::account::health::HealthEvent;
use duduclaw_actors::clock::SystemClock;
use duduclaw_actors::journal::Keep;
use duduclaw_actors::ports::{ActorKind, Heartbeat, Table};
use duduclaw_actors::root::{Fleet, Ports};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};

use crate::binary::{Daemon, Setting, ask, client, free_port};
use crate::support::{PATIENCE, World, eventually, read_all, read_until, status};

const ALIVE: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn with_nothing_to_finish_it_stops_at_once_and_leaves_nothing_that_matters() {
    for signal in [Signal::TERM, Signal::INT] {
        let setting = Setting::with(&["a"], "").await;
        let mut daemon = setting.serve().await;
        let began = Instant::now();
        daemon.signal(signal);
        assert_eq!(daemon.ended().await, Some(0), "{}", daemon.said());
        assert!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
        assert!(!setting.home.path().join("daemon.json").exists());
    }
}

/// A service manager, or whoever wrote the configuration, may send a signal as soon as the process is there.
#[tokio::test]
async fn a_reload_that_is_asked_for_while_it_starts_does_not_end_it() {
    let setting = Setting::with(&["a"], "").await;
    let mut child = setting.command(&["serve"]).stderr(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    let home = setting.home.path().to_owned();
    eventually(|| home.join("daemon.lock").exists().then_some(())).await;
    kill_process(pid, Signal::HUP).unwrap();
    eventually(|| home.join("daemon.json").exists().then_some(())).await;
    kill_process(pid, Signal::TERM).unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}

#[tokio::test]
async fn an_idle_connection_may_ask_once_more_while_it_drains_and_is_closed_then() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    let mut connection = TcpStream::connect(daemon.address()).await.unwrap();
    connection.write_all(ALIVE.as_bytes()).await.unwrap();
    let before = read_until(&mut connection, "ok\n").await;
    assert!(!before.to_ascii_lowercase().contains("connection: close"), "{before}");
    daemon.signal(Signal::TERM);
    daemon.until("is stopping").await;
    connection.write_all(ALIVE.as_bytes()).await.unwrap();
    let after = read_all(&mut connection).await;
    assert_eq!(status(&after), 200);
    assert!(after.to_ascii_lowercase().contains("connection: close"), "{after}");
    assert_eq!(daemon.ended().await, Some(0));
}

#[tokio::test]
async fn an_idle_connection_that_asks_nothing_is_closed_after_five_seconds() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    let mut connection = TcpStream::connect(daemon.address()).await.unwrap();
    connection.write_all(ALIVE.as_bytes()).await.unwrap();
    read_until(&mut connection, "ok\n").await;
    let began = Instant::now();
    assert_eq!(daemon.stop().await, Some(0));
    let took = began.elapsed();
    assert!((Duration::from_millis(4500)..Duration::from_secs(15)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_stream_in_flight_is_finished_and_nobody_new_is_taken() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    setting.sim.set_pace(50);
    let stream = ask(&client(), daemon.url(), "[[words: 40]]", true).send().await.unwrap();
    assert_eq!(stream.status(), 200);
    daemon.signal(Signal::TERM);
    daemon.until("is stopping").await;
    let address = daemon.address().to_owned();
    wait_until_refused(&address).await;
    let text = stream.text().await.unwrap();
    assert!(text.contains("message_stop") && !text.contains("event: error"), "{text}");
    assert_eq!(daemon.ended().await, Some(0));
}

async fn wait_until_refused(address: &str) {
    let began = Instant::now();
    while TcpStream::connect(address).await.is_ok() {
        assert!(began.elapsed() < PATIENCE, "it still takes connections");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stream_longer_than_the_time_to_finish_ends_with_an_error_event() {
    let setting = Setting::with(&["a"], "shutdown_timeout_seconds = 1").await;
    let mut daemon = setting.serve().await;
    setting.sim.set_pace(100);
    let stream = ask(&client(), daemon.url(), "[[words: 2000]]", true).send().await.unwrap();
    let began = Instant::now();
    daemon.signal(Signal::TERM);
    let text = stream.text().await.unwrap();
    assert!(text.contains("event: error") && text.contains("overloaded_error"), "{text}");
    assert!(text.ends_with("\n\n"), "a whole event is the last thing");
    assert_eq!(daemon.ended().await, Some(0));
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_request_without_an_answer_yet_gets_one_when_the_time_is_over() {
    let setting = Setting::with(&["a"], "shutdown_timeout_seconds = 1").await;
    let mut daemon = setting.serve().await;
    for stream in [true, false] {
        setting.sim.fault(FaultRule::next("a", 1, Fault::StallBeforeHead));
        let request = ask(&client(), daemon.url(), "hi", stream);
        let waiting = tokio::spawn(async move { request.send().await.unwrap() });
        eventually(|| setting.sim.log().iter().any(|record| record.status.is_none()).then_some(())).await;
        if stream {
            drop(waiting);
            setting.sim.clear_log();
            continue;
        }
        daemon.signal(Signal::TERM);
        let answer = waiting.await.unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["retry-after"], "1");
        assert!(answer.text().await.unwrap().contains("overloaded_error"));
    }
    assert_eq!(daemon.ended().await, Some(0));
}

#[tokio::test]
async fn who_asks_twice_for_the_stop_waits_for_no_stream() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    setting.sim.set_pace(100);
    let stream = ask(&client(), daemon.url(), "[[words: 2000]]", true).send().await.unwrap();
    let began = Instant::now();
    daemon.signal(Signal::INT);
    daemon.until("is stopping").await;
    daemon.signal(Signal::INT);
    assert!(stream.text().await.unwrap().contains("event: error"));
    assert_eq!(daemon.ended().await, Some(0));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_second_daemon_of_one_home_is_refused_and_the_first_goes_on() {
    let setting = Setting::with(&["a"], "").await;
    let mut daemon = setting.serve().await;
    let (code, _, said) = setting.run(&["serve"]).await;
    assert_eq!(code, 1);
    assert!(said.contains("another duduclaw runs with the home") && said.contains("--home"), "{said}");
    let answer = ask(&client(), daemon.url(), "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(setting.home.path().join("daemon.json").exists());
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn looking_at_the_status_keeps_no_daemon_from_starting() {
    let setting = Setting::with(&["a"], "").await;
    for _ in 0..3 {
        let (looked, mut daemon) = tokio::join!(setting.run(&["status"]), setting.serve());
        assert!([0, 3, 4].contains(&looked.0), "{looked:?}");
        assert_eq!(daemon.stop().await, Some(0));
    }
}

#[tokio::test]
async fn a_taken_port_is_said_and_nothing_is_left_half_started() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let setting = Setting::with(&["a"], &format!("bind = \"127.0.0.1:{port}\"\n")).await;
    let (code, _, said) = setting.run(&["serve"]).await;
    assert_eq!(code, 1);
    assert!(said.contains(&format!("127.0.0.1:{port} is taken")) && said.contains("[server] bind"), "{said}");
    assert!(!setting.home.path().join("daemon.json").exists());
    drop(taken);
    let mut daemon = setting.serve().await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_killed_daemon_leaves_nothing_that_prevents_the_next() {
    let socket = tempfile::tempdir().unwrap();
    let path = socket.path().join("gateway.sock");
    let bind = format!("bind = [\"127.0.0.1:{}\", \"unix:{}\"]\n", free_port(), path.display());
    let setting = Setting::with(&["a"], &bind).await;
    let mut daemon = setting.serve().await;
    alive_on(&path).await;
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.ended().await, None);
    assert!(path.exists() && setting.home.path().join("daemon.json").exists(), "it had no time to tidy");
    let (code, _, said) = setting.run(&["status"]).await;
    assert_eq!(code, 4, "{said}");
    let mut next = setting.serve().await;
    alive_on(&path).await;
    let answer = ask(&client(), next.url(), "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(next.stop().await, Some(0));
    assert!(!path.exists(), "a socket of ours goes with us");
}

async fn alive_on(path: &Path) {
    let mut connection = UnixStream::connect(path).await.unwrap();
    connection.write_all(ALIVE.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    assert_eq!(status(&read_all(&mut connection).await), 200);
}

#[tokio::test]
async fn what_is_no_socket_is_not_removed_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "data").unwrap();
    let setting = Setting::with(&["a"], &format!("bind = \"unix:{}\"\n", path.display())).await;
    let (code, _, said) = setting.run(&["serve"]).await;
    assert_ne!(code, 0, "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
}

#[tokio::test]
async fn a_socket_that_a_service_manager_hands_over_is_used_and_stays() {
    let activate = Path::new("/usr/bin/systemd-socket-activate");
    if !activate.exists() {
        eprintln!("systemd-socket-activate is not installed; nothing is tested");
        return;
    }
    let port = free_port();
    let setting = Setting::with(&["a"], "").await;
    let mut command = tokio::process::Command::new(activate);
    let home = format!("DUDUCLAW_HOME={}", setting.home.path().display());
    command.arg("-l").arg(format!("127.0.0.1:{port}")).args(["-E", &home]);
    command.arg(env!("CARGO_BIN_EXE_duduclaw")).arg("serve").kill_on_drop(true);
    let knock = tokio::spawn(async move {
        let began = Instant::now();
        loop {
            match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(connection) => return connection,
                Err(_) => assert!(began.elapsed() < PATIENCE, "nobody listens"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut daemon = Daemon::of(command).await;
    assert_eq!(daemon.addresses, [format!("http://127.0.0.1:{port}")]);
    let mut first = knock.await.unwrap();
    first.write_all(ALIVE.as_bytes()).await.unwrap();
    assert_eq!(status(&read_until(&mut first, "ok\n").await), 200, "who knocked before the start is served");
    let answer = ask(&client(), daemon.url(), "hi", false).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    drop(first);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_hangup_reads_the_configuration_again_and_says_what_needs_a_restart() {
    let setting = Setting::with(&["a", "b"], "").await;
    let path = setting.home.path().join("config.toml");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text = text.replace("bind = \"127.0.0.1:0\"", "bind = \"127.0.0.1:1\"\nmax_concurrent_requests = 7");
    let mut daemon = setting.serve().await;
    std::fs::write(&path, &text).unwrap();
    daemon.signal(Signal::HUP);
    for part in ["server.bind", "server.max_concurrent_requests"] {
        daemon.until(part).await;
    }
    daemon.until("config_reloaded").await;
    std::fs::write(&path, format!("{text}\nnonsense = 1\n")).unwrap();
    daemon.signal(Signal::HUP);
    daemon.until("nonsense").await;
    daemon.until("the old one stays in force").await;
    assert_eq!(ask(&client(), daemon.url(), "hi", false).send().await.unwrap().status(), 200);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Says nothing to anybody.
struct Quiet;

impl Heartbeat for Quiet {
    fn beat(&self, _: ActorKind) {}
}

/// What an account was told in the last moment is written down all the same.
#[tokio::test]
async fn the_end_of_the_fleet_writes_down_what_its_accounts_know() {
    let world = World::logins(&["a"]).await;
    let roster = world.running.as_ref().unwrap().gateway.fleet.roster();
    let account = *roster.accounts.keys().next().unwrap();
    for _ in 0..20 {
        let open = in_memory();
        let ports = Ports {
            clock: std::sync::Arc::new(SystemClock::default()),
            store: std::sync::Arc::clone(&open),
            keep: Keep::default(),
            observers: Vec::new(),
            heartbeat: std::sync::Arc::new(Quiet),
            courier: std::sync::Arc::new(duduclaw_actors::postman::Nowhere),
            tasks: tokio_util::task::TaskTracker::new(),
        };
        let (fleet, ended) = Fleet::start(ports, roster.as_ref().clone()).await.unwrap();
        fleet.tell(account, Fact::Told(HealthEvent::Paused));
        fleet.stop().await;
        ended.await.unwrap();
        let kept = open().unwrap().store.load(Table::Health).unwrap();
        let text = String::from_utf8(kept[0].value.clone()).unwrap();
        assert!(text.contains("\"paused\":\"yes\""), "{text}");
    }
}
