//! `failures.list`: messages that could not be delivered at first, or at all, and which of them arrived after all, as that
//! was kept.

use duduclaw_actors::rows::EventQuery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activity::{ActivityView, kept};
use super::fault::Fault;
use super::verb::Call;

/// How many are given at most.
pub const FAILURES_MOST: usize = 1000;
/// How many are given when nothing is said.
const USUAL: usize = 100;

/// The kinds of events that tell of a message.
const DELAYED: &str = "message_delayed";
const LOST: &str = "message_lost";
const ARRIVED: &str = "message_arrived";

/// Which failures are wanted.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailuresAsk {
    /// Only those with a larger number.
    #[schemars(range(max = 18_446_744_073_709_551_615_u64))]
    pub since: Option<u64>,
    /// The newest so many; 100 if nothing is said, 1000 at most.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// Only messages that were given up.
    pub lost: Option<bool>,
}

impl FailuresAsk {
    /// The same, asked of the store.
    #[must_use]
    pub fn query(&self) -> EventQuery {
        let kinds: &[&str] = if self.lost == Some(true) { &[LOST] } else { &[DELAYED, LOST, ARRIVED] };
        EventQuery {
            after: self.since.unwrap_or_default(),
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            limit: self.limit.unwrap_or(USUAL),
            ..EventQuery::default()
        }
    }
}

/// What did not arrive.
pub(super) async fn list(call: Call, ask: FailuresAsk) -> Result<ActivityView, Fault> {
    if ask.limit.is_some_and(|limit| limit == 0 || limit > FAILURES_MOST) {
        return Err(Fault::invalid(format!("limit must be from 1 to {FAILURES_MOST}")));
    }
    kept(&call, ask.query(), call.desk.fleet.feed.last()).await
}
