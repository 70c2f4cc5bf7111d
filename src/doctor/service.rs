//! Does a daemon run, is it this program, can its clients reach it, and would a service manager start the same one?

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use duduclaw_service::{File, Scope};
use http::Method;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use super::finding::{Finding, Group};
use super::{Daemon, Doctor};
use crate::admin::HealthView;
use crate::app::unit;
use crate::config::bind::Bind;
use crate::config::locate::Source;
use crate::process::brief;
use crate::upstream::question::ask;

/// How long our own daemon may take.
const NEAR: Duration = Duration::from_secs(5);

pub(super) async fn look(doctor: &Doctor) -> Vec<Finding> {
    let mut findings = daemon(doctor).await;
    findings.extend(installed(doctor).await);
    findings
}

async fn daemon(doctor: &Doctor) -> Vec<Finding> {
    const WHAT: &str = "daemon";
    match &doctor.daemon {
        Daemon::None => {
            let mut findings = vec![Finding::warn(Group::Service, WHAT, "none runs").advised("duduclaw serve")];
            findings.extend(taken(doctor).await);
            findings
        }
        Daemon::Silent(why) => {
            let advice = "see its log; end it and start it again if it stays so";
            vec![Finding::fail(Group::Service, WHAT, format!("runs, and does not answer: {why}")).advised(advice)]
        }
        Daemon::Runs { health, .. } => {
            let mut findings = vec![running(health)];
            findings.extend(of_another_file(doctor, health));
            for address in health.addresses.iter().filter(|address| address.starts_with("http://")) {
                findings.push(reached(doctor, address).await);
            }
            findings
        }
    }
}

fn running(health: &HealthView) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    let said = format!("runs (process {}, version {})", health.pid, health.version);
    if health.version == ours {
        return Finding::pass(Group::Service, "daemon", said);
    }
    let finding = format!("{said}, and this program is version {ours}");
    Finding::warn(Group::Service, "daemon", finding).advised("start the daemon again")
}

/// What is looked at here is not what the daemon uses.
fn of_another_file(doctor: &Doctor, health: &HealthView) -> Option<Finding> {
    let ours = match &doctor.loaded.report.source {
        Source::File(path) => std::path::absolute(path).ok().map(|path| path.display().to_string()),
        Source::BuiltIn => None,
    };
    let theirs = health.config.as_ref().and_then(|path| std::path::absolute(path).ok());
    let theirs = theirs.map(|path| path.display().to_string());
    (ours != theirs).then(|| {
        let uses = theirs.clone().unwrap_or_else(|| "no config file".to_owned());
        let finding =
            Finding::warn(Group::Service, "daemon", format!("uses {uses}, which is not what was looked at here"));
        match theirs {
            Some(file) => finding.advised(format!("duduclaw{} --config {file} doctor", home(doctor))),
            None => finding.advised("leave --config and DUDUCLAW_CONFIG out"),
        }
    })
}

/// The home that the command line named, as it names it.
fn home(doctor: &Doctor) -> String {
    doctor.named.home.as_ref().map(|home| format!(" --home {}", home.display())).unwrap_or_default()
}

/// The address that clients are given answers.
async fn reached(doctor: &Doctor, address: &str) -> Finding {
    let url = format!("{address}/healthz").parse().ok();
    let request = url.map(|url| reqwest::Request::new(Method::GET, url));
    let answered = match request {
        Some(request) => ask(&doctor.client, request, NEAR).await.is_ok_and(|reply| reply.status.is_success()),
        None => false,
    };
    if answered {
        Finding::pass(Group::Service, address, "answers")
    } else {
        let advice = "see whether a firewall or another program has the port";
        Finding::fail(Group::Service, address, "does not answer as the daemon should").advised(advice)
    }
}

/// Ports that somebody else has.
async fn taken(doctor: &Doctor) -> Vec<Finding> {
    let mut findings = Vec::new();
    let binds = doctor.ready().map(|ready| ready.settings.server.binds.clone()).unwrap_or_default();
    for address in binds.iter().filter_map(near) {
        if matches!(timeout(NEAR, TcpStream::connect(address)).await, Ok(Ok(_))) {
            let finding = Finding::fail(Group::Service, address.to_string(), "another program has this port");
            findings.push(finding.advised("if it is a duduclaw of another home, name that home with --home; else end it, or name another port under [server] bind"));
        }
    }
    findings
}

fn near(bind: &Bind) -> Option<SocketAddr> {
    match bind {
        Bind::Tcp(address) if address.port() != 0 => Some(*address),
        Bind::Localhost(port) if *port != 0 => Some((std::net::Ipv4Addr::LOCALHOST, *port).into()),
        Bind::Tcp(_) | Bind::Localhost(_) | Bind::Unix(_) => None,
    }
}

/// Whether service managers have what they would be given now.
async fn installed(doctor: &Doctor) -> Vec<Finding> {
    const WHAT: &str = "service manager";
    let Some(ready) = doctor.ready() else { return Vec::new() };
    let mut findings = Vec::new();
    for scope in [Scope::User, Scope::System { user: unit::user() }] {
        let is_user = scope == Scope::User;
        let files = unit::plan(scope, &doctor.named, &doctor.loaded, ready).and_then(|plan| unit::files(&plan));
        let Ok(files) = files else { continue };
        let Some(first) = files.first().filter(|file| file.path.exists()) else { continue };
        findings.extend(files.iter().filter_map(|file| differs(file, is_user)));
        if findings.is_empty() {
            findings.push(Finding::pass(Group::Service, first.path.display().to_string(), "as it would be made now"));
        }
        if is_user && cfg!(target_os = "linux") {
            findings.extend(linger().await);
        }
    }
    if findings.is_empty() {
        findings.push(Finding::pass(
            Group::Service,
            WHAT,
            "does not start it; `duduclaw service print` shows how it could",
        ));
    }
    findings
}

/// A file that is not there, or would be another one now: the program moved, PATH changed, a port.
fn differs(file: &File, is_user: bool) -> Option<Finding> {
    let what = file.path.display().to_string();
    let again = if is_user { "duduclaw service print --user" } else { "duduclaw service print --system" };
    let advice = format!("write it again as `{again}` prints it");
    match fs::read_to_string(&file.path) {
        Ok(text) if text == file.text => None,
        Ok(text) => {
            let line = file.text.lines().find(|line| !text.lines().any(|other| other == *line));
            let line = line.unwrap_or("fewer lines").trim().to_owned();
            Some(Finding::warn(Group::Service, what, format!("would be another one now: {line}")).advised(advice))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(Finding::warn(Group::Service, what, "is not there, and belongs to the service").advised(advice))
        }
        Err(error) => Some(Finding::warn(Group::Service, what, format!("cannot be read: {error}")).advised(advice)),
    }
}

/// Without lingering a user's services end with the user's last session.
async fn linger() -> Option<Finding> {
    if !Path::new("/run/systemd/system").exists() {
        return None;
    }
    let user = unit::user();
    let mut command = Command::new("loginctl");
    command.args(["show-user", &user, "--property=Linger", "--value"]);
    let output = brief::output(command, NEAR).await.ok()?;
    (String::from_utf8_lossy(&output.stdout).trim() == "no").then(|| {
        let finding = Finding::warn(Group::Service, "linger", "no: the service ends with your last session");
        finding.advised(format!("loginctl enable-linger {user}"))
    })
}
