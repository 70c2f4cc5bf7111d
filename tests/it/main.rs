//! Black-box tests over HTTP: the gateway as a client meets it, in front of simulated providers whose log is the judge.
//!
//! Each test has a gateway, a simulator, a home and a clock of its own, so none depends on another.

#![expect(unreachable_pub, reason = "one binary: nothing of it can be reached from elsewhere")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "all of it is tests, their helpers too: they fail by panics and live in real time"
)]

mod access;
mod accounts;
mod accounts_add;
mod agreement;
mod aliases;
mod amplification;
mod binary;
mod budgets;
mod canary;
mod cancel;
mod caps;
mod cases;
mod chain;
mod checks;
mod claude_command;
mod cli;
mod control;
mod conversations;
mod demo;
mod doctor;
mod drain;
mod feed;
mod final_answer;
mod headers_e2e;
mod hold;
mod imports;
mod limits;
mod load;
mod log;
mod login;
mod mixed;
mod notify;
mod outage;
mod panics;
mod paths;
mod permissions;
mod probe;
mod refresh;
mod reload;
mod request_end;
mod restart;
mod sealed;
mod secrets;
mod seen;
mod service;
mod side_calls;
mod smoke;
mod store;
mod storm;
mod sums;
mod support;
mod table;
mod usage_views;
mod watch;
mod writers;
