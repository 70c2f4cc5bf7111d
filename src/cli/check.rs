//! `duduclaw check`: is the configuration good, and can its secrets be had?

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use duduclaw_actors::roster::Switch;

use super::{Exit, Globals, say};
use crate::app::{Configuration, sealer};
use crate::config::Ready;
use crate::config::problem::{Problem, Severity};
use crate::config::report::{Verdict, render};
use crate::config::surroundings::Machine;
use crate::config::topology::Entry;
use crate::credentials::{Credential, SourceError, process_environment};

/// Check the configuration and the secrets it names; change nothing.
#[derive(Debug, Args)]
pub struct CheckArgs {}

/// The stored secrets that do not open: the configuration itself never needs them.
fn not_opening(ready: &Ready, home: &Path) -> Vec<Problem> {
    let environment = process_environment();
    let sealer = sealer(&ready.settings, home, &environment);
    let live = ready.topology.entries().iter().filter(|entry| entry.switch == Switch::On);
    let read = live.map(|entry| (entry, Credential::read(&entry.source, &environment, &sealer)));
    let closed = read.filter_map(|(entry, read)| match read {
        Err(error @ SourceError::Sealed { .. }) => Some((entry, error)),
        Ok(_) | Err(_) => None,
    });
    let problem = |(entry, error): (&Entry, SourceError)| Problem {
        severity: Severity::Warning,
        place: entry.place.clone(),
        text: format!("account {} is broken ({}): {error}", entry.id, error.cause().as_str()),
    };
    closed.map(problem).collect()
}

pub(super) fn run(_: &CheckArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let mut loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    let sealed = loaded.ready.as_ref().map(|ready| not_opening(ready, &loaded.home)).unwrap_or_default();
    loaded.report.problems.extend(sealed);
    say(&render(&loaded.report))?;
    Ok(match loaded.report.verdict() {
        Verdict::Fine => Exit::Done,
        Verdict::Doubtful => Exit::Degraded,
        Verdict::Wrong => Exit::Failed,
    })
}
