//! How long admission takes to grant one lease, over small and large fleets. Only the pure machine is timed; the way to
//! its actor and back is part of every request that goes through the gateway.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use duduclaw_actors::account::quota::Quota;
use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::failover::demand::{BindsThinking, Decision, Demand, Spent, Step, Via};
use duduclaw_actors::failover::{Admission, Flow, LeaseBook};
use duduclaw_actors::id::{
    AccountId, ConversationKey, CredentialKind, EntryId, EvidenceSeq, Family, Generation, IdentityKey, ModelScope,
    Principal, UpstreamId,
};
use duduclaw_actors::outcome::{CallKind, Cause};
use duduclaw_actors::roster::{
    AccountSpec, BurnRate, Cap, PoolSettings, Roster, RotationSettings, Strategy, Switch, TieOrder, UpstreamSpec,
    WindowCaps, WindowLimits,
};
use duduclaw_actors::standing::{CredentialState, Hold, HoldKind, Paused, Standing, Stated};
use serde_json::json;

use crate::clock;

/// An arbitrary moment.
const START_SECONDS: i64 = 1_800_000_000;

/// Leases that are in flight at once, as on a busy gateway.
const IN_FLIGHT: u32 = 64;

/// Conversations that are known already.
const KNOWN: u32 = 1024;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The account that a known conversation is bound to.
    Bound,
    /// A place for a conversation that was never seen.
    New,
    /// Any account: no conversation.
    Unbound,
    /// Anything, while every account is out: the answer names each with its reason.
    NoneUsable,
}

impl Asked {
    /// All kinds.
    pub(crate) const ALL: [Self; 4] = [Self::Bound, Self::New, Self::Unbound, Self::NoneUsable];

    /// How it is called in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bound => "known conversation",
            Self::New => "new conversation",
            Self::Unbound => "no conversation",
            Self::NoneUsable => "no account usable",
        }
    }
}

/// The mean time of one lease in microseconds, a round at a time.
pub(crate) fn rounds(rounds: usize, leases: u32, accounts: u32, asked: Asked) -> Result<Vec<f64>> {
    let mut desk = Desk::new(accounts, asked)?;
    desk.batches(KNOWN)?;
    let mut figures = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        figures.push(desk.batches(leases)? as f64 / f64::from(leases.next_multiple_of(IN_FLIGHT)) / 1e3);
    }
    Ok(figures)
}

/// A machine, and who asks it.
struct Desk {
    machine: Admission,
    book: Arc<LeaseBook>,
    demand: Demand,
    asked: Asked,
    count: u32,
}

impl Desk {
    fn new(accounts: u32, asked: Asked) -> Result<Self> {
        let book = LeaseBook::new(|| {});
        let mut machine = Admission::new(&roster(accounts), Arc::clone(&book), start());
        for number in 0..accounts {
            let _ = machine.learn(standing(number, asked)?, start());
        }
        Ok(Self { machine, book, demand: demand(), asked, count: 0 })
    }

    /// Asks at least so many times; returns the nanoseconds that the answers took.
    fn batches(&mut self, leases: u32) -> Result<u64> {
        let mut nanos = 0;
        for _ in 0..leases.div_ceil(IN_FLIGHT) {
            nanos += self.batch()?;
        }
        Ok(nanos)
    }

    fn batch(&mut self) -> Result<u64> {
        let demands: Vec<Demand> = (0..IN_FLIGHT).map(|_| self.next_demand()).collect();
        let now = start().plus(Duration::from_millis(self.count.into()));
        let mut decisions = Vec::with_capacity(demands.len());
        let began = clock::now();
        for demand in &demands {
            decisions.push(black_box(self.machine.lease(demand, now)).0);
        }
        let took = clock::now() - began;
        decisions.into_iter().try_for_each(|decision| self.serve(&decision))?;
        Ok(took)
    }

