//! `conversations.list`: which conversations are remembered, and where each is at home.

use chrono::{DateTime, SecondsFormat};
use duduclaw_actors::failover::{ConversationSnapshot, HomeSnapshot};
use duduclaw_actors::id::ModelScope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::verb::Call;
use crate::config::topology::Topology;

/// How many are given when nothing is said, and at most.
const USUAL: usize = 100;
const MOST: usize = 1000;

/// Conversations, the one that was used last first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ConversationsView {
    /// The conversations.
    pub(crate) conversations: Vec<ConversationView>,
}

/// One conversation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ConversationView {
    /// What tells it from others: a hash of who asks and of the session.
    pub(crate) key: String,
    /// When its last request was sent, RFC 3339.
    pub(crate) used_at: String,
    /// Where it is at home.
    pub(crate) homes: Vec<HomeView>,
}

/// Where a conversation is at home in one upstream, for some models.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct HomeView {
    /// The upstream.
    pub(crate) upstream: String,
    /// The account, `provider/name`.
    pub(crate) account: String,
    /// The models: `fable` for those with a weekly window of their own, else null.
    pub(crate) scope: Option<String>,
}

/// Which conversations are wanted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// At most so many; 100 if nothing is said, 1000 at most.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// Only those at home on this account: `name`, or `provider/name`.
    account: Option<String>,
}

/// The conversations that were used last.
pub(super) async fn list(call: Call, wanted: Wanted) -> Result<ConversationsView, Fault> {
    let limit = wanted.limit.unwrap_or(USUAL);
    if limit == 0 || limit > MOST {
        return Err(Fault::invalid(format!("limit must be from 1 to {MOST}")));
    }
    let topology = &call.live.topology;
    let of = wanted.account.as_deref().map(|name| topology.account_named(name)).transpose()?;
    let found = call.desk.fleet.failover.conversations(limit, of).await;
    let found = found.map_err(|error| Fault::unavailable(error.to_string()))?;
    Ok(ConversationsView { conversations: found.iter().map(|one| view(topology, one)).collect() })
}

fn view(topology: &Topology, one: &ConversationSnapshot) -> ConversationView {
    let at = DateTime::from_timestamp_millis(one.used_at.wall.0).unwrap_or_default();
    ConversationView {
        key: format!("{:032x}", one.key.0),
        used_at: at.to_rfc3339_opts(SecondsFormat::Millis, true),
        homes: one.homes.iter().filter_map(|at| home(topology, at)).collect(),
    }
}

fn home(topology: &Topology, home: &HomeSnapshot) -> Option<HomeView> {
    Some(HomeView {
        upstream: topology.element(home.upstream)?.name.to_string(),
        account: topology.representative(home.account)?.id.to_string(),
        scope: match home.scope {
            ModelScope::Base => None,
            ModelScope::Fable => Some("fable".to_owned()),
        },
    })
}
