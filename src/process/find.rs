//! Finding a command line tool: what the user named, else the PATH, else the usual places of installers, for services
//! whose PATH is bare.
//!
//! A tool that was named is taken or nothing is: falling back to another one would hide the mistake. Of several found,
//! the first in order is taken; comparing their versions is not done here.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::config::surroundings::{Surroundings, expand};

mod places;

/// A tool that this crate knows how to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Claude Code.
    Claude,
}

/// A tool that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What to run.
    pub path: PathBuf,
    /// Other installations of it, in order.
    pub others: Vec<PathBuf>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// What the user named is no program.
    #[error("{origin} names {}, which {flaw}; correct it, or remove it to have the usual places searched", path.display())]
    Named {
        /// Where it was named.
        origin: String,
        /// What was named.
        path: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// It is nowhere.
    #[error("no program `{program}` was found; {hint}\nsearched:{}", lines(searched))]
    Nowhere {
        /// Its file name.
        program: &'static str,
        /// How to get it.
        hint: String,
        /// The folders, in order.
        searched: Vec<PathBuf>,
    },
}

/// Why a path is no program to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing is there, or a link leads nowhere or in a circle.
    Missing,
    /// It is not a regular file.
    NotAFile,
    /// It may not be executed.
    NotExecutable,
    /// It is duduclaw itself.
    Ourselves,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is not there",
            Self::NotAFile => "is not a regular file",
            Self::NotExecutable => "is not executable",
            Self::Ourselves => "is duduclaw itself",
        })
    }
}

impl Tool {
    /// The name of its file.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Claude => "claude",
        }
    }

    /// The variable that names it.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::Claude => "DUDUCLAW_CLAUDE_PATH",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Claude => "@anthropic-ai/claude-code",
        }
    }
}

/// Finds a tool: its variable, then `configured` (the configuration's `path`), then PATH, then the usual places.
///
/// # Errors
/// When what the user named is no program, or there is none anywhere.
pub fn find(tool: Tool, configured: Option<&Path>, machine: &dyn Surroundings) -> Result<Found, FindError> {
    let variable = machine.text_var(tool.variable()).map(|text| expand(text.trim(), machine));
    let variable = variable.map(|path| (format!("${}", tool.variable()), path));
    let setting = configured.map(|path| (format!("[runtimes.{}] path", tool.program()), path.to_owned()));
    match variable.or(setting) {
        Some((origin, path)) => named(origin, path),
        None => search(tool, folders(machine)),
    }
}

fn named(origin: String, path: PathBuf) -> Result<Found, FindError> {
    match flaw(&path) {
        None => Ok(Found { path, others: Vec::new() }),
        Some(flaw) => Err(FindError::Named { origin, path, flaw }),
    }
}

fn search(tool: Tool, folders: Vec<PathBuf>) -> Result<Found, FindError> {
    let mut programs = Vec::new();
    let mut known = Vec::new();
    for path in folders.iter().map(|folder| folder.join(tool.program())).filter(|path| flaw(path).is_none()) {
        let target = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !known.contains(&target) {
            known.push(target);
            programs.push(path);
        }
    }
    let mut programs = programs.into_iter();
    let nowhere = || FindError::Nowhere { program: tool.program(), hint: hint(tool), searched: folders };
    let path = programs.next().ok_or_else(nowhere)?;
    Ok(Found { path, others: programs.collect() })
}

fn hint(tool: Tool) -> String {
    format!("install it (`npm install -g {}`), or set {} to its path", tool.package(), tool.variable())
}

/// PATH, then the usual places, each once.
fn folders(machine: &dyn Surroundings) -> Vec<PathBuf> {
    let path = machine.var("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in on_path.chain(places::usual(machine)) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

fn flaw(path: &Path) -> Option<Flaw> {
    let Ok(meta) = path.metadata() else { return Some(Flaw::Missing) };
    if !meta.is_file() {
        return Some(Flaw::NotAFile);
    }
    if rustix::fs::access(path, Access::EXEC_OK).is_err() {
        return Some(Flaw::NotExecutable);
    }
    is_ourselves(path).then_some(Flaw::Ourselves)
}

/// A link of that name to us would call us again, for ever.
fn is_ourselves(path: &Path) -> bool {
    let ours = std::env::current_exe().and_then(|path| path.canonicalize());
    ours.is_ok_and(|ours| path.canonicalize().is_ok_and(|path| path == ours))
}

/// A PATH for the tool itself: scripts that begin with `env node` need the `node` that was installed beside them.
#[must_use]
pub fn path_for(program: &Path, path: &OsStr) -> OsString {
    let Some(folder) = program.parent().filter(|folder| folder.join("node").is_file()) else { return path.to_owned() };
    if std::env::split_paths(path).any(|known| known == folder) {
        return path.to_owned();
    }
    let joined = std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(path)));
    joined.unwrap_or_else(|_| path.to_owned())
}

fn lines(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| format!("\n  {}", folder.display())).collect()
}

#[cfg(test)]
mod tests;
