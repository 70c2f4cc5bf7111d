//! Which account a name means: `name`, or `provider/name` where that would be ambiguous.

use duduclaw_actors::id::AccountId;

use super::{Entry, Topology};

/// How many names are offered for one that is not known.
const OFFERED: usize = 3;

/// Why a name means no one account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing is called so.
    #[error("there is no account {name:?}")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest names, nearest first.
        nearest: Vec<String>,
    },
    /// Several are.
    #[error("the name {name:?} is ambiguous: {}", all.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// All of them.
        all: Vec<String>,
    },
}

impl NameError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { nearest, .. } if nearest.is_empty() => {
                "no account is configured; `duduclaw check` says what is".to_owned()
            }
            Self::Unknown { nearest, .. } => format!("the nearest names are {}", nearest.join(", ")),
            Self::Ambiguous { all, .. } => {
                format!("say which one, for example {}", all.first().map(String::as_str).unwrap_or_default())
            }
        }
    }
}

impl Topology {
    /// The account of this name. Entries of one account are one account: several of the same name are not ambiguous.
    ///
    /// # Errors
    /// When there is none, or several.
    pub fn account_named(&self, name: &str) -> Result<AccountId, NameError> {
        self.entries_named(name).map(|found| found[0].account)
    }

    /// The entries of this name, all of one account.
    ///
    /// # Errors
    /// When there is none, or they are of several accounts.
    pub fn entries_named(&self, name: &str) -> Result<Vec<&Entry>, NameError> {
        let found = self.named(name)?;
        let is_one = found.iter().all(|entry| entry.account == found[0].account);
        if is_one { Ok(found) } else { Err(ambiguous(name, &found)) }
    }

    /// The one entry of this name.
    ///
    /// # Errors
    /// When there is none, or several.
    pub fn entry_named(&self, name: &str) -> Result<&Entry, NameError> {
        let found = self.named(name)?;
        if found.len() == 1 { Ok(found[0]) } else { Err(ambiguous(name, &found)) }
    }

    /// At least one.
    fn named(&self, name: &str) -> Result<Vec<&Entry>, NameError> {
        let all = self.entries.iter();
        let found: Vec<_> = match name.rsplit_once('/') {
            Some((provider, name)) => all.filter(|e| *e.id.provider == *provider && *e.id.name == *name).collect(),
            None => all.filter(|e| *e.id.name == *name).collect(),
        };
        if !found.is_empty() {
            return Ok(found);
        }
        Err(NameError::Unknown { name: printable(name).to_owned(), nearest: self.nearest(name) })
    }

    fn nearest(&self, name: &str) -> Vec<String> {
        let distance = |to: &str| strsim::damerau_levenshtein(name, to);
        let scored = self.entries.iter().map(|entry| {
            let full = entry.id.to_string();
            (distance(&entry.id.name).min(distance(&full)), full)
        });
        let mut scored: Vec<_> = scored.collect();
        scored.sort();
        scored.into_iter().take(OFFERED).map(|(_, name)| name).collect()
    }
}

/// A name as it is repeated to people and logs: what somebody pasted in its place, a secret perhaps, is not.
#[must_use]
pub fn printable(name: &str) -> &str {
    const LONGEST: usize = 64;
    if name.contains("sk-") || name.len() > LONGEST { "(what was given)" } else { name }
}

fn ambiguous(name: &str, found: &[&Entry]) -> NameError {
    NameError::Ambiguous { name: name.to_owned(), all: found.iter().map(|entry| entry.id.to_string()).collect() }
}
