//! What is measured side by side, and the order: direct, proxy, gateway, and again, so that what else the machine does
//! falls on all three alike.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::load::calls::{Called, Calls};
use crate::load::stalls::{Stalled, Stalls};
use crate::load::streams::{Streamed, Streams};
use crate::load::{Plan, Work};
use crate::process::Process;
use crate::{subject, usage};

/// One thing for each way to the provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ways<T> {
    /// Straight to the provider.
    pub(crate) direct: T,
    /// Through the minimal proxy.
    pub(crate) proxy: T,
    /// Through the gateway.
    pub(crate) gateway: T,
}

impl<T> Ways<T> {
    /// Each with its name.
    pub(crate) fn named(&self) -> [(&'static str, &T); 3] {
        [("direct", &self.direct), ("bare proxy", &self.proxy), ("gateway", &self.gateway)]
    }
}

/// A process that has just started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    /// From its start to its first answer.
    pub(crate) ready_ms: f64,
    /// Its memory after that, in KiB.
    pub(crate) idle_kib: u64,
}

/// The provider, and what it takes to start the others in front of it.
pub(crate) struct Rig {
    upstream: Process,
    other: Option<String>,
    home: PathBuf,
}

impl Rig {
    /// Starts the provider.
    pub(crate) fn start(other: Option<&str>, home: &Path) -> Result<Self> {
        let upstream = Process::role("upstream", None, home).context("the simulated provider does not serve")?;
        Ok(Self { upstream, other: other.map(str::to_owned), home: home.to_owned() })
    }

    /// Rounds of requests without a stream.
    pub(crate) fn calls(&self, rounds: usize, calls: Calls) -> Result<Ways<Vec<Called>>> {
        let (proxy, gateway) = (self.proxy()?, self.gateway()?);
        let mut all = Ways::default();
        for _ in 0..rounds {
            let work = || Work::Calls(calls);
            self.once(&proxy, &gateway, work, &mut all)?;
        }
        Ok(all)
    }

    /// A round of streams of many small frames.
    pub(crate) fn stalls(&self, stalls: Stalls) -> Result<Ways<Vec<Stalled>>> {
        let (proxy, gateway) = (self.proxy()?, self.gateway()?);
        let mut all = Ways::default();
        self.once(&proxy, &gateway, || Work::Stalls(stalls), &mut all)?;
        Ok(all)
    }

    /// A round of many streams, the proxy and the gateway each just started.
    pub(crate) fn streams(&self, streams: Streams) -> Result<Ways<(Fresh, Streamed)>> {
        let direct = self.streamed(&self.upstream, streams)?;
        let proxy = self.streamed(&self.proxy()?, streams)?;
        let gateway = self.streamed(&self.gateway()?, streams)?;
        Ok(Ways { direct, proxy, gateway })
    }

    fn once<R: serde::de::DeserializeOwned>(
        &self,
        proxy: &Process,
        gateway: &Process,
        work: impl Fn() -> Work,
        all: &mut Ways<Vec<R>>,
    ) -> Result<()> {
        all.direct.push(execute(&self.upstream, work())?);
        all.proxy.push(execute(proxy, work())?);
        all.gateway.push(execute(gateway, work())?);
        Ok(())
    }

    fn streamed(&self, process: &Process, streams: Streams) -> Result<(Fresh, Streamed)> {
        std::thread::sleep(Duration::from_millis(100));
        let fresh = Fresh { ready_ms: process.ready_ms, idle_kib: usage::resident_kib(process.pid())? };
        let streams = Streams { resident_before: fresh.idle_kib, ..streams };
        Ok((fresh, execute(process, Work::Streams(streams))?))
    }

    fn proxy(&self) -> Result<Process> {
        Process::role("proxy", Some(self.address()), &self.home).context("the bare proxy does not serve")
    }

    fn gateway(&self) -> Result<Process> {
        let home = tempfile::tempdir_in(&self.home)?;
        subject::start(self.other.as_deref(), self.address(), &home.keep())
    }

    fn address(&self) -> SocketAddr {
        self.upstream.address
    }
}

fn execute<R: serde::de::DeserializeOwned>(process: &Process, work: Work) -> Result<R> {
    Plan { target: process.address, pid: process.pid(), work }.execute()
}
