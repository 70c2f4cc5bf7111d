//! Writing a text so that systemd or launchd reads back the very same.
//!
//! systemd's rules differ by setting: words are quoted with backslashes, `%` is doubled everywhere, `$` only among the
//! arguments of a command. Control characters are refused: no path that a person made has one, and a line break would
//! begin a setting of its own.

use std::path::{Path, PathBuf};

/// A text that cannot be written into a service file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// It is no Unicode.
    #[error("{} is not Unicode, and no service file can name it; rename it or choose another place", .0.display())]
    NotUnicode(PathBuf),
    /// It holds control characters.
    #[error("{0:?} holds a control character, and no service file can name it; rename it or choose another place")]
    Control(String),
    /// Its end or beginning would be lost.
    #[error(
        "{0:?} begins or ends with a blank, or ends with a backslash, and a socket unit would lose that; rename it"
    )]
    Edge(String),
}

/// The path as text that can be written.
pub(crate) fn text(path: &Path) -> Result<&str, Unwritable> {
    let text = path.to_str().ok_or_else(|| Unwritable::NotUnicode(path.to_owned()))?;
    match text.chars().any(char::is_control) {
        true => Err(Unwritable::Control(text.to_owned())),
        false => Ok(text),
    }
}

/// A whole command line for `ExecStart=`. Variables are replaced in arguments alone, so `$` is doubled there alone.
pub(crate) fn command(words: &[&str]) -> String {
    let mut words = words.iter();
    let program = words.next().map(|program| word(program)).into_iter();
    program.chain(words.map(|argument| word(&argument.replace('$', "$$")))).collect::<Vec<_>>().join(" ")
}

/// One word for a setting that takes a list of words.
pub(crate) fn word(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// The value of a setting that takes the line as it stands.
pub(crate) fn line(text: &str) -> Result<String, Unwritable> {
    if text.trim() != text || text.ends_with('\\') {
        return Err(Unwritable::Edge(text.to_owned()));
    }
    Ok(text.replace('%', "%%"))
}

/// Text of an XML element.
pub(crate) fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
