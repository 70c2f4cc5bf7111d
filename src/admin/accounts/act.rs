//! What an operator does to one account, for now or until it is undone: pause, resume, clear.
//!
//! Each is told to the account's own actor. The answer comes when it has taken it in and that is written down, so that
//! whoever looks next sees it, also after a crash.

use duduclaw_actors::account::fact::Fact;
use duduclaw_actors::account::health::HealthEvent;
use duduclaw_actors::id::AccountId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::cure::uncleared;
use super::list::{AccountAnswer, show};
use crate::admin::fault::{Fault, FaultKind};
use crate::admin::verb::{ACCOUNT_NAME, Call};

/// Which account.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Which {
    /// The account: `name`, or `provider/name` where several have that name.
    #[schemars(regex(pattern = ACCOUNT_NAME))]
    pub(in crate::admin) account: String,
}

/// Takes an account out of use until it is resumed.
pub(in crate::admin) async fn pause(call: Call, which: Which) -> Result<AccountAnswer, Fault> {
    tell(&call, &which, HealthEvent::Paused).await
}

/// Takes a paused account into use again.
pub(in crate::admin) async fn resume(call: Call, which: Which) -> Result<AccountAnswer, Fault> {
    tell(&call, &which, HealthEvent::Resumed).await
}

/// Ends an account's waits for quota and budget, and forgets the figures behind them.
pub(in crate::admin) async fn clear(call: Call, which: Which) -> Result<AccountAnswer, Fault> {
    let told = tell(&call, &which, HealthEvent::Cleared).await?;
    let topology = &call.live.topology;
    let stands = topology.representative(topology.account_named(&which.account)?);
    let notes = stands.and_then(|entry| uncleared(&told.account.standing, entry));
    Ok(AccountAnswer { notes: Vec::from_iter(notes), ..told })
}

async fn tell(call: &Call, which: &Which, event: HealthEvent<'static>) -> Result<AccountAnswer, Fault> {
    let account = call.live.topology.account_named(&which.account)?;
    deliver(call, account, event).await?;
    answer(call, account, &which.account).await
}

/// Tells the account's actor, and waits until that has lasted.
pub(super) async fn deliver(call: &Call, account: AccountId, event: HealthEvent<'static>) -> Result<(), Fault> {
    let taken = call.desk.fleet.deliver(account, Fact::Told(event)).await;
    taken.map_err(|error| Fault::unavailable(error.to_string()))?;
    let written = call.desk.fleet.journal.flush().await;
    written.map_err(|error| {
        Fault::unavailable(format!(
            "it acts now, but could not be written down, and may not survive a restart: {error}"
        ))
    })
}

/// The account as it stands now.
pub(super) async fn answer(call: &Call, account: AccountId, name: &str) -> Result<AccountAnswer, Fault> {
    let topology = &call.live.topology;
    let named = topology.entry_named(name).ok().or_else(|| topology.representative(account));
    let shown = match named {
        Some(entry) => show(call, entry).await,
        None => None,
    };
    let shown = shown.ok_or_else(|| {
        Fault::new(FaultKind::Unprocessable, format!("this version cannot use the provider of {name:?} yet"))
    })?;
    let named = named.map_or_else(|| shown.id.clone(), |entry| entry.id.to_string());
    Ok(AccountAnswer { account: shown, named, notes: Vec::new() })
}
