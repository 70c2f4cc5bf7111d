//! Where an account's secret comes from, and what can be wrong with it before anyone sends it.
//!
//! Nothing here stores or renews secrets, and no message shows one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use duduclaw_actors::outcome::Cause;
use secrecy::SecretString;
use serde::Deserialize;

use super::surroundings::Surroundings;

pub use crate::credentials::{SecretSource, store_file};

/// Why a secret cannot be had. It breaks its account, not the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFault {
    /// The variable is not set.
    Unset(String),
    /// The file is not there: nobody logged in.
    NotLoggedIn(PathBuf),
    /// Nothing but blanks.
    Empty(String),
    /// Blanks inside.
    Blanks(String),
    /// It is there but makes no sense, or may not be read.
    Unreadable {
        /// The variable or file.
        origin: String,
        /// Why.
        why: String,
    },
}

impl SecretFault {
    /// The cause of the account's being broken.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::Empty(_) => Cause::Empty,
            Self::Unset(_) | Self::NotLoggedIn(_) | Self::Blanks(_) | Self::Unreadable { .. } => Cause::Unreadable,
        }
    }
}

impl fmt::Display for SecretFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset(name) => write!(f, "the variable {name} is not set"),
            Self::NotLoggedIn(path) => write!(f, "{} is not there", path.display()),
            Self::Empty(origin) => write!(f, "{origin} is empty"),
            Self::Blanks(origin) => write!(f, "{origin} has blanks inside, which no token has"),
            Self::Unreadable { origin, why } => write!(f, "{origin} cannot be used: {why}"),
        }
    }
}

impl std::error::Error for SecretFault {}

/// Reads a secret from a variable: outer blanks are trimmed.
///
/// # Errors
/// When there is none, or it has blanks inside.
pub fn from_variable(name: &str, surroundings: &dyn Surroundings) -> Result<SecretString, SecretFault> {
    let value = surroundings.var(name).ok_or_else(|| SecretFault::Unset(name.to_owned()))?;
    let not_text = |_| SecretFault::Unreadable { origin: variable(name), why: "it is not text".to_owned() };
    trimmed(&value.into_string().map_err(not_text)?, variable(name))
}

/// Reads a secret from a file that holds nothing else: outer blanks are trimmed.
///
/// # Errors
/// When there is none, or it has blanks inside.
pub fn from_file(path: &Path, surroundings: &dyn Surroundings) -> Result<SecretString, SecretFault> {
    trimmed(&text_of(path, surroundings)?, path.display().to_string())
}

fn variable(name: &str) -> String {
    format!("the variable {name}")
}

fn trimmed(value: &str, origin: String) -> Result<SecretString, SecretFault> {
    let value = value.trim();
    if value.is_empty() {
        return Err(SecretFault::Empty(origin));
    }
    if value.contains(char::is_whitespace) {
        return Err(SecretFault::Blanks(origin));
    }
    Ok(SecretString::from(value))
}

fn text_of(path: &Path, surroundings: &dyn Surroundings) -> Result<String, SecretFault> {
    let unreadable = |why: String| SecretFault::Unreadable { origin: path.display().to_string(), why };
    let bytes = surroundings.read_secret(path).map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        if missing { SecretFault::NotLoggedIn(path.to_owned()) } else { unreadable(error.to_string()) }
    })?;
    String::from_utf8(bytes).map_err(|_| unreadable("it is not text".to_owned()))
}

/// A file of Claude Code's shape, or of ours with a metered key.
#[derive(Deserialize)]
struct CredentialFile {
    #[serde(rename = "claudeAiOauth")]
    login: Option<LoginTable>,
    #[serde(rename = "duduclawApiKey")]
    key: Option<String>,
}

#[derive(Deserialize)]
struct LoginTable {
    #[serde(rename = "accessToken", default)]
    access_token: String,
}

/// What a file of our own store holds.
#[derive(Debug)]
pub enum Stored {
    /// A login's access token, sealed or not.
    Login(SecretString),
    /// A metered key.
    Key,
}

