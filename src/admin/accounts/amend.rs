//! What an operator changes of an account in the configuration: on, off, its priority, or that it is there at all.
//!
//! The file is changed first, then put in force, then it is answered: the answer shows the account as it is from now on.

use duduclaw_actors::id::EntryId;
use duduclaw_actors::roster::Switch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::act::{Which, answer};
use super::list::AccountAnswer;
use crate::admin::desk::AmendFault;
use crate::admin::fault::{Fault, FaultKind};
use crate::admin::verb::{ACCOUNT_NAME, Call};
use crate::amend::{AmendError, Change, FileError, concerned};

/// An account and its priority.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Priority {
    /// The account: `name`, or `provider/name` where several have that name.
    #[schemars(regex(pattern = ACCOUNT_NAME))]
    account: String,
    /// Lower is preferred; 100 is what an account has that names none.
    #[schemars(range(max = 4_294_967_295_u32))]
    priority: u32,
}

/// What is not configured any more.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RemovedAnswer {
    /// The account's `provider/name`.
    pub removed: String,
}

/// Switches an account on in the configuration.
pub(in crate::admin) async fn enable(call: Call, which: Which) -> Result<AccountAnswer, Fault> {
    amend(call, which.account, Change::Switch(Switch::On)).await
}

/// Switches an account off in the configuration.
pub(in crate::admin) async fn disable(call: Call, which: Which) -> Result<AccountAnswer, Fault> {
    amend(call, which.account, Change::Switch(Switch::Off)).await
}

/// Gives an account another priority in the configuration.
pub(in crate::admin) async fn priority(call: Call, to: Priority) -> Result<AccountAnswer, Fault> {
    amend(call, to.account, Change::Priority(to.priority)).await
}

/// Takes an account's entry out of the configuration.
pub(in crate::admin) async fn remove(call: Call, which: Which) -> Result<RemovedAnswer, Fault> {
    let entry = call.live.topology.entry_named(&which.account)?.id.clone();
    put(&call, &entry, Change::Remove).await?;
    Ok(RemovedAnswer { removed: entry.to_string() })
}

async fn amend(call: Call, name: String, change: Change) -> Result<AccountAnswer, Fault> {
    let topology = &call.live.topology;
    let account = topology.account_named(&name)?;
    let entry = topology.entry_named(&name).ok().or_else(|| topology.representative(account));
    let entry = entry.filter(|_| topology.roster().accounts.contains_key(&account)).map(|entry| entry.id.clone());
    let entry = entry.ok_or_else(|| {
        Fault::new(FaultKind::Unprocessable, format!("this version cannot use the provider of {name:?} yet"))
    })?;
    put(&call, &entry, change).await?;
    // What was asked under one configuration is answered under the next.
    let call = Call { live: call.desk.live.load_full(), ..call };
    let account = call.live.topology.account_named(&entry.to_string())?;
    answer(&call, account, &entry.to_string()).await
}

async fn put(call: &Call, entry: &EntryId, change: Change) -> Result<(), Fault> {
    let entries = concerned(&call.live.topology, entry, change);
    let done = call.desk.keeper.amend(entries, change).await;
    done.map(drop).map_err(|why| fault(call, &why, change))
}

fn fault(call: &Call, why: &AmendFault, change: Change) -> Fault {
    let kind = match why {
        AmendFault::Amend(AmendError::File(FileError::Busy(_))) => FaultKind::Unavailable,
        AmendFault::Amend(_) | AmendFault::NoFile { .. } | AmendFault::NotInForce(_) => FaultKind::Unprocessable,
    };
    let hint = why.hint(&call.live.topology, change);
    let fault = Fault::new(kind, why.to_string());
    match hint {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}
