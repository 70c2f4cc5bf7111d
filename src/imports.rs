//! Coming over from other programs: what their files say of accounts, read as a plan of ours.
//!
//! Each program's files are read by a file of its own; none of them is changed. A plan names accounts, where their secrets
//! are, and the settings that have a counterpart here. Never here: the network, writing, and what becomes of a plan.

mod ccflare;
mod places;
mod reading;
mod shunt;
mod shunt_state;
mod teamclaude;

use std::path::{Path, PathBuf};

use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::CredentialKind;

use crate::credentials::{Content, Fresh, IdentityFacts, Origin, Proof, Secret};

use crate::config::surroundings::Surroundings;
pub(crate) use reading::whole as whole_file;
pub(crate) use shunt::usual_state as usual_shunt_state;
pub(crate) use shunt_state::{Imported, Moments, StateError, read as read_shunt_state};

/// A program that people come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Teamclaude,
    Shunt,
    Ccflare,
}

/// What is to come over.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Where it was read.
    pub(crate) from: Vec<PathBuf>,
    pub(crate) accounts: Vec<Planned>,
    /// What is to be known of the whole.
    pub(crate) notes: Vec<String>,
}

/// One account.
#[derive(Debug)]
pub(crate) struct Planned {
    /// What it is called there.
    pub(crate) was: String,
    /// What it is to be called here.
    pub(crate) name: String,
    pub(crate) source: PlannedSource,
    /// Keys of its entry in the configuration.
    pub(crate) keys: Vec<(&'static str, toml_edit::Value)>,
}

/// Where its secret is.
#[derive(Debug)]
pub(crate) enum PlannedSource {
    /// It is to lie in the store.
    Stored(Box<Fresh>),
    /// It is in a file of another program, and stays there.
    File(PathBuf),
    /// It is in a variable, and stays there; which key names it.
    Variable(&'static str, String),
    /// It does not come over, and why.
    None(String),
}

/// Why nothing can come over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is not what {program} writes: {why}", .path.display())]
    Shape { path: PathBuf, program: &'static str, why: String },
    #[error("there is nothing of {program} at {}; name its file or folder", paths(.looked))]
    Nowhere { program: &'static str, looked: Vec<PathBuf> },
}

fn paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// What the files of a program say: those that are named, else those where it keeps them.
pub(crate) fn read(program: Program, named: Option<&Path>, machine: &dyn Surroundings) -> Result<Plan, ImportError> {
    let mut plan = match program {
        Program::Teamclaude => teamclaude::read(named, machine)?,
        Program::Shunt => shunt::read(named, machine)?,
        Program::Ccflare => ccflare::read(named, machine)?,
    };
    name(&mut plan.accounts);
    Ok(plan)
}

/// Gives each account a name that it can have here, and no two the same.
fn name(accounts: &mut [Planned]) {
    let mut taken = std::collections::BTreeSet::new();
    for account in accounts {
        let plain = plain_name(&account.was);
        let mut name = plain.clone();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{plain}-{number}");
        }
        account.name = name;
    }
}

fn plain_name(text: &str) -> String {
    let letters = text.to_lowercase();
    let parts = letters.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join("-");
    if name.is_empty() || name.starts_with("sk-") { "account".to_owned() } else { name }
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> ImportError + '_ {
    move |source| ImportError::Unreadable { path: path.to_owned(), source }
}

/// A credential that was written down in plain.
#[derive(Default)]
struct Plain<'a> {
    access: Option<&'a str>,
    refresh: Option<&'a str>,
    key: Option<&'a str>,
    expires_at: Option<i64>,
    uuid: Option<String>,
    organization: Option<String>,
}

impl Plain<'_> {
    /// As an account of the store; a text that cannot be a secret is named by its kind.
    fn stored(self) -> PlannedSource {
        let secret = |text: Option<&str>| text.map(Secret::parse).transpose();
        let (access, refresh, key) = match (secret(self.access), secret(self.refresh), secret(self.key)) {
            (Ok(access), Ok(refresh), Ok(key)) => (access, refresh, key),
            (Err(why), _, _) => return PlannedSource::None(format!("its access token {why}")),
            (_, Err(why), _) => return PlannedSource::None(format!("its refresh token {why}")),
            (_, _, Err(why)) => return PlannedSource::None(format!("its key {why}")),
        };
        let expires_at = self.expires_at.map(Wall);
        let content = match (access, refresh, key) {
            (Some(access), Some(refresh), _) => Content::Login { access, refresh, expires_at, scopes: Vec::new() },
            (Some(token), None, _) => Content::SetupToken { token, expires_at },
            (None, _, Some(key)) => Content::Key(key),
            (None, Some(_), None) => {
                return PlannedSource::None("it has no access token yet; log in with `duduclaw login claude`".into());
            }
            (None, None, None) => return PlannedSource::None("it has no secret".into()),
        };
        let facts = IdentityFacts { uuid: self.uuid, organization: self.organization, plan: None };
        PlannedSource::Stored(Box::new(Fresh { content, facts, proof: Proof::Found, origin: Origin::Own }))
    }
}

/// Whether a login that is copied can be renewed: of two programs that do, one loses it.
fn is_copied_login(source: &PlannedSource) -> bool {
    match source {
        PlannedSource::Stored(fresh) => fresh.origin == Origin::Own && fresh.content.kind() == CredentialKind::Oauth,
        PlannedSource::File(_) | PlannedSource::Variable(..) | PlannedSource::None(_) => false,
    }
}

/// Warns where both programs would renew one login.
fn warn_of_copies(plan: &mut Plan, program: &str) {
    if plan.accounts.iter().any(|account| is_copied_login(&account.source)) {
        plan.notes.push(format!(
            "logins are copied, and a refresh token works once: stop {program} before, and do not start it again with them"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_such_as_a_file_can_have_and_stay_apart() {
        let planned = |was: &str| Planned {
            was: was.to_owned(),
            name: String::new(),
            source: PlannedSource::None(String::new()),
            keys: Vec::new(),
        };
        let mut all =
            ["me@Example.com (Acme)", "me@example.com (ACME)", "ö", "work", "../x", "sk-ant-api03-x"].map(planned);
        name(&mut all);
        let names = all.map(|account| account.name);
        let expected = ["me-example-com-acme", "me-example-com-acme-2", "account", "work", "x", "account-2"];
        assert_eq!(names, expected);
    }
}
