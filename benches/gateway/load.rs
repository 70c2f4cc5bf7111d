//! The client: what one process of it is told to do, and what it reports.

pub(crate) mod calls;
pub(crate) mod reader;
pub(crate) mod request;
pub(crate) mod stalls;
pub(crate) mod streams;

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What one client process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Where the requests go.
    pub(crate) target: SocketAddr,
    /// The process whose CPU and memory are read meanwhile.
    pub(crate) pid: u32,
    /// The work.
    pub(crate) work: Work,
}

/// The kinds of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Requests without a stream, one after another on each connection.
    Calls(calls::Calls),
    /// Many paced streams at once.
    Streams(streams::Streams),
    /// Streams of many small frames, one at a time.
    Stalls(stalls::Stalls),
}

impl Plan {
    /// Has a process of its own do it and report.
    pub(crate) fn execute<R: DeserializeOwned>(&self) -> Result<R> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--role", "load", "--plan", &serde_json::to_string(self)?]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("the client process failed ({}) in {self:?}", output.status);
        }
        serde_json::from_slice(&output.stdout).context("the client process reported nothing that can be read")
    }
}

/// The client process: does a plan and prints its report.
#[expect(clippy::print_stdout, reason = "the report goes to the leading process")]
pub(crate) fn run(plan: &str) -> Result<()> {
    let plan: Plan = serde_json::from_str(plan).context("the plan cannot be read")?;
    // One thread: the client shares the machine with what it measures.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        Ok::<_, anyhow::Error>(match &plan.work {
            Work::Calls(calls) => serde_json::to_string(&calls.run(&plan).await?)?,
            Work::Streams(streams) => serde_json::to_string(&streams.run(&plan).await?)?,
            Work::Stalls(stalls) => serde_json::to_string(&stalls.run(&plan).await?)?,
        })
    })?;
    println!("{report}");
    Ok(())
}
