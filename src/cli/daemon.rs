//! Finding the gateway of a home's daemon, for clients. Asking the daemon itself is `control`'s.

use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::Globals;
use crate::app::{Configuration, Home};
use crate::config::bind::Bind;
use crate::config::surroundings::Machine;

/// A daemon that runs.
pub(super) struct Daemon {
    pub(super) url: String,
}

impl Daemon {
    /// The daemon of the home that the command line names, if one runs there.
    pub(super) fn find(globals: &Globals) -> Result<Option<Self>> {
        let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
        let Some(record) = Home::at(&loaded.home).daemon() else { return Ok(None) };
        let url = record.addresses.iter().find(|address| address.starts_with("http://"));
        Ok(url.map(|url| Self { url: url.clone() }))
    }
}

/// Where a daemon of this configuration listens, or would.
pub(super) fn address(globals: &Globals) -> Result<String> {
    if let Some(daemon) = Daemon::find(globals)? {
        return Ok(daemon.url);
    }
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let Some(ready) = loaded.ready else {
        bail!("the configuration has errors; `duduclaw check` shows them");
    };
    let found = ready.settings.server.binds.iter().find_map(|bind| match bind {
        Bind::Tcp(address) if address.ip().is_unspecified() => Some(format!("http://127.0.0.1:{}", address.port())),
        Bind::Tcp(address) => Some(format!("http://{address}")),
        Bind::Localhost(port) => Some(format!("http://127.0.0.1:{port}")),
        Bind::Unix(_) => None,
    });
    found.context("the gateway listens on a Unix socket only; add a TCP address to [server] bind")
}
