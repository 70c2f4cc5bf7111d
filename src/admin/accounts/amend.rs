//! What an operator changes of an account in the configuration: on, off, its priority, or that it is there at all. It is
//! the entry of that name that is changed; other entries of the same account stay.
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
use crate::amend::{AmendError, Change, FileError, concerned, sequel};

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
    /// The `provider/name` of the entry.
    pub removed: String,
    /// What is to be known besides: the name by which the account goes on.
    pub notes: Vec<String>,
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
    let (entries, account) = concerned(&call.live.topology, &which.account, Change::Remove)?;
    put(&call, &entries, Change::Remove).await?;
    let sequel = sequel(&call.desk.live.load().topology, account, &entries, Change::Remove);
    Ok(RemovedAnswer { removed: entries[0].to_string(), notes: Vec::from_iter(sequel) })
}

async fn amend(call: Call, name: String, change: Change) -> Result<AccountAnswer, Fault> {
    let topology = &call.live.topology;
    let (entries, account) = concerned(topology, &name, change)?;
    if !topology.roster().accounts.contains_key(&account) {
        let text = format!("this version cannot use the provider of {name:?} yet");
        return Err(Fault::new(FaultKind::Unprocessable, text));
    }
    put(&call, &entries, change).await?;
    // What was asked under one configuration is answered under the next.
    let call = Call { live: call.desk.live.load_full(), ..call };
    let name = entries[0].to_string();
    let account = call.live.topology.account_named(&name)?;
    let answer = answer(&call, account, &name).await?;
    let sequel = sequel(&call.live.topology, account, &entries, change);
    Ok(AccountAnswer { notes: Vec::from_iter(sequel), ..answer })
}

async fn put(call: &Call, entries: &[EntryId], change: Change) -> Result<(), Fault> {
    let done = call.desk.keeper.amend(entries.to_vec(), change).await;
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
