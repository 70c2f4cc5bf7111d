//! The gateway under test: the built `duduclaw` with everything on that a real one has on.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::load::request::CLIENT_TOKEN;
use crate::net;
use crate::process::Process;

/// Variables that name the accounts' tokens. The tokens are invented.
const ACCOUNTS: [&str; 3] = ["BENCH_ACCOUNT_ONE", "BENCH_ACCOUNT_TWO", "BENCH_ACCOUNT_THREE"];

/// Starts it in front of `upstream`; its home, configuration and log are under `home`.
pub(crate) fn start(other: Option<&str>, upstream: SocketAddr, home: &Path) -> Result<Process> {
    let address = net::free_port()?;
    std::fs::create_dir_all(home)?;
    std::fs::write(home.join("config.toml"), config(address, upstream))?;
    let mut command = match other {
        Some(other) => instead(other, address, upstream, home)?,
        None => gateway(home),
    };
    command.env("BENCH_CLIENT", CLIENT_TOKEN);
    for (number, variable) in ACCOUNTS.iter().enumerate() {
        command.env(variable, format!("sk-ant-oat01-invented-for-the-benchmark-{number}"));
    }
    Process::start(command, address, &home.join("log")).context("the gateway under test does not serve")
}

fn gateway(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duduclaw"));
    command.arg("serve").arg("--home").arg(home);
    command
}

fn instead(other: &str, address: SocketAddr, upstream: SocketAddr, home: &Path) -> Result<Command> {
    let filled = other
        .replace("{port}", &address.port().to_string())
        .replace("{upstream}", &upstream.to_string())
        .replace("{home}", &home.display().to_string());
    let mut words = filled.split_whitespace();
    let mut command = Command::new(words.next().context("--gateway-cmd is empty")?);
    command.args(words);
    Ok(command)
}

fn config(address: SocketAddr, upstream: SocketAddr) -> String {
    let account = |(number, variable): (usize, &&str)| {
        format!("[[providers.anthropic.accounts]]\nname = \"account-{number}\"\ntoken_env = \"{variable}\"\n\n")
    };
    let accounts: String = ACCOUNTS.iter().enumerate().map(account).collect();
    format!(
        r#"[server]
bind = "{address}"

[[server.auth.clients]]
name = "bench"
token_env = "BENCH_CLIENT"

[server.pool]
hard_threshold = 0.98
default_threshold = 0.9
default_threshold_5h = 0.95
burn_rate_avoidance = true

[rotation]
session_affinity = true

[providers.anthropic]
kind = "anthropic"
base_url = "http://{upstream}"
auth = "claude_oauth"

{accounts}[log]
level = "info"
format = "json"
"#
    )
}