    fn next_demand(&mut self) -> Demand {
        self.count += 1;
        let conversation = match self.asked {
            Asked::Bound => Some(self.count % KNOWN),
            Asked::New => Some(self.count),
            Asked::Unbound | Asked::NoneUsable => None,
        };
        // Real keys are hashes: spread over the whole range.
        let key =
            |number: u32| ConversationKey(u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
        Demand { conversation: conversation.map(key), ..self.demand.clone() }
    }

    /// Lets a lease run its course.
    fn serve(&self, decision: &Decision) -> Result<()> {
        let granted = match decision {
            Decision::Granted(grant) => Some(self.book.guard(grant.lease)),
            Decision::NotBefore(_) | Decision::Exhausted(_) | Decision::Queued(_) => None,
        };
        let expected = self.asked != Asked::NoneUsable;
        ensure!(granted.is_some() == expected, "for {:?} admission answered {decision:?}", self.asked);
        if let Some(guard) = granted {
            guard.sent();
            guard.answered(Flow::Stream);
        }
        Ok(())
    }
}

fn start() -> Timestamp {
    Timestamp::at_millis(START_SECONDS * 1000)
}

fn roster(accounts: u32) -> Roster {
    let all: Vec<AccountId> = (0..accounts).map(AccountId).collect();
    let upstream = UpstreamSpec {
        id: UpstreamId(0),
        name: "anthropic".into(),
        provider: "anthropic".into(),
        family: Family::Claude,
        strategy: Strategy::RoundRobin,
        accounts: all.clone(),
    };
    Roster {
        revision: 1,
        upstreams: vec![upstream],
        accounts: all.into_iter().map(|id| (id, account(id))).collect(),
        pool: PoolSettings { order: TieOrder::Headroom, burn_rate: BurnRate::Avoid, ..PoolSettings::default() },
        rotation: RotationSettings::default(),
        ..Roster::default()
    }
}

fn account(id: AccountId) -> AccountSpec {
    let name = format!("account-{}", id.0);
    AccountSpec {
        id,
        identity: IdentityKey::Verified { family: Family::Claude, uuid: name.clone(), organization: None },
        entry: EntryId { provider: "anthropic".into(), name: name.into() },
        family: Family::Claude,
        kind: CredentialKind::Oauth,
        priority: 100,
        switch: Switch::On,
        thresholds: WindowLimits::all(0.9),
        caps: WindowCaps::default(),
        budget: Cap::default(),
        max_concurrent: None,
    }
}

fn standing(number: u32, asked: Asked) -> Result<Standing> {
    let out = Hold {
        kind: HoldKind::AuthDead,
        cause: Cause::OrgDisabled,
        began: start(),
        until: Deadline::after(start(), Duration::from_secs(86_400)),
        stated: Stated::Guessed,
        episode: 1,
    };
    Ok(Standing {
        account: AccountId(number),
        seq: 1,
        applied: EvidenceSeq(1),
        generation: Generation(1),
        credential: CredentialState::Usable,
        paused: Paused::No,
        unverified: false,
        on_trial: false,
        holds: if asked == Asked::NoneUsable { vec![out] } else { Vec::new() },
        fable_hold: None,
        breather: None,
        quota: quota(number)?,
    })
}

/// Two windows as real answers state them, no two accounts alike, none near its limit.
fn quota(number: u32) -> Result<Quota> {
    let now = START_SECONDS * 1000;
    let window = |share: u32, reset_seconds: i64| {
        json!({
            "utilization": f64::from(share) / 100.0, "reset": now + reset_seconds * 1000, "observed_at": now,
            "status": "allowed", "status_observed_at": now, "status_boundary": now + reset_seconds * 1000,
        })
    };
    let spread = i64::from(number);
    let windows = json!({
        "5h": window(number % 40, 9_000 + spread % 5_000),
        "7d": window(number % 37, 300_000 + spread * 7 % 90_000),
    });
    let told = json!({ "windows": windows, "aggregate": null });
    let quota: Quota = serde_json::from_value(told.clone()).context("quota is written otherwise now")?;
    ensure!(serde_json::to_value(&quota)? == told, "quota keeps other figures now");
    Ok(quota)
}

fn demand() -> Demand {
    Demand {
        upstream: UpstreamId(0),
        principal: Arc::new(Principal { client: Some("bench".into()), agent: None, job: None }),
        conversation: None,
        parent: None,
        scope: ModelScope::Base,
        call: CallKind::Inference,
        via: Via::Gateway,
        tried: Vec::new(),
        renewing: Vec::new(),
        last: None,
        step: Step::First,
        binds_thinking: BindsThinking::No,
        spent: Spent::default(),
        ask: None,
    }
}
