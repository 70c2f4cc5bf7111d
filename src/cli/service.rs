//! `duduclaw service`: running under a service manager.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use duduclaw_service::{Delays, File, Listen, Plan, Scope, launchd, systemd};

use super::{Exit, Globals, say};
use crate::app::Configuration;
use crate::config::bind::Bind;
use crate::config::locate::{self, Source};
use crate::config::surroundings::{Machine, Surroundings};
use crate::config::topology::Topology;
use crate::credentials::SecretSource;

/// Programs whose folders a service must find: agents' CLIs, and what runs them.
const PROGRAMS: [&str; 4] = ["claude", "codex", "gemini", "node"];
/// Where every system keeps its own.
const USUAL_FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// The first systemd whose restart delays can grow.
const GROWING_SINCE: u32 = 254;

/// Run under a service manager.
#[derive(Debug, Args)]
pub struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Print the files that make it a service, each under a line with its place; change nothing.
    #[command(after_help = "Example:\n  duduclaw service print --user")]
    Print(PrintArgs),
}

#[derive(Debug, Args)]
struct PrintArgs {
    /// For your own service manager (the default).
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// For the machine's service manager; it runs as the user who prints.
    #[arg(long)]
    system: bool,
}

pub(super) fn run(args: &ServiceArgs, globals: &Globals) -> Result<Exit> {
    match &args.command {
        ServiceCommand::Print(args) => print(args, globals),
    }
}

fn print(args: &PrintArgs, globals: &Globals) -> Result<Exit> {
    let scope = if args.system { Scope::System { user: user() } } else { Scope::User };
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let Some(ready) = loaded.ready else {
        bail!("the configuration has errors; `duduclaw check` shows them");
    };
    let home = std::path::absolute(&loaded.home)?;
    let plan = Plan {
        scope,
        program: program()?,
        config: named_config(globals, &home)?,
        home,
        user_home: Machine.user_home().context("your home directory is not known; set HOME")?,
        path: path(),
        listen: listen(&ready.settings.server.binds),
        shutdown_timeout: ready.settings.server.shutdown_timeout,
        delays: delays(),
    };
    for file in files(&plan)? {
        say(&format!("# ---- {}\n{}", file.path.display(), file.text))?;
    }
    if args.system && !cfg!(target_os = "macos") {
        warn_of_the_sandbox(&plan.home, &ready.topology);
    }
    Ok(Exit::Done)
}

fn files(plan: &Plan) -> Result<Vec<File>> {
    Ok(if cfg!(target_os = "macos") { vec![launchd(plan)?] } else { systemd(plan)? })
}

/// The user's name, or the number, which a unit takes as well.
fn user() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| Machine.text_var(name));
    name.unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string())
}

/// As it was called, not where that leads: a link stays right when an update moves what is behind it.
fn program() -> Result<PathBuf> {
    let running = std::env::current_exe().context("it cannot be told where this program is")?;
    let called = std::env::args_os().next().and_then(|name| which::which(name).ok());
    let called = called.filter(|path| path.canonicalize().ok() == running.canonicalize().ok());
    Ok(std::path::absolute(called.unwrap_or(running))?)
}

fn named_config(globals: &Globals, home: &Path) -> Result<Option<PathBuf>> {
    match locate::source(&globals.named(), home, &Machine) {
        Source::File(path) if path != home.join("config.toml") => Ok(Some(std::path::absolute(path)?)),
        Source::File(_) | Source::BuiltIn => Ok(None),
    }
}

