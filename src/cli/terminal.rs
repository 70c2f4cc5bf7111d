//! What is typed at the terminal, and that it has gone away.
//!
//! A program that outlives its terminal (under `nohup`, say) would read its end for ever: the reader that tells keys apart
//! takes no notice of it.

use std::io;
use std::time::Duration;

use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Something that wakes no file, such as a change of the terminal's size, is noticed within this time.
const NOTICED_WITHIN: Duration = Duration::from_millis(250);

/// The next thing that happens at the terminal. Blocks the thread.
///
/// # Errors
/// When the terminal is gone.
pub(super) fn next_event() -> io::Result<Event> {
    let mut wait = Duration::ZERO;
    loop {
        // What the reader has taken in already is asked for without waiting.
        let reader_waits = match wait_for_input(wait)? {
            Asked::Answered => Duration::ZERO,
            Asked::Unable => wait,
        };
        if event::poll(reader_waits)? {
            return event::read();
        }
        wait = NOTICED_WITHIN;
    }
}

/// Whether the system tells of a terminal what it tells of other files.
enum Asked {
    Answered,
    Unable,
}

fn wait_for_input(wait: Duration) -> io::Result<Asked> {
    let stdin = io::stdin();
    let mut files = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut files, Some(&wait)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let said = files[0].revents();
    if said.intersects(PollFlags::HUP | PollFlags::ERR) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(if said.contains(PollFlags::NVAL) { Asked::Unable } else { Asked::Answered })
}
