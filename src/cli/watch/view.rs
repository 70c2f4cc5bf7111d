//! What the screen shows: pure lines, for whatever is known and whatever size there is.
//!
//! Never here: the terminal, the daemon.

mod account;

use super::line::{Line, Tone};
use super::terminal::Size;
use crate::admin::{HealthView, PoolAccount, PoolView};
use crate::cli::words::countdown;

/// What the daemon told at one moment.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) health: HealthView,
    pub(super) pool: PoolView,
}

/// The screen's content.
#[derive(Debug, Default)]
pub(super) struct View {
    seen: Option<Seen>,
    /// Why nothing newer is known.
    silent: Option<String>,
    /// What was said last.
    said: Option<String>,
    /// The account that is chosen, `provider/name`.
    chosen: Option<String>,
}

/// Smaller terminals show nothing of use.
const SMALLEST: Size = (24, 6);
/// The lines that are always there: two above, two below.
const FRAME: usize = 4;

impl View {
    pub(super) fn see(&mut self, seen: Seen) {
        self.seen = Some(seen);
        self.silent = None;
        if self.at().is_none() {
            self.choose(0);
        }
    }

    pub(super) fn lose(&mut self, why: String) {
        self.silent = Some(why);
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent.is_some()
    }

    pub(super) fn say(&mut self, what: String) {
        self.said = Some(what);
    }

    pub(super) fn chosen(&self) -> Option<&str> {
        self.chosen.as_deref()
    }

    pub(super) fn chosen_is_paused(&self) -> bool {
        self.accounts().find(|(id, _)| Some(id) == self.chosen.as_ref()).is_some_and(|(_, account)| account.paused)
    }

    pub(super) fn choose_above(&mut self) {
        self.choose(self.at().unwrap_or(0).saturating_sub(1));
    }

    pub(super) fn choose_below(&mut self) {
        self.choose(self.at().map_or(0, |at| at + 1));
    }

    pub(super) fn choose_first(&mut self) {
        self.choose(0);
    }

    pub(super) fn choose_last(&mut self) {
        self.choose(usize::MAX);
    }

    /// The last one where there are fewer.
    fn choose(&mut self, at: usize) {
        let last = self.accounts().count().saturating_sub(1);
        let chosen = self.accounts().nth(at.min(last)).map(|(id, _)| id);
        self.chosen = chosen;
    }

    fn at(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.accounts().position(|(id, _)| id == *chosen)
    }

    fn accounts(&self) -> impl Iterator<Item = (String, &PoolAccount)> {
        let providers = self.seen.iter().flat_map(|seen| &seen.pool.providers);
        providers.flat_map(|provider| {
            provider.accounts.iter().map(|account| (format!("{}/{}", provider.name, account.name), account))
        })
    }

    /// The whole screen.
    pub(super) fn lines(&self, (columns, rows): Size) -> Vec<Line> {
        if columns < SMALLEST.0 || rows < SMALLEST.1 {
            return vec![Line::of("too small", Tone::Plain).cut_to(columns)];
        }
        let rule = || Line::of(&"─".repeat(columns), Tone::Faint);
        let mut lines = vec![self.head(columns), rule()];
        lines.extend(self.middle(columns, rows - FRAME));
        lines.resize(rows - 2, Line::default());
        lines.extend([rule(), self.foot(columns)]);
        lines.into_iter().map(|line| line.cut_to(columns)).collect()
    }

    fn head(&self, columns: usize) -> Line {
        let mut line = Line::of("duduclaw", Tone::Strong);
        let Some(Seen { health, .. }) = &self.seen else {
            line.push("  asking the daemon …", Tone::Faint);
            return line;
        };
        let facts = [
            format!(" {}", health.version),
            format!("up {}", countdown(health.uptime_secs)),
            format!("{} of {} serve", health.usable, health.accounts),
            format!("{} in flight", health.in_flight),
            format!("{} conversations", health.conversations),
        ];
        line.push(&facts.join(" · "), Tone::Plain);
        if self.silent.is_some() {
            let told = "no answer, trying again ";
            line = line.cut_to(columns.saturating_sub(told.len() + 1));
            line.pad_to(columns.saturating_sub(told.len()));
            line.push(told, Tone::Bad);
        }
        line
    }

    /// All accounts, moved so that the chosen one is seen.
    fn middle(&self, columns: usize, rows: usize) -> Vec<Line> {
        let Some(seen) = &self.seen else { return Vec::new() };
        let now = seen.health.started_at.saturating_add_unsigned(seen.health.uptime_secs);
        let (mut lines, mut chosen) = (Vec::new(), 0..0);
        for provider in &seen.pool.providers {
            lines.push(account::heading(&provider.name, &provider.auth));
            for account in &provider.accounts {
                let id = format!("{}/{}", provider.name, account.name);
                let is_chosen = self.chosen.as_deref() == Some(&*id);
                let block = account::block(account, is_chosen, now, columns);
                if is_chosen {
                    // The provider's name stays in sight above its first account.
                    chosen = lines.len().saturating_sub(1)..lines.len() + block.len();
                }
                lines.extend(block);
            }
        }
        if seen.pool.providers.iter().all(|provider| provider.accounts.is_empty()) {
            lines.push(Line::of("no account is configured; see `duduclaw check`", Tone::Bad));
        }
        scrolled(lines, chosen, rows)
    }

    fn foot(&self, columns: usize) -> Line {
        let mut line = Line::default();
        for (key, does) in [("↑↓", "choose"), ("p", "pause/resume"), ("c", "clear"), ("b", "probe"), ("q", "quit")]
        {
            line.push(key, Tone::Strong);
            line.push(&format!(" {does}  "), Tone::Faint);
        }
        let said = self.said.as_deref().or(self.silent.as_deref()).unwrap_or_default();
        if line.width() + 12 > columns && !said.is_empty() {
            return Line::of(said, Tone::Plain);
        }
        line.push(said, Tone::Plain);
        line
    }
}

/// So many of the lines, with a mark where some are left out.
fn scrolled(lines: Vec<Line>, chosen: std::ops::Range<usize>, rows: usize) -> Vec<Line> {
    if lines.len() <= rows {
        return lines;
    }
    let room = rows.saturating_sub(2);
    let first = chosen.end.saturating_sub(room).min(chosen.start).min(lines.len() - room);
    let (above, below) = (first, lines.len() - first - room);
    let mark = |arrow: &str, count: usize| {
        let text = if count == 0 { String::new() } else { format!("  {arrow} {count} more") };
        Line::of(&text, Tone::Faint)
    };
    let shown = lines.into_iter().skip(first).take(room);
    [mark("↑", above)].into_iter().chain(shown).chain([mark("↓", below)]).collect()
}

#[cfg(test)]
mod tests;
