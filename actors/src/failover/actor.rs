//! The FailoverManager: the shell around admission. It translates messages, performs effects, and keeps askers that
//! wait in a queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::admission::BudgetNews;
use super::asker::Asker;
use super::demand::{Decision, Demand, Grant, Ticket};
use super::ledger::Renamed;
use super::{Admission, ConversationRecord, ConversationSnapshot, Effect, LeaseBook, Leased, Ranked, Snapshot};
use crate::account;
use crate::account::cell::Cells;
use crate::account::fact::Fact;
use crate::account::health::HealthEvent;
use crate::account::supervisor::Directory;
use crate::clock::{SharedClock, Timestamp};
use crate::event::Event;
use crate::id::AccountId;
use crate::inbox::Reader;
use crate::journal::Journal;
use crate::outcome::Evidence;
use crate::ports::{ActorKind, Heartbeat, Record, SharedSink, Table};
use crate::roster::Roster;
use crate::standing::Standing;
use crate::timer::Alarm;

/// The shape of a stored conversation.
pub const CONVERSATION_VERSION: u32 = 1;

/// What it is told.
pub enum Msg {
    /// Someone asks for a lease.
    Lease(Box<Demand>, Asker<Leased>),
    /// Something happened in the book of leases.
    Settle,
    /// An account's standing.
    Learn(Box<Standing>),
    /// Conversations that were kept and could not be read at the start.
    Recall(Vec<ConversationRecord>),
    /// A new fleet.
    Reload(Arc<Roster>),
    /// A deadline may have come.
    Tick,
    /// Someone asks for the whole order.
    Explain(Box<Demand>, Asker<Vec<Ranked>>),
    /// Someone asks what is going on.
    Snapshot(Asker<Snapshot>),
    /// Someone asks for the conversations that were used last: at most so many, of one account.
    Conversations(usize, Option<AccountId>, Asker<Vec<ConversationSnapshot>>),
}

impl std::fmt::Debug for Msg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Lease(..) => "Lease",
            Self::Settle => "Settle",
            Self::Learn(_) => "Learn",
            Self::Recall(_) => "Recall",
            Self::Reload(_) => "Reload",
            Self::Tick => "Tick",
            Self::Explain(..) => "Explain",
            Self::Snapshot(_) => "Snapshot",
            Self::Conversations(..) => "Conversations",
        })
    }
}

/// What it is made of.
#[derive(Clone)]
pub struct Args {
    /// The fleet at start.
    pub roster: watch::Receiver<Arc<Roster>>,
    /// The leases in flight.
    pub book: Arc<LeaseBook>,
    /// The accounts' lasting parts: where a new incarnation learns their standing.
    pub cells: Arc<Cells>,
    /// Where the accounts are to be found.
    pub directory: Arc<Directory>,
    /// The conversations that were kept.
    pub conversations: Vec<ConversationRecord>,
    /// Where conversations are kept.
    pub journal: Journal,
    /// Where events go.
    pub events: SharedSink,
    /// Tells the time.
    pub clock: SharedClock,
    /// Where its tasks run.
    pub tasks: TaskTracker,
    /// Whom to tell that it lives.
    pub heartbeat: Arc<dyn Heartbeat>,
    /// Changes whenever an account may have become usable: waiting clients look again.
    pub changed: watch::Sender<u64>,
}

/// The actor.
#[derive(Debug)]
pub struct FailoverActor;

/// Its state.
pub struct State {
    args: Args,
    admission: Admission,
    waiting: BTreeMap<Ticket, Asker<Leased>>,
    alarm: Alarm,
}

impl Actor for FailoverActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Args;

    async fn pre_start(&self, _: ActorRef<Msg>, args: Args) -> Result<State, ActorProcessingErr> {
        let roster = args.roster.borrow().clone();
        let now = args.clock.now();
        let mut admission = Admission::new(&roster, Arc::clone(&args.book), now);
        admission.restore(args.conversations.clone(), now);
        let alarm = Alarm::new(SharedClock::clone(&args.clock), args.tasks.clone());
        let mut state = State { args, admission, waiting: BTreeMap::new(), alarm };
        state.learn_all();
        Ok(state)
    }

    async fn handle(&self, me: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        let now = state.args.clock.now();
        state.forget_gone();
        state.translate(message, now);
        state.alarm.set(state.admission.next_deadline(now), &me, || Msg::Tick);
        state.args.heartbeat.beat(ActorKind::FailoverManager);
        Ok(())
    }

    /// What the last leases mean for their conversations is still to be kept.
    async fn post_stop(&self, _: ActorRef<Msg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        let now = state.args.clock.now();
        state.translate(Msg::Settle, now);
        Ok(())
    }
}

/// What the names of renamed budgets are kept under.
pub(crate) const NAME_PREFIX: &str = "budget-name:";
/// The shape of such a name.
const NAME_VERSION: u32 = 1;

/// Keeps that a budget has another name, so that what was spent under the old one is found again.
pub(crate) fn remember_name(journal: &Journal, renamed: &Renamed) {
    let key = format!("{NAME_PREFIX}{}", renamed.was);
    journal.remember(Table::Facts, key, NAME_VERSION, renamed.is.as_bytes().to_vec());
}

/// The conversations of these records; a record of another shape is left out.
pub(crate) fn conversations(records: &[Record]) -> Vec<ConversationRecord> {
    records.iter().filter_map(|record| serde_json::from_slice(&record.value).ok()).collect()
}

