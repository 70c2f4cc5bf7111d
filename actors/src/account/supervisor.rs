//! The supervisor of all accounts: starts one actor for each, starts it anew when it dies, and follows the fleet.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use crate::account::actor::{self, AccountActor};
use crate::account::cell::{AccountCell, Cells};
use crate::clock::Timestamp;
use crate::event::{Event, EventKind, Severity};
use crate::id::AccountId;
use crate::outcome::Evidence;
use crate::ports::{ActorKind, Heartbeat};
use crate::restart::{Restart, RestartBudget};
use crate::slot::{Handle, Slot};

/// What it is told.
#[derive(Debug)]
pub enum Msg {
    /// These accounts are the fleet; answered when each has an actor.
    Employ(Vec<Arc<AccountCell>>, oneshot::Sender<()>),
    /// A dead account's wait is over.
    Respawn(AccountId),
}

/// What it is made of.
#[derive(Clone)]
pub struct Args {
    /// What each account's actor is made of, but for its cell.
    pub template: AccountTemplate,
    /// Where each account is to be found.
    pub directory: Arc<Directory>,
    /// The accounts' lasting parts.
    pub cells: Arc<Cells>,
    /// Whom to tell that it lives.
    pub heartbeat: Arc<dyn Heartbeat>,
}

/// Makes the arguments of an account's actor.
pub type AccountTemplate = Arc<dyn Fn(Arc<AccountCell>) -> actor::Args + Send + Sync>;

/// Where each account's actor is to be found. Outlives the supervisor.
#[derive(Debug, Default)]
pub struct Directory {
    slots: RwLock<BTreeMap<AccountId, Arc<Slot<actor::Msg>>>>,
}

impl Directory {
    /// The handle of one account's actor.
    #[must_use]
    pub fn handle(&self, account: AccountId) -> Option<Handle<actor::Msg>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).get(&account).map(|slot| slot.handle())
    }

    fn slot(&self, account: AccountId) -> Arc<Slot<actor::Msg>> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(account).or_default())
    }
}

/// The actor.
#[derive(Debug)]
pub struct AccountSupervisor;

/// Its state.
pub struct State {
    args: Args,
    employed: BTreeMap<AccountId, Employed>,
}

#[derive(Default)]
struct Employed {
    actor: Option<ActorId>,
    budget: RestartBudget,
}

impl Actor for AccountSupervisor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        Ok(State { args, employed: BTreeMap::new() })
    }

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Employ(cells, reply) => {
                for cell in cells {
                    state.employ(&me, cell).await?;
                }
                let _ = reply.send(());
            }
            Msg::Respawn(account) => {
                if let Some(cell) = state.args.cells.get(account) {
                    state.employ(&me, cell).await?;
                }
            }
        }
        state.args.heartbeat.beat(ActorKind::AccountSupervisor);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(who, _, reason) => {
                state.died(&me, who.get_id(), &reason.unwrap_or_default())
            }
            SupervisionEvent::ActorFailed(who, error) => state.died(&me, who.get_id(), &error.to_string()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => Ok(()),
        }
    }

    async fn post_stop(&self, me: ActorRef<Msg>, _: &mut State) -> Result<(), ActorProcessingErr> {
        me.stop_children_and_wait(None, None).await;
        Ok(())
    }
}

impl State {
    /// An account that has an actor keeps it: a reload may have given it one while a respawn was on its way.
    async fn employ(&mut self, me: &ActorRef<Msg>, cell: Arc<AccountCell>) -> Result<(), ActorProcessingErr> {
        if self.employed.get(&cell.account).is_some_and(|employed| employed.actor.is_some()) {
            return Ok(());
        }
        self.spawn(me, cell).await
    }

    async fn spawn(&mut self, me: &ActorRef<Msg>, cell: Arc<AccountCell>) -> Result<(), ActorProcessingErr> {
        let account = cell.account;
        let args = (self.args.template)(cell);
        let (actor, _) = AccountActor::spawn_linked(None, AccountActor, args, me.get_cell()).await?;
        self.employed.entry(account).or_default().actor = Some(actor.get_id());
        self.args.directory.slot(account).fill(actor, actor::Msg::Look);
        Ok(())
    }

    fn died(&mut self, me: &ActorRef<Msg>, who: ActorId, why: &str) -> Result<(), ActorProcessingErr> {
        let Some((&account, employed)) = self.employed.iter_mut().find(|(_, e)| e.actor == Some(who)) else {
            return Ok(());
        };
        employed.actor = None;
        let Some(cell) = self.args.cells.get(account) else { return Ok(()) };
        let args = (self.args.template)(cell);
        let now = args.clock.now();
        match employed.budget.died(now) {
            Restart::After(wait) => {
                args.events.emit(restarted(ActorKind::Account, why, now));
                let me = me.clone();
                args.tasks.spawn(async move {
                    tokio::time::sleep(wait).await;
                    let _ = me.cast(Msg::Respawn(account));
                });
                Ok(())
            }
            Restart::Escalate => Err(format!("account {} died too often: {why}", account.0).into()),
        }
    }
}

/// The event of an actor's death and coming life.
#[must_use]
pub fn restarted(actor: ActorKind, why: &str, now: Timestamp) -> Event {
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
