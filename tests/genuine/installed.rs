//! Where the genuine clients are. Never here: installing them; `tests/run` does.

use std::path::{Path, PathBuf};

/// A version of Claude Code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Whatever `npm install @anthropic-ai/claude-code` picks on this machine.
    Usual,
    /// 2.1.332.
    Pinned,
}

impl Version {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Usual, Self::Pinned];

    fn folder(self) -> &'static str {
        match self {
            Self::Usual => "claude-code",
            Self::Pinned => "claude-code-2.1.332",
        }
    }
}

/// The program `claude`.
pub fn claude(version: Version) -> PathBuf {
    present(&cache().join(version.folder()).join("node_modules/.bin/claude"))
}

/// Claude Code as it is built for macOS, which keeps its login in the keychain.
pub fn claude_of_mac() -> PathBuf {
    PathBuf::from(std::env::var_os("DUDUCLAW_TEST_MAC_CLAUDE").expect("DUDUCLAW_TEST_MAC_CLAUDE names the program"))
}

/// A Python that has the Anthropic SDK.
pub fn python() -> PathBuf {
    present(&cache().join("python/bin/python"))
}

/// The program `st` of Schemathesis.
pub fn schemathesis() -> PathBuf {
    present(&cache().join("schemathesis/bin/st"))
}

fn cache() -> PathBuf {
    let named = std::env::var_os("DUDUCLAW_TEST_CACHE").filter(|folder| !folder.is_empty());
    named.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/clients"), PathBuf::from)
}

fn present(program: &Path) -> PathBuf {
    assert!(
        program.exists(),
        "{} is not there. These tests need the genuine clients: run tests/run, which installs them.",
        program.display()
    );
    program.to_owned()
}
