//! The terminal's whole screen, borrowed: given back when this is dropped, and before a panic is told.

use std::io::{self, Write};
use std::sync::Once;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::execute;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, size,
};

use super::line::{Colours, Line};

/// Columns and rows.
pub(super) type Size = (usize, usize);

/// What a terminal is taken for that does not tell its size.
const USUAL: (u16, u16) = (80, 24);

/// The screen while it is ours.
pub(super) struct Screen {
    colours: Colours,
    drawn: Size,
}

static HOOK: Once = Once::new();

impl Screen {
    pub(super) fn take() -> io::Result<Self> {
        HOOK.call_once(|| {
            let told = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                told(panic);
            }));
        });
        enable_raw_mode()?;
        // From here on whatever fails gives back what was taken.
        let screen = Self { colours: Colours::wanted(), drawn: (0, 0) };
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws these lines in one piece. What was drawn before is written over, not cleared: nothing flickers.
    pub(super) fn draw(&mut self, lines: impl Fn(Size) -> Vec<Line>) -> io::Result<()> {
        let (columns, rows) = size().unwrap_or(USUAL);
        let size = (usize::from(columns), usize::from(rows));
        let mut out = Vec::new();
        execute!(out, BeginSynchronizedUpdate)?;
        if self.drawn != size {
            execute!(out, Clear(ClearType::All))?;
            self.drawn = size;
        }
        for (row, line) in (0..rows).zip(lines(size).into_iter().chain(std::iter::repeat_with(Line::default))) {
            execute!(out, MoveTo(0, row))?;
            out.extend_from_slice(line.painted(self.colours).as_bytes());
            execute!(out, Clear(ClearType::UntilNewLine))?;
        }
        execute!(out, EndSynchronizedUpdate)?;
        let mut terminal = io::stdout().lock();
        terminal.write_all(&out)?;
        terminal.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// A terminal that is gone needs nothing back.
fn give_back() {
    let _ = execute!(io::stdout(), EndSynchronizedUpdate, Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}
