//! The supervisor of all accounts: starts one actor for each, starts it anew when it dies, and follows the fleet.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use crate::account::actor::{self, AccountActor};
use crate::account::cell::{AccountCell, Cells};
use crate::id::AccountId;
use crate::nursery::{Means, Nursery};
use crate::ports::{ActorKind, Heartbeat};
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
    employed: Nursery<AccountId>,
}

impl Actor for AccountSupervisor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        Ok(State { args, employed: Nursery::default() })
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
        let death = state.employed.death(event);
        death.map_or(Ok(()), |(account, why)| state.mourn(&me, account, &why))
    }

    async fn post_stop(&self, me: ActorRef<Msg>, _: &mut State) -> Result<(), ActorProcessingErr> {
        me.stop_children_and_wait(None, None).await;
        Ok(())
    }
}

impl State {
    /// An account that has an actor keeps it: a reload may have given it one while a respawn was on its way.
    async fn employ(&mut self, me: &ActorRef<Msg>, cell: Arc<AccountCell>) -> Result<(), ActorProcessingErr> {
        if self.employed.living(cell.account).is_some() {
            return Ok(());
        }
        self.spawn(me, cell).await
    }

    async fn spawn(&mut self, me: &ActorRef<Msg>, cell: Arc<AccountCell>) -> Result<(), ActorProcessingErr> {
        let account = cell.account;
        let args = (self.args.template)(cell);
        let (actor, _) = AccountActor::spawn_linked(None, AccountActor, args, me.get_cell()).await?;
        self.employed.born(account, actor.get_cell());
        self.args.directory.slot(account).fill(actor, actor::Msg::Look);
        Ok(())
    }

    fn mourn(&mut self, me: &ActorRef<Msg>, account: AccountId, why: &str) -> Result<(), ActorProcessingErr> {
        let Some(cell) = self.args.cells.get(account) else { return Ok(()) };
        let args = (self.args.template)(cell);
        let me = me.clone();
        let again = async move { drop(me.cast(Msg::Respawn(account))) };
        let means = Means { clock: &*args.clock, events: &*args.events, tasks: &args.tasks };
        self.employed.mourn(account, ActorKind::Account, why, &means, again)
    }
}
