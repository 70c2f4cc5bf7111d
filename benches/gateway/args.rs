//! The command line of the benchmark and of its roles.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

/// What the gateway costs, beside a minimal proxy.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// At most a minute: 200 streams, short rounds.
    #[arg(long)]
    pub(crate) quick: bool,

    /// How many event streams are open at once (default 1000; with --quick 200).
    #[arg(long)]
    pub(crate) streams: Option<usize>,

    /// The leases alone, without any process beside this one.
    #[arg(long)]
    pub(crate) leases: bool,

    /// How many rounds (default 7; with --quick 5).
    #[arg(long)]
    pub(crate) rounds: Option<usize>,

    /// Another program in the gateway's place; {port}, {upstream} and {home} are filled in.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) gateway_cmd: Option<String>,

    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,

    #[arg(long, hide = true)]
    pub(crate) role: Option<Role>,

    #[arg(long, hide = true)]
    listen: Option<SocketAddr>,

    #[arg(long, hide = true)]
    upstream: Option<SocketAddr>,

    #[arg(long, hide = true)]
    plan: Option<String>,
}

/// What this process is in the run.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Role {
    /// The simulated provider.
    Upstream,
    /// The minimal proxy.
    Proxy,
    /// The client.
    Load,
}

impl Args {
    pub(crate) fn listen(&self) -> Result<SocketAddr> {
        self.listen.context("this role needs --listen")
    }

    pub(crate) fn upstream(&self) -> Result<SocketAddr> {
        self.upstream.context("this role needs --upstream")
    }

    pub(crate) fn plan(&self) -> Result<&str> {
        self.plan.as_deref().context("this role needs --plan")
    }
}
