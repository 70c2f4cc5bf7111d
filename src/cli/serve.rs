//! `duduclaw serve`: the daemon in the foreground.

use std::sync::Arc;

use clap::Args;
use duduclaw_actors::clock::SystemClock;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Exit, Globals, hint, logging, notify, runtime};
use crate::app::{self, Configuration, Memory, Options, Role, Running};
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
        memory: Memory::OfHome,
        environment: process_environment(),
    };
    runtime()?.block_on(serve(options))
}

async fn serve(options: Options) -> anyhow::Result<Exit> {
    // Before anybody can know that it listens: a signal that nobody catches is the end.
    let mut signals = Signals::catch()?;
    let mut running = app::start(options).await?;
    for address in &running.addresses {
        hint(&format!("duduclaw listens on {address}"));
    }
    notify::ready();
    let fleet = running.gateway.fleet.clone();
    tokio::select! {
        told = until_told_to_stop(&mut running, &mut signals) => told?,
        never = notify::alive(fleet) => match never {},
    }
    notify::stopping();
    hint("duduclaw is stopping; answers in flight are finished first");
    let gateway = Arc::clone(&running.gateway);
    let stopping = running.stop();
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            () = &mut stopping => return Ok(Exit::Done),
            _ = signals.terminate.recv() => gateway.stop.cancel(),
            _ = signals.interrupt.recv() => gateway.stop.cancel(),
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

async fn until_told_to_stop(running: &mut Running, signals: &mut Signals) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return Ok(()),
            _ = signals.interrupt.recv() => return Ok(()),
            _ = signals.hangup.recv() => running.reload().await,
            () = running.failed() => anyhow::bail!("the fleet died beyond mending; see the log"),
        }
    }
}
