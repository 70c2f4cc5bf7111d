//! The files with which this machine's service manager would run this program, as it and the configuration are now.
//!
//! Never here: printing or installing them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use duduclaw_service::{Delays, File, Listen, Plan, Scope, launchd, systemd};

use crate::config::bind::Bind;
use crate::config::locate::{self, Named, Source};
use crate::config::surroundings::{Machine, Surroundings};
use crate::config::{Loaded, Ready};

/// Programs whose folders a service must find: agents' CLIs, and what runs them.
const PROGRAMS: [&str; 4] = ["claude", "codex", "gemini", "node"];
/// Where every system keeps its own.
const USUAL_FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// The first systemd whose restart delays can grow.
const GROWING_SINCE: u32 = 254;

/// What the files depend on.
///
/// # Errors
/// When it cannot be told where this program or the user's home directory is.
pub fn plan(scope: Scope, named: &Named, loaded: &Loaded, ready: &Ready) -> Result<Plan> {
    let home = std::path::absolute(&loaded.home)?;
    Ok(Plan {
        scope,
        program: program()?,
        config: named_config(named, &home)?,
        home,
        user_home: Machine.user_home().context("your home directory is not known; set HOME")?,
        path: path(),
        listen: listen(&ready.settings.server.binds),
        shutdown_timeout: ready.settings.server.shutdown_timeout,
        delays: delays(),
    })
}

/// The files.
///
/// # Errors
/// When a path cannot be written in such a file.
pub fn files(plan: &Plan) -> Result<Vec<File>> {
    Ok(if cfg!(target_os = "macos") { vec![launchd(plan)?] } else { systemd(plan)? })
}

/// The user's name, or the number, which a unit takes as well.
#[must_use]
pub fn user() -> String {
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

fn named_config(named: &Named, home: &Path) -> Result<Option<PathBuf>> {
    match locate::source(named, home, &Machine) {
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
}
