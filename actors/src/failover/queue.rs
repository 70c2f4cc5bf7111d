//! Askers that wait for the last candidate: first in, first out, and after ten seconds one per 50 ms.

use std::collections::VecDeque;
use std::time::Duration;

use super::demand::{Demand, Ticket};
use crate::clock::{Deadline, Timestamp};

/// So many wait for one account.
const MOST: usize = 256;
/// So long the allowance decides alone.
const PATIENCE: Duration = Duration::from_secs(10);
/// Then one is admitted this often.
const PACE: Duration = Duration::from_millis(50);

/// One asker.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) demand: Demand,
    pub(super) since: Timestamp,
}

/// The askers that wait for one account.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    waiters: VecDeque<Waiter>,
    paced_at: Option<Timestamp>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiters.len() < MOST
    }

    pub(super) fn push(&mut self, waiter: Waiter) {
        self.waiters.push_back(waiter);
    }

    pub(super) fn head(&self) -> Option<&Waiter> {
        self.waiters.front()
    }

    pub(super) fn pop(&mut self) -> Option<Waiter> {
        self.waiters.pop_front()
    }

    /// Everyone leaves, to be planned anew.
    pub(super) fn flush(&mut self) -> VecDeque<Waiter> {
        std::mem::take(&mut self.waiters)
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) {
        self.waiters.retain(|w| w.ticket != ticket);
    }

    /// When the head is admitted whatever the allowance says.
    pub(super) fn paced_at(&self, now: Timestamp) -> Option<Deadline> {
        let patience = Deadline::after(self.waiters.front()?.since, PATIENCE);
        Some(self.paced_at.map_or(patience, |at| patience.later(Deadline::after(at, PACE), now)))
    }

    /// The head was admitted by pace.
    pub(super) fn note_paced(&mut self, now: Timestamp) {
        self.paced_at = Some(now);
    }
}
