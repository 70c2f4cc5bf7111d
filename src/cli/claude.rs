//! `duduclaw claude`: the genuine Claude Code through the gateway.
//!
//! A daemon of the home is used; without one this process brings a gateway of its own, on a free port, with a token
//! that only this run knows. The terminal, signals and the exit code are the program's own. Its gateway writes to a log
//! file, never to the terminal.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use duduclaw_actors::clock::SystemClock;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::daemon::Daemon;
use super::{Globals, logging};
use crate::app::{self, Configuration, Memory, Options, Role, Running};
use crate::config::Loaded;
use crate::config::clients::TokenHash;
use crate::config::settings::AuthMode;
use crate::config::surroundings::{Machine, Surroundings};
use crate::credentials::process_environment;
use crate::gateway::listener::Address;
use crate::process::find::{Found, Tool, find, path_for};

mod environment;

/// The token of a client of a daemon that asks for one.
const CLIENT_TOKEN: &str = "DUDUCLAW_CLIENT_TOKEN";
/// What is sent to a gateway that asks for no token: Claude Code wants to send some.
const ANY_TOKEN: &str = "duduclaw";

/// Run Claude Code through the gateway. Whatever follows is for Claude Code itself.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct ClaudeArgs {
    /// Arguments for Claude Code, passed on as they are.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Where requests go, and with which token.
struct Door {
    url: String,
    token: String,
    own: Option<Running>,
}

pub(super) async fn run(args: ClaudeArgs, globals: &Globals) -> Result<ExitCode> {
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let configured = loaded.ready.as_ref().and_then(|ready| ready.settings.claude_path.clone());
    let found = find(Tool::Claude, configured.as_deref(), &Machine)?;
    let daemon = Daemon::find(globals)?;
    let door = match daemon {
        Some(daemon) => Some(of_daemon(daemon, &loaded)?),
        None if serves_nobody(&loaded) && tells_of_itself(&args.args) => None,
        None if serves_nobody(&loaded) => bail!(NO_ACCOUNT),
        None => Some(of_our_own(globals, &loaded.home, &found).await?),
    };
    let status = through(door.as_ref(), &found, &secret_variables(&loaded), args.args).await;
    if let Some(gateway) = door.and_then(|door| door.own) {
        gateway.stop().await;
    }
    Ok(code(status?))
}

const NO_ACCOUNT: &str = "there is no account to serve with: no login and no key was found; run `claude` by itself and \
                          log in, or `duduclaw login claude --name NAME`, set CLAUDE_CODE_OAUTH_TOKEN or ANTHROPIC_API_KEY, or name accounts in config.toml";

/// Whether a gateway of this configuration would have nothing to answer with.
fn serves_nobody(loaded: &Loaded) -> bool {
    let Some(ready) = &loaded.ready else { return false };
    let passes = ready.topology.elements().iter().any(|element| element.auth == AuthMode::Passthrough);
    !passes && ready.topology.accounts().next().is_none()
}

/// Whether it is only to say what it can do, or which version it is: that asks no provider.
fn tells_of_itself(args: &[OsString]) -> bool {
    let asks = |word: &OsString| ["--help", "-h", "--version", "-v"].iter().any(|known| word == known);
    args.iter().any(asks)
}

fn of_daemon(daemon: Daemon, loaded: &Loaded) -> Result<Door> {
    let asks = loaded.ready.as_ref().is_some_and(|ready| ready.settings.server.auth.is_some());
    let token = match (Machine.text_var(CLIENT_TOKEN), asks) {
        (Some(token), _) => token.trim().to_owned(),
        (None, false) => ANY_TOKEN.to_owned(),
        (None, true) => bail!(
            "the daemon at {} asks for a client token; set {CLIENT_TOKEN} to yours (the configuration names the \
             clients under [server.auth])",
            daemon.url
        ),
    };
    Ok(Door { url: daemon.url, token, own: None })
}

/// A gateway of this run.
async fn of_our_own(globals: &Globals, home: &Path, found: &Found) -> Result<Door> {
    let log = logging::start_in_file(globals, &home.join("logs"), "claude.log");
    log.with_context(|| format!("the log file in {} cannot be written", home.join("logs").display()))?;
    tracing::info!(program = %found.path.display(), others = ?found.others, "Claude Code was found");
    let token = format!("{:032x}{:032x}", random()?, random()?);
    let configuration = Configuration::new(globals.named(), Arc::new(Machine));
    let running = app::start(Options {
        configuration: configuration.for_one_client(TokenHash::of(&token)),
        clock: Arc::new(SystemClock::default()),
        observers: Vec::new(),
        role: Role::Companion,
        memory: Memory::OfHome,
        environment: process_environment(),
    });
    let running = running.await?;
    let address = running.addresses.first().context("a gateway listens somewhere")?;
    let url = match address {
        Address::Tcp(address) => format!("http://{address}"),
        Address::Unix(path) => bail!("a gateway of its own listens on TCP, and not at {}", path.display()),
    };
    Ok(Door { url, token, own: Some(running) })
}

/// From the system: nobody may guess it.
fn random() -> Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
    Ok(u128::from_ne_bytes(bytes))
}

/// The variables that hold secrets of accounts: the program, and what it runs, has no need of them.
fn secret_variables(loaded: &Loaded) -> BTreeSet<String> {
    let entries = loaded.ready.iter().flat_map(|ready| ready.topology.entries());
    entries.filter_map(|entry| entry.source.variable().map(str::to_owned)).collect()
}

async fn through(
    door: Option<&Door>,
    found: &Found,
    secrets: &BTreeSet<String>,
    args: Vec<OsString>,
) -> Result<ExitStatus> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut command = Command::new(&found.path);
    let mut environment = environment::without_ways_to_providers(std::env::vars_os(), secrets);
    if let Some(door) = door {
        environment::lead(&mut environment, &door.url, &door.token);
    }
    command.args(args).env_clear().envs(environment);
    command.env("PATH", path_for(&found.path, &path));
    // From before it starts: a key pressed in between must not end us and leave it alone.
    let signals = Signals::catch()?;
    let child = command.spawn().with_context(|| format!("{} cannot be run", found.path.display()))?;
    signals.wait_for(child).await
}

/// Signals that would end this process while the program still runs.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn catch() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the program's end. Keys of the terminal reach it by themselves, so those are not passed on: it would
    /// see them twice, and takes two for "leave". What was sent to us alone is passed on.
    async fn wait_for(mut self, mut child: Child) -> Result<ExitStatus> {
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pass_on = |signal| pid.map(|pid| kill_process(pid, signal));
        loop {
            tokio::select! {
                status = child.wait() => return status.context("its end cannot be waited for"),
                _ = self.interrupt.recv() => {}
                _ = self.quit.recv() => {}
                _ = self.terminate.recv() => drop(pass_on(Signal::TERM)),
                _ = self.hangup.recv() => drop(pass_on(Signal::HUP)),
            }
        }
    }
}

/// As a shell tells it: the program's own code, or 128 and the signal that ended it.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}
