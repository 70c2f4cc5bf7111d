//! An actor's one timer. A timer is a hint, the deadline is the truth: the actor looks at its deadlines whenever it is
//! told to, and a tick of an older setting is harmless.

use ractor::{ActorRef, Message};
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use crate::clock::{Deadline, SharedClock, sleep_until};

/// Reminds an actor of its next deadline.
#[derive(Debug)]
pub struct Alarm {
    clock: SharedClock,
    tasks: TaskTracker,
    set_for: Option<Deadline>,
    task: Option<AbortHandle>,
}

impl Alarm {
    /// An alarm that is not set.
    #[must_use]
    pub fn new(clock: SharedClock, tasks: TaskTracker) -> Self {
        Self { clock, tasks, set_for: None, task: None }
    }

    /// Sets it for `deadline`, or unsets it; setting it for the same moment again costs nothing.
    pub fn set<M: Message>(&mut self, deadline: Option<Deadline>, actor: &ActorRef<M>, tick: fn() -> M) {
        if self.set_for == deadline && self.task.as_ref().is_none_or(|task| !task.is_finished()) {
            return;
        }
        self.unset();
        self.set_for = deadline;
        let Some(deadline) = deadline else { return };
        let (clock, actor) = (SharedClock::clone(&self.clock), actor.clone());
        let task = self.tasks.spawn(async move {
            sleep_until(&*clock, deadline).await;
            let _ = actor.cast(tick());
        });
        self.task = Some(task.abort_handle());
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.set_for.is_some() && self.task.as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Forgets what it was set for, once it has rung.
    pub fn rang(&mut self) {
        self.set_for = None;
    }

    fn unset(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.unset();
    }
}
