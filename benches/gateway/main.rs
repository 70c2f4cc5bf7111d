//! What the gateway costs, beside a minimal proxy measured in the same run. See `benches/README.md`.
//!
//! One program in several roles: without `--role` it leads the run, and starts itself again as the provider, as the
//! bare proxy and as the client, so that each is a process of its own whose CPU and memory can be read. No decision of
//! the gateway is repeated here: what is measured is the built `duduclaw`.

mod args;
mod clock;
mod lease;
mod load;
mod net;
mod process;
mod proxy;
mod report;
mod rounds;
mod run;
mod script;
mod spread;
mod subject;
mod upstream;
mod usage;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::args::{Args, Role};

#[expect(clippy::print_stderr, reason = "the benchmark is a program for a terminal")]
fn main() -> ExitCode {
    match dispatch(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("benchmark failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the benchmark is a program for a terminal")]
fn dispatch(args: &Args) -> Result<ExitCode> {
    match args.role {
        Some(Role::Upstream) => upstream::serve(args.listen()?).map(|()| ExitCode::SUCCESS),
        Some(Role::Proxy) => proxy::serve(args.listen()?, args.upstream()?).map(|()| ExitCode::SUCCESS),
        Some(Role::Load) => load::run(args.plan()?).map(|()| ExitCode::SUCCESS),
        None if args.bench => run::run(args),
        None => {
            eprintln!("nothing measured: run this with `cargo bench` (or pass --bench)");
            Ok(ExitCode::SUCCESS)
        }
    }
}
