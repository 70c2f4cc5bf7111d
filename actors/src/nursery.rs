//! The children of one supervisor: who lives, and what is done about a death.
//!
//! Never here: what a child is made of, and how it is started.

use std::collections::BTreeMap;
use std::fmt::Debug;

use ractor::{ActorCell, ActorProcessingErr, SupervisionEvent};
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Timestamp};
use crate::event::{Event, EventKind, Severity};
use crate::outcome::Evidence;
use crate::ports::{ActorKind, EventSink};
use crate::restart::{Restart, RestartBudget};

/// The children, by what they are to their parent.
#[derive(Debug)]
pub(crate) struct Nursery<K> {
    children: BTreeMap<K, Life>,
}

#[derive(Debug, Default)]
struct Life {
    actor: Option<ActorCell>,
    budget: RestartBudget,
}

/// What a parent needs to bear a death.
pub(crate) struct Means<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) events: &'a dyn EventSink,
    pub(crate) tasks: &'a TaskTracker,
}

impl<K> Default for Nursery<K> {
    fn default() -> Self {
        Self { children: BTreeMap::new() }
    }
}

impl<K: Ord + Copy + Debug> Nursery<K> {
    /// The child has this actor now.
    pub(crate) fn born(&mut self, child: K, actor: ActorCell) {
        self.children.entry(child).or_default().actor = Some(actor);
    }

    /// The child's actor, unless it is dead.
    pub(crate) fn living(&self, child: K) -> Option<&ActorCell> {
        self.children.get(&child)?.actor.as_ref()
    }

    /// Whose death an event tells of, and why; nobody's if another actor has taken the place since.
    pub(crate) fn death(&mut self, event: SupervisionEvent) -> Option<(K, String)> {
        let (who, why) = match event {
            SupervisionEvent::ActorTerminated(who, _, why) => (who, why.unwrap_or_default()),
            SupervisionEvent::ActorFailed(who, error) => (who, error.to_string()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return None,
        };
        let is_lost = |life: &Life| life.actor.as_ref().is_some_and(|actor| actor.get_id() == who.get_id());
        let (child, life) = self.children.iter_mut().find(|(_, life)| is_lost(life))?;
        life.actor = None;
        Some((*child, why))
    }

    /// The child is dead. `again` is what starts it anew; it runs when the time for that has come.
    ///
    /// # Errors
    /// When it died too often: then the parent must die too.
    pub(crate) fn mourn(
        &mut self,
        child: K,
        kind: ActorKind,
        why: &str,
        means: &Means<'_>,
        again: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ActorProcessingErr> {
        let now = means.clock.now();
        let life = self.children.entry(child).or_default();
        life.actor = None;
        match life.budget.died(now) {
            Restart::After(wait) => {
                means.events.emit(restarted(kind, why, now));
                means.tasks.spawn(async move {
                    tokio::time::sleep(wait).await;
                    again.await;
                });
                Ok(())
            }
            Restart::Escalate => Err(format!("{child:?} died too often: {why}").into()),
        }
    }
}

/// The event of an actor's death and coming life.
fn restarted(actor: ActorKind, why: &str, now: Timestamp) -> Event {
    tracing::error!(actor = actor.as_str(), why, "an actor died and is started again");
    Event {
        seq: 0,
        ts: now,
        kind: EventKind::ActorRestarted { actor: actor.as_str().to_owned() },
        severity: Severity::Error,
        account: None,
        evidence: Evidence::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ractor::{Actor, ActorRef};
    use tokio::sync::oneshot;

    use super::*;
    use crate::clock::{ManualClock, instant};

    struct Idle;

    impl Actor for Idle {
        type Msg = ();
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    #[derive(Default)]
    struct Told(Mutex<Vec<EventKind>>);

    impl EventSink for Told {
        fn emit(&self, event: Event) {
            self.0.lock().expect("one thread").push(event.kind);
        }
    }

    async fn actor() -> ActorCell {
        Idle::spawn(None, Idle, ()).await.expect("it starts").0.get_cell()
    }

    fn end(of: &ActorCell) -> SupervisionEvent {
        SupervisionEvent::ActorTerminated(of.clone(), None, Some("gone".to_owned()))
    }

    #[tokio::test]
    async fn a_death_is_that_of_the_child_whose_actor_it_was() {
        let mut nursery = Nursery::default();
        let (first, second, stranger) = (actor().await, actor().await, actor().await);
        nursery.born('a', first.clone());
        nursery.born('b', second.clone());
        assert_eq!(nursery.death(SupervisionEvent::ActorStarted(second.clone())), None);
        assert_eq!(nursery.death(end(&stranger)), None);
        assert_eq!(nursery.death(end(&second)), Some(('b', "gone".to_owned())));
        assert!(nursery.living('b').is_none() && nursery.living('a').is_some());
        nursery.born('a', stranger.clone());
        assert_eq!(nursery.death(end(&first)), None, "another has its place");
        let failed = SupervisionEvent::ActorFailed(stranger, "bad".into());
        assert_eq!(nursery.death(failed), Some(('a', "bad".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_child_is_told_of_and_started_again_when_its_wait_is_over() {
        let (clock, told, tasks) = (ManualClock::at(Timestamp::at_millis(0)), Told::default(), TaskTracker::new());
        let means = Means { clock: &clock, events: &told, tasks: &tasks };
        let mut nursery = Nursery::default();
        for wait in [0, 20, 40] {
            nursery.born('a', actor().await);
            let (again, started) = oneshot::channel();
            let (died, respawn) = (instant(), async move { again.send(()).expect("it is waited for") });
            nursery.mourn('a', ActorKind::Journal, "gone", &means, respawn).expect("it may start again");
            assert!(nursery.living('a').is_none());
            started.await.expect("it is started");
            let waited = u64::try_from(died.elapsed().as_millis()).expect("short");
            assert!((wait..wait + 5).contains(&waited), "{waited} ms");
        }
        let told = told.0.into_inner().expect("one thread");
        assert_eq!(told, vec![EventKind::ActorRestarted { actor: ActorKind::Journal.as_str().to_owned() }; 3]);
    }

    #[tokio::test]
    async fn a_child_that_dies_too_often_is_the_parents_affair_and_the_others_are_not() {
        let (clock, told, tasks) = (ManualClock::at(Timestamp::at_millis(0)), Told::default(), TaskTracker::new());
        let means = Means { clock: &clock, events: &told, tasks: &tasks };
        let mut nursery = Nursery::default();
        let mut mourn = |child| nursery.mourn(child, ActorKind::Account, "bad", &means, async {});
        let last = (0..31).map(|_| mourn('a').map_err(|error| error.to_string())).last();
        assert_eq!(last, Some(Err("'a' died too often: bad".to_owned())));
        assert!(mourn('b').is_ok());
    }
}
