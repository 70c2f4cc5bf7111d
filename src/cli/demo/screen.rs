//! Where the story appears: lines for a person, at a pace for reading, or the events as JSON.

use std::io::{self, Write};
use std::time::Duration;

use duduclaw_actors::event::Event;
use serde_json::json;

use super::line::{Line, Mark};
use super::tally::Tally;

/// Where the story appears.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    form: Form,
}

/// How it looks.
#[derive(Clone, Copy, Debug)]
enum Form {
    Text { pace: Duration, ink: Ink },
    Json,
}

/// Whether the terminal shows colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Colours,
    Plain,
}

const OPENING: &str = "\
duduclaw demo: a gateway, three simulated accounts, a client, and bad luck.
Every line below is an event of the feed. Nobody's account is used.

";

const CLOSING: &str = "
Next:
  duduclaw claude    Claude Code through the gateway, on your own accounts
  duduclaw serve     the gateway for all clients (see `duduclaw env`)
";

impl Screen {
    /// Lines for a person, with a pause before each.
    pub(super) fn text(out: Box<dyn Write + Send>, pace: Duration, ink: Ink) -> Self {
        Self { out, form: Form::Text { pace, ink } }
    }

    /// Events for a program.
    pub(super) fn json(out: Box<dyn Write + Send>) -> Self {
        Self { out, form: Form::Json }
    }

    /// What stands above all.
    pub(super) fn open(&mut self) -> io::Result<()> {
        match self.form {
            Form::Text { .. } => self.put(OPENING),
            Form::Json => Ok(()),
        }
    }

    /// A heading.
    pub(super) async fn heading(&mut self, number: usize, title: &str) -> io::Result<()> {
        let Form::Text { pace, ink } = self.form else { return Ok(()) };
        self.put(&format!("\n{}\n", ink.bold(&format!("{number}. {title}"))))?;
        tokio::time::sleep(pace * 3).await;
        Ok(())
    }

    /// An event, as it is; nothing where a person reads.
    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        match self.form {
            Form::Text { .. } => Ok(()),
            Form::Json => self.put(&format!("{}\n", serde_json::to_string(event)?)),
        }
    }

    /// A line; nothing where a program reads.
    pub(super) async fn line(&mut self, line: &Line) -> io::Result<()> {
        let Form::Text { pace, ink } = self.form else { return Ok(()) };
        tokio::time::sleep(pace).await;
        let time = ink.dim(&format!("{:>9}", clock(line.at)));
        self.put(&format!("{time}  {} {}\n", ink.mark(line.mark), line.text))
    }

    /// What it adds up to.
    pub(super) fn summary(&mut self, tally: &Tally) -> io::Result<()> {
        match self.form {
            Form::Text { ink, .. } => self.put(&format!("\n{}\n{}{CLOSING}", ink.bold("Summary"), table(tally))),
            Form::Json => self.put(&format!("{}\n", json!({ "summary": tally }))),
        }
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

fn table(tally: &Tally) -> String {
    let Tally { requests, attempts, served, cut, errors, moved, held, refreshed, accounts } = tally;
    let each: Vec<String> = accounts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    format!(
        "  {requests} requests took {attempts} attempts: {}.\n  \
         {served} were answered in full, {cut} cut midway and repeated by the client.\n  \
         {moved} moves of conversations, {refreshed} renewed tokens, {held} waits for an account.\n  \
         Errors that the client saw: {errors}\n",
        each.join(", ")
    )
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

impl Ink {
    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn mark(self, mark: Mark) -> String {
        match mark {
            Mark::Good => self.paint("32", "✓"),
            Mark::Moved => self.paint("36", "→"),
            Mark::Trouble => self.paint("33", "!"),
            Mark::Note => self.paint("34", "·"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("one writer").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    async fn page(ink: Ink) -> String {
        let page = Page::default();
        let mut screen = Screen::text(Box::new(page.clone()), Duration::ZERO, ink);
        screen.open().expect("it takes all");
        screen.heading(1, "One").await.expect("it takes all");
        let line = Line { at: Duration::from_secs(17_999), mark: Mark::Moved, text: "Words.".to_owned() };
        screen.line(&line).await.expect("it takes all");
        screen.summary(&Tally::default()).expect("it takes all");
        let bytes = page.0.lock().expect("one writer").clone();
        String::from_utf8(bytes).expect("it is text")
    }

    #[tokio::test]
    async fn colours_are_left_out_where_none_are_wanted() {
        let plain = page(Ink::Plain).await;
        assert!(plain.contains("\n1. One\n  4:59:59  → Words.\n"), "{plain}");
        assert!(!plain.contains('\x1b'));
        assert!(page(Ink::Colours).await.contains("\x1b[36m→\x1b[0m Words."));
        assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    }
}
