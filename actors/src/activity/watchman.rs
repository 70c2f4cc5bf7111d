//! Sees to outages: looks at the accounts' logins whenever an event may have changed them, and has outages written down,
//! told and sent in one piece.
//!
//! Never here: what an outage is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::entry::rfc3339;
use super::outage::{Change, Login, Member, Outage, Outages, Scope, ScopeKey};
use crate::account::cell::Cells;
use crate::clock::{Deadline, Timestamp, Wall};
use crate::event::{AttemptResult, Event, EventKind, Severity};
use crate::id::{AccountId, EntryId};
use crate::journal::Journal;
use crate::outcome::Evidence;
use crate::ports::{Record, Table, Write};
use crate::postman::{Parcel, Post};
use crate::roster::{Roster, Switch, Target};
use crate::standing::{CredentialState, Paused, Standing};

/// The shape of a kept outage.
const VERSION: u32 = 1;

/// Sees to outages.
pub struct Watchman {
    outages: Mutex<Outages>,
    /// When a login ends without an event that would tell.
    next: Mutex<Option<Deadline>>,
    roster: watch::Receiver<Arc<Roster>>,
    cells: Arc<Cells>,
    journal: Journal,
    post: Post,
}

impl Watchman {
    /// A watchman over these accounts.
    #[must_use]
    pub fn new(roster: watch::Receiver<Arc<Roster>>, cells: Arc<Cells>, journal: Journal, post: Post) -> Self {
        Self { outages: Mutex::default(), next: Mutex::default(), roster, cells, journal, post }
    }

    /// Takes in the outages that were kept.
    pub(super) fn restore(&self, records: &[Record]) {
        let read = |record: &Record| serde_json::from_slice::<Outage>(&record.value).ok();
        self.with_outages(|outages| outages.restore(records.iter().filter_map(read)));
    }

    /// What an event means for outages, as events that follow from it.
    pub(super) fn heed(&self, event: &Event, now: Timestamp) -> Vec<Event> {
        if let Some(proved) = proof(event) {
            if self.with_outages(|outages| outages.is_empty()) {
                return Vec::new();
            }
            let scopes = self.scopes(now);
            return self.tell(self.with_outages(|outages| outages.proved(proved, &scopes)), now);
        }
        if concerns_logins(&event.kind) { self.look(now) } else { Vec::new() }
    }

    /// Looks at all logins.
    pub(super) fn look(&self, now: Timestamp) -> Vec<Event> {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = self.next_end(now);
        let scopes = self.scopes(now);
        self.tell(self.with_outages(|outages| outages.look(&scopes, now)), now)
    }

    /// When to look again although no event calls for it.
    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_end(&self, now: Timestamp) -> Option<Deadline> {
        let ends = |standing: Standing| match standing.credential {
            CredentialState::NeedsLogin { access_until } => Some(access_until).filter(|at| !at.is_due(now)),
            CredentialState::Usable | CredentialState::Broken(_) => None,
        };
        let standings = self.cells.all().into_iter().map(|cell| cell.standing(now));
        standings.filter_map(ends).reduce(|one, other| one.sooner(other, now))
    }

