//! Outages: every account of a scope that is to be used is out because of its login.
//!
//! One outage is told once when it begins and once when it is over, whatever happens in between. It is over when a
//! login of the scope is proved good: a request was served, or a check of that very credential said so. An account
//! that is merely tried again proves nothing.
//!
//! Never here: who is told, and how.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, Wall};
use crate::id::EntryId;

/// Accounts that stand in for each other: a provider's pool, or those of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// Which, for ever.
    pub(super) key: ScopeKey,
    /// Its accounts.
    pub(super) members: Vec<Member>,
}

/// What a scope is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeKey {
    /// The accounts of a provider.
    Provider(Arc<str>),
    /// The accounts that an agent may use.
    Agent(Arc<str>),
}

impl ScopeKey {
    /// The name of the provider or agent.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Provider(name) | Self::Agent(name) => name,
        }
    }

    /// The key of its record.
    #[must_use]
    pub fn record(&self) -> String {
        match self {
            Self::Provider(name) => format!("provider:{name}"),
            Self::Agent(name) => format!("agent:{name}"),
        }
    }
}

/// One account of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Which.
    pub(super) entry: EntryId,
    /// How it is.
    pub(super) login: Login,
}

/// How an account is, as far as its login goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// Switched off or paused: it does not count.
    Aside,
    /// Nothing is wrong with it.
    Good,
    /// It is refused, cannot be had, or has ended.
    Out,
}

/// An outage that was told and is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Of what.
    pub scope: ScopeKey,
    /// Since when.
    pub since: Wall,
    /// The accounts that were out when it began.
    pub accounts: Vec<EntryId>,
}

/// What is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// An outage began.
    Began(Outage),
    /// One is over; this account proved it.
    Ended(Outage, EntryId),
    /// The scope is not configured any more: there is nothing to tell.
    Dropped(ScopeKey),
}

/// The outages that are not over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outages {
    open: BTreeMap<ScopeKey, Outage>,
}

impl Outages {
    /// Takes in what was kept; what is known of a scope already stays.
    pub(super) fn restore(&mut self, outages: impl IntoIterator<Item = Outage>) {
        for outage in outages {
            self.open.entry(outage.scope.clone()).or_insert(outage);
        }
    }

    /// Whether nothing is out.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes in how all scopes are now.
    pub(super) fn look(&mut self, scopes: &[Scope], now: Timestamp) -> Vec<Change> {
        let gone: Vec<ScopeKey> =
            self.open.keys().filter(|key| scopes.iter().all(|scope| scope.key != **key)).cloned().collect();
        let dropped = gone.into_iter().map(|key| {
            self.open.remove(&key);
            Change::Dropped(key)
        });
        let mut changes: Vec<Change> = dropped.collect();
        for scope in scopes.iter().filter(|scope| scope.is_out()) {
            if !self.open.contains_key(&scope.key) {
                let accounts = scope.counted().map(|member| member.entry.clone()).collect();
                let outage = Outage { scope: scope.key.clone(), since: now.wall, accounts };
                self.open.insert(scope.key.clone(), outage.clone());
                changes.push(Change::Began(outage));
            }
        }
        changes
    }

    /// An account's login was proved good.
    pub(super) fn proved(&mut self, account: &EntryId, scopes: &[Scope]) -> Vec<Change> {
        let of_account = scopes.iter().filter(|scope| scope.members.iter().any(|member| member.entry == *account));
        let ended = of_account.filter_map(|scope| self.open.remove(&scope.key));
        ended.map(|outage| Change::Ended(outage, account.clone())).collect()
    }
}

impl Scope {
    fn counted(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.login != Login::Aside)
    }

    fn is_out(&self) -> bool {
        self.counted().next().is_some() && self.counted().all(|member| member.login == Login::Out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> EntryId {
        EntryId { provider: "p".into(), name: name.into() }
    }

    fn scope(members: &[(&str, Login)]) -> Scope {
        let members = members.iter().map(|(name, login)| Member { entry: entry(name), login: *login }).collect();
        Scope { key: ScopeKey::Provider("p".into()), members }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::at_millis(seconds * 1000)
    }

    fn told(changes: &[Change]) -> Vec<&'static str> {
        let word = |change: &Change| match change {
            Change::Began(_) => "began",
            Change::Ended(..) => "ended",
            Change::Dropped(_) => "dropped",
        };
        changes.iter().map(word).collect()
    }

    #[test]
    fn an_outage_begins_when_the_last_login_goes_and_is_told_once() {
        let mut outages = Outages::default();
        assert!(outages.look(&[scope(&[("a", Login::Out), ("b", Login::Good)])], at(1)).is_empty());
        let all_out = [scope(&[("a", Login::Out), ("b", Login::Out)])];
        let changes = outages.look(&all_out, at(2));
        let expected = Outage {
            scope: ScopeKey::Provider("p".into()),
            since: Wall::from_secs(2),
            accounts: vec![entry("a"), entry("b")],
        };
        assert_eq!(changes, [Change::Began(expected)]);
        assert!(outages.look(&all_out, at(3)).is_empty());
    }

    #[test]
    fn accounts_that_are_set_aside_do_not_count_and_a_scope_without_others_has_no_outage() {
        let mut outages = Outages::default();
        assert!(outages.look(&[scope(&[("a", Login::Aside)]), scope(&[])], at(1)).is_empty());
        let one_left = scope(&[("a", Login::Aside), ("b", Login::Out)]);
        assert_eq!(told(&outages.look(&[one_left], at(2))), ["began"]);
    }

    #[test]
    fn being_tried_again_ends_nothing_and_proof_ends_it_once() {
        let mut outages = Outages::default();
        let scopes = [scope(&[("a", Login::Out)])];
        outages.look(&scopes, at(1));
        let tried = [scope(&[("a", Login::Good)])];
        assert!(outages.look(&tried, at(2)).is_empty());
        assert!(outages.look(&scopes, at(3)).is_empty(), "refused again, it is still the same outage");
        assert!(outages.proved(&entry("stranger"), &scopes).is_empty());
        assert_eq!(told(&outages.proved(&entry("a"), &tried)), ["ended"]);
        assert!(outages.proved(&entry("a"), &tried).is_empty());
        assert_eq!(told(&outages.look(&scopes, at(4))), ["began"], "the next one is told again");
    }

    #[test]
    fn what_was_told_before_a_restart_is_not_told_again() {
        let mut before = Outages::default();
        let scopes = [scope(&[("a", Login::Out)])];
        let [Change::Began(outage)] = &before.look(&scopes, at(1))[..] else { unreachable!("one outage") };
        let kept = serde_json::to_vec(outage).unwrap();
        let mut after = Outages::default();
        after.restore([serde_json::from_slice::<Outage>(&kept).unwrap()]);
        assert!(after.look(&scopes, at(9)).is_empty());
        assert_eq!(told(&after.proved(&entry("a"), &scopes)), ["ended"]);
    }

    #[test]
    fn a_scope_that_is_not_configured_any_more_is_forgotten_in_silence() {
        let mut outages = Outages::default();
        outages.look(&[scope(&[("a", Login::Out)])], at(1));
        assert_eq!(told(&outages.look(&[], at(2))), ["dropped"]);
        assert!(outages.is_empty());
    }
}
