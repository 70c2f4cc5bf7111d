//! The report: one table of what was measured, the aims beside it, and what must never happen.

use std::fmt::Write;

use crate::rounds::Ways;
use crate::spread::Spread;

/// All that is told at the end.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    notes: Vec<String>,
    failures: Vec<String>,
}

/// One line of the table.
#[derive(Debug)]
struct Row {
    what: String,
    unit: &'static str,
    direct: Option<Spread>,
    proxy: Option<Spread>,
    gateway: Option<Spread>,
    ratio: Option<Spread>,
    aim: Option<Aim>,
}

/// What a figure should stay at or below.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    /// So many times the bare proxy.
    Times(f64),
    /// So much.
    Figure(f64),
}

/// What the proxy's figures are good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// They are what the gateway's are divided by, a round at a time.
    Compared,
    /// They only stand beside.
    Shown,
}

impl Report {
    /// A line with figures a round for all three ways.
    pub(crate) fn row(&mut self, what: String, unit: &'static str, rounds: &Ways<Vec<f64>>, aim: Option<Aim>) {
        self.push(what, unit, rounds, Base::Compared, aim);
    }

    /// The same without a ratio.
    pub(crate) fn beside(&mut self, what: String, unit: &'static str, rounds: &Ways<Vec<f64>>, aim: Option<Aim>) {
        self.push(what, unit, rounds, Base::Shown, aim);
    }

    /// Something that a reader of the table must know.
    pub(crate) fn note(&mut self, what: String) {
        self.notes.push(what);
    }

    /// What must never happen has happened.
    pub(crate) fn fail(&mut self, how: String) {
        self.failures.push(how);
    }

    /// Whether nothing of that kind has.
    pub(crate) fn is_sound(&self) -> bool {
        self.failures.is_empty()
    }

    fn push(&mut self, what: String, unit: &'static str, rounds: &Ways<Vec<f64>>, base: Base, aim: Option<Aim>) {
        let over = |figures: &Vec<f64>| Spread::over(figures.iter().copied());
        let ratios = rounds.gateway.iter().zip(&rounds.proxy).filter(|(_, proxy)| **proxy > 0.0);
        let ratio = match base {
            Base::Compared => Spread::over(ratios.map(|(gateway, proxy)| gateway / proxy)),
            Base::Shown => None,
        };
        let (direct, proxy, gateway) = (over(&rounds.direct), over(&rounds.proxy), over(&rounds.gateway));
        self.rows.push(Row { what, unit, direct, proxy, gateway, ratio, aim });
    }

    /// The whole as Markdown.
    pub(crate) fn markdown(&self, circumstances: &str) -> String {
        let mut text = format!("# Gateway benchmark\n\n{circumstances}\n");
        text += "| what | unit | direct | bare proxy | gateway | gateway ÷ proxy | aim |\n";
        text += "|---|---|--:|--:|--:|--:|---|\n";
        for row in &self.rows {
            text += &row.markdown();
        }
        for note in &self.notes {
            text += &format!("\n**Note:** {note}\n");
        }
        text += &self.endings();
        text
    }

    fn endings(&self) -> String {
        let missed = self.rows.iter().filter(|row| row.verdict().contains("missed")).count();
        let mut text = format!("\nAims missed: {missed}.");
        if self.is_sound() {
            text += " No byte lost or changed, no wait at 40 ms.\n";
        } else {
            text += "\n\n**Failed:**\n\n";
            for failure in &self.failures {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "- {failure}");
            }
        }
        text
    }
}

impl Row {
    fn markdown(&self) -> String {
        let cell = |spread: Option<Spread>| spread.map_or_else(|| "–".to_owned(), |spread| spread.to_string());
        let Self { what, unit, direct, proxy, gateway, ratio, .. } = self;
        let (direct, proxy, gateway, ratio) = (cell(*direct), cell(*proxy), cell(*gateway), cell(*ratio));
        format!("| {what} | {unit} | {direct} | {proxy} | {gateway} | {ratio} | {} |\n", self.verdict())
    }

    fn verdict(&self) -> String {
        let Some(aim) = self.aim else { return String::new() };
        let (figure, limit, shown) = match aim {
            Aim::Times(limit) => (self.ratio, limit, format!("≤ {limit} ×")),
            Aim::Figure(limit) => (self.gateway, limit, format!("≤ {limit}")),
        };
        match figure {
            Some(spread) if spread.median <= limit => format!("{shown}: met"),
            Some(_) => format!("{shown}: **aim missed**"),
            None => format!("{shown}: not measured"),
        }
    }
}
