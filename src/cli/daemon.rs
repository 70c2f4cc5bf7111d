//! Finding the daemon of a home, and asking its control API.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;

use super::Globals;
use crate::app::{Configuration, Home};
use crate::config::bind::Bind;
use crate::config::surroundings::Machine;

/// How long an answer may take.
const WITHIN: Duration = Duration::from_secs(10);

/// A daemon that runs.
pub(super) struct Daemon {
    pub(super) url: String,
    home: Home,
}

impl Daemon {
    /// The daemon of the home that the command line names, if one runs there.
    pub(super) fn find(globals: &Globals) -> Result<Option<Self>> {
        let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
        let home = Home::at(&loaded.home);
        let Some(record) = home.daemon() else { return Ok(None) };
        let url = record.addresses.iter().find(|address| address.starts_with("http://"));
        Ok(url.map(|url| Self { url: url.clone(), home: home.clone() }))
    }

    /// Asks the control API.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let key = self.home.read_token()?;
        let client = reqwest::Client::builder().no_proxy().timeout(WITHIN).build()?;
        let answer = client.get(format!("{}{path}", self.url)).bearer_auth(key.expose_secret()).send().await;
        let answer = answer.with_context(|| format!("the daemon at {} does not answer", self.url))?;
        if !answer.status().is_success() {
            bail!(
                "the daemon at {} answered {}: {}",
                self.url,
                answer.status(),
                answer.text().await.unwrap_or_default()
            );
        }
        Ok(answer.json().await?)
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
