//! A queue that outlives its reader.
//!
//! An actor's mailbox dies with it, and with the mailbox whatever it had not handled. Evidence must not be lost that
//! way, so it waits here, outside the actor; the mailbox carries only the call to look. The reader takes an item out
//! only after it has been applied. An item that kills its reader again and again is set aside, so that one bad fact
//! cannot keep an account out for ever.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::id::EvidenceSeq;

/// How many readers an item may kill before it is set aside.
const DEADLY: u32 = 3;

/// A queue of items, each with a number.
#[derive(Debug)]
pub struct Inbox<T> {
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    last: EvidenceSeq,
    reader: Reader,
    items: VecDeque<Item<T>>,
}

#[derive(Debug)]
struct Item<T> {
    seq: EvidenceSeq,
    begun: u32,
    value: T,
}

/// What became of a pushed item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Its number.
    pub seq: EvidenceSeq,
    /// Whether the reader must be called.
    pub reader: Reader,
}

/// Whether a reader must be called to look. Once called it looks again and again until it may rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// It is at rest: call it.
    Call,
    /// It is at work: it will come by, or its successor will.
    AtWork,
}

/// Whether a reader may rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It will be called.
    Yes,
    /// There is something to read.
    No,
}

/// What the reader finds at the front.
#[derive(Debug, PartialEq, Eq)]
pub enum Front<T> {
    /// An item to apply.
    Item(EvidenceSeq, T),
    /// An item that killed its readers; it has been taken out.
    SetAside(EvidenceSeq),
    /// Nothing.
    Empty,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { queue: Mutex::new(Queue { last: EvidenceSeq(0), items: VecDeque::new(), reader: Reader::Call }) }
    }
}

impl<T: Clone> Inbox<T> {
    /// Puts an item at the end and gives its number.
    pub fn push(&self, value: T) -> Pushed {
        let mut queue = self.lock();
        queue.last = EvidenceSeq(queue.last.0 + 1);
        let seq = queue.last;
        let reader = std::mem::replace(&mut queue.reader, Reader::AtWork);
        queue.items.push_back(Item { seq, begun: 0, value });
        Pushed { seq, reader }
    }

    /// The item at the front, which stays there until [`Inbox::done`].
    pub fn front(&self) -> Front<T> {
        let mut queue = self.lock();
        let Some(item) = queue.items.front_mut() else { return Front::Empty };
        item.begun += 1;
        if item.begun <= DEADLY {
            return Front::Item(item.seq, item.value.clone());
        }
        let seq = item.seq;
        queue.items.pop_front();
        Front::SetAside(seq)
    }

    /// Takes out the item of this number, which has been applied.
    pub fn done(&self, seq: EvidenceSeq) {
        let mut queue = self.lock();
        if queue.items.front().is_some_and(|item| item.seq == seq) {
            queue.items.pop_front();
        }
    }

    /// The reader goes to rest, unless something has come meanwhile.
    pub fn rest(&self) -> Rest {
        let mut queue = self.lock();
        if !queue.items.is_empty() {
            return Rest::No;
        }
        queue.reader = Reader::Call;
        Rest::Yes
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_stays_until_it_is_done() {
        let inbox = Inbox::default();
        let first = inbox.push("a").seq;
        inbox.push("b");
        assert_eq!(inbox.front(), Front::Item(first, "a"));
        assert_eq!(inbox.front(), Front::Item(first, "a"), "a reader that died left it here");
        inbox.done(first);
        assert_eq!(inbox.front(), Front::Item(EvidenceSeq(2), "b"));
    }

    #[test]
    fn an_item_that_kills_three_readers_is_set_aside() {
        let inbox = Inbox::default();
        let seq = inbox.push("deadly").seq;
        for _ in 0..DEADLY {
            assert_eq!(inbox.front(), Front::Item(seq, "deadly"));
        }
        assert_eq!(inbox.front(), Front::SetAside(seq));
        assert_eq!(inbox.front(), Front::Empty);
    }

    #[test]
    fn a_reader_is_called_once_until_it_rests() {
        let inbox = Inbox::default();
        assert_eq!(inbox.push(1).reader, Reader::Call);
        assert_eq!((inbox.push(2).reader, inbox.rest()), (Reader::AtWork, Rest::No));
        for seq in 1..=2 {
            inbox.done(EvidenceSeq(seq));
        }
        assert_eq!(inbox.push(3).reader, Reader::AtWork, "it has not said that it rests");
        inbox.done(EvidenceSeq(3));
        assert_eq!(inbox.rest(), Rest::Yes);
        assert_eq!(inbox.push(4).reader, Reader::Call);
    }

    #[test]
    fn done_names_the_item_so_that_a_late_call_takes_no_other() {
        let inbox = Inbox::default();
        let first = inbox.push(1).seq;
        let second = inbox.push(2).seq;
        inbox.done(second);
        inbox.done(first);
        inbox.done(first);
        assert_eq!(inbox.front(), Front::Item(second, 2));
    }
}
