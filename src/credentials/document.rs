//! One credential file as a document: the shape of whoever made it, plus a few fields of ours at the top level.
//!
//! Of a file that is there, only the values of its token pair are ever changed, and what we noted of the pair before;
//! everything else, known or not, is written back as it was read. Which shapes there are is said in `shape`.
//!
//! Never here: files, locks, the network.

mod fresh;
mod shape;

use std::path::{Path, PathBuf};

use duduclaw_actors::clock::Wall;
use duduclaw_actors::id::CredentialKind;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::error::SourceError;
use super::file;
use super::identity::IdentityFacts;
use super::jwt;
use super::seal::{Place, SealError, Sealer};
use super::secret::{Fingerprint, MalformedSecret, Secret};
use shape::{Field, Shape};

pub(crate) use fresh::{Content, Fresh, Origin};

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
    pub(crate) proof: Proof,
}

/// Whether a credential was found good when it was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// It was, or nobody asked.
    #[default]
    Found,
    /// The check could not be completed.
    Pending,
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

/// Our own fields.
const UUID: &str = "duduclawAccountUuid";
const ORGANIZATION: &str = "duduclawOrganizationUuid";
const PENDING: &str = "duduclawUnverified";
const LINK: &str = "duduclawLinkedTo";

impl Login {
    pub(crate) fn pair(&self) -> Pair {
        Pair { access: self.access.fingerprint(), refresh: self.refresh.as_ref().map(Secret::fingerprint) }
    }

    /// The same as a pair to be written, if it can be renewed.
    pub(crate) fn tokens(&self) -> Option<NewTokens> {
        let refresh = self.refresh.clone()?;
        Some(NewTokens { access: self.access.clone(), refresh, expires_at: self.expires_at.unwrap_or(Wall(0)) })
    }
}

impl Document {
    /// A file that is to be made.
    pub(crate) fn new() -> Self {
        Self { root: Map::new(), layout: Layout::Indented }
    }

    /// Reads the bytes of a file; `path` is for the error.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, SourceError> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(SourceError::EmptyFile { path: path.to_owned() });
        }
        let Value::Object(root) = file::json(path, bytes)? else {
            return Err(shape(path, "(the whole file)", "is not an object"));
        };
        let layout = if bytes.trim_ascii().contains(&b'\n') { Layout::Indented } else { Layout::OneLine };
        Ok(Self { root, layout })
    }

    /// The login in it.
    pub(crate) fn login(&self, path: &Path, seals: &Seals<'_>) -> Result<Login, SourceError> {
        let kinds = Shape::of(&self.root);
        if let Some((table, false)) =
            kinds.table().map(|table| (table, self.root.get(table).is_none_or(Value::is_object)))
        {
            return Err(shape(path, table, "is not an object"));
        }
        if let Some(table) = kinds.table().filter(|table| !self.root.contains_key(*table)) {
            return Err(shape(path, table, "is missing: log in"));
        }
        let access = self.required(path, kinds.access(), seals)?;
        let refresh = match kinds.refresh() {
            Some(field) => self.optional(path, field, seals)?,
            None => None,
        };
        let expires_at = match kinds {
            Shape::Claude => self.expiry(path)?,
            Shape::Codex => jwt::expiry(access.expose()),
            Shape::Key(_) => None,
        };
        let proof = if self.root.contains_key(PENDING) { Proof::Pending } else { Proof::Found };
        let kind = kinds.kind(refresh.is_some());
        Ok(Login { kind, access, refresh, expires_at, facts: self.facts(), proof })
    }

    /// Whose login it is, as far as the file itself says.
    pub(crate) fn facts(&self) -> IdentityFacts {
        let first = |names: &[&str]| names.iter().find_map(|name| text(self.root.get(*name)));
        let login = self.root.get(shape::CLAUDE);
        let codex = || text(self.root.get(shape::CODEX).and_then(|tokens| tokens.get("account_id")));
        IdentityFacts {
            uuid: first(&[UUID, "shuntAccountUuid"]).or_else(codex),
            organization: first(&[ORGANIZATION, "organizationUuid"]),
            plan: login.and_then(|login| text(login.get("subscriptionType"))),
        }
    }

    /// What kind of login is in it, as far as its shape tells: nothing is opened.
    pub(crate) fn kind(&self) -> Option<CredentialKind> {
        let kinds = Shape::of(&self.root);
        text(kinds.access().of(&self.root))?;
        let refresh = kinds.refresh().and_then(|field| text(field.of(&self.root)));
        Some(kinds.kind(refresh.is_some()))
    }

    /// The file of another program that it is a copy of.
    pub(crate) fn link(&self) -> Option<PathBuf> {
        text(self.root.get(LINK)).map(PathBuf::from)
    }

    /// The file's bytes with another token pair in it. A pair that was renewed is a good one.
    pub(crate) fn with_tokens(
        mut self,
        tokens: &NewTokens,
        seals: &Seals<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let kinds = Shape::of(&self.root);
        self.put(kinds.access(), &tokens.access, seals)?;
        if let Some(field) = kinds.refresh() {
            self.put(field, &tokens.refresh, seals)?;
        }
        if let (Shape::Claude, Some(Value::Object(login))) = (kinds, self.root.get_mut(shape::CLAUDE)) {
            login.insert("expiresAt".into(), tokens.expires_at.0.into());
        }
        self.root.shift_remove(PENDING);
        Ok(self.bytes())
    }

    fn put(&mut self, field: Field, secret: &Secret, seals: &Seals<'_>) -> Result<(), SealError> {
        field.set(&mut self.root, seals.seal(secret.expose(), field.name)?);
        Ok(())
    }

    fn bytes(self) -> Zeroizing<Vec<u8>> {
        let root = Value::Object(self.root);
        let bytes = match self.layout {
            Layout::OneLine => serde_json::to_vec(&root),
            Layout::Indented => serde_json::to_vec_pretty(&root),
        };
        Zeroizing::new(bytes.expect("a parsed document can be written"))
    }

    fn required(&self, path: &Path, field: Field, seals: &Seals<'_>) -> Result<Secret, SourceError> {
        let value = field.of(&self.root).ok_or_else(|| shape(path, field.name, "is missing: log in"))?;
        let value = value.as_str().ok_or_else(|| shape(path, field.name, "is not a string"))?;
        let plain = seals.open(value, field.name, path)?;
        Secret::parse(&plain).map_err(|problem| value_error(path, field, problem))
    }

    fn optional(&self, path: &Path, field: Field, seals: &Seals<'_>) -> Result<Option<Secret>, SourceError> {
        let value = match field.of(&self.root) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value.as_str().ok_or_else(|| shape(path, field.name, "is not a string"))?,
        };
        let plain = seals.open(value, field.name, path)?;
        match Secret::parse(&plain) {
            Ok(secret) => Ok(Some(secret)),
            Err(MalformedSecret::Empty) => Ok(None),
            Err(problem) => Err(value_error(path, field, problem)),
        }
    }

    fn expiry(&self, path: &Path) -> Result<Option<Wall>, SourceError> {
        match self.root.get(shape::CLAUDE).and_then(|login| login.get("expiresAt")) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_i64().or_else(|| whole(number.as_f64())).map(Wall)),
            Some(_) => Err(shape(path, "claudeAiOauth.expiresAt", "is not a number of milliseconds")),
        }
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

fn value_error(path: &Path, field: Field, problem: MalformedSecret) -> SourceError {
    SourceError::Value { path: path.to_owned(), field: field.name, problem }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
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
