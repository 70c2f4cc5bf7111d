//! The tokens of one answer, read from the events or the body that pass by.
//!
//! Figures of a stream are cumulative: a later one replaces the earlier, an absent one keeps it, and a zero never erases
//! what was counted. What is no number counts as absent.
//!
//! Cache writes come as a total and as a split by lifetime, which do not always agree. No token that was stated is
//! lost and none is added: what the total has beyond the split was written for five minutes, the protocol's default; a
//! split beyond the total stands as it is, since each of its parts was stated.
//!
//! Never here: prices.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::outcome::Usage;

/// Collects the figures of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageMeter {
    seen: UsageUpdate,
}

impl UsageMeter {
    /// Takes the data of a stream event (`message_start` and `message_delta` have figures) or a whole message. Anything
    /// else changes nothing.
    pub fn read(&mut self, json: &[u8]) {
        if let Some(update) = usage_update(json) {
            self.apply(update);
        }
    }

    /// Takes later figures.
    pub fn apply(&mut self, update: UsageUpdate) {
        replace(&mut self.seen.input, update.input);
        replace(&mut self.seen.output, update.output);
        replace(&mut self.seen.cache_read, update.cache_read);
        replace(&mut self.seen.cache_write, update.cache_write);
        replace(&mut self.seen.split.five_minutes, update.split.five_minutes);
        replace(&mut self.seen.split.one_hour, update.split.one_hour);
    }

    /// Whether any figure came at all.
    #[must_use]
    pub fn has_figures(&self) -> bool {
        self.seen != UsageUpdate::default()
    }

    /// The tokens so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let seen = self.seen;
        let one_hour = seen.split.one_hour.unwrap_or(0);
        let five_minutes = seen.split.five_minutes.unwrap_or(0);
        let beyond_split = seen.cache_write.unwrap_or(0).saturating_sub(five_minutes.saturating_add(one_hour));
        Usage {
            input: seen.input.unwrap_or(0),
            output: seen.output.unwrap_or(0),
            cache_read: seen.cache_read.unwrap_or(0),
            cache_write_5m: five_minutes.saturating_add(beyond_split),
            cache_write_1h: one_hour,
        }
    }
}

/// The figures of one event, as far as it had any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UsageUpdate {
    /// Input that no cache served.
    #[serde(rename = "input_tokens", deserialize_with = "count")]
    pub input: Option<u64>,
    /// Output.
    #[serde(rename = "output_tokens", deserialize_with = "count")]
    pub output: Option<u64>,
    /// Input that the cache served.
    #[serde(rename = "cache_read_input_tokens", deserialize_with = "count")]
    pub cache_read: Option<u64>,
    /// All input written to the cache.
    #[serde(rename = "cache_creation_input_tokens", deserialize_with = "count")]
    pub cache_write: Option<u64>,
    /// The same by lifetime.
    #[serde(rename = "cache_creation", deserialize_with = "split")]
    pub split: CacheSplit,
}

/// Input written to the cache, by lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CacheSplit {
    /// For five minutes.
    #[serde(rename = "ephemeral_5m_input_tokens", deserialize_with = "count")]
    pub five_minutes: Option<u64>,
    /// For an hour.
    #[serde(rename = "ephemeral_1h_input_tokens", deserialize_with = "count")]
    pub one_hour: Option<u64>,
}

/// The figures in the data of a stream event or in a whole message.
#[must_use]
pub fn usage_update(json: &[u8]) -> Option<UsageUpdate> {
    let json = json.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(json);
    let Carrier { message, usage } = serde_json::from_slice(json).ok()?;
    usage.or_else(|| message?.usage)
}

/// Where the figures stand: at the top (`message_delta`, a whole message) or in the message (`message_start`).
#[derive(Deserialize)]
struct Carrier {
    message: Option<Message>,
    usage: Option<UsageUpdate>,
}

#[derive(Deserialize)]
struct Message {
    usage: Option<UsageUpdate>,
}

fn replace(seen: &mut Option<u64>, update: Option<u64>) {
    if update.is_some_and(|tokens| tokens > 0 || seen.is_none()) {
        *seen = update;
    }
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Value::deserialize(from)?.as_u64())
}

fn split<'de, D: Deserializer<'de>>(from: D) -> Result<CacheSplit, D::Error> {
    Ok(CacheSplit::deserialize(Value::deserialize(from)?).unwrap_or_default())
}

#[cfg(test)]
mod tests;