/// The folders of the programs that are found now, then the usual ones.
fn path() -> String {
    let found = PROGRAMS.iter().filter_map(|name| which::which(name).ok());
    let found = found.filter_map(|program| program.parent().and_then(Path::to_str).map(str::to_owned));
    let mut folders: Vec<String> = Vec::new();
    for folder in found.chain(USUAL_FOLDERS.map(str::to_owned)) {
        if folder.starts_with('/') && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders.join(":")
}

/// Sockets that are handed over take the place of all that are configured, so it is all of them or none; a port that the
/// system chooses cannot be handed over.
fn listen(binds: &[Bind]) -> Vec<Listen> {
    let all: Option<Vec<_>> = binds.iter().map(sockets).collect();
    all.unwrap_or_default().concat()
}

fn sockets(bind: &Bind) -> Option<Vec<Listen>> {
    match bind {
        Bind::Tcp(address) if address.port() == 0 => None,
        Bind::Localhost(0) => None,
        Bind::Tcp(address) => Some(vec![Listen::Tcp(*address)]),
        Bind::Unix(path) => Some(vec![Listen::Unix(path.clone())]),
        Bind::Localhost(port) => {
            let mut both = vec![Listen::Tcp((std::net::Ipv4Addr::LOCALHOST, *port).into())];
            let six = std::net::Ipv6Addr::LOCALHOST;
            if std::net::TcpListener::bind((six, 0)).is_ok() {
                both.push(Listen::Tcp((six, *port).into()));
            }
            Some(both)
        }
    }
}

/// What this machine's systemd can do; where there is none, what every systemd can.
fn delays() -> Delays {
    let said = Command::new("systemctl").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    match version(&String::from_utf8_lossy(&said)) {
        Some(version) if version >= GROWING_SINCE => Delays::Growing,
        Some(_) | None => Delays::Even,
    }
}

/// `systemd 254 (254.1-2)`, or without the distribution's number `systemd 255~rc1`.
fn version(said: &str) -> Option<u32> {
    let number = said.strip_prefix("systemd ")?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What would work at a terminal and does not in a unit that writes nothing but its home.
fn warn_of_the_sandbox(home: &Path, topology: &Topology) {
    if !home.is_dir() {
        eprintln!("duduclaw: {0} is not there yet; the service needs it: mkdir -m 700 '{0}'", home.display());
    }
    for path in topology.entries().iter().filter_map(|entry| foreign_login(&entry.source, home)) {
        eprintln!(
            "duduclaw: {} lies outside {}, where the service cannot write down a renewed login; use --user",
            path.display(),
            home.display()
        );
    }
}

fn foreign_login<'a>(source: &'a SecretSource, home: &Path) -> Option<&'a Path> {
    match source {
        SecretSource::CredentialsFile(path) | SecretSource::StoreFile(path) => {
            Some(path.as_path()).filter(|path| !path.starts_with(home))
        }
        SecretSource::TokenEnv(_) | SecretSource::ApiKeyEnv(_) | SecretSource::Keychain { .. } | SecretSource::None => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_systemd_is_read_as_every_distribution_writes_it() {
        for (said, expected) in [
            ("systemd 252 (252.38-1~deb12u1)\n+PAM", Some(252)),
            ("systemd 255~rc1\n", Some(255)),
            ("systemd 257", Some(257)),
            ("openrc 0.5", None),
            ("", None),
        ] {
            assert_eq!(version(said), expected, "{said}");
        }
    }

    #[test]
    fn sockets_are_handed_over_all_or_none() {
        let fixed = Bind::Tcp("127.0.0.1:8787".parse().expect("an address"));
        let chosen = Bind::Tcp("127.0.0.1:0".parse().expect("an address"));
        let path = Bind::Unix("/run/g.sock".into());
        let expected = [Listen::Tcp("127.0.0.1:8787".parse().expect("an address")), Listen::Unix("/run/g.sock".into())];
        assert_eq!(listen(&[fixed.clone(), path]), expected);
        assert_eq!(listen(&[fixed, chosen]), []);
        assert_eq!(listen(&[Bind::Localhost(0)]), []);
        assert_eq!(listen(&[Bind::Localhost(8787)])[0], expected[0]);
    }

    #[test]
    fn only_logins_outside_the_home_cannot_be_renewed_there() {
        let home = Path::new("/h");
        let file = |path: &str| SecretSource::CredentialsFile(path.into());
        assert_eq!(
            foreign_login(&file("/u/.claude/.credentials.json"), home),
            Some("/u/.claude/.credentials.json".as_ref())
        );
        assert_eq!(foreign_login(&file("/h/accounts/a.json"), home), None);
        assert_eq!(foreign_login(&SecretSource::TokenEnv("X".to_owned()), home), None);
    }
}
