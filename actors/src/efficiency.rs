//! How well prompts are served from the cache: the share of the prompt that the cache served, over the last hour.
//!
//! It is watched for the whole fleet, and for each provider, account and agent. A share that falls low is told once; it
//! may be told again when the share has been good in between. Over few requests a share says nothing.
//!
//! Never here: what is done about it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::id::EntryId;
use crate::outcome::Usage;

/// Over fewer requests nothing is told.
const ENOUGH: u64 = 20;
/// Below this share it is told.
const LOW: f64 = 0.30;
/// Above this one it may be told again.
const GOOD: f64 = 0.40;
/// How far back it is looked, in minutes.
const MINUTES: i64 = 60;
const MINUTE_MS: i64 = 60_000;

/// What a share is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheScope {
    /// Everything.
    Fleet,
    /// A provider.
    Provider(Arc<str>),
    /// An account.
    Account(EntryId),
    /// An agent.
    Agent(Arc<str>),
}

impl CacheScope {
    /// What kind of scope it is.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Provider(_) => "provider",
            Self::Account(_) => "account",
            Self::Agent(_) => "agent",
        }
    }

    /// What it is called; nothing for the fleet.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Fleet => String::new(),
            Self::Provider(name) | Self::Agent(name) => name.to_string(),
            Self::Account(entry) => entry.to_string(),
        }
    }
}

/// The share of a scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Of what.
    pub scope: CacheScope,
    /// From 0 to 1.
    pub efficiency: f64,
}

/// Watches the shares.
#[derive(Debug, Default)]
pub struct CacheWatch {
    scopes: BTreeMap<CacheScope, Hour>,
}

impl CacheWatch {
    /// An attempt ended; gives the shares that fell low with it.
    pub fn ended(&mut self, entry: &EntryId, agent: Option<&Arc<str>>, usage: &Usage, now: Timestamp) -> Vec<Share> {
        if usage.prompt() == 0 {
            return Vec::new();
        }
        let mut scopes = vec![
            CacheScope::Fleet,
            CacheScope::Provider(Arc::clone(&entry.provider)),
            CacheScope::Account(entry.clone()),
        ];
        scopes.extend(agent.map(|agent| CacheScope::Agent(Arc::clone(agent))));
        let told = scopes.into_iter().filter_map(|scope| {
            let hour = self.scopes.entry(scope.clone()).or_default();
            hour.add(usage, minute(now));
            hour.falls_low().map(|efficiency| Share { scope, efficiency })
        });
        told.collect()
    }

    /// All shares over enough requests.
    pub fn shares(&mut self, now: Timestamp) -> Vec<Share> {
        self.scopes.values_mut().for_each(|hour| hour.forget(minute(now)));
        self.scopes.retain(|_, hour| !hour.minutes.is_empty() || hour.told);
        let known = self.scopes.iter().filter_map(|(scope, hour)| hour.share().map(|share| (scope, share)));
        known.map(|(scope, efficiency)| Share { scope: scope.clone(), efficiency }).collect()
    }
}

/// One scope's last hour.
#[derive(Debug, Default)]
struct Hour {
    minutes: VecDeque<(i64, Sum)>,
    sum: Sum,
    told: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    requests: u64,
    read: u64,
    prompt: u64,
}

impl Hour {
    fn add(&mut self, usage: &Usage, minute: i64) {
        self.forget(minute);
        if self.minutes.back().is_none_or(|(last, _)| *last < minute) {
            self.minutes.push_back((minute, Sum::default()));
        }
        let one = Sum { requests: 1, read: usage.cache_read, prompt: usage.prompt() };
        if let Some((_, last)) = self.minutes.back_mut() {
            last.add(one);
            self.sum.add(one);
        }
    }

    fn forget(&mut self, minute: i64) {
        while let Some((_, gone)) = self.minutes.front().copied().filter(|(at, _)| *at <= minute - MINUTES) {
            self.sum.take(gone);
            self.minutes.pop_front();
        }
    }

    fn share(&self) -> Option<f64> {
        (self.sum.requests >= ENOUGH).then(|| self.sum.read as f64 / self.sum.prompt as f64)
    }

