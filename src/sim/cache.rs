//! The provider's prompt cache, by its documented rules: what of a request's input is read from it, what is written to
//! it and for how long, and what is neither.
//!
//! A prefix is known by the hash of everything up to a block. Entries are written only at marked blocks, and only from
//! a minimum length on; a marked block is looked up at itself and at the blocks before it, twenty in all. Reading an
//! entry renews its life. Organisations share nothing. Never here: how a prompt becomes a chain of prefixes.

use std::collections::HashMap;
use std::time::Duration;

use duduclaw_actors::clock::{Boot, Timestamp};
use serde::{Deserialize, Serialize};

const LOOK_BACK: usize = 20;
const PURGE_ABOVE: usize = 16_384;

/// How many blocks of a request may be marked.
pub(super) const MAX_MARKS: usize = 4;

/// How long an entry lives after its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Lifetime {
    /// The usual five minutes.
    FiveMinutes,
    /// One hour, at a higher price.
    OneHour,
}

impl Lifetime {
    fn span(self) -> Duration {
        match self {
            Self::FiveMinutes => Duration::from_secs(300),
            Self::OneHour => Duration::from_secs(3600),
        }
    }
}

/// A prompt up to and including one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    /// Stands for everything up to here.
    pub(super) hash: u128,
    /// Tokens up to here.
    pub(super) tokens: u64,
    /// Whether the block is marked to be cached, and for how long.
    pub(super) mark: Option<Lifetime>,
}

/// A request's input, by what the cache did with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputUsage {
    /// Neither read nor written.
    pub input: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written for five minutes.
    pub cache_write_5m: u64,
    /// Written for an hour.
    pub cache_write_1h: u64,
}

impl InputUsage {
    /// All of it together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h
    }
}

/// The fewest tokens that a prefix must have to be cached, by model family.
pub(super) fn minimum_tokens(model: &str) -> u64 {
    const TABLE: [(&str, u64); 9] = [
        ("fable", 512),
        ("mythos", 512),
        ("opus-5", 512),
        ("opus-4-7", 2048),
        ("opus-4-6", 4096),
        ("opus-4-5", 4096),
        ("haiku-4-5", 4096),
        ("3-haiku", 2048),
        ("3-5-haiku", 2048),
    ];
    TABLE.iter().find(|(family, _)| model.contains(family)).map_or(1024, |(_, tokens)| *tokens)
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    lifetime: Lifetime,
    expires: Boot,
}

/// All organisations' caches.
#[derive(Debug, Default)]
pub(super) struct PromptCache {
    entries: HashMap<(u128, u128), Entry>,
}

