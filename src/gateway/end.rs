//! How a relayed body ends, and who is told.

use crate::gateway::meter::Meter;

/// How a relayed body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The provider ended it.
    Complete,
    /// The provider's connection broke.
    Broken,
    /// Nothing came for too long.
    Stalled,
    /// We stop.
    Stopped,
    /// The client went away.
    ClientGone,
}

/// Told once, when a body is over.
pub trait Finish: Send {
    /// Some of the body passed.
    fn passed(&mut self, meter: &Meter);

    /// The body is over.
    fn over(self: Box<Self>, end: End, meter: &Meter);
}