    /// The share, if it has just fallen low.
    fn falls_low(&mut self) -> Option<f64> {
        let share = self.share()?;
        if share > GOOD {
            self.told = false;
        }
        let falls = share < LOW && !self.told;
        self.told |= falls;
        falls.then_some(share)
    }
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.read = self.read.saturating_add(other.read);
        self.prompt = self.prompt.saturating_add(other.prompt);
    }

    fn take(&mut self, other: Self) {
        self.requests -= other.requests;
        self.read = self.read.saturating_sub(other.read);
        self.prompt = self.prompt.saturating_sub(other.prompt);
    }
}

fn minute(now: Timestamp) -> i64 {
    now.boot.0.div_euclid(MINUTE_MS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(name: &str) -> EntryId {
        EntryId { provider: "anthropic".into(), name: name.into() }
    }

    /// A prompt of 100 tokens, so many of which the cache served; half of the rest are written to it.
    fn reading(read: u64) -> Usage {
        let rest = 100 - read;
        Usage { input: rest / 2, cache_read: read, cache_write_1h: rest - rest / 2, output: 7, ..Usage::default() }
    }

    fn at(minutes: u64) -> Timestamp {
        Timestamp::at_millis(0).plus(Duration::from_secs(60 * minutes))
    }

    fn told(watch: &mut CacheWatch, read: u64, times: u64, minutes: u64) -> Vec<&'static str> {
        let all = (0..times).flat_map(|_| watch.ended(&entry("a"), None, &reading(read), at(minutes)));
        all.map(|share| share.scope.kind()).collect()
    }

    #[test]
    fn a_low_share_is_told_once_for_each_scope_from_the_twentieth_request_on() {
        let mut watch = CacheWatch::default();
        assert_eq!(told(&mut watch, 10, 19, 0), [""; 0]);
        assert_eq!(told(&mut watch, 10, 1, 0), ["fleet", "provider", "account"]);
        assert_eq!(told(&mut watch, 10, 50, 1), [""; 0]);
        let agent: Arc<str> = "dudu".into();
        let agents = (0..20).flat_map(|_| watch.ended(&entry("b"), Some(&agent), &reading(0), at(2)));
        let agents: Vec<String> = agents.map(|share| share.scope.name()).collect();
        assert_eq!(agents, ["anthropic/b", "dudu"]);
    }

    #[test]
    fn it_is_told_again_only_after_it_was_good() {
        let mut watch = CacheWatch::default();
        told(&mut watch, 0, 20, 0);
        assert_eq!(told(&mut watch, 40, 20, 61), [""; 0]);
        assert_eq!(watch.shares(at(61))[0], Share { scope: CacheScope::Fleet, efficiency: 0.4 });
        assert_eq!(told(&mut watch, 0, 20, 122), [""; 0], "0.40 is not above 0.40");
        told(&mut watch, 41, 20, 183);
        assert_eq!(told(&mut watch, 0, 20, 244).len(), 3);
    }

    #[test]
    fn a_share_of_just_thirty_percent_is_not_low() {
        assert_eq!(told(&mut CacheWatch::default(), 30, 100, 0), [""; 0]);
        assert_eq!(told(&mut CacheWatch::default(), 29, 100, 0).len(), 3);
    }

    #[test]
    fn what_is_an_hour_old_counts_no_more() {
        let mut watch = CacheWatch::default();
        told(&mut watch, 100, 30, 0);
        told(&mut watch, 50, 30, 30);
        assert_eq!(watch.shares(at(59))[0].efficiency, 0.75);
        assert_eq!(watch.shares(at(60))[0].efficiency, 0.5);
        assert_eq!(watch.shares(at(90)), []);
        assert!(watch.scopes.is_empty(), "nothing is kept of it");
    }

    #[test]
    fn an_attempt_without_a_prompt_is_no_request() {
        let mut watch = CacheWatch::default();
        (0..100).for_each(|_| drop(watch.ended(&entry("a"), None, &Usage::default(), at(0))));
        assert_eq!(told(&mut watch, 0, 19, 0), [""; 0]);
    }
}
