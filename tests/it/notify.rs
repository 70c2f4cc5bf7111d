//! The built daemon under a service manager: what it tells, the sockets it is handed, the status it ends with.

use std::io::Read;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::PATIENCE;

const PROGRAM: &str = env!("CARGO_BIN_EXE_duduclaw");

/// A home whose configuration listens here.
fn home(bind: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let config = format!(
        "[server]\nbind = \"{bind}\"\n[providers.anthropic]\nkind = \"anthropic\"\nauth = \"claude_oauth\"\n\
         base_url = \"http://127.0.0.1:9\"\n[[providers.anthropic.accounts]]\nname = \"a\"\ntoken_env = \"TOKEN_OF_A\"\n"
    );
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    home
}

/// A command with nothing of this machine in its environment.
fn command(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").env("DUDUCLAW_HOME", home);
    command.env("TOKEN_OF_A", "sk-ant-oat01-for-a-test-that-asks-nobody").stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn serve(home: &Path) -> Command {
    let mut command = command(PROGRAM, home);
    command.arg("serve");
    command
}

/// The service manager's end: a socket, and the process it started.
struct Manager {
    socket: UnixDatagram,
    child: Child,
}

impl Manager {
    fn start(command: &mut Command, home: &Path) -> Self {
        let path = home.join("notify.sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let child = command.env("NOTIFY_SOCKET", &path).spawn().unwrap();
        Self { socket, child }
    }

    fn next(&self) -> String {
        let mut message = [0; 256];
        let length = self.socket.recv(&mut message).expect("the daemon tells something");
        String::from_utf8(message[..length].to_vec()).unwrap().trim().to_owned()
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_service_manager_is_told_ready_then_alive_again_and_again_then_stopping() {
    let home = home("127.0.0.1:0");
    let mut manager = Manager::start(serve(home.path()).env("WATCHDOG_USEC", "200000"), home.path());
    assert_eq!(manager.next(), "READY=1");
    for _ in 0..3 {
        assert_eq!(manager.next(), "WATCHDOG=1");
    }
    manager.terminate();
    let last = std::iter::repeat_with(|| manager.next()).find(|told| told != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert_eq!(manager.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_service_manager_that_watches_nobody_or_another_process_hears_of_no_heartbeat() {
    for watched in [None, Some("1")] {
        let home = home("127.0.0.1:0");
        let mut command = serve(home.path());
        if let Some(process) = watched {
            command.env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", process);
        }
        let manager = Manager::start(&mut command, home.path());
        assert_eq!(manager.next(), "READY=1");
        manager.terminate();
        assert_eq!(manager.next(), "STOPPING=1");
    }
}

#[test]
fn a_daemon_serves_on_the_sockets_it_is_handed_and_on_no_other() {
    let handed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = handed.local_addr().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = home(&taken.local_addr().unwrap().to_string());
    let mut shell = command("/bin/sh", home.path());
    shell.args(["-c", "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve", PROGRAM]);
    let manager = Manager::start(shell.stdin(Stdio::from(OwnedFd::from(handed))), home.path());
    assert_eq!(manager.next(), "READY=1");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_taken_address_or_home_ends_the_daemon_with_a_clear_text() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let blocked = home(&address);
    let output = serve(blocked.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{address} is taken")), "{said}");

    let shared = home("127.0.0.1:0");
    let manager = Manager::start(&mut serve(shared.path()), shared.path());
    assert_eq!(manager.next(), "READY=1");
    let output = serve(shared.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("another duduclaw runs"), "{said}");
}
