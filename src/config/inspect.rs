//! Looks at every account's secret without using it: is it there, and is it what its place says?
//!
//! A secret that cannot be had breaks its account alone. One of the wrong kind is a mistake in the configuration.

use duduclaw_actors::id::Family;
use duduclaw_actors::roster::Switch;
use secrecy::ExposeSecret;

use super::problem::{Problem, Severity};
use super::secret::{self, SecretFault, SecretSource, TokenShape, misfit_as_key, misfit_as_token};
use super::settings::AuthMode;
use super::surroundings::Surroundings;
use super::topology::{Element, Entry, Topology};

/// Every problem with the secrets of a fleet's entries.
pub(super) fn inspect(topology: &Topology, surroundings: &dyn Surroundings) -> Vec<Problem> {
    let examined = topology.entries().iter().map(|entry| (entry, &topology.elements()[entry.element]));
    examined.filter_map(|(entry, element)| problem(entry, element, surroundings)).collect()
}

fn problem(entry: &Entry, element: &Element, surroundings: &dyn Surroundings) -> Option<Problem> {
    let (severity, text) = match examine(entry, element, surroundings) {
        Ok(Some(misfit)) => (Severity::Error, format!("account {}: {misfit}", entry.id)),
        Err(fault) if entry.switch == Switch::On => (Severity::Warning, broken(entry, element, &fault)),
        Ok(None) | Err(_) => return None,
    };
    Some(Problem { severity, place: entry.place.clone(), text })
}

/// What is wrong with the kind of a secret that can be had.
fn examine(entry: &Entry, element: &Element, machine: &dyn Surroundings) -> Result<Option<String>, SecretFault> {
    match &entry.source {
        SecretSource::TokenEnv(name) => {
            let token = secret::from_variable(name, machine)?;
            Ok(misfit_as_token(TokenShape::of(token.expose_secret())).map(|why| format!("the variable {name} {why}")))
        }
        SecretSource::ApiKeyEnv(name) => {
            let key = secret::from_variable(name, machine)?;
            Ok(misfit_as_key(TokenShape::of(key.expose_secret())).map(|why| format!("the variable {name} {why}")))
        }
        SecretSource::StoreFile(path) if secret::is_stored_key(path, machine) => Ok(None),
        SecretSource::CredentialsFile(path) | SecretSource::StoreFile(path) if is_claude_login(element) => {
            let token = secret::from_credentials(path, machine)?;
            let shape = TokenShape::of(token.expose_secret());
            let misfit = misfit_as_token(shape).filter(|_| shape == TokenShape::ApiKey);
            Ok(misfit.map(|why| format!("{} {why}", path.display())))
        }
        SecretSource::CredentialsFile(path) | SecretSource::StoreFile(path) => {
            secret::is_there(path, machine)?;
            Ok(None)
        }
        SecretSource::Keychain { .. } | SecretSource::None => Ok(None),
    }
}

fn is_claude_login(element: &Element) -> bool {
    element.family == Family::Claude && element.auth == AuthMode::ClaudeOauth
}

fn broken(entry: &Entry, element: &Element, fault: &SecretFault) -> String {
    let help = match (fault, &entry.source) {
        (SecretFault::NotLoggedIn(_), SecretSource::StoreFile(_)) => {
            format!("; put the {} login there, or name another source for it", element.family.as_str())
        }
        (SecretFault::NotLoggedIn(_), _) => "; log in with the program it belongs to, or correct the path".to_owned(),
        (SecretFault::Unset(_) | SecretFault::Empty(_), SecretSource::TokenEnv(_) | SecretSource::ApiKeyEnv(_)) => {
            "; set it".to_owned()
        }
        (SecretFault::Unset(_) | SecretFault::Empty(_) | SecretFault::Blanks(_), _) => "; correct it".to_owned(),
        (SecretFault::Unreadable { .. }, _) => "; it is left as it is".to_owned(),
    };
    let state = if matches!(fault, SecretFault::NotLoggedIn(_)) { "not logged in" } else { "broken" };
    format!("account {} is {state} ({}): {fault}{help}", entry.id, fault.cause().as_str())
}
