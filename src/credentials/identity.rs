//! Whose a credential is, as far as files say: the provider's account id and organisation.
//!
//! Our stored files carry the ids themselves. Claude Code keeps them apart from its tokens, in `.claude.json`.
//!
//! Never here: what identities mean for accounts; the network.

use std::path::{Path, PathBuf};

use duduclaw_actors::id::CredentialKind;
use serde_json::Value;

use super::document::Document;
use super::error::SourceError;
use super::file;
use super::kept;
use super::source::SecretSource;

/// Whose a credential is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityFacts {
    /// The provider's account id.
    pub uuid: Option<String>,
    /// The organisation's id.
    pub organization: Option<String>,
    /// The subscription's name, as the login states it.
    pub plan: Option<String>,
}

/// What a provider's id of an account looks like.
pub const UUID_LIKE: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// Whether a text looks like an account's id, and is no placeholder of zeros.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let is_hex = groups.iter().all(|group| group.chars().all(|c| c.is_ascii_hexdigit()));
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    is_hex && lengths == [8, 4, 4, 4, 12] && text.contains(|c| c != '0' && c != '-')
}

/// The file name by which Claude Code's own credentials are known.
const CLAUDE_CODE_FILE: &str = ".credentials.json";

/// Whose the credential of a source is. Sources that say nothing about it give no facts.
///
/// # Errors
/// When the source is a file that cannot be read.
pub fn identity_facts(source: &SecretSource) -> Result<IdentityFacts, SourceError> {
    let Some(path) = source.path() else { return Ok(IdentityFacts::default()) };
    let kept = kept::read(path)?;
    let facts = Document::parse(path, &kept.bytes)?.facts();
    Ok(completed(facts, source))
}

/// What kind of credential a source holds, where only its content tells: a login that can be renewed, or not.
///
/// # Errors
/// When the source is a file that cannot be read, or holds no login.
pub fn credential_kind(source: &SecretSource) -> Result<Option<CredentialKind>, SourceError> {
    let Some(path) = source.path() else { return Ok(None) };
    let kept = kept::read(path)?;
    Ok(Document::parse(path, &kept.bytes)?.kind())
}

/// Fills in from Claude Code's own records what the credential file itself does not say.
pub(crate) fn completed(facts: IdentityFacts, source: &SecretSource) -> IdentityFacts {
    let SecretSource::CredentialsFile(path) = source else { return facts };
    if facts.uuid.is_some() {
        return facts;
    }
    let Some(account) = claude_code_account(path) else { return facts };
    let of = |key: &str| account.get(key).and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
    IdentityFacts { uuid: of("accountUuid"), organization: of("organizationUuid").or(facts.organization), ..facts }
}

/// The folder of Claude Code's configuration, if `path` is its own credential file.
pub(crate) fn claude_config_dir(path: &Path) -> Option<&Path> {
    path.parent().filter(|_| path.file_name().is_some_and(|name| name == CLAUDE_CODE_FILE))
}

fn claude_code_account(credentials: &Path) -> Option<Value> {
    records(claude_config_dir(credentials)?).into_iter().find_map(|path| {
        let (bytes, _) = file::read(&path).ok()?;
        let mut record: Value = serde_json::from_slice(&bytes).ok()?;
        record.get_mut("oauthAccount").map(Value::take).filter(Value::is_object)
    })
}

/// Where Claude Code keeps its account: in a chosen folder inside it, for the default folder `~/.claude` beside it. A
/// chosen folder never falls back to the one beside, which is another profile's.
fn records(config_dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![config_dir.join(".claude.json"), config_dir.join(".config.json")];
    if config_dir.file_name().is_some_and(|name| name == ".claude") {
        found.extend(config_dir.parent().map(|home| home.join(".claude.json")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const TOKENS: &str = r#"{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","subscriptionType":"pro"}}"#;

    fn account(uuid: &str) -> String {
        format!(r#"{{"oauthAccount":{{"accountUuid":"{uuid}","organizationUuid":"o-{uuid}"}}}}"#)
    }

    fn profile(home: &Path, name: &str) -> (PathBuf, SecretSource) {
        let dir = home.join(name);
        fs::create_dir(&dir).expect("made");
        fs::write(dir.join(".credentials.json"), TOKENS).expect("written");
        (dir.clone(), SecretSource::CredentialsFile(dir.join(".credentials.json")))
    }

    #[test]
    fn the_default_profiles_account_stands_beside_its_folder() {
        let home = tempfile::tempdir().expect("a home");
        let (_, source) = profile(home.path(), ".claude");
        fs::write(home.path().join(".claude.json"), account("u-1")).expect("written");
        let facts = identity_facts(&source).expect("readable");
        assert_eq!(facts.uuid.as_deref(), Some("u-1"));
        assert_eq!(facts.organization.as_deref(), Some("o-u-1"));
        assert_eq!(facts.plan.as_deref(), Some("pro"));
    }

    #[test]
    fn another_profile_is_never_taken_for_the_default_one() {
        let home = tempfile::tempdir().expect("a home");
        let (dir, source) = profile(home.path(), ".claude-work");
        fs::write(home.path().join(".claude.json"), account("u-1")).expect("written");
        assert_eq!(identity_facts(&source).expect("readable").uuid, None);
        fs::write(dir.join(".claude.json"), account("u-2")).expect("written");
        assert_eq!(identity_facts(&source).expect("readable").uuid.as_deref(), Some("u-2"));
    }

    #[test]
    fn variables_say_nothing_about_whose_they_are() {
        let source = SecretSource::TokenEnv("T".into());
        assert_eq!(identity_facts(&source).expect("no file involved"), IdentityFacts::default());
    }
}
