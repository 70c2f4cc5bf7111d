//! Asks about credentials in doubt: refused ones when their own schedule says so, unchecked ones and those that could not
//! be reached with each round. Providers are asked with the very secret; a CLI's own login is asked for by its status
//! command.
//!
//! When an account is to be asked about, and what an answer means, is the account's affair.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use duduclaw_actors::account::fact::Fact;
use duduclaw_actors::account::health::{AskedBy, HealthEvent, Question};
use duduclaw_actors::clock::{Deadline, Timestamp, sleep_until};
use duduclaw_actors::event::{Event, EventKind};
use duduclaw_actors::id::{AccountId, CredentialKind};
use duduclaw_actors::ports::Observer;
use duduclaw_actors::roster::Switch;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::reload::Machine;
use crate::config::topology::Topology;
use crate::credentials::{Checked, Checker, NotNow, SecretSource, Subject};
use crate::gateway::service::Gateway;
use crate::process::status::{self, Login, login_of_claude};

/// How many are asked about at once.
const AT_ONCE: usize = 4;
/// How long an account that does not take in an answer is left alone.
const UNHEARD: Duration = Duration::from_secs(5);
/// By how much of its length a round may begin sooner or later, so that many homes do not ask in step.
const JITTER: f64 = 0.1;

/// Rings when an account may have come to be in doubt.
#[derive(Clone, Debug, Default)]
pub(super) struct Bell(Arc<Notify>);

impl Observer for Bell {
    fn observe(&mut self, event: &Event) {
        let rings = matches!(
            event.kind,
            EventKind::HoldBegan { .. }
                | EventKind::StateChanged { .. }
                | EventKind::CredentialRenewed
                | EventKind::ConfigReloaded
        );
        if rings {
            self.0.notify_one();
        }
    }
}

/// What the checks are made of.
pub(super) struct Checks {
    pub(super) gateway: Arc<Gateway>,
    pub(super) checker: Checker,
    pub(super) machine: Machine,
    pub(super) bell: Bell,
}

/// Who is asked about now, and who is still to be asked about in this round.
#[derive(Debug, Default)]
struct Turns {
    asked: BTreeSet<AccountId>,
    waiting: BTreeSet<AccountId>,
}

impl Turns {
    fn begin_round(&mut self, doubts: &[Doubt]) {
        self.waiting =
            doubts.iter().filter(|(_, question)| *question == Question::EachRound).map(|(id, _)| *id).collect();
    }

    /// The next to be asked about.
    fn take(&mut self, doubts: &[Doubt], now: Timestamp) -> Option<AccountId> {
        let due = |(account, question): &&Doubt| match question {
            Question::None => false,
            Question::At(at) => at.is_due(now),
            Question::EachRound => self.waiting.contains(account),
        };
        let next = doubts.iter().filter(|(account, _)| !self.asked.contains(account)).find(due).map(|(id, _)| *id)?;
        self.waiting.remove(&next);
        self.asked.insert(next);
        Some(next)
    }

    fn over(&mut self, account: AccountId) {
        self.asked.remove(&account);
    }

    /// When the next of those who are not asked about now is due.
    fn wake(&self, doubts: &[Doubt], now: Timestamp) -> Option<Deadline> {
        let own =
            doubts.iter().filter(|(account, _)| !self.asked.contains(account)).filter_map(
                |(_, question)| match question {
                    Question::At(at) => Some(*at),
                    Question::None | Question::EachRound => None,
                },
            );
        own.reduce(|one, other| one.sooner(other, now))
    }
}

/// An account that may be asked about, and when.
type Doubt = (AccountId, Question);

/// A question on its way; says whom it was about.
type Asking<'a> = Pin<Box<dyn Future<Output = AccountId> + Send + 'a>>;

