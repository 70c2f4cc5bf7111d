//! What each answer of a provider does: to this request, and to the account. One test a row, each against a simulated
//! provider, with the provider's log, the control API and the events as judges.

mod auth;
mod faults;
mod quota;
mod relayed;
mod streams;
mod throttle;
