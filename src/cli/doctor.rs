//! `duduclaw doctor`: is all as it should be, and what is to be done where it is not?

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use duduclaw_actors::clock::SystemClock;
use serde_json::json;
use tokio::time::timeout;

use super::control::Control;
use super::{Exit, Globals, say};
use crate::app::{Configuration, sealer};
use crate::config::Loaded;
use crate::config::surroundings::Machine;
use crate::credentials::{Environment, KeyPlaces, Keychain, Sealer, Sealing, process_environment};
use crate::doctor::{Daemon, Doctor, Mark, Network, remembered};
use crate::upstream::client::Client;

/// How long a connection to a provider may take.
const CONNECT: Duration = Duration::from_secs(9);
/// How long the daemon may take to say how it is.
const NEAR: Duration = Duration::from_secs(5);

/// Look whether all is as it should be; change nothing.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Ask no provider.
    #[arg(long)]
    offline: bool,
}

pub(super) async fn run(args: DoctorArgs, globals: &Globals) -> Result<Exit> {
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let environment = process_environment();
    let doctor = Doctor {
        sealer: key_of(&loaded, &environment),
        daemon: daemon(globals).await,
        remembered: remembered(&loaded.home),
        loaded,
        named: globals.named(),
        machine: Arc::new(Machine),
        environment,
        client: Client::new(CONNECT)?,
        clock: Arc::new(SystemClock::default()),
        network: if args.offline { Network::LeftAlone } else { Network::Asked },
    };
    let report = doctor.examine().await;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&report.view())?))?;
    } else {
        say(&report.render())?;
    }
    Ok(match report.verdict() {
        Mark::Pass => Exit::Done,
        Mark::Warn => Exit::Degraded,
        Mark::Fail => Exit::Failed,
    })
}

/// The key is where the configuration says; with one that makes no sense, where it usually is.
fn key_of(loaded: &Loaded, environment: &Environment) -> Sealer {
    match &loaded.ready {
        Some(ready) => sealer(&ready.settings, &loaded.home, environment),
        None => {
            let keychain = Keychain::of_this_machine().cloned();
            Sealer::new(Sealing::On, KeyPlaces { keychain, ..KeyPlaces::in_home(loaded.home.clone()) })
        }
    }
}

async fn daemon(globals: &Globals) -> Daemon {
    let asked = async {
        let Some(control) = Control::look(globals)? else { return Ok(Daemon::None) };
        let health = Box::new(control.call("health", json!({})).await?);
        let pool = Box::new(control.call("pool", json!({})).await?);
        Ok::<_, anyhow::Error>(Daemon::Runs { health, pool })
    };
    match timeout(NEAR, asked).await {
        Ok(Ok(daemon)) => daemon,
        Ok(Err(error)) => Daemon::Silent(error.to_string()),
        Err(_) => Daemon::Silent(format!("not within {} s", NEAR.as_secs())),
    }
}
