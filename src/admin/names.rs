//! Which account a name means: `name`, or `provider/name` where that would be ambiguous.
//!
//! Never here: what is done to it.

use duduclaw_actors::id::AccountId;

use super::fault::{Fault, FaultKind};
use crate::config::topology::{Entry, Topology};

/// How many names are offered for one that is not known.
const OFFERED: usize = 3;

/// The account of this name. Entries of one account are one account: several of the same name are not ambiguous.
pub(super) fn account(topology: &Topology, name: &str) -> Result<AccountId, Fault> {
    let found = entries(topology, name)?;
    let first = found[0].account;
    if found.iter().all(|entry| entry.account == first) { Ok(first) } else { Err(ambiguous(name, &found)) }
}

/// The one entry of this name.
pub(super) fn entry<'t>(topology: &'t Topology, name: &str) -> Result<&'t Entry, Fault> {
    let found = entries(topology, name)?;
    if found.len() == 1 { Ok(found[0]) } else { Err(ambiguous(name, &found)) }
}

/// At least one.
fn entries<'t>(topology: &'t Topology, name: &str) -> Result<Vec<&'t Entry>, Fault> {
    let all = topology.entries().iter();
    let found: Vec<_> = match name.rsplit_once('/') {
        Some((provider, name)) => all.filter(|e| *e.id.provider == *provider && *e.id.name == *name).collect(),
        None => all.filter(|e| *e.id.name == *name).collect(),
    };
    if found.is_empty() { Err(unknown(topology, name)) } else { Ok(found) }
}

fn ambiguous(name: &str, found: &[&Entry]) -> Fault {
    let names: Vec<_> = found.iter().map(|entry| entry.id.to_string()).collect();
    Fault::new(FaultKind::Conflict, format!("the name {name:?} is ambiguous: {}", names.join(", ")))
        .hint(format!("say which one, for example {:?}", names[0]))
}

fn unknown(topology: &Topology, name: &str) -> Fault {
    let fault = Fault::new(FaultKind::NotFound, format!("there is no account {name:?}"));
    let near = nearest(topology, name);
    if near.is_empty() {
        return fault.hint("no account is configured; `duduclaw check` says what is");
    }
    fault.hint(format!("the nearest names are {}", near.join(", ")))
}

fn nearest(topology: &Topology, name: &str) -> Vec<String> {
    let distance = |to: &str| strsim::damerau_levenshtein(name, to);
    let scored = topology.entries().iter().map(|entry| {
        let full = entry.id.to_string();
        (distance(&entry.id.name).min(distance(&full)), full)
    });
    let mut scored: Vec<_> = scored.collect();
    scored.sort();
    scored.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}