impl Checks {
    /// Asks until cancelled.
    pub(super) fn start(self, stop: CancellationToken) {
        let tasks = self.gateway.tasks.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.run() => {}
            }
        });
    }

    async fn run(&self) {
        let mut asking: FuturesUnordered<Asking<'_>> = FuturesUnordered::new();
        let mut turns = Turns::default();
        let mut round = self.next_round();
        loop {
            let now = self.gateway.clock.now();
            let doubts = self.doubts(now);
            if round.is_due(now) {
                round = self.next_round();
                turns.begin_round(&doubts);
            }
            while asking.len() < AT_ONCE
                && let Some(account) = turns.take(&doubts, now)
            {
                asking.push(Box::pin(self.ask(account)));
            }
            let wake = turns.wake(&doubts, now).map_or(round, |at| at.sooner(round, now));
            tokio::select! {
                Some(account) = asking.next() => turns.over(account),
                () = self.bell.0.notified() => {}
                () = sleep_until(&*self.gateway.clock, wake), if asking.len() < AT_ONCE => {}
            }
        }
    }

    fn next_round(&self) -> Deadline {
        Deadline::after(self.gateway.clock.now(), self.jittered())
    }

    fn jittered(&self) -> Duration {
        let every = self.gateway.live.load().settings.rotation.health_interval;
        every.mul_f64(1.0 - JITTER + 2.0 * JITTER * fastrand::f64())
    }

    /// Accounts that may be asked about, and when.
    fn doubts(&self, now: Timestamp) -> Vec<Doubt> {
        let live = self.gateway.live.load();
        let accounts = live.topology.roster().accounts.values().filter(|spec| spec.switch == Switch::On);
        let question = |account| self.gateway.fleet.health(account).map(|health| health.question(now));
        let all = accounts.filter_map(|spec| Some((spec.id, question(spec.id)?)));
        all.filter(|(_, question)| *question != Question::None).collect()
    }

    /// Asks about one, and waits until the account has taken the answer in: only then is its schedule another.
    async fn ask(&self, account: AccountId) -> AccountId {
        let live = self.gateway.live.load_full();
        let kind = live.topology.roster().accounts.get(&account).map(|spec| spec.kind);
        let said = match kind {
            Some(CredentialKind::Keychain) => self.by_command(&live.topology, account).await,
            Some(_) | None => Some(self.by_provider(&live.topology, account).await),
        };
        if let Some(said) = said
            && let Err(error) = self.gateway.fleet.deliver(account, Fact::Told(said)).await
        {
            tracing::debug!(account = account.0, %error, "an answer about a credential did not reach its account");
            tokio::time::sleep(UNHEARD).await;
        }
        account
    }

    async fn by_provider(&self, topology: &Topology, account: AccountId) -> HealthEvent<'static> {
        let again = self.jittered();
        let Some(subject) = Subject::of(topology, account) else { return HealthEvent::NotAskable { again } };
        match self.checker.check(subject).await {
            Ok(Checked { verdict, generation, sent_at, status }) => {
                tracing::debug!(account = account.0, ?verdict, status, "a credential in doubt was asked about");
                HealthEvent::Probed { verdict, generation, sent_at, by: AskedBy::Schedule { again } }
            }
            Err(why) => {
                log_unasked(account, why);
                HealthEvent::NotAskable { again }
            }
        }
    }

    /// A CLI that is not logged in, or does not answer, says nothing.
    async fn by_command(&self, topology: &Topology, account: AccountId) -> Option<HealthEvent<'static>> {
        let sent_at = self.gateway.clock.now();
        let SecretSource::Keychain { config_dir } = &topology.representative(account)?.source else { return None };
        let limit = Deadline::after(sent_at, status::WITHIN);
        let said = tokio::select! {
            said = login_of_claude(&*self.machine, config_dir.as_deref()) => said,
            () = sleep_until(&*self.gateway.clock, limit) => return None,
        };
        match said {
            Ok(Login::There) => Some(HealthEvent::CliLoggedIn { sent_at }),
            Ok(Login::Missing) => None,
            Err(error) => {
                tracing::debug!(account = account.0, %error, "a CLI does not say whether it is logged in");
                None
            }
        }
    }
}

fn log_unasked(account: AccountId, why: NotNow) {
    tracing::debug!(account = account.0, %why, "a credential in doubt could not be asked about");
}