impl State {
    fn translate(&mut self, message: Msg, now: Timestamp) {
        match message {
            Msg::Lease(demand, reply) => self.lease(&demand, reply, now),
            Msg::Settle => self.settle(now),
            Msg::Learn(standing) => {
                let effects = self.admission.learn(*standing, now);
                self.perform(effects);
                self.args.changed.send_modify(|n| *n += 1);
            }
            Msg::Recall(conversations) => self.admission.restore(conversations, now),
            Msg::Reload(roster) => {
                let effects = self.admission.reload(&roster, now);
                self.perform(effects);
                self.learn_all();
                self.args.changed.send_modify(|n| *n += 1);
            }
            Msg::Tick => {
                self.alarm.rang();
                let effects = self.admission.tick(now);
                self.perform(effects);
                self.args.changed.send_modify(|n| *n += 1);
            }
            Msg::Explain(demand, asker) => {
                let work = asker.begin();
                self.settle(now);
                asker.answer(self.admission.explain(&demand, now));
                work.over();
            }
            Msg::Snapshot(asker) => {
                let work = asker.begin();
                self.settle(now);
                asker.answer(self.admission.snapshot(now));
                work.over();
            }
            Msg::Conversations(most, of, asker) => {
                let work = asker.begin();
                self.settle(now);
                asker.answer(self.admission.latest_conversations(most, of));
                work.over();
            }
        }
    }

    fn settle(&mut self, now: Timestamp) {
        let effects = self.admission.settle(now);
        self.perform(effects);
    }

    /// Whoever waits in a queue and has gone away gives up the place.
    fn forget_gone(&mut self) {
        let gone: Vec<Ticket> =
            self.waiting.iter().filter(|(_, reply)| reply.is_gone()).map(|(ticket, _)| *ticket).collect();
        for ticket in gone {
            self.waiting.remove(&ticket);
            self.admission.cancel(ticket);
        }
    }

    fn learn_all(&mut self) {
        let now = self.args.clock.now();
        for cell in self.args.cells.all() {
            let effects = self.admission.learn(cell.publish(now), now);
            self.perform(effects);
        }
    }

    fn lease(&mut self, demand: &Demand, reply: Asker<Leased>, now: Timestamp) {
        if reply.is_gone() {
            return;
        }
        let work = reply.begin();
        let (decision, effects) = self.admission.lease(demand, now);
        work.over();
        match decision {
            Decision::Queued(ticket) => {
                self.waiting.insert(ticket, reply);
            }
            Decision::Granted(_) | Decision::NotBefore(_) | Decision::Exhausted(_) => self.reply(decision, reply),
        }
        self.perform(effects);
    }

    /// The reply *is* the guard: if the asker has gone away, dropping it returns the lease.
    fn reply(&self, decision: Decision, reply: Asker<Leased>) {
        let leased = match decision {
            Decision::Granted(grant) => self.granted(grant),
            Decision::NotBefore(wait) => Leased::NotBefore(wait),
            Decision::Exhausted(why) => Leased::Exhausted(why),
            Decision::Queued(_) => return,
        };
        reply.answer(leased);
    }

    fn granted(&self, grant: Grant) -> Leased {
        let guard = self.args.book.guard(grant.lease);
        Leased::Granted(grant, guard)
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Admit(ticket, decision) => self.admit(ticket, decision),
                Effect::Emit { kind, account, severity } => self.args.events.emit(Event {
                    seq: 0,
                    ts: self.args.clock.now(),
                    kind,
                    severity,
                    account: Some(account),
                    evidence: Evidence::default(),
                }),
                Effect::Remember(record) => self.remember(&record),
                Effect::Tell(account, news) => self.tell(account, news),
                Effect::Rename(renamed) => remember_name(&self.args.journal, &renamed),
                Effect::Forget(key) => self.args.journal.forget(Table::Conversations, format!("{:032x}", key.0)),
            }
        }
    }

    fn admit(&mut self, ticket: Ticket, decision: Decision) {
        let Some(reply) = self.waiting.remove(&ticket) else { return };
        match decision {
            Decision::Queued(next) => {
                self.waiting.insert(next, reply);
            }
            Decision::Granted(_) | Decision::NotBefore(_) | Decision::Exhausted(_) => self.reply(decision, reply),
        }
    }

    fn tell(&self, account: AccountId, news: BudgetNews) {
        let event = match news {
            BudgetNews::Reached { cycle_ends } => HealthEvent::BudgetReached { cycle_ends },
            BudgetNews::Raised => HealthEvent::BudgetRaised,
        };
        let told = self.args.cells.get(account).map(|cell| cell.inbox.push(Fact::Told(event)));
        let actor = self.args.directory.handle(account);
        if let (Some(Reader::Call), Some(actor)) = (told.map(|pushed| pushed.reader), actor) {
            actor.cast(account::actor::Msg::Look);
        }
    }

    fn remember(&self, record: &ConversationRecord) {
        match serde_json::to_vec(record) {
            Ok(value) => self.args.journal.remember(
                Table::Conversations,
                format!("{:032x}", record.key.0),
                CONVERSATION_VERSION,
                value,
            ),
            Err(error) => tracing::error!(%error, "a conversation cannot be written down"),
        }
    }
}
