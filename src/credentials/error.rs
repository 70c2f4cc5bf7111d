//! Why a secret cannot be had, told by file and position, never by content.

use std::io;
use std::path::{Path, PathBuf};

use duduclaw_actors::outcome::Cause;

use super::keychain::KeychainError;
use super::seal::OpenError;
use super::secret::MalformedSecret;

/// Why a source gives no secret.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is no such file: the account was never logged in here, or was logged out.
    #[error("{} does not exist: log in, or correct the path", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file is there, and we may not read it.
    #[error("{} may not be read by this user: check its owner and permissions", .path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file cannot be read for another reason.
    #[error("{} cannot be read: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What the file's name stands for is in a keychain that cannot be had.
    #[error("{} does not exist, and Claude Code's login cannot be had from the keychain: {problem}", .path.display())]
    Keychain {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        problem: KeychainError,
    },
    /// The file has nothing in it.
    #[error("{} is empty: log in again, or restore it", .path.display())]
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is no JSON.
    #[error("{} is not valid JSON at line {line}, column {column}: it is left as it is; correct it or log in again", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where it stops making sense, from 1.
        line: usize,
        /// Where in that line.
        column: usize,
    },
    /// The file is JSON of another shape.
    #[error("{}: `{field}` {problem}", .path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Where in the document.
        field: &'static str,
        /// What is wrong there.
        problem: &'static str,
    },
    /// A value in the file cannot be a secret.
    #[error("{}: `{field}` {problem}", .path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Where in the document.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        problem: MalformedSecret,
    },
    /// A sealed value in the file does not open.
    #[error("{}: `{field}` {problem}", .path.display())]
    Sealed {
        /// The file.
        path: PathBuf,
        /// Where in the document.
        field: &'static str,
        /// Why it does not open.
        #[source]
        problem: OpenError,
    },
    /// The environment variable is not set.
    #[error("the environment variable {name} is not set")]
    VariableMissing {
        /// The variable.
        name: String,
    },
    /// The environment variable's value cannot be a secret.
    #[error("the environment variable {name} {problem}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong with it.
        #[source]
        problem: MalformedSecret,
    },
    /// The environment variable holds a secret of another kind.
    #[error("the environment variable {name} holds {found}, but {wanted} belongs there")]
    WrongKind {
        /// The variable.
        name: String,
        /// What was found, by its first characters.
        found: &'static str,
        /// What belongs there.
        wanted: &'static str,
    },
    /// The folder of stored accounts cannot be listed.
    #[error("the account folder {} cannot be listed: {source}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl From<SourceError> for io::Error {
    fn from(error: SourceError) -> Self {
        if let SourceError::Missing { .. } = &error {
            return io::ErrorKind::NotFound.into();
        }
        if let SourceError::Denied { source, .. } | SourceError::Io { source, .. } = error {
            return source;
        }
        Self::other(error)
    }
}

impl SourceError {
    /// The error of reading `path`.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            Self::Missing { path }
        } else if source.kind() == io::ErrorKind::PermissionDenied {
            Self::Denied { path, source }
        } else {
            Self::Io { path, source }
        }
    }

    /// The cause by which an account is broken.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::EmptyFile { .. } => Cause::Empty,
            Self::Sealed { .. } => Cause::Undecryptable,
            Self::Value { problem, .. } | Self::Variable { problem, .. } => match problem {
                MalformedSecret::Empty => Cause::Empty,
                MalformedSecret::Whitespace | MalformedSecret::Character => Cause::Unreadable,
            },
            Self::Missing { .. }
            | Self::Denied { .. }
            | Self::Io { .. }
            | Self::Keychain { .. }
            | Self::Syntax { .. }
            | Self::Shape { .. }
            | Self::VariableMissing { .. }
            | Self::WrongKind { .. }
            | Self::Folder { .. } => Cause::Unreadable,
        }
    }

    /// Whether its key went out of use between the reading and the opening: the file holds what another one opens by then.
    pub(crate) fn may_be_rekeyed(&self) -> bool {
        matches!(self, Self::Sealed { problem, .. } if !matches!(problem, OpenError::Spoilt))
    }

    /// Whether it may be otherwise in a moment: read while another program wrote it, or a keychain that was busy.
    pub(crate) fn may_be_half_written(&self) -> bool {
        matches!(self, Self::EmptyFile { .. } | Self::Syntax { .. } | Self::Keychain { .. })
    }
}
