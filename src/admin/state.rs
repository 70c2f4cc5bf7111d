//! `state.import`: what another gateway knew of quota, taken over.

use duduclaw_actors::clock::Wall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, FaultKind};
use super::verb::Call;
use crate::app::imported::{StateFile, TakeError, Took, import as take};

/// What another gateway wrote down.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Importing {
    /// The whole text of shunt's state file, of version 2 or 3.
    state: String,
    /// When the file was written, in Unix seconds: figures in it without a time of their own are as old as that.
    written_at: Option<i64>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateAnswer {
    /// The accounts that have it now, by their `provider/name`.
    pub accounts: Vec<String>,
    /// Those that are not here, as that gateway knew them; their state waits for them.
    pub orphans: Vec<String>,
}

/// Takes it over.
pub(super) async fn import(call: Call, importing: Importing) -> Result<StateAnswer, Fault> {
    let written = importing.written_at.map(|seconds| Wall(seconds.saturating_mul(1000)));
    let file = StateFile { bytes: importing.state.as_bytes(), written };
    let taken = take(&call.desk.fleet, &call.live.topology, file).await;
    taken.map(StateAnswer::from).map_err(|why| match why {
        TakeError::State(_) => Fault::new(FaultKind::Unprocessable, why.to_string()),
        TakeError::Store(_) => Fault::unavailable(why.to_string()),
    })
}

impl From<Took> for StateAnswer {
    fn from(took: Took) -> Self {
        Self { accounts: took.accounts.iter().map(ToString::to_string).collect(), orphans: took.orphans }
    }
}
