//! The configuration: raw text → checked values → one topology of elements, entries and identities.
//!
//! [`load`] does it all: it finds the file (or, without one, the logins and keys of this machine), reads it, checks it,
//! asks the account store for names and identities, and reports every problem it met. Nothing is written, and no
//! message holds a secret.

pub mod bind;
mod check;
pub mod clients;
mod discover;
mod document;
mod inspect;
pub mod locate;
pub mod operators;
pub mod origin;
mod prices;
pub mod problem;
mod raw;
pub mod referred;
pub mod reload;
pub mod report;
pub mod secret;
pub mod settings;
pub mod surroundings;
pub mod topology;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duduclaw_actors::id::Family;

use document::Document;
use locate::{Named, Source};
use problem::{Place, Problem, Severity};
use report::Report;
use settings::Settings;
use surroundings::Surroundings;
use topology::{Ids, Lookups, Topology};

/// A configuration that was looked at.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The home directory.
    pub home: PathBuf,
    /// All that is to be said of it.
    pub report: Report,
    /// What it means; none if it has errors. Whether to start with it is [`Report::may_start`].
    pub ready: Option<Ready>,
}

/// A configuration without errors.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The checked values.
    pub settings: Arc<Settings>,
    /// The fleet.
    pub topology: Arc<Topology>,
}

/// Finds, reads and checks the configuration. `ids` are kept from load to load, so that a reload keeps ids; an invalid
/// configuration leaves them as they were.
#[must_use]
pub fn load(named: &Named, surroundings: &dyn Surroundings, lookups: Lookups<'_>, ids: &mut Ids) -> Loaded {
    let Some(home) = locate::home(named, surroundings) else {
        let text = "no home directory is known; give --home or set DUDUCLAW_HOME";
        let problem = error(Place::Whole("duduclaw".to_owned()), text.to_owned());
        let report = Report { source: Source::BuiltIn, problems: vec![problem], summary: Vec::new() };
        return Loaded { home: PathBuf::new(), report, ready: None };
    };
    let source = locate::source(named, &home, surroundings);
    let (settings, mut problems) = settings_of(&source, &home, surroundings, lookups);
    let mut trial = ids.clone();
    let ready = settings.map(|settings| {
        let (topology, unreadable) = Topology::build(&settings, lookups, &mut trial);
        problems.extend(unreadable);
        problems.extend(inspect::inspect(&topology, surroundings));
        Ready { settings: Arc::new(settings), topology: Arc::new(topology) }
    });
    let ready = ready.filter(|_| !has_error(&problems));
    let summary = ready.as_ref().map(|ready| report::summary(&ready.settings, &ready.topology)).unwrap_or_default();
    if ready.is_some() {
        *ids = trial;
    }
    Loaded { home, report: Report { source, problems, summary }, ready }
}

/// The checked values, if there was a tree to check. They may come with errors.
fn settings_of(
    source: &Source,
    home: &Path,
    surroundings: &dyn Surroundings,
    lookups: Lookups<'_>,
) -> (Option<Settings>, Vec<Problem>) {
    let (text, file, mut problems) = match text_of(source, home, surroundings, lookups) {
        Ok(found) => found,
        Err(problem) => return (None, vec![problem]),
    };
    let mut document = match Document::parse(&text, &file) {
        Ok(document) => document,
        Err(problem) => return (None, vec![problem]),
    };
    problems.extend(document.overlay(surroundings));
    let (raw, misfits) = document.read();
    problems.extend(misfits);
    let (settings, problems) = check::check(&raw, &document, home, surroundings, problems);
    (Some(settings), problems)
}

type Text = (String, String, Vec<Problem>);

fn text_of(
    source: &Source,
    home: &Path,
    surroundings: &dyn Surroundings,
    lookups: Lookups<'_>,
) -> Result<Text, Problem> {
    match source {
        Source::File(path) => file_text(path, surroundings).map(|text| (text, path.display().to_string(), Vec::new())),
        Source::BuiltIn => Ok(built_in(home, surroundings, lookups)),
    }
}

fn file_text(path: &Path, surroundings: &dyn Surroundings) -> Result<String, Problem> {
    let place = Place::Whole(path.display().to_string());
    let bytes = surroundings
        .read(path)
        .map_err(|why| error(place.clone(), format!("the configuration file cannot be read: {why}")))?;
    String::from_utf8(bytes).map_err(|_| error(place, "the configuration file is not UTF-8 text".to_owned()))
}

/// What is used when there is no configuration file, as the text of one.
#[must_use]
pub fn built_in_text(home: &Path, surroundings: &dyn Surroundings, lookups: Lookups<'_>) -> String {
    built_in(home, surroundings, lookups).0
}

fn built_in(home: &Path, surroundings: &dyn Surroundings, lookups: Lookups<'_>) -> Text {
    let accounts_dir = check::accounts_dir(home, surroundings);
    let warning = |text: String| Problem { severity: Severity::Warning, place: Place::BuiltIn, text };
    let mut problems = Vec::new();
    let stored = (lookups.names)(Family::Claude, &accounts_dir).unwrap_or_else(|error| {
        problems.push(warning(format!("the account store {} cannot be read: {error}", accounts_dir.display())));
        Vec::new()
    });
    let found = discover::discover(&stored, surroundings);
    if !found.anything {
        problems.push(warning(NOTHING_FOUND.to_owned()));
    }
    (found.text, String::new(), problems)
}

const NOTHING_FOUND: &str = "found no login and no key; run `claude` and log in, or `duduclaw login claude --name NAME`, \
                             or set CLAUDE_CODE_OAUTH_TOKEN or ANTHROPIC_API_KEY";

fn error(place: Place, text: String) -> Problem {
    Problem { severity: Severity::Error, place, text }
}

fn has_error(problems: &[Problem]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

#[cfg(test)]
mod tests;
