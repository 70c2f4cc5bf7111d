//! Where an account's secret comes from, and reading it from there.
//!
//! Never here: renewing it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::CredentialKind;

use super::document::{Document, Login, Seals};
use super::error::SourceError;
use super::file::{self, FileStamp};
use super::identity::{self, IdentityFacts};
use super::seal::Sealer;
use super::secret::{Secret, SecretShape};

/// Where an account's secret comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecretSource {
    /// A file of another program, such as Claude Code's `.credentials.json`; its format is kept.
    CredentialsFile(PathBuf),
    /// A file of our own account store.
    StoreFile(PathBuf),
    /// An environment variable with a long-lived token, used as it is.
    TokenEnv(String),
    /// An environment variable with a metered key.
    ApiKeyEnv(String),
    /// A CLI's own login: no secret is held here.
    Keychain {
        /// The CLI's profile, if not its default.
        config_dir: Option<PathBuf>,
    },
    /// No secret at all.
    None,
}

impl SecretSource {
    /// The environment variable that holds the secret, if one does.
    #[must_use]
    pub fn variable(&self) -> Option<&str> {
        match self {
            Self::TokenEnv(name) | Self::ApiKeyEnv(name) => Some(name),
            Self::CredentialsFile(_) | Self::StoreFile(_) | Self::Keychain { .. } | Self::None => None,
        }
    }
}

/// What reads the environment: the process's, or a test's.
pub type Environment = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// The environment of this process.
#[must_use]
pub fn process_environment() -> Environment {
    Arc::new(|name| std::env::var_os(name))
}

/// What a source gave.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) login: Login,
    pub(crate) stamp: Option<FileStamp>,
}

/// A secret as its source holds it now; nothing was renewed.
#[derive(Clone, Debug)]
pub struct Credential {
    /// What kind it is.
    pub kind: CredentialKind,
    /// The secret.
    pub secret: Secret,
    /// When it ends, if that is known.
    pub expires_at: Option<Wall>,
    /// Whether it can be renewed.
    pub renewal: Renewal,
}

/// Whether a secret can be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// When it is used.
    OnUse,
    /// Never: a person makes a new one.
    Never,
}

impl Credential {
    /// Reads what the source holds; `None` where no secret is held.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn read(
        source: &SecretSource,
        environment: &Environment,
        sealer: &Sealer,
    ) -> Result<Option<Self>, SourceError> {
        let Some(Reading { login, .. }) = source.read(environment, sealer)? else { return Ok(None) };
        let renewal = if login.refresh.is_some() { Renewal::OnUse } else { Renewal::Never };
        Ok(Some(Self { kind: login.kind, secret: login.access, expires_at: login.expires_at, renewal }))
    }
}

impl SecretSource {
    /// The file it reads, if it is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::CredentialsFile(path) | Self::StoreFile(path) => Some(path),
            Self::TokenEnv(_) | Self::ApiKeyEnv(_) | Self::Keychain { .. } | Self::None => None,
        }
    }

    /// Reads the secret; `None` where none is held here.
    pub(crate) fn read(&self, environment: &Environment, sealer: &Sealer) -> Result<Option<Reading>, SourceError> {
        match self {
            Self::CredentialsFile(path) | Self::StoreFile(path) => self.read_file(path, sealer).map(Some),
            Self::TokenEnv(name) => variable(name, environment, CredentialKind::SetupToken).map(Some),
            Self::ApiKeyEnv(name) => variable(name, environment, CredentialKind::ApiKey).map(Some),
            Self::Keychain { .. } | Self::None => Ok(None),
        }
    }

    fn read_file(&self, path: &Path, sealer: &Sealer) -> Result<Reading, SourceError> {
        let (bytes, stamp) = file::read(path)?;
        let document = Document::parse(path, &bytes)?;
        let mut login = self.with_seals(sealer, |seals| document.login(path, seals))?;
        login.facts = identity::completed(login.facts, self);
        Ok(Reading { login, stamp: Some(stamp) })
    }

    /// Does something with the values of the file: those of our own store are sealed, for the account that the file
    /// names.
    pub(crate) fn with_seals<T>(&self, sealer: &Sealer, work: impl FnOnce(&Seals<'_>) -> T) -> T {
        let Self::StoreFile(path) = self else { return work(&Seals::FOREIGN) };
        let account = store_name(path);
        work(&Seals { sealer: Some(sealer), account: &account })
    }

    /// Whether another program writes the file, perhaps while we read.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, Self::CredentialsFile(_))
    }
}

