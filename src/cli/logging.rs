//! Where log lines go: standard error, for people on a terminal, as JSON otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use super::Globals;
use crate::config::settings::{LogFormat, LogSettings};

/// Starts logging. What the command line says counts more than the configuration. Once in a process.
pub(super) fn start(globals: &Globals, settings: Option<&LogSettings>) {
    let level = match (globals.quiet, globals.verbose) {
        (true, _) => "error",
        (false, 0) => settings.map_or("warn", |settings| settings.level.as_str()),
        (false, 1) => "duduclaw=debug,duduclaw_actors=debug,info",
        (false, _) => "trace",
    };
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let json = match settings.map(|settings| settings.format) {
        Some(LogFormat::Json) => true,
        Some(LogFormat::Pretty) => false,
        Some(LogFormat::Auto | LogFormat::Journald) | None => !std::io::stderr().is_terminal() && settings.is_some(),
    };
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()).try_init()
    };
    drop(started);
}
