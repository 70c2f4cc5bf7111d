//! What the configuration needs of the machine: its variables, its files, the user's home directory.
//!
//! Everything goes through [`Surroundings`], so that a test brings a machine of its own. Nothing is written here.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::credentials::read_kept;

/// The machine as far as the configuration looks at it.
pub trait Surroundings {
    /// An environment variable.
    fn var(&self, name: &str) -> Option<OsString>;

    /// The names of all environment variables that begin so, in name order.
    fn vars_beginning(&self, prefix: &str) -> Vec<String>;

    /// A file's whole content.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The same of a file that holds a secret, or of what its name stands for: whatever is no file is an error, and never
    /// waited for.
    ///
    /// # Errors
    /// When it is not there, is no file, or cannot be read.
    fn read_secret(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path)
    }

    /// Whether there is a secret under the file's name, readable or not.
    fn has_secret(&self, path: &Path) -> bool {
        !matches!(self.read_secret(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// The user's home directory, where it is known.
    fn user_home(&self) -> Option<PathBuf>;

    /// A variable that is set to something other than blanks, as text. Text that is not Unicode counts as unset.
    fn text_var(&self, name: &str) -> Option<String> {
        let text = self.var(name)?.into_string().ok()?;
        (!text.trim().is_empty()).then_some(text)
    }
}

/// The machine this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine;

impl Surroundings for Machine {
    fn var(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn vars_beginning(&self, prefix: &str) -> Vec<String> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let mut found: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
        found.sort();
        found
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn read_secret(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(read_kept(path)?.bytes.to_vec())
    }

    fn user_home(&self) -> Option<PathBuf> {
        directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned())
    }
}

/// A path as people write it: a leading `~/` is the user's home directory.
#[must_use]
pub fn expand(path: &str, surroundings: &dyn Surroundings) -> PathBuf {
    match (path.strip_prefix('~'), surroundings.user_home()) {
        (Some(""), Some(home)) => home,
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
pub(crate) mod fake {
    //! A machine that exists only in a test.

    use super::*;
    use std::collections::BTreeMap;

    /// A machine with the home directory `/home/me`.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Fake {
        vars: BTreeMap<String, OsString>,
        files: BTreeMap<PathBuf, Result<Vec<u8>, io::ErrorKind>>,
    }

    impl Fake {
        pub(crate) fn with_var(mut self, name: &str, value: impl Into<OsString>) -> Self {
            self.vars.insert(name.to_owned(), value.into());
            self
        }

        pub(crate) fn with_file(mut self, path: &str, content: &str) -> Self {
            self.files.insert(PathBuf::from(path), Ok(content.as_bytes().to_vec()));
            self
        }

        pub(crate) fn with_failing_file(mut self, path: &str, kind: io::ErrorKind) -> Self {
            self.files.insert(PathBuf::from(path), Err(kind));
            self
        }
    }

    impl Surroundings for Fake {
        fn var(&self, name: &str) -> Option<OsString> {
            self.vars.get(name).cloned()
        }

        fn vars_beginning(&self, prefix: &str) -> Vec<String> {
            self.vars.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
        }

        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            match self.files.get(path) {
                Some(Ok(content)) => Ok(content.clone()),
                Some(Err(kind)) => Err(io::Error::from(*kind)),
                None => Err(io::Error::from(io::ErrorKind::NotFound)),
            }
        }

        fn user_home(&self) -> Option<PathBuf> {
            Some(PathBuf::from("/home/me"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::Fake;
    use super::*;

    #[test]
    fn only_a_leading_tilde_is_the_home_directory() {
        let machine = Fake::default();
        assert_eq!(expand("~/a/b", &machine), Path::new("/home/me/a/b"));
        assert_eq!(expand("~", &machine), Path::new("/home/me"));
        assert_eq!(expand("/a/~/b", &machine), Path::new("/a/~/b"));
        assert_eq!(expand("~other/b", &machine), Path::new("~other/b"));
    }
}
