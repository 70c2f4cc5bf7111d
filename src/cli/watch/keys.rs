//! What is pressed, read on a thread of its own: reading a terminal blocks.

use std::io;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

/// What a key means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    First,
    Last,
    Pause,
    Clear,
    Probe,
    Quit,
    /// The terminal has another size.
    Redraw,
}

/// Reads until nobody listens, or the terminal is gone.
pub(super) fn read() -> mpsc::Receiver<Key> {
    let (tell, keys) = mpsc::channel(64);
    let gone = tell.clone();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let Some(key) = meaning(&event) else { continue };
            if tell.blocking_send(key).is_err() {
                return;
            }
        }
    });
    // A program that outlives its terminal (under `nohup`, say) reads its end for ever: the reader takes no notice of it.
    std::thread::spawn(move || {
        if is_hung_up_some_day() {
            let _ = gone.blocking_send(Key::Quit);
        }
    });
    keys
}

/// Waits until the terminal is gone. No: the system does not tell of this one.
fn is_hung_up_some_day() -> bool {
    let stdin = io::stdin();
    let mut files = [PollFd::new(&stdin, PollFlags::empty())];
    loop {
        match poll(&mut files, None) {
            Ok(_) => return files[0].revents().intersects(PollFlags::HUP | PollFlags::ERR),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn meaning(event: &Event) -> Option<Key> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(*key),
        Event::Resize(..) => Some(Key::Redraw),
        Event::Key(_) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
    }
}

fn of_key(key: KeyEvent) -> Option<Key> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let known = [
        (KeyCode::Up, Key::Up),
        (KeyCode::Char('k'), Key::Up),
        (KeyCode::Down, Key::Down),
        (KeyCode::Char('j'), Key::Down),
        (KeyCode::Home, Key::First),
        (KeyCode::End, Key::Last),
        (KeyCode::Char('p'), Key::Pause),
        (KeyCode::Char('c'), Key::Clear),
        (KeyCode::Char('b'), Key::Probe),
        (KeyCode::Char('q'), Key::Quit),
        (KeyCode::Esc, Key::Quit),
    ];
    if control {
        let known = [('c', Key::Quit), ('d', Key::Quit), ('l', Key::Redraw)];
        return known.into_iter().find(|(letter, _)| key.code == KeyCode::Char(*letter)).map(|(_, key)| key);
    }
    known.into_iter().find(|(known, _)| *known == key.code).map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_with_control_is_not_the_letter() {
        let key = |code, modifiers| of_key(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), Some(Key::Clear));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('p'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::Up, KeyModifiers::NONE), Some(Key::Up));
        assert_eq!(key(KeyCode::Char('x'), KeyModifiers::NONE), None);
    }
}
