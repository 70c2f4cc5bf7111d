//! `duduclaw serve`: the daemon in the foreground.

use std::sync::Arc;

use clap::Args;
use duduclaw_actors::clock::SystemClock;
use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, Globals, logging, runtime};
use crate::app::{self, Configuration, Options, Role};
use crate::config::surroundings::Machine;
use crate::credentials::process_environment;

/// Run the daemon in the foreground.
#[derive(Debug, Args)]
pub struct ServeArgs {}

pub(super) fn run(_: ServeArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let mut configuration = Configuration::new(globals.named(), Arc::new(Machine));
    let loaded = configuration.load();
    logging::start(globals, loaded.ready.as_ref().map(|ready| &ready.settings.log));
    // What keeps it from starting is said at the end, and once.
    let warnings = loaded.report.problems.iter().filter(|_| loaded.report.may_start());
    warnings.for_each(|problem| tracing::warn!("{problem}"));
    let options = Options {
        configuration,
        clock: Arc::new(SystemClock::default()),
        observers: Vec::new(),
        role: Role::Daemon,
        environment: process_environment(),
    };
    runtime()?.block_on(serve(options))
}

async fn serve(options: Options) -> anyhow::Result<Exit> {
    let mut running = app::start(options).await?;
    for address in &running.addresses {
        eprintln!("duduclaw listens on {address}");
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => running.reload().await,
            () = running.failed() => anyhow::bail!("the fleet died beyond mending; see the log"),
        }
    }
    eprintln!("duduclaw is stopping; answers in flight are finished first");
    let gateway = Arc::clone(&running.gateway);
    let stopping = running.stop();
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            () = &mut stopping => return Ok(Exit::Done),
            _ = terminate.recv() => gateway.stop.cancel(),
            _ = interrupt.recv() => gateway.stop.cancel(),
        }
    }
}
