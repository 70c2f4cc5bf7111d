//! `duduclaw demo`: the whole system on simulated accounts, in one process, told step by step.
//!
//! Nobody's account, no configuration, no network beyond loopback. What is told are the events of the feed; headings say
//! only what is done to the system. An expected event that does not come is named, and the exit status is 1.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::{Exit, Globals, logging};

mod acts;
mod client;
mod line;
mod screen;
mod stage;
mod story;
mod tally;

use screen::Screen;
use stage::Stage;
use story::Story;

/// How long a line stands alone on a terminal.
const READING_PACE: Duration = Duration::from_millis(120);

/// Show what it does: the whole system on simulated accounts, told step by step.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The events themselves, one JSON object a line, and a summary at the end.
    #[arg(long)]
    json: bool,
    /// Milliseconds before each line. Default: 120 on a terminal, otherwise none.
    #[arg(long, value_name = "MS")]
    pace: Option<u64>,
    /// No pauses.
    #[arg(long, conflicts_with = "pace")]
    fast: bool,
}

pub(super) async fn run(args: DemoArgs, globals: &Globals) -> Result<Exit> {
    if globals.verbose > 0 {
        logging::start(globals, None);
    }
    let mut story = Story::new(Stage::set().await?, screen(&args));
    let told = tokio::select! {
        told = Box::pin(acts::play(&mut story)) => told.map_err(anyhow::Error::from),
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("the demo was interrupted")),
    };
    let (tally, mut screen) = story.end().await;
    told?;
    screen.summary(&tally)?;
    if tally.errors > 0 {
        bail!("{} requests of the demo ended with an error for the client, and none should", tally.errors);
    }
    Ok(Exit::Done)
}

fn screen(args: &DemoArgs) -> Screen {
    let on_terminal = std::io::stdout().is_terminal();
    let out: Box<dyn Write + Send> = Box::new(std::io::stdout());
    if args.json {
        return Screen::json(out);
    }
    let usual = if on_terminal && !args.fast { READING_PACE } else { Duration::ZERO };
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let ink = if on_terminal && !no_color { screen::Ink::Colours } else { screen::Ink::Plain };
    Screen::text(out, args.pace.map_or(usual, Duration::from_millis), ink)
}
