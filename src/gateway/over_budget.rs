//! The refusal of a request that exceeds a budget of whoever asks: it names the budget, and when it begins anew.

use std::sync::Arc;

use duduclaw_actors::clock::{Deadline, Timestamp};
use duduclaw_actors::event::EventKind;
use duduclaw_actors::failover::ledger::{Limit, OverBudget, Whose};
use duduclaw_actors::id::Principal;
use duduclaw_actors::money::Micros;

use crate::gateway::error::ApiError;
use crate::gateway::reason::moment;

/// The refusal.
pub(super) fn refusal(asker: &Principal, over: OverBudget, now: Timestamp) -> ApiError {
    let retry_after = Deadline::Wall(over.resets).remaining(now);
    ApiError::OverBudget { message: words(asker, over, now), retry_after }
}

/// The same, as it is told to the feed: it concerns whoever asked, and no account.
pub(super) fn told(asker: &Principal, over: OverBudget, now: Timestamp) -> EventKind {
    let (client, until) = (asker.client.clone(), Deadline::Wall(over.resets));
    EventKind::BudgetRefused { client, why: words(asker, over, now), until }
}

fn words(asker: &Principal, over: OverBudget, now: Timestamp) -> String {
    let (whose, until) = (owner(asker, over.whose), moment(Deadline::Wall(over.resets), now));
    match over.limit {
        Limit::Money { cap, left, asked } => {
            let left = left.max(Micros::ZERO);
            format!(
                "{whose} has {left} left of its monthly budget of {cap}, and this request may cost {asked}; the budget \
                 begins anew at {until}"
            )
        }
        Limit::Requests { cap } => {
            let requests = if cap == 1 { "request" } else { "requests" };
            format!("{whose} has made its {cap} {requests} of this month; the count begins anew at {until}")
        }
    }
}

fn owner(asker: &Principal, whose: Whose) -> String {
    let called = |what: &str, name: &Option<Arc<str>>| {
        name.as_ref().map_or_else(|| format!("this {what}"), |name| format!("the {what} {name:?}"))
    };
    match whose {
        Whose::Account => "the account".to_owned(),
        Whose::Client => called("client", &asker.client),
        Whose::Agent => called("agent", &asker.agent),
    }
}
