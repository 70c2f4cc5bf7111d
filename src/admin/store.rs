//! How the store fares, as it is shown.

use duduclaw_actors::clock::Timestamp;
use duduclaw_actors::journal::{Journal, StoreState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the store fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreView {
    /// In a word.
    pub state: StoreWord,
    /// Since when it is not fine, epoch seconds.
    pub since: Option<i64>,
    /// For how long, in seconds.
    pub for_secs: Option<u64>,
    /// Why it fails.
    pub why: Option<String>,
}

/// How the store fares, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreWord {
    /// What happens is written within a second.
    Fine,
    /// A write takes long.
    Slow,
    /// It cannot be read or written; everything is kept in memory meanwhile.
    Failing,
}

impl StoreView {
    /// At this moment.
    pub(super) fn at(journal: &Journal, now: Timestamp) -> Self {
        let (state, since, why) = match journal.state(now) {
            StoreState::Fine => (StoreWord::Fine, None, None),
            StoreState::Slow { since } => (StoreWord::Slow, Some(since), None),
            StoreState::Failing { since, why } => (StoreWord::Failing, Some(since), Some(why)),
        };
        let for_secs = since.map(|since| now.since(since).as_secs());
        Self { state, since: since.map(|since| since.wall.as_secs()), for_secs, why }
    }
}