/// The account that a file of the store is of: `family/name`.
pub(crate) fn store_name(path: &Path) -> String {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    format!("{}/{}", text(path.parent().and_then(Path::file_name)), text(path.file_stem()))
}

fn variable(name: &str, environment: &Environment, kind: CredentialKind) -> Result<Reading, SourceError> {
    let value = environment(name).ok_or_else(|| SourceError::VariableMissing { name: name.to_owned() })?;
    let secret = Secret::parse(&value.to_string_lossy())
        .map_err(|problem| SourceError::Variable { name: name.to_owned(), problem })?;
    check_kind(name, secret.shape(), kind)?;
    let facts = IdentityFacts::default();
    Ok(Reading { login: Login { kind, access: secret, refresh: None, expires_at: None, facts }, stamp: None })
}

/// An OAuth token in the place of a key, or the reverse, can only be refused by the provider: said here instead.
fn check_kind(name: &str, shape: SecretShape, kind: CredentialKind) -> Result<(), SourceError> {
    const TOKEN: &str = "an OAuth token (sk-ant-oat01-…)";
    const KEY: &str = "an API key (sk-ant-api…)";
    const REFRESH: &str = "a refresh token (sk-ant-ort01-…)";
    let wanted = if kind == CredentialKind::ApiKey { KEY } else { TOKEN };
    let found = match shape {
        SecretShape::ClaudeOauth | SecretShape::ClaudeShortLived => TOKEN,
        SecretShape::ClaudeRefresh => REFRESH,
        SecretShape::ClaudeApiKey => KEY,
        SecretShape::Unknown => wanted,
    };
    if found == wanted { Ok(()) } else { Err(SourceError::WrongKind { name: name.to_owned(), found, wanted }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duduclaw_actors::outcome::Cause;

    fn read(source: &SecretSource, value: Option<&str>) -> Result<Option<Reading>, SourceError> {
        let value = value.map(OsString::from);
        let environment: Environment = Arc::new(move |name| value.clone().filter(|_| name == "VAR"));
        source.read(&environment, &Sealer::none())
    }

    fn token_env() -> SecretSource {
        SecretSource::TokenEnv("VAR".into())
    }

    fn key_env() -> SecretSource {
        SecretSource::ApiKeyEnv("VAR".into())
    }

    #[test]
    fn a_variable_is_trimmed_and_used_as_it_is() {
        let reading = read(&token_env(), Some(" sk-ant-oat01-x\n")).expect("readable").expect("a secret");
        assert_eq!(reading.login.access.expose(), "sk-ant-oat01-x");
        assert_eq!(reading.login.kind, CredentialKind::SetupToken);
        assert!(reading.login.refresh.is_none());
        let reading = read(&key_env(), Some("sk-other-vendor")).expect("readable").expect("a secret");
        assert_eq!(reading.login.kind, CredentialKind::ApiKey);
    }

    #[test]
    fn an_unset_blank_or_split_variable_breaks_the_account() {
        for (value, cause) in [(None, Cause::Unreadable), (Some(" "), Cause::Empty), (Some("a b"), Cause::Unreadable)] {
            let error = read(&token_env(), value).expect_err("no secret");
            assert_eq!(error.cause(), cause);
            assert!(error.to_string().contains("VAR"), "{error}");
        }
    }

    /// C46: a token in the key's place, or the reverse, is told, and not shown.
    #[test]
    fn a_secret_of_the_wrong_kind_is_named_without_being_shown() {
        let cases = [
            (key_env(), "sk-ant-oat01-CANARY"),
            (token_env(), "sk-ant-api03-CANARY"),
            (token_env(), "sk-ant-ort01-CANARY"),
        ];
        for (source, value) in cases {
            let error = read(&source, Some(value)).expect_err("the wrong kind");
            assert!(matches!(error, SourceError::WrongKind { .. }), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("CANARY"));
        }
    }

    /// C110: a file that may not be read is told from one that is not there.
    #[test]
    fn a_forbidden_file_is_not_a_missing_one() {
        let denied = SourceError::from_io(Path::new("/f"), std::io::ErrorKind::PermissionDenied.into());
        let missing = read(&SecretSource::StoreFile("/nowhere/at/all.json".into()), None).expect_err("missing");
        assert!(matches!(missing, SourceError::Missing { .. }) && matches!(denied, SourceError::Denied { .. }));
        assert!(denied.to_string().contains("permissions") && missing.to_string().contains("does not exist"));
    }
}