/// What a file of our own store holds.
///
/// # Errors
/// When it is not there, empty, or of another shape.
pub fn from_stored(path: &Path, surroundings: &dyn Surroundings) -> Result<Stored, SecretFault> {
    let file = credential_file(path, surroundings)?;
    match &file.key {
        Some(key) => trimmed(key, format!("duduclawApiKey in {}", path.display())).map(|_| Stored::Key),
        None => access_token(&file, path).map(Stored::Login),
    }
}

/// The access token in a file of Claude Code's shape.
///
/// # Errors
/// When it is not there, empty, or of another shape.
pub fn from_credentials(path: &Path, surroundings: &dyn Surroundings) -> Result<SecretString, SecretFault> {
    access_token(&credential_file(path, surroundings)?, path)
}

fn credential_file(path: &Path, surroundings: &dyn Surroundings) -> Result<CredentialFile, SecretFault> {
    let origin = path.display().to_string();
    let text = text_of(path, surroundings)?;
    if text.trim().is_empty() {
        return Err(SecretFault::Empty(origin));
    }
    let why = "it is not JSON of the expected shape".to_owned();
    serde_json::from_str(&text).map_err(|_| SecretFault::Unreadable { origin, why })
}

fn access_token(file: &CredentialFile, path: &Path) -> Result<SecretString, SecretFault> {
    let origin = path.display().to_string();
    match &file.login {
        Some(login) => trimmed(&login.access_token, format!("claudeAiOauth.accessToken in {origin}")),
        None => Err(SecretFault::Unreadable { origin, why: "it holds no claudeAiOauth".to_owned() }),
    }
}

/// Looks whether a credential file of any shape is there and holds something.
///
/// # Errors
/// When it is not, or does not.
pub fn is_there(path: &Path, surroundings: &dyn Surroundings) -> Result<(), SecretFault> {
    let empty = text_of(path, surroundings)?.trim().is_empty();
    if empty { Err(SecretFault::Empty(path.display().to_string())) } else { Ok(()) }
}

/// What an Anthropic secret is, by how it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenShape {
    /// `sk-ant-oat…`: a login's access token, or a setup token.
    Oauth,
    /// `sk-ant-api…`: a metered key.
    ApiKey,
    /// `sk-ant-at…`: an access token of a few hours.
    ShortLived,
    /// `sk-ant-ort…`: a refresh token.
    Refresh,
    /// Anything else.
    Unknown,
}

impl TokenShape {
    /// The shape of a secret.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        let shapes = [
            ("sk-ant-oat", Self::Oauth),
            ("sk-ant-api", Self::ApiKey),
            ("sk-ant-at", Self::ShortLived),
            ("sk-ant-ort", Self::Refresh),
        ];
        let bare = secret.trim().trim_start_matches(['"', '\'']);
        shapes.into_iter().find(|(prefix, _)| bare.starts_with(prefix)).map_or(Self::Unknown, |(_, shape)| shape)
    }

    /// How a secret of this shape is shown.
    #[must_use]
    pub fn masked(self) -> &'static str {
        match self {
            Self::Oauth => "sk-ant-oat01-…",
            Self::ApiKey => "sk-ant-api03-…",
            Self::ShortLived => "sk-ant-at01-…",
            Self::Refresh => "sk-ant-ort01-…",
            Self::Unknown => "…",
        }
    }
}

/// Why a secret of this shape does not belong where a login's token is wanted, and what to do.
#[must_use]
pub fn misfit_as_token(shape: TokenShape) -> Option<String> {
    let masked = shape.masked();
    match shape {
        TokenShape::Oauth | TokenShape::Unknown => None,
        TokenShape::ApiKey => Some(format!("holds an API key ({masked}), not an OAuth token; name it as api_key_env")),
        TokenShape::ShortLived => Some(format!(
            "holds a short-lived access token ({masked}), which ends within hours; run `claude setup-token` and use the \
             sk-ant-oat01-… it prints"
        )),
        TokenShape::Refresh => Some(format!(
            "holds a refresh token ({masked}), which cannot be sent; run `claude setup-token` and use the sk-ant-oat01-… \
             it prints"
        )),
    }
}

