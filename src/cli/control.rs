//! Asking a running daemon to do or tell something: over its control socket, else at its address with the home's key.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Ended, Exit, Globals};
use crate::app::{DaemonRecord, Home};
use crate::config::locate::home;
use crate::config::surroundings::{Machine, Surroundings};

/// How long an answer may take; a check of a credential waits for the provider.
const WITHIN: Duration = Duration::from_secs(60);
/// Where the machine's own service takes commands, whoever runs it.
const OF_THE_MACHINE: &str = "/run/duduclaw/control.sock";

/// The way to a daemon.
pub(super) struct Control {
    client: reqwest::Client,
    base: String,
    key: Option<SecretString>,
    /// Where that is, for people.
    pub(super) shown: String,
}

/// What the daemon refused.
#[derive(Debug, Deserialize)]
struct Refusal {
    message: String,
    #[serde(default)]
    data: RefusalData,
}

#[derive(Debug, Default, Deserialize)]
struct RefusalData {
    #[serde(default)]
    hint: Option<String>,
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Refusal>,
}

impl Control {
    /// The daemon of the home that the command line names, or else of the machine.
    ///
    /// # Errors
    /// When there is none, with the exit code that says so.
    pub(super) fn find(globals: &Globals) -> Result<Self> {
        Self::look(globals)?.ok_or_else(|| unreachable("no daemon runs for this home; start one with `duduclaw serve`"))
    }

    /// The same, without one as no error.
    pub(super) fn look(globals: &Globals) -> Result<Option<Self>> {
        // Only the place: the configuration itself is the daemon's, and what it looks at may take its time.
        let home = Home::at(&home(&globals.named(), &Machine).unwrap_or_default());
        if let Some(record) = home.daemon() {
            return of_home(&home, &record).map(Some);
        }
        let home_is_named = globals.home.is_some() || Machine.text_var("DUDUCLAW_HOME").is_some();
        let machine = Path::new(OF_THE_MACHINE);
        if home_is_named || !answers(machine) {
            return Ok(None);
        }
        over_socket(machine).map(Some)
    }

    /// Whether it is the service of the machine, which runs as another user and has a home of its own.
    pub(super) fn is_the_machines(&self) -> bool {
        self.shown == OF_THE_MACHINE
    }

    /// Has a verb done.
    ///
    /// # Errors
    /// When the daemon does not answer, or refuses.
    pub(super) async fn call<T: DeserializeOwned>(&self, verb: &str, params: Value) -> Result<T> {
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": verb, "params": params});
        let mut request = self.client.post(format!("{}/rpc", self.base)).timeout(WITHIN).json(&asked);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let answer = request.send().await.map_err(|error| self.silent(&error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| self.silent(&error))?;
        match serde_json::from_slice::<Reply>(&body) {
            Ok(Reply { error: Some(refusal), .. }) => Err(refused(refusal)),
            Ok(Reply { result: Some(result), .. }) => Ok(serde_json::from_value(result)?),
            Ok(Reply { .. }) | Err(_) => {
                let text = String::from_utf8_lossy(&body).trim().to_owned();
                Err(Ended::error(Exit::Failed, format!("the daemon at {} answered {status}: {text}", self.shown)))
            }
        }
    }

    /// Opens a stream that has no end.
    ///
    /// # Errors
    /// When the daemon does not answer, or refuses.
    pub(super) async fn stream(&self, path: &str, query: &Map<String, Value>) -> Result<reqwest::Response> {
        let mut request = self.client.get(format!("{}{path}", self.base)).query(query);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let answer = request.send().await.map_err(|error| self.silent(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().await.unwrap_or_default();
        Err(Ended::error(Exit::Failed, format!("the daemon at {} answered {status}: {text}", self.shown)))
    }

    fn silent(&self, error: &reqwest::Error) -> anyhow::Error {
        let why = if error.is_timeout() { format!(" within {WITHIN:?}") } else { String::new() };
        unreachable(&format!("the daemon at {} does not answer{why}", self.shown))
    }
}

fn refused(Refusal { message, data }: Refusal) -> anyhow::Error {
    Ended::error(Exit::Failed, data.hint.map_or(message.clone(), |hint| format!("{message}; {hint}")))
}

fn unreachable(text: &str) -> anyhow::Error {
    Ended::error(Exit::Unreachable, text.to_owned())
}

/// The sockets first: whoever may use one needs no key.
fn of_home(home: &Home, record: &DaemonRecord) -> Result<Control> {
    let all = record.control.iter().chain(&record.addresses);
    let sockets = all.clone().filter_map(|address| address.strip_prefix("unix:")).map(PathBuf::from);
    if let Some(path) = sockets.into_iter().find(|path| path.ends_with("control.sock") && answers(path)) {
        return over_socket(&path);
    }
    let Some(url) = all.into_iter().find(|address| address.starts_with("http://")) else {
        return Err(unreachable("a daemon runs for this home, and nothing of it can be reached from here"));
    };
    let client = reqwest::Client::builder().no_proxy().build()?;
    Ok(Control { client, base: url.clone(), key: Some(home.read_token()?), shown: url.clone() })
}

fn over_socket(path: &Path) -> Result<Control> {
    let client = reqwest::Client::builder().no_proxy().unix_socket(path).build()?;
    let shown = path.display().to_string();
    Ok(Control { client, base: "http://localhost".to_owned(), key: None, shown })
}

fn answers(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}
