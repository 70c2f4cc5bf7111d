//! What `check` says: all problems, or that the configuration is well and what it amounts to.

use std::fmt::Write;

use super::locate::Source;
use super::problem::{Problem, Severity};
use super::settings::{Scope, Settings};
use super::topology::{Entry, Topology};

/// The outcome of looking at a configuration.
#[derive(Clone, Debug)]
pub struct Report {
    /// Where the configuration came from.
    pub source: Source,
    /// All problems, by line; the secrets' last.
    pub problems: Vec<Problem>,
    /// What it amounts to, a line each; empty if there is an error.
    pub summary: Vec<String>,
}

/// How a configuration is, as exit code of `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to say: 0.
    Fine,
    /// Warnings, or something that keeps `serve` from starting: 3.
    Doubtful,
    /// Errors: 1.
    Wrong,
}

impl Verdict {
    /// The exit code.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Wrong => 1,
            Self::Doubtful => 3,
        }
    }
}

impl Report {
    /// The gravest of its problems, as a verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.gravest() {
            None => Verdict::Fine,
            Some(Severity::Warning) => Verdict::Doubtful,
            Some(Severity::Error) => Verdict::Wrong,
        }
    }

    /// Whether `serve` may start with it.
    #[must_use]
    pub fn may_start(&self) -> bool {
        self.verdict() != Verdict::Wrong
    }

    fn gravest(&self) -> Option<Severity> {
        self.problems.iter().map(|problem| problem.severity).max()
    }
}

/// The report as text for people.
#[must_use]
pub fn render(report: &Report) -> String {
    let source = match &report.source {
        Source::File(path) => path.display().to_string(),
        Source::BuiltIn => "no config file; using what was found on this machine".to_owned(),
    };
    let verdict = match report.verdict() {
        Verdict::Wrong => format!("config has {}", counted(report, Severity::Error, "error")),
        Verdict::Fine => "config ok".to_owned(),
        Verdict::Doubtful => format!("config ok, with {}", counted(report, Severity::Warning, "warning")),
    };
    let mut text = format!("{verdict}: {source}\n");
    for line in &report.summary {
        let _ = writeln!(text, "  {line}");
    }
    for problem in &report.problems {
        let _ = writeln!(text, "{problem}");
    }
    text
}

fn counted(report: &Report, severity: Severity, word: &str) -> String {
    numbered(report.problems.iter().filter(|problem| problem.severity == severity).count(), word)
}

fn numbered(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// An account by its name, and by those that mean it too.
fn called(topology: &Topology, entry: &Entry) -> String {
    let name = &entry.id.name;
    let short = |alias: &Entry| match alias.id.provider == entry.id.provider {
        true => alias.id.name.to_string(),
        false => alias.id.to_string(),
    };
    let aliases: Vec<_> = topology.aliases(entry).map(short).collect();
    if aliases.is_empty() { name.to_string() } else { format!("{name} (the same account as {})", aliases.join(", ")) }
}

/// What a configuration amounts to.
pub(crate) fn summary(settings: &Settings, topology: &Topology) -> Vec<String> {
    let binds: Vec<_> = settings.server.binds.iter().map(ToString::to_string).collect();
    let auth = match &settings.server.auth {
        None => "open to this machine".to_owned(),
        Some(gate) => numbered(gate.clients.iter().count(), "client"),
    };
    let mut lines = vec![format!("listens on {} ({auth})", binds.join(", "))];
    for (element, unit) in topology.elements().iter().zip(&settings.units) {
        let accounts = element.accounts.iter().filter_map(|id| topology.representative(*id));
        let names: Vec<_> = accounts.map(|entry| called(topology, entry)).collect();
        let names = match (names.is_empty(), &unit.scope) {
            (false, _) => names.join(", "),
            (true, Scope::WholeStore) => "no account in the store".to_owned(),
            (true, Scope::Listed(_)) => "no account".to_owned(),
        };
        lines.push(format!("{}: {} {}: {names}", element.name, element.protocol.as_str(), element.auth.as_str()));
    }
    lines
}