impl PromptCache {
    /// Serves one request's input: reads the longest known prefix, writes the marked ones after it.
    pub(super) fn serve(&mut self, organization: u128, prompt: &[Prefix], minimum: u64, now: Timestamp) -> InputUsage {
        let hit = self.longest_hit(organization, prompt, now);
        self.renew(organization, &prompt[..hit.map_or(0, |at| at + 1)], now);
        let read = hit.map_or(0, |at| prompt[at].tokens);
        let fresh = prompt.iter().skip(hit.map_or(0, |at| at + 1));
        let marked: Vec<(Prefix, Lifetime)> = fresh
            .filter(|prefix| prefix.tokens >= minimum)
            .filter_map(|prefix| prefix.mark.map(|lifetime| (*prefix, lifetime)))
            .collect();
        for (prefix, lifetime) in &marked {
            self.write(organization, prefix.hash, *lifetime, now);
        }
        split(prompt.last().map_or(0, |last| last.tokens), read, &marked)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    fn longest_hit(&self, organization: u128, prompt: &[Prefix], now: Timestamp) -> Option<usize> {
        let marks = (0..prompt.len()).rev().filter(|at| prompt[*at].mark.is_some());
        marks
            .filter_map(|mark| {
                let mut reach = (0..=mark).rev().take(LOOK_BACK);
                reach.find(|at| self.knows(organization, prompt[*at].hash, now))
            })
            .max()
    }

    fn knows(&self, organization: u128, hash: u128, now: Timestamp) -> bool {
        self.entries.get(&(organization, hash)).is_some_and(|entry| entry.expires > now.boot)
    }

    fn renew(&mut self, organization: u128, read: &[Prefix], now: Timestamp) {
        for prefix in read {
            let known = self.entries.get_mut(&(organization, prefix.hash)).filter(|entry| entry.expires > now.boot);
            if let Some(entry) = known {
                entry.expires = now.boot.plus(entry.lifetime.span());
            }
        }
    }

    fn write(&mut self, organization: u128, hash: u128, lifetime: Lifetime, now: Timestamp) {
        if self.entries.len() > PURGE_ABOVE {
            self.entries.retain(|_, entry| entry.expires > now.boot);
        }
        let expires = now.boot.plus(lifetime.span());
        self.entries.insert((organization, hash), Entry { lifetime, expires });
    }
}

/// Hour-long marks come first, so what they cover beyond the read part is written for an hour, what follows up to the
/// last mark for five minutes, and the rest not at all.
fn split(total: u64, read: u64, marked: &[(Prefix, Lifetime)]) -> InputUsage {
    let reach = |wanted: Option<Lifetime>| {
        let fitting = marked.iter().filter(|(_, lifetime)| wanted.is_none_or(|wanted| wanted == *lifetime));
        fitting.map(|(prefix, _)| prefix.tokens).max().unwrap_or(read)
    };
    let hour = reach(Some(Lifetime::OneHour));
    let last = reach(None);
    InputUsage { input: total - last, cache_read: read, cache_write_5m: last - hour, cache_write_1h: hour - read }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Option<Lifetime> = Some(Lifetime::FiveMinutes);
    const HOUR: Option<Lifetime> = Some(Lifetime::OneHour);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::at_millis(0).plus(Duration::from_secs(seconds))
    }

    /// Blocks of (what it says, tokens, mark) as a chain of prefixes.
    fn chain(blocks: &[(u128, u64, Option<Lifetime>)]) -> Vec<Prefix> {
        let mut so_far = (7u128, 0u64);
        let link = |&(says, tokens, mark): &(u128, u64, Option<Lifetime>)| {
            so_far = (so_far.0.wrapping_mul(1_000_003) ^ says, so_far.1 + tokens);
            Prefix { hash: so_far.0, tokens: so_far.1, mark }
        };
        blocks.iter().map(link).collect()
    }

    fn usage(input: u64, cache_read: u64, cache_write_5m: u64, cache_write_1h: u64) -> InputUsage {
        InputUsage { input, cache_read, cache_write_5m, cache_write_1h }
    }

    #[test]
    fn the_marked_prefix_is_written_once_and_read_after() {
        let mut cache = PromptCache::default();
        let prompt = chain(&[(1, 1500, None), (2, 500, FIVE), (3, 40, None)]);
        assert_eq!(cache.serve(1, &prompt, 1024, at(0)), usage(40, 0, 2000, 0));
        assert_eq!(cache.serve(1, &prompt, 1024, at(1)), usage(40, 2000, 0, 0));
    }

    #[test]
    fn a_change_before_the_mark_loses_everything_after_it() {
        let mut cache = PromptCache::default();
        cache.serve(1, &chain(&[(1, 1500, FIVE), (2, 1500, FIVE)]), 1024, at(0));
        let changed_tail = chain(&[(1, 1500, FIVE), (9, 1500, FIVE)]);
        assert_eq!(cache.serve(1, &changed_tail, 1024, at(1)), usage(0, 1500, 1500, 0));
        let changed_head = chain(&[(9, 1500, FIVE), (2, 1500, FIVE)]);
        assert_eq!(cache.serve(1, &changed_head, 1024, at(1)), usage(0, 0, 3000, 0));
    }

