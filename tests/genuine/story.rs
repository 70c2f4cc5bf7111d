//! What the daemon told in its log: its events, in order.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// How long anything may take to be told.
const PATIENCE: Duration = Duration::from_secs(30);

/// An event, as the log has it.
#[derive(Clone, Debug)]
pub struct Told {
    /// The account's name without its provider's; empty if it concerns none.
    pub account: String,
    /// What happened, with `kind`.
    pub what: Value,
}

impl Told {
    fn read(line: &str) -> Option<Self> {
        let what: Value = serde_json::from_str(line).ok()?;
        what.get("kind")?;
        let entry = what["account"].as_str().unwrap_or_default();
        let account = entry.split_once('/').map_or(entry, |(_, name)| name).to_owned();
        Some(Self { account, what })
    }
}

/// All that the daemon wrote to standard error.
#[derive(Clone, Default)]
pub struct Story(Arc<Mutex<Vec<String>>>);

impl Story {
    /// Takes one more line.
    pub fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The events of one kind so far.
    pub fn of(&self, kind: &str) -> Vec<Told> {
        let all = self.lines().into_iter().filter_map(|line| Told::read(&line));
        all.filter(|told| told.what["kind"] == kind).collect()
    }

    /// Waits until so many events of a kind concern this account and satisfy a condition, and gives them.
    pub async fn wait_for(&self, count: usize, account: &str, kind: &str, fits: impl Fn(&Value) -> bool) -> Vec<Told> {
        let look = || {
            let mut told = self.of(kind);
            told.retain(|told| told.account == account && fits(&told.what));
            (told.len() >= count).then_some(told)
        };
        let what = format!("{count} × {kind} of \"{account}\"");
        eventually(look).await.unwrap_or_else(|| panic!("no {what} was told:\n{}", self.text()))
    }

    /// Waits for one event of a kind that concerns this account and satisfies a condition.
    pub async fn tells(&self, account: &str, kind: &str, fits: impl Fn(&Value) -> bool) -> Told {
        self.wait_for(1, account, kind, fits).await.remove(0)
    }

    /// Waits until a request went on from an account that did not serve it.
    pub async fn failed_over(&self, from: &str, why: &str) {
        let fits = |told: &Told| told.what["from"]["name"] == from && told.what["why"] == why;
        let told = eventually(|| self.of("failed_over").into_iter().find(fits)).await;
        assert!(told.is_some(), "no request went on from {from} ({why}):\n{}", self.text());
    }

    /// Waits for an event of a kind, whomever it concerns.
    pub async fn tells_of(&self, kind: &str) -> Told {
        let told = eventually(|| self.of(kind).into_iter().next()).await;
        told.unwrap_or_else(|| panic!("no {kind} was told:\n{}", self.text()))
    }

    /// Waits for a line.
    pub async fn says(&self, part: &str) -> String {
        let found = eventually(|| self.lines().into_iter().find(|line| line.contains(part))).await;
        found.unwrap_or_else(|| panic!("no line with {part:?}:\n{}", self.text()))
    }

    fn text(&self) -> String {
        self.lines().iter().fold(String::new(), |mut text, line| {
            let _ = match Told::read(line) {
                Some(told) => writeln!(text, "  {:8} {}", told.account, told.what),
                None => writeln!(text, "  {line}"),
            };
            text
        })
    }
}

/// Looks until something is there; nothing after a long while.
pub async fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        if let Some(found) = look() {
            return Some(found);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        waited += Duration::from_millis(10);
    }
    None
}
