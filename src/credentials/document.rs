//! One credential file as a document: Claude Code's own shape, plus a few fields of ours at the top level.
//!
//! `claudeAiOauth {accessToken, refreshToken, expiresAt (ms), scopes, subscriptionType, …}`. Only the three fields of
//! the token pair are ever changed; everything else, known or not, is written back as it was read.
//!
//! Never here: files, locks, the network.

use std::path::Path;

use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::CredentialKind;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::error::SourceError;
use super::identity::IdentityFacts;
use super::seal::{Place, SealError, Sealer};
use super::secret::{Fingerprint, MalformedSecret, Secret};

/// A parsed credential file.
pub(crate) struct Document {
    root: Map<String, Value>,
    layout: Layout,
}

/// How the file was laid out, so that it is written back likewise.
#[derive(Clone, Copy)]
enum Layout {
    OneLine,
    Indented,
}

/// What a source gives: the secret, and what belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) kind: CredentialKind,
    pub(crate) access: Secret,
    pub(crate) refresh: Option<Secret>,
    pub(crate) expires_at: Option<Wall>,
    pub(crate) facts: IdentityFacts,
}

/// The pair of tokens of a login, as far as telling pairs apart goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) access: Fingerprint,
    pub(crate) refresh: Option<Fingerprint>,
}

/// A renewed pair.
#[derive(Clone, Debug)]
pub(crate) struct NewTokens {
    pub(crate) access: Secret,
    pub(crate) refresh: Secret,
    pub(crate) expires_at: Wall,
}

const LOGIN: &str = "claudeAiOauth";
const ACCESS: &str = "claudeAiOauth.accessToken";
const REFRESH: &str = "claudeAiOauth.refreshToken";

impl Login {
    pub(crate) fn pair(&self) -> Pair {
        Pair { access: self.access.fingerprint(), refresh: self.refresh.as_ref().map(Secret::fingerprint) }
    }
}

impl Document {
    /// Reads the bytes of a file; `path` is for the error.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, SourceError> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(SourceError::EmptyFile { path: path.to_owned() });
        }
        let root: Value = serde_json::from_slice(bytes).map_err(|error| SourceError::Syntax {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
        })?;
        let Value::Object(root) = root else { return Err(shape(path, "(the whole file)", "is not an object")) };
        let layout = if bytes.trim_ascii().contains(&b'\n') { Layout::Indented } else { Layout::OneLine };
        Ok(Self { root, layout })
    }

    /// The login in it.
    pub(crate) fn login(&self, path: &Path, seals: &Seals<'_>) -> Result<Login, SourceError> {
        let login = self.root.get(LOGIN).ok_or_else(|| shape(path, LOGIN, "is missing: log in"))?;
        let login = login.as_object().ok_or_else(|| shape(path, LOGIN, "is not an object"))?;
        let access = required(path, login, seals)?;
        let refresh = optional(path, login, seals)?;
        let kind = if refresh.is_some() { CredentialKind::Oauth } else { CredentialKind::SetupToken };
        Ok(Login { kind, access, refresh, expires_at: expiry(path, login)?, facts: self.facts() })
    }

    /// Whose login it is, as far as the file itself says.
    pub(crate) fn facts(&self) -> IdentityFacts {
        let first = |names: &[&str]| names.iter().find_map(|name| text(self.root.get(*name)));
        let login = self.root.get(LOGIN);
        IdentityFacts {
            uuid: first(&["duduclawAccountUuid", "shuntAccountUuid"]),
            organization: first(&["duduclawOrganizationUuid", "organizationUuid"]),
            plan: login.and_then(|login| text(login.get("subscriptionType"))),
        }
    }

    /// What kind of login is in it, as far as its shape tells: nothing is opened.
    pub(crate) fn kind(&self) -> Option<CredentialKind> {
        let login = self.root.get(LOGIN)?;
        text(login.get("accessToken"))?;
        let refresh = text(login.get("refreshToken"));
        Some(if refresh.is_some() { CredentialKind::Oauth } else { CredentialKind::SetupToken })
    }

    /// The file's bytes with another token pair in it.
    pub(crate) fn with_tokens(
        mut self,
        tokens: &NewTokens,
        seals: &Seals<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, SealError> {
        if let Some(Value::Object(login)) = self.root.get_mut(LOGIN) {
            login.insert("accessToken".into(), seals.seal(tokens.access.expose(), ACCESS)?.into());
            login.insert("refreshToken".into(), seals.seal(tokens.refresh.expose(), REFRESH)?.into());
            login.insert("expiresAt".into(), tokens.expires_at.0.into());
        }
        let root = Value::Object(self.root);
        let bytes = match self.layout {
            Layout::OneLine => serde_json::to_vec(&root),
            Layout::Indented => serde_json::to_vec_pretty(&root),
        };
        Ok(Zeroizing::new(bytes.expect("a parsed document can be written")))
    }
}