    fn with_outages<T>(&self, change: impl FnOnce(&mut Outages) -> T) -> T {
        change(&mut self.outages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Each provider's pool.
    fn scopes(&self, now: Timestamp) -> Vec<Scope> {
        let roster = self.roster.borrow().clone();
        let mut pools: BTreeMap<Arc<str>, Vec<AccountId>> = BTreeMap::new();
        for upstream in &roster.upstreams {
            pools.entry(Arc::clone(&upstream.provider)).or_default().extend(&upstream.accounts);
        }
        let scope = |(provider, mut accounts): (Arc<str>, Vec<AccountId>)| {
            accounts.sort_unstable();
            accounts.dedup();
            let members = accounts.into_iter().filter_map(|account| self.member(&roster, account, now));
            Scope { key: ScopeKey::Provider(provider), members: members.collect() }
        };
        pools.into_iter().map(scope).collect()
    }

    fn member(&self, roster: &Roster, account: AccountId, now: Timestamp) -> Option<Member> {
        let spec = roster.accounts.get(&account)?;
        let standing = self.cells.get(account)?.standing(now);
        let login = match (spec.switch, standing.paused) {
            (Switch::Off, _) | (Switch::On, Paused::Yes) => Login::Aside,
            (Switch::On, Paused::No) if standing.is_out_by_auth(now) => Login::Out,
            (Switch::On, Paused::No) => Login::Good,
        };
        Some(Member { entry: spec.entry.clone(), login })
    }

    fn tell(&self, changes: Vec<Change>, now: Timestamp) -> Vec<Event> {
        changes.into_iter().filter_map(|change| self.tell_one(change, now)).collect()
    }

    /// What is kept of an outage and the messages of it are written in one piece, so that none is told twice or never.
    fn tell_one(&self, change: Change, now: Timestamp) -> Option<Event> {
        let (record, event, outage) = match change {
            Change::Dropped(key) => {
                self.journal.forget(Table::Outages, key.record());
                return None;
            }
            Change::Began(outage) => (keep(&outage), began(&outage, now), outage),
            Change::Ended(outage, by) => {
                let forget = Write { table: Table::Outages, key: outage.scope.record(), value: None };
                (forget, ended(&outage, by, now), outage)
            }
        };
        let parcels: Vec<Parcel> =
            self.audience(&outage.scope).into_iter().map(|target| parcel(&outage, &event, target)).collect();
        self.journal.change_all(parcels.iter().filter_map(Post::record).chain([record]).collect());
        parcels.into_iter().for_each(|parcel| self.post.send(parcel, now));
        Some(event)
    }

    /// Who is told of an outage: while no agent is configured, whoever is told of everything.
    fn audience(&self, _: &ScopeKey) -> Vec<Target> {
        self.roster.borrow().notify.clone().into_iter().collect()
    }
}

/// The account whose login an event proves good.
fn proof(event: &Event) -> Option<&EntryId> {
    let proves = matches!(
        event.kind,
        EventKind::AttemptAnswered { outcome: AttemptResult::Served, .. } | EventKind::CredentialProved
    );
    event.account.as_ref().filter(|_| proves)
}

fn concerns_logins(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::StateChanged { .. }
            | EventKind::CredentialBroke { .. }
            | EventKind::CredentialRenewed
            | EventKind::LoginNeeded
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::Started { .. }
            | EventKind::ConfigReloaded
    )
}

fn keep(outage: &Outage) -> Write {
    let value = serde_json::to_vec(outage).ok().map(|value| (VERSION, value));
    Write { table: Table::Outages, key: outage.scope.record(), value }
}

fn began(outage: &Outage, now: Timestamp) -> Event {
    let kind = EventKind::OutageBegan { scope: outage.scope.clone(), accounts: outage.accounts.clone() };
    Event { seq: 0, ts: now, kind, severity: Severity::Error, account: None, evidence: Evidence::default() }
}

fn ended(outage: &Outage, by: EntryId, now: Timestamp) -> Event {
    let lasted_secs = now.wall.since(outage.since).as_secs();
    let kind = EventKind::OutageEnded { scope: outage.scope.clone(), lasted_secs };
    Event { seq: 0, ts: now, kind, severity: Severity::Info, account: Some(by), evidence: Evidence::default() }
}

/// The message of an event of an outage. Its id is that of the outage, whoever tells it and however often.
fn parcel(outage: &Outage, event: &Event, target: Target) -> Parcel {
    let word = if matches!(event.kind, EventKind::OutageBegan { .. }) { "began" } else { "ended" };
    let id = format!("outage_{word}-{}-{:x}-{}/{}", outage.scope.record(), outage.since.0, target.channel, target.name);
    let body = body(&id, word, outage, event);
    Parcel { id, target, body, created: Wall(event.ts.wall.0) }
}

/// `text` is what chat services that take webhooks show.
fn body(id: &str, word: &str, outage: &Outage, event: &Event) -> Value {
    let accounts: Vec<String> = outage.accounts.iter().map(ToString::to_string).collect();
    json!({
        "id": id,
        "kind": format!("outage_{word}"),
        "severity": event.severity,
        "ts": rfc3339(event.ts.wall),
        "since": rfc3339(outage.since),
        "scope": outage.scope,
        "accounts": accounts,
        "summary": event.summary(),
        "text": event.summary(),
    })
}
