//! Raw tables → [`Settings`]: every rule about a value, every default, and every problem in one pass.
//!
//! Problems of one account's secret are not here: they need the store, and break only that account.

mod account;
mod admin;
mod billing;
mod channels;
mod forms;
mod gate;
mod models;
mod rest;
mod server;
mod unit;

pub(crate) use models::without_long_context;

use std::path::{Path, PathBuf};

use duduclaw_actors::roster::Strategy;

use super::document::{At, Document, Mark};
use super::problem::{Place, Problem, Severity, nearest, shown};
use super::raw::Raw;
use super::settings::{Settings, Unit};
use super::surroundings::Surroundings;

/// The file's tables with their meaning, and all that is wrong with them.
pub(crate) fn check(
    raw: &Raw,
    document: &Document,
    home: &Path,
    surroundings: &dyn Surroundings,
    found: Vec<Problem>,
) -> (Settings, Vec<Problem>) {
    let accounts_dir = rest::accounts_dir(raw.secrets.as_deref(), home, surroundings);
    let mut checker = Checker { document, surroundings, accounts_dir, declared: Vec::new(), problems: found };
    let settings = checker.settings(raw);
    let mut problems = checker.problems;
    for problem in &mut problems {
        problem.text = document.scrub(&problem.text);
    }
    problems.sort_by_key(|problem| line_of(&problem.place));
    problems.dedup();
    (settings, problems)
}

/// The account store's folder when there is no configuration.
pub(crate) fn accounts_dir(home: &Path, surroundings: &dyn Surroundings) -> PathBuf {
    rest::accounts_dir(None, home, surroundings)
}

fn line_of(place: &Place) -> u32 {
    match place {
        Place::Line { line, .. } => *line,
        Place::Variable(_) | Place::BuiltIn | Place::Whole(_) => 0,
    }
}

struct Checker<'a> {
    document: &'a Document,
    surroundings: &'a dyn Surroundings,
    accounts_dir: PathBuf,
    /// The names of all units and their providers, whether or not they are sound.
    declared: Vec<String>,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn settings(&mut self, raw: &Raw) -> Settings {
        let server = self.server(raw.server.as_deref());
        let (pool, account_defaults, usage_refresh) = self.pool(raw.server.as_deref().and_then(|s| s.pool.as_deref()));
        let rotation = self.rotation(raw.rotation.as_deref(), server.max_concurrent);
        let strategy = raw.rotation.as_deref().and_then(|r| r.strategy.as_deref().copied());
        let units = self.units(raw, &account_defaults, strategy);
        let default_unit = self.default_unit(raw, &units);
        self.client_providers(raw, &units);
        let models = self.models(raw, &units);
        let routes = self.routes(raw, &units, &models);
        let route_prefixes = self.route_prefixes(raw, &units);
        self.unbuilt(raw);
        let billing = self.billing(raw.billing.as_deref());
        let prices = self.prices(raw.prices.as_deref().map(Vec::as_slice));
        Settings {
            server,
            pool,
            account_defaults,
            usage_refresh,
            rotation,
            units,
            default_unit,
            models,
            routes,
            route_prefixes,
            billing,
            prices,
            accounts_dir: self.accounts_dir.clone(),
            secrets: self.secrets(raw),
            claude_path: self.claude_path(raw),
            store: self.store(raw.store.as_deref()),
            log: self.log(raw.log.as_deref()),
            notify: self.notify(raw),
            webhooks: self.webhooks(raw),
            referred: self.document.referred().clone(),
        }
    }

    fn units(
        &mut self,
        raw: &Raw,
        defaults: &super::settings::AccountDefaults,
        strategy: Option<Strategy>,
    ) -> Vec<Unit> {
        let drafts = self.drafts(raw);
        self.declared = drafts.iter().flat_map(|draft| [draft.name.clone(), draft.provider.clone()]).collect();
        let mut units: Vec<Unit> = Vec::new();
        for draft in drafts {
            if units.iter().any(|unit| *unit.name == *draft.name) {
                self.error(draft.mark, format!("{} is declared twice; give each its own name", draft.label));
                continue;
            }
            units.extend(self.unit(&draft, defaults, strategy));
        }
        units
    }

    fn say(&mut self, severity: Severity, mark: Mark, text: String) {
        let place = self.document.place(mark);
        self.problems.push(Problem { severity, place, text });
    }

    fn error(&mut self, mark: Mark, text: impl Into<String>) {
        self.say(Severity::Error, mark, text.into());
    }

    fn warn(&mut self, mark: Mark, text: impl Into<String>) {
        self.say(Severity::Warning, mark, text.into());
    }

    /// Something that must be in this table is not; unless it was left out because it did not fit, which was said
    /// already.
    fn missing(&mut self, table: Mark, text: impl Into<String>) {
        if !self.document.is_fragment(table) {
            self.error(table, text);
        }
    }

    /// A fraction from 0 to 1.
    fn fraction(&mut self, key: &str, value: Option<&At<f64>>) -> Option<f64> {
        let value = value?;
        if (0.0..=1.0).contains(&value.value) {
            return Some(value.value);
        }
        self.error(value.mark, format!("{key} must be between 0.0 and 1.0, but is {}", value.value));
        None
    }

    /// A number that is at least 1.
    fn positive(&mut self, key: &str, value: Option<&At<u64>>, default: u64) -> u64 {
        let Some(value) = value else { return default };
        if value.value == 0 {
            self.error(value.mark, format!("{key} must be at least 1"));
        }
        value.value
    }

    /// The name of an environment variable. What cannot be one may be the secret itself, so it is not shown.
    fn variable(&mut self, key: &str, value: Option<&At<String>>) -> Option<String> {
        let value = value?;
        let mut chars = value.chars();
        let begins = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if begins && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Some(value.value.clone());
        }
        self.error(
            value.mark,
            format!(
                "{key} takes the name of an environment variable, not a value; put the secret into a variable and its name \
                 here"
            ),
        );
        None
    }

    /// The unit of this name; in configuration by upstreams a provider's name means its first upstream.
    fn unit_named(&mut self, key: &str, name: &At<String>, units: &[Unit]) -> Option<usize> {
        let found = units.iter().position(|unit| *unit.name == *name.value);
        let found = found.or_else(|| units.iter().position(|unit| *unit.provider == *name.value));
        if found.is_none() {
            self.must_be_declared(key, name);
        }
        found
    }

    /// A unit that is declared but unsound was named already.
    fn must_be_declared(&mut self, key: &str, name: &At<String>) {
        if self.declared.contains(&name.value) || self.document.is_fragment(Mark::default()) {
            return;
        }
        let near = nearest(name, self.declared.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        self.error(name.mark, format!("{key} names {}, which is not declared{near}", shown(name)));
    }

    fn default_unit(&mut self, raw: &Raw, units: &[Unit]) -> Option<usize> {
        let named = raw.server.as_deref().and_then(|server| server.default_provider.as_ref());
        match named {
            Some(name) => self.unit_named("server.default_provider", name, units),
            None => (!units.is_empty()).then_some(0),
        }
    }
}

#[cfg(test)]
mod tests;
