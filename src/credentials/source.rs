//! Where an account's secret comes from, and reading it from there.
//!
//! Never here: renewing it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::CredentialKind;

use super::document::{Document, Login, Proof, Seals};
use super::error::SourceError;
use super::file::FileStamp;
use super::identity::{self, IdentityFacts};
use super::kept::{self, Kept, Place, Room, Seen};
use super::seal::Sealer;
use super::secret::{Fingerprint, Secret, SecretShape};

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
    pub(crate) stamp: Option<SourceStamp>,
    /// Whether our copy of another program's login is what that holds now.
    pub(crate) copy: Copied,
    /// Whether what is renewed can be written where it was found.
    pub(crate) room: Room,
}

/// Whether our copy of another program's login is what that holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// It is, or there is none.
    Same,
    /// It is an older one.
    Older,
}

/// A source's files at one moment: what tells whether they changed without reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceStamp {
    seen: Vec<Seen>,
    /// The file of another program that it is a copy of.
    origin: Option<PathBuf>,
}

/// The login of a source in the file that counts.
pub(crate) struct Opened {
    /// That file.
    pub(crate) path: PathBuf,
    /// Where it really is.
    pub(crate) place: Place,
    pub(crate) document: Document,
    pub(crate) reading: Reading,
}

impl SourceStamp {
    /// Whether the files are still so.
    pub(crate) fn holds(&self) -> bool {
        self.seen.iter().all(|(path, stamp)| FileStamp::at(path) == *stamp)
    }

    /// The file that it is a copy of.
    pub(crate) fn origin(&self) -> Option<&Path> {
        self.origin.as_deref()
    }

    /// The files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.seen.iter().map(|(path, _)| path.as_path())
    }

    /// The same after some of the files were written.
    pub(crate) fn after(mut self, written: &[Seen]) -> Self {
        for seen in &mut self.seen {
            if let Some((_, stamp)) = written.iter().find(|(path, _)| *path == seen.0) {
                seen.1 = *stamp;
            }
        }
        self
    }
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
    /// By what.
    pub(super) grant: Option<Fingerprint>,
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
        let grant = login.refresh.as_ref().map(Secret::fingerprint);
        let renewal = if grant.is_some() { Renewal::OnUse } else { Renewal::Never };
        Ok(Some(Self { kind: login.kind, secret: login.access, expires_at: login.expires_at, renewal, grant }))
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
            Self::CredentialsFile(_) | Self::StoreFile(_) => {
                self.open(sealer).map(|opened| opened.map(|opened| opened.reading))
            }
            Self::TokenEnv(name) => variable(name, environment, CredentialKind::SetupToken).map(Some),
            Self::ApiKeyEnv(name) => variable(name, environment, CredentialKind::ApiKey).map(Some),
            Self::Keychain { .. } | Self::None => Ok(None),
        }
    }

    /// The login of its file, or of the file that it is a copy of: `None` if it is no file.
    pub(crate) fn open(&self, sealer: &Sealer) -> Result<Option<Opened>, SourceError> {
        let Some(path) = self.path() else { return Ok(None) };
        let Kept { bytes, mut seen, place } = kept::read(path)?;
        let document = Document::parse(path, &bytes)?;
        let link = self.link(&document);
        let own = self.with_seals(sealer, |seals| document.login(path, seals));
        if let Some(origin) = &link {
            match linked(origin, &document.facts())? {
                Linked::Same(opened) => return Ok(Some(opened.of_copy(seen, own.ok()))),
                Linked::Gone(of_origin) => seen.extend(of_origin),
            }
        }
        let mut login = own?;
        login.facts = identity::completed(login.facts, self);
        let stamp = Some(SourceStamp { seen, origin: link });
        let reading = Reading { login, stamp, copy: Copied::Same, room: place.room(bytes.len()) };
        Ok(Some(Opened { path: path.to_owned(), place, document, reading }))
    }

    fn link(&self, document: &Document) -> Option<PathBuf> {
        document.link().filter(|_| matches!(self, Self::StoreFile(_)))
    }

    /// The files whose change may change what it gives, also where it gives nothing: its own, and those of what it is a
    /// copy of.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Some(path) = self.path() else { return Vec::new() };
        // Only a file of our own is a copy: for another's no keychain is asked.
        let kept = matches!(self, Self::StoreFile(_)).then(|| kept::read(path).ok()).flatten();
        let document = kept.and_then(|kept| Document::parse(path, &kept.bytes).ok());
        let link = document.and_then(|document| self.link(&document));
        [Some(path.to_owned()), link].into_iter().flatten().flat_map(|path| kept::files(&path)).collect()
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

