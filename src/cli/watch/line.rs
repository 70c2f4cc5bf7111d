//! A line of the screen: pieces of text, each in a tone, never wider than it may be.

use std::env;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a piece of text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// Less important.
    Faint,
    /// A heading.
    Strong,
    /// All is well.
    Good,
    /// Someone may want to look.
    Uneasy,
    /// Someone should look.
    Bad,
    /// What is chosen.
    Chosen,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    On,
    Off,
}

impl Colours {
    /// As the environment wants them.
    pub(super) fn wanted() -> Self {
        if env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) { Self::Off } else { Self::On }
    }
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pieces: Vec<(String, Tone)>,
}

impl Line {
    /// A line of one piece.
    pub(super) fn of(text: &str, tone: Tone) -> Self {
        let mut line = Self::default();
        line.push(text, tone);
        line
    }

    /// Adds a piece. What would move the cursor is shown as a dot: names come from outside.
    pub(super) fn push(&mut self, text: &str, tone: Tone) {
        let safe = text.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
        self.pieces.push((safe, tone));
    }

    /// Adds blanks up to this column.
    pub(super) fn pad_to(&mut self, column: usize) {
        let missing = column.saturating_sub(self.width());
        self.push(&" ".repeat(missing), Tone::Plain);
    }

    /// How many columns it takes.
    pub(super) fn width(&self) -> usize {
        self.pieces.iter().map(|(text, _)| text.width()).sum()
    }

    /// The line, cut to so many columns.
    pub(super) fn cut_to(mut self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns.saturating_sub(1);
        let whole = self.pieces.iter().take_while(|(text, _)| {
            let fits = text.width() <= left;
            left -= if fits { text.width() } else { 0 };
            fits
        });
        let cut = whole.count();
        self.pieces.truncate(cut + 1);
        if let Some((text, _)) = self.pieces.get_mut(cut) {
            *text = fitting(text, left);
        }
        self.push(if columns == 0 { "" } else { "…" }, Tone::Faint);
        self
    }

    /// As it is written to a terminal.
    pub(super) fn painted(&self, colours: Colours) -> String {
        let paint = |(text, tone): &(String, Tone)| match code(*tone, colours) {
            Some(code) if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Some(_) | None => text.clone(),
        };
        self.pieces.iter().map(paint).collect()
    }

    /// Its text alone.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect::<String>().trim_end().to_owned()
    }
}

/// The beginning of a text that takes no more than so many columns.
fn fitting(text: &str, columns: usize) -> String {
    let mut left = columns;
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    text.chars().take_while(fits).collect()
}

fn code(tone: Tone, colours: Colours) -> Option<&'static str> {
    match (tone, colours) {
        (Tone::Plain, _) | (Tone::Good | Tone::Uneasy, Colours::Off) => None,
        (Tone::Faint, _) => Some("2"),
        (Tone::Strong, _) | (Tone::Bad, Colours::Off) => Some("1"),
        (Tone::Chosen, _) => Some("7"),
        (Tone::Good, Colours::On) => Some("32"),
        (Tone::Uneasy, Colours::On) => Some("33"),
        (Tone::Bad, Colours::On) => Some("31"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_never_wider_than_it_may_be_whatever_stands_in_it() {
        let mut line = Line::of("日本語の名前", Tone::Strong);
        line.push("abc", Tone::Plain);
        for columns in 0..20 {
            let cut = line.clone().cut_to(columns);
            assert!(cut.width() <= columns, "{columns}: {}", cut.text());
        }
        assert_eq!(line.clone().cut_to(8).text(), "日本語…");
        assert_eq!(line.clone().cut_to(15), line);
    }

    #[test]
    fn what_would_move_the_cursor_is_shown_as_a_dot() {
        assert_eq!(Line::of("a\u{1b}[2Jb\nc", Tone::Plain).painted(Colours::On), "a·[2Jb·c");
    }

    #[test]
    fn without_colours_only_weight_tells() {
        let line = Line::of("x", Tone::Bad);
        assert_eq!(
            (line.painted(Colours::On), line.painted(Colours::Off)),
            ("\u{1b}[31mx\u{1b}[0m".into(), "\u{1b}[1mx\u{1b}[0m".into())
        );
    }
}
