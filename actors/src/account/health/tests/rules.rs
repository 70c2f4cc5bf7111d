//! One rule, one sentence.

mod asking;
mod auth;
mod effects;
mod erroring;
mod limits;
mod spend;

use super::*;
use HoldKind::{AuthDead, BudgetExhausted, Erroring, RateLimited};

fn ended(hold: HoldKind, by: EndedBy) -> EventKind {
    EventKind::HoldEnded { hold, scope: HoldScope::Account, by }
}
