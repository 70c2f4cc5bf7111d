//! Where log lines go: standard error, for people on a terminal, as JSON otherwise.

mod line;

use std::fs::{DirBuilder, OpenOptions};
use std::io::IsTerminal;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use self::line::{Json, Plain};
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
    let filter = filter(level);
    let json = match settings.map(|settings| settings.format) {
        Some(LogFormat::Json) => true,
        Some(LogFormat::Pretty) => false,
        Some(LogFormat::Auto | LogFormat::Journald) | None => !std::io::stderr().is_terminal() && settings.is_some(),
    };
    // A line that cannot be written is lost: that it is so could only be said where it could not be written.
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    let started = if json {
        builder.event_format(Json).try_init()
    } else {
        builder
            .fmt_fields(Plain)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .try_init()
    };
    drop(started);
}

/// The watcher of files stays quiet: what it says of a log in a folder that it watches makes the log grow, and then it has
/// something to say again, without end.
const WATCHER_QUIET: &str = "notify=error";

fn filter(level: &str) -> EnvFilter {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    filter.add_directive(WATCHER_QUIET.parse().expect("a constant directive"))
}

/// A log file larger than this is put aside when the next run begins; one older is kept.
const LARGE: u64 = 4 * 1024 * 1024;

/// Starts logging to a file in this folder, for a run whose terminal belongs to another program.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn start_in_file(globals: &Globals, folder: &Path, name: &str) -> std::io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(name);
    if path.metadata().is_ok_and(|meta| meta.len() > LARGE) {
        std::fs::rename(&path, path.with_extension("log.old"))?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
    let level = if globals.verbose > 0 { "duduclaw=debug,duduclaw_actors=debug,info" } else { "info" };
    let builder = fmt().with_env_filter(filter(level)).fmt_fields(Plain).with_ansi(false).with_writer(file);
    drop(builder.log_internal_errors(false).try_init());
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watcher_of_files_is_not_heard_at_any_level() {
        for level in ["trace", "debug", "duduclaw=debug,notify=trace"] {
            let subscriber = fmt().with_env_filter(filter(level)).with_writer(std::io::sink).finish();
            tracing::subscriber::with_default(subscriber, || {
                assert!(!tracing::enabled!(target: "notify::inotify", tracing::Level::TRACE), "{level}");
                assert!(tracing::enabled!(target: "duduclaw::app", tracing::Level::DEBUG), "{level}");
            });
        }
    }
}
