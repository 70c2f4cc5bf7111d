//! The configuration: showing it, and reading it again.

mod show;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, FaultKind};
use super::verb::{Call, Nothing};

pub(super) use show::show;

/// What a configuration came to that was put in force.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ReloadAnswer {
    /// The file it came from; null where what was found on the machine is used.
    pub(crate) file: Option<String>,
    /// What is to be said of it.
    pub(crate) warnings: Vec<String>,
    /// Parts that changed and act only after a restart.
    pub(crate) needs_restart: Vec<String>,
}

/// Reads the configuration again.
pub(super) async fn reload(call: Call, _: Nothing) -> Result<ReloadAnswer, Fault> {
    let done = call.desk.keeper.reload().await;
    let done = done.map_err(|why| {
        Fault::new(FaultKind::Unprocessable, format!("the configuration is not used; the old one stays: {why}"))
    })?;
    let file = call.desk.keeper.file().map(|path| path.display().to_string());
    Ok(ReloadAnswer { file, warnings: done.warnings, needs_restart: done.needs_restart })
}
