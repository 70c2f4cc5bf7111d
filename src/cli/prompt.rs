//! Asking a person at a terminal: for a line, for one of a few things, for a secret that nobody sees.
//!
//! Questions go to standard error, so that standard output is the command's alone. Never here: what is asked for.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use zeroize::Zeroizing;

use self::typing::{Typed, Typing};

mod typing;

/// No secret is longer.
const LONGEST: u64 = 64 * 1024;

/// Whether somebody is there to be asked.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// All of standard input, as a secret.
pub(super) fn standard_input() -> io::Result<Zeroizing<String>> {
    all_of(io::stdin().lock())
}

fn all_of(input: impl Read) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::with_capacity(4096));
    let read = input.take(LONGEST + 1).read_to_string(&mut text)?;
    if read as u64 <= LONGEST { Ok(text) } else { Err(io::Error::other("no secret is longer than 64 KiB")) }
}

/// One line of standard input.
pub(super) fn line(question: &str) -> io::Result<Zeroizing<String>> {
    say(question)?;
    let mut text = Zeroizing::new(String::with_capacity(4096));
    let read = io::stdin().lock().take(LONGEST).read_line(&mut text)?;
    if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(text) }
}

/// One of these, by its number; the first if nothing is said.
pub(super) fn choice(question: &str, options: &[&str]) -> io::Result<usize> {
    loop {
        say(&format!("{question}\n"))?;
        for (at, option) in options.iter().enumerate() {
            say(&format!("  {}) {option}\n", at + 1))?;
        }
        let said = line("[1] ")?;
        match said.trim() {
            "" => return Ok(0),
            said => match chosen(said, options) {
                Some(at) => return Ok(at),
                None => say("that is none of them\n")?,
            },
        }
    }
}

/// By its number, or by how it begins if that is said of no other.
fn chosen(said: &str, options: &[&str]) -> Option<usize> {
    if let Ok(number) = said.parse::<usize>() {
        return number.checked_sub(1).filter(|at| *at < options.len());
    }
    let begins = |option: &&str| option.to_lowercase().starts_with(&said.to_lowercase());
    let mut fitting = options.iter().enumerate().filter(|(_, option)| begins(option));
    fitting.next().filter(|_| fitting.next().is_none()).map(|(at, _)| at)
}

/// A secret, which is not shown while it is typed or pasted.
pub(super) fn hidden(question: &str) -> io::Result<Zeroizing<String>> {
    let quiet = Quiet::begin()?;
    let typed = say(question).and_then(|()| typed());
    drop(quiet);
    say("\n")?;
    typed
}

fn typed() -> io::Result<Zeroizing<String>> {
    let mut typing = Typing::default();
    for byte in io::stdin().lock().bytes() {
        match typing.take(byte?) {
            Typed::More => {}
            Typed::Done => return typing.text().ok_or_else(|| io::Error::other("what was typed is no text")),
            Typed::GivenUp => return Err(io::ErrorKind::Interrupted.into()),
        }
    }
    // The terminal is gone.
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn say(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Quiet;

impl Quiet {
    fn begin() -> io::Result<Self> {
        enable_raw_mode().map(|()| Self)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_few_is_chosen_by_number_or_by_how_it_begins() {
        let options = ["no", "yes", "yesterday"];
        let of = |said| chosen(said, &options);
        assert_eq!((of("1"), of("3"), of("0"), of("4")), (Some(0), Some(2), None, None));
        assert_eq!((of("N"), of("yes"), of("yest"), of("maybe")), (Some(0), None, Some(2), None));
    }

    #[test]
    fn a_secret_that_is_too_long_is_not_taken_in_part() {
        let long = vec![b'a'; 64 * 1024 + 1];
        assert_eq!(all_of(&long[1..]).unwrap().len(), long.len() - 1);
        assert!(all_of(&long[..]).is_err());
    }
}