    #[test]
    fn a_prefix_below_the_minimum_is_not_cached() {
        let mut cache = PromptCache::default();
        let prompt = chain(&[(1, 1023, FIVE), (2, 10, None)]);
        assert_eq!(cache.serve(1, &prompt, 1024, at(0)), usage(1033, 0, 0, 0));
        assert_eq!(cache.serve(1, &prompt, 1024, at(1)), usage(1033, 0, 0, 0));
        let enough = chain(&[(1, 1024, FIVE), (2, 10, None)]);
        assert_eq!(cache.serve(1, &enough, 1024, at(2)), usage(10, 0, 1024, 0));
    }

    #[test]
    fn an_entry_lives_five_minutes_from_its_last_use_or_an_hour() {
        let mut cache = PromptCache::default();
        let short = chain(&[(1, 2000, FIVE)]);
        let long = chain(&[(2, 2000, HOUR)]);
        assert_eq!(cache.serve(1, &short, 1024, at(0)), usage(0, 0, 2000, 0));
        assert_eq!(cache.serve(1, &long, 1024, at(0)), usage(0, 0, 0, 2000));
        assert_eq!(cache.serve(1, &short, 1024, at(299)), usage(0, 2000, 0, 0));
        assert_eq!(cache.serve(1, &short, 1024, at(598)), usage(0, 2000, 0, 0), "reading renewed it");
        assert_eq!(cache.serve(1, &short, 1024, at(898)), usage(0, 0, 2000, 0), "over to the second");
        assert_eq!(cache.serve(1, &long, 1024, at(3599)), usage(0, 2000, 0, 0));
        assert_eq!(cache.serve(1, &long, 1024, at(7199)), usage(0, 0, 0, 2000));
    }

    #[test]
    fn both_lifetimes_in_one_request_are_told_apart() {
        let mut cache = PromptCache::default();
        let prompt = chain(&[(1, 2000, HOUR), (2, 300, None), (3, 700, FIVE), (4, 50, None)]);
        assert_eq!(cache.serve(1, &prompt, 1024, at(0)), usage(50, 0, 1000, 2000));
        assert_eq!(cache.serve(1, &prompt, 1024, at(600)), usage(50, 2000, 1000, 0), "the hour outlives the minutes");
    }

    #[test]
    fn a_growing_conversation_is_found_twenty_blocks_back_and_no_further() {
        let mut cache = PromptCache::default();
        let grown = |blocks: u128| {
            let mut list: Vec<_> = (0..blocks).map(|says| (says, 1000, None)).collect();
            list.last_mut().expect("not empty").2 = FIVE;
            chain(&list)
        };
        cache.serve(1, &grown(5), 1024, at(0));
        assert_eq!(cache.serve(1, &grown(24), 1024, at(1)), usage(0, 5000, 19_000, 0), "the twentieth block looked at");
        cache.clear();
        cache.serve(1, &grown(5), 1024, at(0));
        assert_eq!(cache.serve(1, &grown(25), 1024, at(1)), usage(0, 0, 25_000, 0), "the twenty-first");
    }

    #[test]
    fn only_marked_blocks_are_written_and_organisations_share_nothing() {
        let mut cache = PromptCache::default();
        cache.serve(1, &chain(&[(1, 2000, None), (2, 2000, FIVE)]), 1024, at(0));
        let shorter = chain(&[(1, 2000, FIVE), (9, 10, None)]);
        assert_eq!(cache.serve(1, &shorter, 1024, at(1)), usage(10, 0, 2000, 0), "block 1 was never an entry");
        assert_eq!(cache.serve(2, &shorter, 1024, at(1)), usage(10, 0, 2000, 0), "another organisation");
    }

    #[test]
    fn the_minimum_depends_on_the_model_family() {
        let expected = [
            ("claude-opus-5-5", 512),
            ("claude-fable-5", 512),
            ("claude-sonnet-5-5", 1024),
            ("claude-opus-4-8", 1024),
            ("claude-opus-4-7", 2048),
            ("claude-opus-4-6", 4096),
            ("claude-haiku-4-5-20251001", 4096),
            ("claude-3-5-haiku-20241022", 2048),
        ];
        for (model, tokens) in expected {
            assert_eq!(minimum_tokens(model), tokens, "{model}");
        }
    }
}