/// How the values of one file are opened and sealed.
#[derive(Clone, Copy)]
pub(crate) struct Seals<'a> {
    /// None for files of other programs, whose values are as they are.
    pub(crate) sealer: Option<&'a Sealer>,
    /// The account, by the name of its file in the store.
    pub(crate) account: &'a str,
}

impl Seals<'_> {
    /// Of files of other programs.
    pub(crate) const FOREIGN: Seals<'static> = Seals { sealer: None, account: "" };

    fn place<'b>(&'b self, field: &'b str) -> Place<'b> {
        Place { account: self.account, field }
    }

    fn open(&self, text: &str, field: &'static str, path: &Path) -> Result<Zeroizing<String>, SourceError> {
        let Some(sealer) = self.sealer else { return Ok(Zeroizing::new(text.to_owned())) };
        let opened = sealer.open(text, self.place(field));
        opened.map_err(|problem| SourceError::Sealed { path: path.to_owned(), field, problem })
    }

    fn seal(&self, plain: &str, field: &str) -> Result<String, SealError> {
        self.sealer.map_or_else(|| Ok(plain.to_owned()), |sealer| sealer.seal(plain, self.place(field)))
    }
}

fn shape(path: &Path, field: &'static str, problem: &'static str) -> SourceError {
    SourceError::Shape { path: path.to_owned(), field, problem }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn required(path: &Path, login: &Map<String, Value>, seals: &Seals<'_>) -> Result<Secret, SourceError> {
    let value = login.get("accessToken").ok_or_else(|| shape(path, ACCESS, "is missing: log in"))?;
    let value = value.as_str().ok_or_else(|| shape(path, ACCESS, "is not a string"))?;
    let plain = seals.open(value, ACCESS, path)?;
    Secret::parse(&plain).map_err(|problem| SourceError::Value { path: path.to_owned(), field: ACCESS, problem })
}

fn optional(path: &Path, login: &Map<String, Value>, seals: &Seals<'_>) -> Result<Option<Secret>, SourceError> {
    let value = match login.get("refreshToken") {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value.as_str().ok_or_else(|| shape(path, REFRESH, "is not a string"))?,
    };
    let plain = seals.open(value, REFRESH, path)?;
    match Secret::parse(&plain) {
        Ok(secret) => Ok(Some(secret)),
        Err(MalformedSecret::Empty) => Ok(None),
        Err(problem) => Err(SourceError::Value { path: path.to_owned(), field: REFRESH, problem }),
    }
}

fn expiry(path: &Path, login: &Map<String, Value>) -> Result<Option<Wall>, SourceError> {
    match login.get("expiresAt") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_i64().or_else(|| whole(number.as_f64())).map(Wall)),
        Some(_) => Err(shape(path, "claudeAiOauth.expiresAt", "is not a number of milliseconds")),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast from f64 saturates, and fractions of a millisecond are none"
)]
fn whole(millis: Option<f64>) -> Option<i64> {
    millis.filter(|m| m.is_finite()).map(|m| m as i64)
}

#[cfg(test)]
mod tests;
