//! The processes of a run: started, awaited until they serve, killed when they go out of scope.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::load::request;
use crate::{clock, net, script};

/// How long a process may take to its first answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that serves.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// From its start to its first answer, in milliseconds.
    pub(crate) ready_ms: f64,
}

impl Process {
    /// This program again, in a role.
    pub(crate) fn role(name: &str, upstream: Option<SocketAddr>, logs: &Path) -> Result<Self> {
        let address = net::free_port()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--role", name, "--listen", &address.to_string()]);
        if let Some(upstream) = upstream {
            command.args(["--upstream", &upstream.to_string()]);
        }
        Self::start(command, address, &logs.join(format!("{name}.log")))
    }

    /// Starts a command and waits until it answers a request at `address` with 200.
    pub(crate) fn start(mut command: Command, address: SocketAddr, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let began = clock::now();
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut process = Self { child, log: log.to_owned(), address, ready_ms: 0.0 };
        process.wait_until_it_serves(began)?;
        process.ready_ms = (clock::now() - began) as f64 / 1e6;
        Ok(process)
    }

    /// The process's number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_it_serves(&mut self, began: u64) -> Result<()> {
        let mut last = String::from("it does not listen");
        while Duration::from_nanos(clock::now() - began) < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                bail!("the process ended ({status}) before it served a request; it said:\n{}", self.said());
            }
            match ask(self.address) {
                Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => return Ok(()),
                Ok(answer) => last = format!("it answers: {}", answer.chars().take(600).collect::<String>()),
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("no request was served at {} within {PATIENCE:?}: {last}\nit said:\n{}", self.address, self.said())
    }

    fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One plain request, without any of the code that is measured.
fn ask(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let body = script::call(600);
    let mut head = format!("POST {} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n", request::PATH);
    for (name, value) in request::headers(0) {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes())?;
    stream.write_all(&body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