/// What the file holds that a stored login is a copy of.
enum Linked {
    /// The same account's login, which counts.
    Same(Box<Opened>),
    /// Nothing, or another account's: the copy is all there is.
    Gone(Vec<Seen>),
}

/// Looks at the file that a stored login of this account is a copy of. Somebody who logged out there, or in as somebody
/// else, has left the copy to us; a file that makes no sense has not.
fn linked(origin: &Path, known: &IdentityFacts) -> Result<Linked, SourceError> {
    let source = SecretSource::CredentialsFile(origin.to_owned());
    let opened = match source.open(&Sealer::none()) {
        Ok(Some(opened)) => opened,
        Ok(None) | Err(SourceError::Missing { .. }) => return Ok(Linked::gone(origin)),
        Err(error) => return Err(error),
    };
    let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
    let found = &opened.reading.login.facts;
    if differ(&found.uuid, &known.uuid) || differ(&found.organization, &known.organization) {
        return Ok(Linked::gone(origin));
    }
    Ok(Linked::Same(Box::new(opened)))
}

impl Linked {
    fn gone(origin: &Path) -> Self {
        Self::Gone(kept::files(origin).into_iter().map(|path| (path.clone(), FileStamp::at(&path))).collect())
    }
}

impl Opened {
    /// The login as that of the copy whose file is so: what only the copy knows is kept.
    fn of_copy(mut self: Box<Self>, own: Vec<Seen>, copy: Option<Login>) -> Self {
        let login = &mut self.reading.login;
        if let Some(copy) = &copy {
            let facts = &copy.facts;
            let known = login.facts.clone();
            login.facts = IdentityFacts {
                uuid: known.uuid.or_else(|| facts.uuid.clone()),
                organization: known.organization.or_else(|| facts.organization.clone()),
                plan: known.plan.or_else(|| facts.plan.clone()),
            };
            login.proof = copy.proof;
        }
        let is_same = copy.is_some_and(|copy| copy.pair() == login.pair());
        self.reading.copy = if is_same { Copied::Same } else { Copied::Older };
        let of_origin = self.reading.stamp.take().map(|stamp| stamp.seen).unwrap_or_default();
        let seen = own.into_iter().chain(of_origin).collect();
        self.reading.stamp = Some(SourceStamp { seen, origin: Some(self.path.clone()) });
        *self
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
    let login = Login { kind, access: secret, refresh: None, expires_at: None, facts, proof: Proof::Found };
    Ok(Reading { login, stamp: None, copy: Copied::Same, room: Room::Enough })
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

    /// What breaks it must be watched, too: else it heals with the next slow look only.
    #[test]
    fn a_copy_is_watched_with_its_original_also_while_that_makes_no_sense() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (copy, original) = (folder.path().join("mine.json"), folder.path().join("theirs.json"));
        let text =
            format!(r#"{{"duduclawLinkedTo": "{}", "claudeAiOauth": {{"accessToken": "a"}}}}"#, original.display());
        std::fs::write(&copy, text).expect("written");
        std::fs::write(&original, "{").expect("written");
        let source = SecretSource::StoreFile(copy.clone());
        assert!(matches!(source.open(&Sealer::none()), Err(SourceError::Syntax { .. })));
        assert_eq!(source.files(), [copy, original]);
    }
}
