//! Where other programs keep their files when nobody says so, and which of them there are. Never here: what they hold.

use std::path::{Path, PathBuf};

use super::ImportError;
use crate::config::surroundings::{Surroundings, expand};

/// One file of a program: the one that is named, else the first of its usual ones that is there. A folder stands for
/// the file in it.
pub(super) struct Usual<'a> {
    /// The program, as errors name it.
    pub(super) program: &'static str,
    /// What its file may be called.
    pub(super) names: &'a [&'static str],
    /// Its usual places, the first preferred.
    pub(super) files: Vec<PathBuf>,
}

impl Usual<'_> {
    pub(super) fn find(self, named: Option<&Path>) -> Result<PathBuf, ImportError> {
        match named {
            Some(folder) if folder.is_dir() => {
                let inside: Vec<_> = self.names.iter().map(|name| folder.join(name)).collect();
                present(&inside).ok_or(ImportError::Nowhere { program: self.program, looked: inside })
            }
            Some(file) => Ok(file.to_owned()),
            None => present(&self.files).ok_or(ImportError::Nowhere { program: self.program, looked: self.files }),
        }
    }
}

/// The first of these that is there.
pub(super) fn present(files: &[PathBuf]) -> Option<PathBuf> {
    files.iter().find(|file| file.is_file()).cloned()
}

/// The file that the first of these variables names.
pub(super) fn named_by(variables: &[&str], machine: &dyn Surroundings) -> Option<PathBuf> {
    variables.iter().find_map(|name| machine.text_var(name)).map(|path| expand(&path, machine))
}

/// The folder of programs' settings.
pub(super) fn settings_folder(machine: &dyn Surroundings) -> PathBuf {
    named_by(&["XDG_CONFIG_HOME"], machine).unwrap_or_else(|| expand("~/.config", machine))
}
