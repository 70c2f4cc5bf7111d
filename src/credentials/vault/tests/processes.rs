//! Two real processes on one credential file: this test program starts itself once more.

use super::*;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const FILE: &str = "DUDUCLAW_TEST_CREDENTIAL_FILE";
const URL: &str = "DUDUCLAW_TEST_TOKEN_URL";
const OTHER: &str = "credentials::vault::tests::processes::the_other_daemon";

/// The other daemon: renews the login it is told of, and says whether it holds a token.
#[tokio::test]
#[ignore = "the second process of the tests beside it; they start it"]
async fn the_other_daemon() {
    let file = std::env::var_os(FILE).expect("started by a test");
    let url = TokenUrl::parse(&std::env::var(URL).expect("started by a test")).expect("loopback");
    let daemon =
        Daemon::with_clock(Arc::new(ManualClock::at(Timestamp::at_millis(T0))), Arc::new(SystemClock::default()), &[]);
    let source = SecretSource::CredentialsFile(file.into());
    daemon.assign(source, Some(TokenEndpoint { url, user_agent: None })).await;
    assert_eq!(daemon.fresh(Patience::Full).await.as_deref(), Ok("at-2"));
    daemon.settle().await;
}

struct OtherDaemon(Child);

impl OtherDaemon {
    fn start(profile: &Profile, url: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["--exact", OTHER, "--ignored"]).env(FILE, &profile.file).env(URL, url);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started"))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("signalled");
    }

    /// Waits off the runtime, which serves the token endpoint meanwhile.
    async fn ends_well(mut self) -> bool {
        super::slot::blocking(move || self.0.wait().expect("ended").success()).await
    }
}

impl Drop for OtherDaemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// A daemon for this process that shares the wall clock with the other.
async fn here(profile: &Profile, server: &Endpoint) -> Daemon {
    let manual = Arc::new(ManualClock::at(Timestamp::at_millis(T0)));
    let daemon = Daemon::with_clock(manual, Arc::new(SystemClock::default()), &[]);
    daemon.assign(profile.source(), Some(server.endpoint())).await;
    daemon
}

fn url_of(server: &Endpoint) -> String {
    format!("{}", server.url)
}

/// C30: one daemon is stopped with the answer to its single-use token on the way. Nobody is logged out, nobody spends
/// the token a second time, and only requests without an alternative wait for it to go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_daemon_that_holds_the_lock_logs_nobody_out() {
    let (profile, server) = (Profile::ending(-1), Endpoint::start(Duration::from_millis(300)).await);
    let other = OtherDaemon::start(&profile, &url_of(&server));
    let called = timeout(Duration::from_secs(10), server.state.called.notified()).await;
    called.expect("the other daemon spends the token");
    other.signal(Signal::STOP);

    let daemon = here(&profile, &server).await;
    let requests = join_all((0..50).map(|_| daemon.fresh(Patience::Short))).await;
    assert!(requests.iter().all(|token| token == &Err(NotNow::Renewing)), "{requests:?}");
    let at_once = timeout(Duration::from_millis(500), daemon.fresh(Patience::Short)).await;
    assert_eq!(at_once.expect("no further wait"), Err(NotNow::Renewing));

    let waiting = join_all((0..50).map(|_| daemon.fresh(Patience::Full)));
    let (tokens, ()) = tokio::join!(waiting, async { other.signal(Signal::CONT) });
    assert!(tokens.iter().all(|token| token.as_deref() == Ok("at-2")), "{tokens:?}");
    assert!(other.ends_well().await, "it took the answer that had waited for it");
    assert_eq!(server.spent(), ["rt-1"]);
    assert_eq!(profile.refresh_token(), "rt-2");
    assert_eq!(daemon.recorder.all(), [CredentialNews::Adopted { generation: Generation(2) }]);
}

/// A daemon that dies with the lock leaves it free at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_leaves_no_lock_behind() {
    let profile = Profile::ending(-1);
    let stored = profile.home.path().join("stored.json");
    fs::copy(&profile.file, &stored).expect("copied");
    let profile = Profile { file: stored, ..profile };
    let server = Endpoint::start(Duration::from_millis(300)).await;
    server.answer(503, "");
    let other = OtherDaemon::start(&profile, &url_of(&server));
    let called = timeout(Duration::from_secs(10), server.state.called.notified()).await;
    called.expect("the other daemon asks");
    other.signal(Signal::KILL);
    assert!(!other.ends_well().await);

    let daemon = here(&profile, &server).await;
    assert_eq!(daemon.fresh(Patience::Short).await.as_deref(), Ok("at-2"));
    assert_eq!(server.spent(), ["rt-1", "rt-1"]);
}
