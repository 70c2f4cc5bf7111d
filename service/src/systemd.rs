//! systemd: a service that tells when it is ready and alive, and the sockets it is handed.

use std::path::PathBuf;

use crate::quote::{self, Unwritable};
use crate::template::fill;
use crate::{Delays, File, Listen, Plan, Scope, USAGE};

const SYSTEM: &str = include_str!("../templates/system.service");
const USER: &str = include_str!("../templates/user.service");
const SOCKET: &str = include_str!("../templates/duduclaw.socket");

/// The units: `duduclaw.service`, and `duduclaw.socket` if there is anything to listen on.
///
/// # Errors
/// When a path cannot be written.
pub fn systemd(plan: &Plan) -> Result<Vec<File>, Unwritable> {
    let mut files = vec![File { path: folder(plan).join("duduclaw.service"), text: service(plan)? }];
    if !plan.listen.is_empty() {
        files.push(File { path: folder(plan).join("duduclaw.socket"), text: socket(plan)? });
    }
    Ok(files)
}

fn folder(plan: &Plan) -> PathBuf {
    match plan.scope {
        Scope::User => plan.user_home.join(".config/systemd/user"),
        Scope::System { .. } => PathBuf::from("/etc/systemd/system"),
    }
}

fn service(plan: &Plan) -> Result<String, Unwritable> {
    let with_socket = |line: &str| if plan.listen.is_empty() { String::new() } else { line.to_owned() };
    let (template, user) = match &plan.scope {
        Scope::User => (USER, String::new()),
        Scope::System { user } => (SYSTEM, quote::line(quote::text(user.as_ref())?)?),
    };
    let values = [
        ("requires", with_socket("Requires=duduclaw.socket\nAfter=duduclaw.socket")),
        ("command", quote::command(&plan.command()?)),
        ("environment", environment(plan)?),
        ("user", user),
        ("stop_within", format!("{}s", plan.stop_within())),
        ("final_exits", USAGE.to_string()),
        ("delays", delays(plan.delays).to_owned()),
        ("home", quote::word(quote::text(&plan.home)?)),
        ("also", with_socket("Also=duduclaw.socket")),
    ];
    Ok(fill(template, &values))
}

fn environment(plan: &Plan) -> Result<String, Unwritable> {
    let setting = |(name, value)| format!("Environment={}", quote::word(&format!("{name}={value}")));
    Ok(plan.environment()?.map(setting).join("\n"))
}

/// At most a minute: systemd never forgets how often it restarted a service, however long that ran well since.
/// With growing delays the start limit is not reached, so that a fault that lasts does not end the service for good.
fn delays(delays: Delays) -> &'static str {
    match delays {
        Delays::Even => "RestartSec=5s",
        Delays::Growing => "RestartSec=5s\nRestartSteps=5\nRestartMaxDelaySec=1min",
    }
}

fn socket(plan: &Plan) -> Result<String, Unwritable> {
    let owner = match &plan.scope {
        Scope::User => String::new(),
        Scope::System { user } => format!("SocketUser={}", quote::line(quote::text(user.as_ref())?)?),
    };
    let listen: Vec<_> = plan.listen.iter().map(listen).collect::<Result<_, _>>()?;
    Ok(fill(SOCKET, &[("listen", listen.join("\n")), ("owner", owner)]))
}

fn listen(listen: &Listen) -> Result<String, Unwritable> {
    let address = match listen {
        Listen::Tcp(address) => address.to_string(),
        Listen::Unix(path) => quote::text(path)?.to_owned(),
    };
    Ok(format!("ListenStream={}", quote::line(&address)?))
}
