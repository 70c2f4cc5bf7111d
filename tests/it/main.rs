//! Black-box tests over HTTP: the gateway as a client meets it, in front of simulated providers whose log is the judge.
//!
//! Each test has a gateway, a simulator, a home and a clock of its own, so none depends on another.

#![expect(unreachable_pub, reason = "one binary: nothing of it can be reached from elsewhere")]

mod access;
mod binary;
mod cli;
mod drain;
mod headers_e2e;
mod hold;
mod limits;
mod notify;
mod paths;
mod reload;
mod service;
mod side_calls;
mod smoke;
mod support;
