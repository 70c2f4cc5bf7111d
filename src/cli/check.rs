//! `duduclaw check`: is the configuration good, and can its secrets be had?

use std::sync::Arc;

use clap::Args;

use super::{Exit, Globals, say};
use crate::app::Configuration;
use crate::config::report::{Verdict, render};
use crate::config::surroundings::Machine;

/// Check the configuration and the secrets it names; change nothing.
#[derive(Debug, Args)]
pub struct CheckArgs {}

pub(super) fn run(_: &CheckArgs, globals: &Globals) -> anyhow::Result<Exit> {
    let loaded = Configuration::new(globals.named(), Arc::new(Machine)).load();
    say(&render(&loaded.report))?;
    Ok(match loaded.report.verdict() {
        Verdict::Fine => Exit::Done,
        Verdict::Doubtful => Exit::Degraded,
        Verdict::Wrong => Exit::Failed,
    })
}