/// Why a secret of this shape does not belong where a metered key is wanted, and what to do.
#[must_use]
pub fn misfit_as_key(shape: TokenShape) -> Option<String> {
    let masked = shape.masked();
    match shape {
        TokenShape::ApiKey | TokenShape::Unknown => None,
        TokenShape::Oauth => Some(format!("holds an OAuth token ({masked}), not an API key; name it as token_env")),
        TokenShape::ShortLived | TokenShape::Refresh => {
            Some(format!("holds a token of a login ({masked}), not an API key; create a key in the provider's console"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::surroundings::fake::Fake;
    use secrecy::ExposeSecret;

    #[test]
    fn a_secret_is_trimmed_and_neither_empty_nor_with_blanks_inside() {
        let machine = Fake::default()
            .with_var("GOOD", "  sk-ant-oat01-x\n")
            .with_var("BLANK", " \t\n")
            .with_var("INNER", "canary one")
            .with_file("/good", "key\r\n")
            .with_file("/blank", "\n")
            .with_failing_file("/locked", io::ErrorKind::PermissionDenied);
        assert_eq!(from_variable("GOOD", &machine).expect("good").expose_secret(), "sk-ant-oat01-x");
        assert_eq!(from_file(Path::new("/good"), &machine).expect("good").expose_secret(), "key");
        let faults = [
            from_variable("UNSET", &machine).expect_err("unset"),
            from_variable("BLANK", &machine).expect_err("blank"),
            from_variable("INNER", &machine).expect_err("inner"),
            from_file(Path::new("/blank"), &machine).expect_err("blank"),
            from_file(Path::new("/missing"), &machine).expect_err("missing"),
            from_file(Path::new("/locked"), &machine).expect_err("locked"),
        ];
        let said: Vec<_> = faults.iter().map(|fault| format!("{}: {fault}", fault.cause().as_str())).collect();
        insta::assert_snapshot!(said.join("\n"), @r#"
        unreadable: the variable UNSET is not set
        empty: the variable BLANK is empty
        unreadable: the variable INNER has blanks inside, which no token has
        empty: /blank is empty
        unreadable: /missing is not there
        unreadable: /locked cannot be used: permission denied
        "#);
    }

    /// Case C110: a file that was cut to nothing, is half JSON or may not be read is not a file that is not there.
    #[test]
    fn a_damaged_credential_file_is_told_from_a_missing_one() {
        let machine = Fake::default()
            .with_file("/zero", "")
            .with_file("/half", "{\"claudeAiOauth\":{\"accessToken\":\"canary")
            .with_file("/other", "{\"claudeAiOauth\":null}")
            .with_file("/blank", "{\"claudeAiOauth\":{\"accessToken\":\" \"}}")
            .with_file("/good", "{\"claudeAiOauth\":{\"accessToken\":\"sk-ant-oat01-x\",\"more\":1},\"z\":2}")
            .with_failing_file("/locked", io::ErrorKind::PermissionDenied);
        let of = |path: &str| from_credentials(Path::new(path), &machine);
        assert_eq!(of("/good").expect("good").expose_secret(), "sk-ant-oat01-x");
        let paths = ["/zero", "/half", "/other", "/blank", "/locked", "/missing"];
        let faults: Vec<_> = paths.iter().map(|path| of(path).expect_err(path)).collect();
        let said: Vec<_> = faults.iter().map(|fault| format!("{}: {fault}", fault.cause().as_str())).collect();
        insta::assert_snapshot!(said.join("\n"), @r#"
        empty: /zero is empty
        unreadable: /half cannot be used: it is not JSON of the expected shape
        unreadable: /other cannot be used: it holds no claudeAiOauth
        empty: claudeAiOauth.accessToken in /blank is empty
        unreadable: /locked cannot be used: permission denied
        unreadable: /missing is not there
        "#);
    }
}
